"""ListOps (Nangia & Bowman 2018) as the Long Range Arena generates it, with the rules a model must beat.

    .venv/bin/python bench/listops.py --write data/listops    500 to 2,000 tokens; 96,000, 2,000 and 2,000 lines
    .venv/bin/python bench/listops.py --write data/listops-short --lengths 100 200 --counts 12000 1000 2000
    .venv/bin/python bench/listops.py --rules data/listops    the figures of the rules on test.tsv

An expression is a digit, or an operator of 2 to 10 arguments in brackets, each of them an expression, at most 10 deep;
the answer is a digit. A line is ``tokens TAB label``. The rules: the most frequent answer; that of the outermost
operator; of it and the extreme of the digits that stand directly below it; of these and the operators that do. Models
that learn it: ``listops_train.py``.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from statistics import median

OPERATORS: dict[str, Callable[[list[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(median(values)),
    "[SM": lambda values: sum(values) % 10,
}
NAMES = list(OPERATORS)
NESTS, MOST, DEEPEST = 0.25, 10, 10  # chance of an operator, arguments, depth
TYPES = {token: number for number, token in enumerate(["", *map(str, range(10)), *OPERATORS, "]"])}
SPLITS = ("train", "valid", "test")
Lines = list[tuple[int, list[str]]]


def expression(draw: random.Random, most: int, depth: int = 1) -> tuple[list[str], int] | None:
    """Tokens and value of a random expression; None where it has more than ``most`` tokens."""
    if depth > 1 and (depth >= DEEPEST or draw.random() > NESTS):
        digit = draw.randrange(10)
        return [str(digit)], digit
    name, tokens, values = NAMES[draw.randrange(4)], list[str](), []
    for _ in range(draw.randint(2, MOST)):
        inner = expression(draw, most - len(tokens) - 2, depth + 1)
        if inner is None or len(tokens) + len(inner[0]) + 2 > most:
            return None
        tokens += inner[0]
        values.append(inner[1])
    return [name, *tokens, "]"], OPERATORS[name](values)


def lines(count: int, least: int, most: int, seed: int) -> Iterator[tuple[int, list[str]]]:
    """So many expressions of ``least`` to ``most`` tokens, none of them twice."""
    draw, seen = random.Random(seed), set[str]()
    while len(seen) < count:
        found = expression(draw, most)
        if found is not None and len(found[0]) >= least and (text := " ".join(found[0])) not in seen:
            seen.add(text)
            yield found[1], found[0]


def children(tokens: list[str]) -> list[str]:
    """What stands directly below the outermost operator: digits, and the names of operators."""
    found, depth = [], 0
    for token in tokens:
        if depth == 1 and token != "]":
            found.append(token)
        depth += (token in OPERATORS) - (token == "]")
    return found


def keys(tokens: list[str]) -> list[Hashable]:
    """What each rule looks at, from nothing to most."""
    below = children(tokens)
    digits = [int(each) for each in below if each not in OPERATORS]
    extreme = {"[MIN": min, "[MAX": max}.get(tokens[0])
    leaf = extreme(digits) if extreme and digits else None
    inner = frozenset(Counter(each for each in below if each in OPERATORS).items())
    return [(), tokens[0], (tokens[0], leaf), (tokens[0], leaf, inner)]


RULES = ("most frequent answer", "outermost operator", "and the extreme of its digits", "and the operators below it")


def rules(train: Lines, test: Lines) -> list[float]:
    """Accuracy of each rule: the most frequent answer for its key in training, else that of the rule before it."""
    tables: list[dict[Hashable, Counter[int]]] = [defaultdict(Counter) for _ in RULES]
    for label, tokens in train:
        for table, key in zip(tables, keys(tokens), strict=True):
            table[key][label] += 1
    right = [0] * len(RULES)
    for label, tokens in test:
        answer = 0
        for place, (table, key) in enumerate(zip(tables, keys(tokens), strict=True)):
            answer = table[key].most_common(1)[0][0] if key in table else answer
            right[place] += answer == label
    return [each / len(test) for each in right]


def read(path: Path) -> Lines:
    pairs = (line.rstrip("\n").split("\t") for line in path.open(encoding="utf-8"))
    return [(int(label), text.split(" ")) for text, label in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--rules", type=Path)
    parser.add_argument("--lengths", type=int, nargs=2, default=(500, 2000))
    parser.add_argument("--counts", type=int, nargs=3, default=(96_000, 2_000, 2_000))
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.write:
        arguments.write.mkdir(parents=True, exist_ok=True)
        every = lines(sum(arguments.counts), *arguments.lengths, arguments.seed)
        for split, count in zip(SPLITS, arguments.counts, strict=True):
            with (arguments.write / f"{split}.tsv").open("w", encoding="utf-8") as file:
                file.writelines(
                    f"{' '.join(tokens)}\t{label}\n" for label, tokens in (next(every) for _ in range(count))
                )
    if arguments.rules:
        found = rules(read(arguments.rules / "train.tsv"), read(arguments.rules / "test.tsv"))
        for name, share in zip(RULES, found, strict=True):
            print(f"{share:6.1%}  {name}")


if __name__ == "__main__":
    main()
