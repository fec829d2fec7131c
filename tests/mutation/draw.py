"""A sample of mutants, one JSON object a line: cosmic-ray's operators at places drawn from the modules of the plan.

Each place in the code is as likely as any other, and then each operator that applies to it: otherwise one ``+``, which
has eleven replacements, would count more than a whole condition. Left out is what no test can or need see: type
annotations, arithmetic that a replacement turns into a TypeError, abstract methods without their mark, the star among
parameters (which cosmic-ray takes for a product), and ``strict=True``, which says that two lengths are the same anyway.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names

from tests.mutation.plan import TESTS

__all__ = ["mutants"]

Place = tuple[int, int]
SWAPPED = {
    "Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_FloorDiv", "Pow_Mul", "BitAnd_BitOr",
    "BitOr_BitAnd", "Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Lt_GtE", "LtE_Gt", "Gt_LtE", "GtE_Lt", "Eq_NotEq",
    "NotEq_Eq", "Is_IsNot", "IsNot_Is", "In_NotIn", "NotIn_In",
}  # fmt: skip


def operators() -> dict[str, Operator]:
    """By name, those that need no options, one sensible replacement of each sign and its negation."""
    found: dict[str, Operator] = {}
    for name in operator_names():
        kind, swaps = get_operator(name), "Replace" in name and "Operator_" in name
        if not kind.arguments() and (not swaps or name.split("Operator_")[1] in SWAPPED):
            found[name] = kind()
    return found


def annotations(source: str) -> list[tuple[Place, Place]]:
    """The beginnings and ends of type annotations, columns counted in characters."""
    lines, found = source.splitlines(), []
    for node in ast.walk(ast.parse(source)):
        for each in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(each, ast.expr) and each.end_lineno is not None and each.end_col_offset is not None:
                ends = ((each.lineno, each.col_offset), (each.end_lineno, each.end_col_offset))
                first, last = ((line, len(lines[line - 1].encode()[:column].decode())) for line, column in ends)
                found.append((first, last))
    return found


def places(source: str) -> dict[Place, list[tuple[str, int]]]:
    """Where the code may be changed: the operators that apply there, each with its number among its occurrences."""
    tree, typed, lines = get_ast(source), annotations(source), source.splitlines()
    found: dict[Place, list[tuple[str, int]]] = defaultdict(list)
    for name, operator in operators().items():
        positions = (each for node in ast_nodes(tree) for each in operator.mutation_positions(node))
        for occurrence, (start, end) in enumerate(positions):
            line = lines[start[0] - 1]
            typing = any(first <= start and end <= last for first, last in typed)
            guard = line[: start[1]].endswith("strict=") or line[start[1] :].startswith(("*,", "@abstractmethod"))
            if not typing and not guard:
                found[start].append((name, occurrence))
    return found


def mutants(root: Path, modules: list[str], *, sample: int, seed: int) -> Iterator[dict[str, object]]:
    """``sample`` of them, the same for the same seed and code; a smaller sample is the beginning of a larger one."""
    draw, sources = random.Random(seed), {path: (root / path).read_text(encoding="utf-8") for path in modules}
    choices = {(path, place): found for path in modules for place, found in sorted(places(sources[path]).items())}
    order = sorted(choices)
    draw.shuffle(order)
    known = operators()

    def changed_code(path: str, place: Place) -> tuple[str, str] | None:
        name, occurrence = draw.choice(choices[path, place])
        try:
            return name, mutate_code(sources[path], known[name], occurrence)
        except AttributeError:  # of an exception with a dotted name, which cosmic-ray 8.7 cannot replace
            return None

    made = ((path, place, found) for path, place in order if (found := changed_code(path, place)) is not None)
    for path, place, (name, changed) in islice(made, sample):
        yield {
            "path": path, "line": place[0], "operator": name.partition("/")[2], "source": changed,
            "stages": TESTS.get(path, ()), "seed": seed, "places": len(choices),
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=50, help="how many mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("modules", nargs="*", help="only these, as regard/search/beam.py; all of the plan without any")
    options = parser.parse_args()
    modules = options.modules or list(TESTS)
    if unknown := sorted(set(modules) - set(TESTS)):
        parser.error(f"no tests are named for {', '.join(unknown)}: enter it in tests/mutation/plan.py")
    for mutant in mutants(Path(), modules, sample=options.sample, seed=options.seed):
        sys.stdout.write(json.dumps(mutant) + "\n")


if __name__ == "__main__":
    main()
