"""0w0w of the Reformer (Kitaev et al. 2020, Table 2): a word of random symbols, to be written once more.

    python bench/duplication.py --rounds 4 [--word 127 --symbols 127 --width 128 --heads 4 --buckets 16 --chunk 16]
    python bench/duplication.py --rounds 4 --word 511 --symbols 127 --width 256 --heads 4 --buckets 64 --chunk 32 \
        --updates 150000 --batch 64 --rate 1e-3

Trains one layer with that many rounds of hashing (0: full attention) and prints the share of the second word's symbols
that are found with full attention and 8, 4, 2 and 1 rounds, on 512 new words. The second form is the paper's; its batch
is not told. The small form with its three rows is the study ``hashes``: regard study hashes.
"""

from __future__ import annotations

import argparse
import time

from machine import machine

from regard.studies.hashes import ROUNDS, DuplicationSize, copied, duplication_model, train_duplication


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4, help="of training; 0: full attention")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="stop after these, though updates are left")
    for name, default in DuplicationSize()._asdict().items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    given = vars(parser.parse_args())
    rounds, seed, minutes = given.pop("rounds") or None, given.pop("seed"), given.pop("minutes")
    size = DuplicationSize(**given)
    print(f"{machine()['processor']}; {size}; seed {seed}", flush=True)
    model = duplication_model(size, rounds, seed=seed)
    began, shown = time.monotonic(), 0.0
    for step, loss in enumerate(train_duplication(model, size, seed=seed), start=1):
        passed = (time.monotonic() - began) / 60
        if passed > shown:
            print(f"{step:>7,} updates {passed:6.1f} min  loss {loss:.4f}", flush=True)
            shown += 1
        if minutes and passed > minutes:
            break
    columns = {"full": None} | {f"LSH-{many}": many for many in ROUNDS}
    found = {name: copied(model, size, many, seed=seed) for name, many in columns.items()}
    print(f"{step:,} updates: " + "  ".join(f"{name} {100 * share:.1f}" for name, share in found.items()))


if __name__ == "__main__":
    main()
