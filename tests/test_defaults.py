"""Defaults of constructors are those that the pages state, and one name has one default everywhere."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import pytest

import regard.attention
import regard.models
from regard.attention.catalog import MECHANISMS
from regard.models.attention_config import OTHER_MIXERS
from regard.models.transformer.mixers import BUILDER_ARGUMENTS, find_mixer

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
# Nothing is dropped, one head, no column looks ahead; draws begin with seed 0, layers are counted from 0.
COMMON = {"dropout": 0.0, "value_dropout": 0.0, "heads": 1, "causal": True, "seed": 0, "layer": 0, "draws": 1}


def stated(page: Path) -> dict[str, str]:
    """The default of each option in the table of a page, as it is written."""
    rows: dict[str, str] = {}
    table = re.search(
        r"^\| option \| default \|.*\n\|[-|]+\n((?:\|.*\n)+)", page.read_text(encoding="utf-8"), re.MULTILINE
    )
    for line in table[1].splitlines() if table else []:
        names, defaults = (cell.strip() for cell in line.split("|")[1:3])
        options = re.findall(r"`(\w+)`", names)
        values = defaults.split(", ") if len(options) == len(defaults.split(", ")) else [defaults] * len(options)
        rows |= dict(zip(options, values, strict=True))
    return rows


def written(value: Any) -> str:
    """A default as pages write it."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return "`[" + ", ".join(f'"{each}"' for each in value) + "]`"
    return f"{value:g}" if isinstance(value, (int, float)) else f"`{value}`"


def options(made: Any) -> dict[str, Any]:
    """The options of a constructor and their defaults, those left out that are None: the pages say what they mean."""
    parameters = inspect.signature(made).parameters.items()
    return {
        name: each.default for name, each in parameters
        if name not in BUILDER_ARGUMENTS and each.default not in (None, inspect.Parameter.empty)
    }  # fmt: skip


@pytest.mark.parametrize("kind", OTHER_MIXERS)
def test_a_mixer_has_the_defaults_of_its_page(kind: str) -> None:
    module = OTHER_MIXERS[kind].partition(":")[0].rpartition(".")[2]
    rows = stated(REFERENCE / "mixers" / f"{module}.md")
    assert {name: rows.get(name) for name in options(find_mixer(kind))} == {
        name: written(default) for name, default in options(find_mixer(kind)).items()
    }


@pytest.mark.parametrize("kind", MECHANISMS)
def test_a_mechanism_has_the_defaults_of_its_page(kind: str) -> None:
    module = MECHANISMS[kind].__module__.rpartition(".")[2]
    rows, own = stated(REFERENCE / "mechanisms" / f"{module}.md"), options(MECHANISMS[kind])
    for name in rows.keys() & own.keys():
        assert rows[name].replace('"', "") == written(own[name]).replace('"', ""), name


def constructors(package: ModuleType) -> Iterator[tuple[str, Any]]:
    """Classes that compute and functions of a package, each where it is defined."""
    for found in walk_packages(package.__path__, package.__name__ + "."):
        module = import_module(found.name)
        for name, value in vars(module).items():
            computes = inspect.isfunction(value) or (inspect.isclass(value) and hasattr(value, "forward"))
            if computes and value.__module__ == found.name:
                yield f"{found.name}.{name}", value


def test_one_name_has_one_default() -> None:
    """A layer built alone does what a layer built by another does that says nothing of it."""
    counted = 0
    for package in (regard.models, regard.attention):
        for name, made in constructors(package):
            for parameter in inspect.signature(made).parameters.values():
                if parameter.name in COMMON and parameter.default is not inspect.Parameter.empty:
                    assert parameter.default == COMMON[parameter.name], f"{name}: {parameter}"
                    counted += 1
    assert counted > 30
