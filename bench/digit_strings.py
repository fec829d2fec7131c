"""Strings of spoken digits: sounds joined from FSDD's recordings of one speaker, and lists of them as JSON lines.

    python bench/digit_strings.py fsdd_8khz_int16.npz data/digit-strings
    python bench/digit_strings.py fsdd_8khz_int16.npz data/digit-strings-lucas --unseen lucas

Writes train.jsonl, valid.jsonl and test.jsonl with 1 to 5 digits, and long.jsonl with 25. Takes 0 to 4 are test, 5 to 9
validation, the others training (``--unseen``: test and long are takes of that speaker, who is in no other part).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from regard.studies.digit_strings import NUMBERS, read_digits, write_strings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--unseen", help="speaker of the test parts alone")
    parser.add_argument("--size", type=int, default=NUMBERS["train"], help="training strings")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    numbers = {**NUMBERS, "train": options.size}
    write_strings(
        read_digits(options.source), options.folder, unseen=options.unseen, numbers=numbers, seed=options.seed
    )
    print(f"{options.folder}: {', '.join(f'{part}.jsonl {number:,}' for part, number in numbers.items())} strings")


if __name__ == "__main__":
    main()
