"""The run-time check of shapes and types in signatures, under pytest only."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping import config, install_import_hook

__all__ = ["UNCHECKED", "install", "switch", "unchecked"]

# Tests of what is around the models. They train and decode whole runs, by calls that the tests of the parts make too,
# which are checked there, and those of tasks in tests/laws: here the check would double the time. A single test of the
# parts that makes the calls of its neighbors once more is marked ``unchecked``.
UNCHECKED = (
    "bulk",
    "cli",
    "formats",
    "inspection",
    "learn",
    "reliability",
    "server",
    "share",
    "studies",
    "test_bench.py",
    "test_classification.py",
    "test_constrained.py",
    "test_frames.py",
    "test_going_on.py",
    "test_graph_net.py",
    "test_language_model.py",
    "test_links.py",
    "test_longer.py",
    "test_molecules.py",
    "test_music.py",
    "test_next_item.py",
    "test_reading_part.py",
    "test_shards.py",
    "test_shortcomings.py",
    "test_split.py",
    "test_summaries.py",
    "test_tag_schemes.py",
    "test_tagging.py",
    "test_train.py",
    "test_units.py",
    "test_update.py",
    "test_wording.py",
)

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is welcome where a float is asked for

# Of each function the first call of a test is checked, and one in EVERY of those after them: a loop that makes the
# same call thousands of times took two thirds of its time for the check.
FIRST, EVERY = 1, 64
_calls: Counter[Callable[..., Any]] = Counter()


def install(modules: list[str]) -> None:
    """Check the signatures of modules that are imported from now on."""
    jaxtyping.jaxtyped = _sampled(jaxtyping.jaxtyped)
    install_import_hook(modules, f"{__name__}.check")


def begin_test() -> None:
    """Check the first calls of each function again."""
    _calls.clear()


def _sampled(jaxtyped: Any) -> Any:
    def decorator(*, typechecker: Any) -> Callable[[Any], Any]:
        def decorate(function: Any) -> Any:
            check_calls = jaxtyped(typechecker=typechecker)
            return _of_some_calls(function, check_calls) if inspect.isfunction(function) else check_calls(function)

        return decorate

    return decorator


def _of_some_calls(function: Any, check_calls: Callable[[Any], Any]) -> Any:
    checked = None  # made for the first call: most functions have none in a file of tests

    @functools.wraps(function)
    def call(*positional: Any, **keywords: Any) -> Any:
        __tracebackhide__ = True
        if config.jaxtyping_disable:
            return function(*positional, **keywords)
        _calls[function] = count = _calls[function] + 1
        if count <= FIRST or count % EVERY == 0:
            nonlocal checked
            checked = checked or check_calls(function)
            return checked(*positional, **keywords)
        return function(*positional, **keywords)

    return call


def switch(*, on: bool) -> None:
    config.update("jaxtyping_disable", not on)


@contextmanager
def unchecked() -> Iterator[None]:
    """Shapes and types are not checked inside the block: for torch to trace, whose sizes are then symbols that the
    check takes for no ints, or to do again and again what was checked once, in half the time."""
    before = bool(config.jaxtyping_disable)
    switch(on=False)
    try:
        yield
    finally:
        switch(on=not before)
