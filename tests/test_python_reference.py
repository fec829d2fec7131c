"""The Python reference: public names are on one page, with their parameters, and pages name real objects."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import FunctionType, MethodType
from typing import Any, get_args, get_type_hints

import pytest
from torch import nn

import regard
import regard.attention.positions
from regard.attention.catalog import MECHANISMS
from regard.attention.mask import Mask
from regard.core.predictor import Predictor
from regard.core.predictor_interface import ReadsFiles
from regard.core.task import Task
from regard.core.task_table import TASKS
from regard.inference.policies import POLICIES
from regard.models.attention_config import OTHER_MIXERS
from regard.tasks.supervised import Supervised

from .python_reference import FOLDER, PAGES, Documented, documented, identity, written

HOW_TO = FOLDER.parent / "how-to"
BLOCKS = {page.name: list(documented(page.read_text(encoding="utf-8"))) for page in PAGES}
ALL = [pytest.param(block, id=block.path) for blocks in BLOCKS.values() for block in blocks]

_SECTION = re.compile(r"^(?:Args|Attributes):\n((?:(?:    .*)?\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+): ", re.MULTILINE)
_TASK_ROW = re.compile(r"^\| `([a-z-]+)` \| \[\w+\]\(([\w-]+\.md)#[\w-]+\) \|.*\| (.+) \|$", re.MULTILINE)


def supervised(task: Task) -> Supervised | None:
    """Return the declaration that a task was made from; None for other tasks."""
    owner = task.predictor.__self__ if isinstance(task.predictor, MethodType) else None
    return owner if isinstance(owner, Supervised) else None


def predictor(task: Task) -> type:
    """Return the class of the predictors of a task."""
    declared = supervised(task)
    if declared is not None:
        return declared.predictor
    made: Any = task.predictor
    return made if inspect.isclass(made) else get_type_hints(made)["return"]


def classes_of(annotation: Any) -> Iterator[type]:
    """Yield the classes of Regard in a type, such as Link and BestLinks of ``list[Link | BestLinks]``."""
    if inspect.isclass(annotation) and annotation.__module__.startswith("regard."):
        yield annotation
    for argument in get_args(annotation):
        yield from classes_of(argument)


def outputs(task: Task) -> set[type]:
    """Return the classes of the outputs of a task's predictor."""
    declared = supervised(task)
    functions: list[Any] = [predictor(task).predict] if declared is None else [one.predict for one in declared.answers]
    return {output for function in functions for output in classes_of(get_type_hints(function)["return"])}


def public(module: str, is_kind: Callable[[Any], bool]) -> set[str]:
    """Return the public classes of a kind that a module defines."""
    return {
        identity(named)
        for name, named in vars(import_module(module)).items()
        if inspect.isclass(named) and named.__module__ == module and not name.startswith("_") and is_kind(named)
    }


def subclasses(base: type) -> Iterator[type]:
    """Yield all public subclasses of Regard."""
    for one in base.__subclasses__():
        if one.__module__.startswith("regard.") and not one.__name__.startswith("_"):
            yield one
        yield from subclasses(one)


@cache
def required() -> dict[str, set[str]]:
    """Return the names that must be documented, by the table or package that lists them."""
    tasks = [place.task() for place in TASKS.values()]
    package = regard.attention.positions
    positions = [f"{package.__name__}.{module.name}" for module in iter_modules(package.__path__)]
    return {
        "regard": {identity(getattr(regard, name)) for name in regard.__all__},
        "predictors": {identity(predictor(task)) for task in tasks},
        "outputs": {identity(output) for task in tasks for output in outputs(task)},
        "mechanisms": {identity(mechanism) for mechanism in MECHANISMS.values()},
        "mixers": {path.replace(":", ".") for path in OTHER_MIXERS.values()},
        "positions": {
            name for module in positions for name in public(module, lambda kind: issubclass(kind, nn.Module))
        },
        "masks": {identity(mask) for mask in subclasses(Mask)},
        "policies": {identity(policy) for policy in POLICIES.values()},
        "regard.testing": {
            identity(named)
            for named in (getattr(regard.testing, name) for name in regard.testing.__all__)
            if isinstance(named, type | FunctionType)
        },
    }


def undocumented(pages: dict[str, list[Documented]]) -> dict[str, list[str]]:
    """Return the required names that are on no page, by their table."""
    present = {identity(block.resolve()) for blocks in pages.values() for block in blocks}
    return {table: missing for table, names in required().items() if (missing := sorted(names - present))}


@pytest.mark.parametrize("table", required())
def test_every_public_name_is_documented(table: str) -> None:
    assert undocumented(BLOCKS).get(table, []) == []


def test_the_tables_are_not_empty() -> None:
    sizes = {table: len(names) for table, names in required().items()}
    assert min(sizes.values()) >= 3 and sizes["predictors"] >= 8 and sizes["mechanisms"] >= 20, sizes


def test_every_name_is_on_one_page_once() -> None:
    counted = Counter(identity(block.resolve()) for blocks in BLOCKS.values() for block in blocks)
    assert [name for name, times in counted.items() if times > 1] == []


@pytest.mark.parametrize("block", ALL)
def test_a_block_names_a_class_or_a_function_and_its_members(block: Documented) -> None:
    assert isinstance(block.resolve(), type | FunctionType)
    assert block.missing_members() == []


def test_missing_and_unknown_names_are_found() -> None:
    less = {page: [block for block in blocks if block.name != "Recognizer"] for page, blocks in BLOCKS.items()}
    recognizer = ["regard.tasks.recognition.recognizer.Recognizer"]
    assert undocumented(less) == {"regard": recognizer, "predictors": recognizer}
    (block,) = documented("::: regard.errors.DataError\n    options:\n      members: [exit_code, gone]\n")
    assert block.missing_members() == ["gone"]
    with pytest.raises(AttributeError):
        Documented("regard.errors.GoneError").resolve()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tables_of_a_page_are_current(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == written(text), "run python -m tests.python_reference"
    assert text.count("<!-- names -->") == text.count("<!-- end of names -->") == 1


def parameters(named: Any) -> list[str]:
    """Return the names of the parameters of a function, or the fields or constructor parameters of a class."""
    fields = getattr(named, "_fields", None) or (
        [f.name for f in dataclasses.fields(named)] if dataclasses.is_dataclass(named) else None
    )
    if fields is not None:
        return [name for name in fields if not name.startswith("_")]
    called = vars(named).get("__init__") if inspect.isclass(named) else named
    if called is None or getattr(named, "_is_protocol", False):
        return []
    return [name for name in inspect.signature(called).parameters if name != "self" and not name.startswith("_")]


def described(named: Any) -> set[str]:
    """Return the names in the sections ``Args`` and ``Attributes`` of a docstring, and of its constructor's."""
    own = vars(named).get("__init__") if inspect.isclass(named) else None
    texts = [
        inspect.cleandoc((vars(named) if inspect.isclass(named) else {"__doc__": named.__doc__}).get("__doc__") or "")
    ]
    texts += [inspect.cleandoc(own.__doc__ or "")] if isinstance(own, FunctionType) else []
    return {name for text in texts for section in _SECTION.findall(text + "\n") for name in _ENTRY.findall(section)}


@pytest.mark.parametrize("block", ALL)
def test_parameters_and_fields_are_described(block: Documented) -> None:
    named = block.resolve()
    names = parameters(named)
    known = {*names, *getattr(named, "__annotations__", {}), *(vars(named) if inspect.isclass(named) else ())}
    undescribed = [name for name in names if name not in described(named)]
    assert undescribed == [] or len(names) == 1
    assert described(named) - known - set(getattr(named, "__static_attributes__", ())) == set()


SHAPES = ("python-mechanisms.md", "python-parts.md")  # the signatures of their methods have names and shapes


def methods(block: Documented) -> Iterator[FunctionType]:
    """Yield the selected methods of a class, except those that the contracts of predictors describe."""
    for name in {*block.members} - {*dir(Predictor), *dir(ReadsFiles)} | {*block.members} & {"__call__"}:
        member = inspect.getattr_static(block.resolve(), name)
        function = inspect.unwrap(getattr(member, "__func__", member))
        if isinstance(function, FunctionType):
            yield function


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=block.path)
        for page, blocks in BLOCKS.items()
        for block in blocks
        if block.members and page not in SHAPES
    ],
)
def test_methods_describe_their_parameters(block: Documented) -> None:
    """A single argument is obvious."""
    undescribed = {}
    for method in methods(block):
        names = [name for name in parameters(method) if name not in ("cls", "interrupted", "examples", "indices")]
        if len(names) > 1 and (missing := [name for name in names if name not in described(method)]):
            undescribed[method.__qualname__] = missing
    assert undescribed == {}


def linked(text: str) -> list[tuple[str, str, list[str]]]:
    """Return the task, the page of its predictor and its how-to pages, of each row of the table of tasks."""
    rows = _TASK_ROW.findall(text)
    return [(task, page, re.findall(r"\(\.\./how-to/([\w-]+\.md)\)", pages)) for task, page, pages in rows]


def test_every_task_is_linked_with_its_how_to_pages_in_both_directions() -> None:
    rows = linked((FOLDER / "python.md").read_text(encoding="utf-8"))
    assert {task for task, _, _ in rows} == {*TASKS}
    for task, page, pages in rows:
        assert identity(predictor(TASKS[task].task())) in {identity(block.resolve()) for block in BLOCKS[page]}, task
        assert pages, task
        for name in pages:
            assert f"](../reference/{page}" in (HOW_TO / name).read_text(encoding="utf-8"), (task, name)
