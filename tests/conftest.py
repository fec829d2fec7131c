"""What all tests share: checked shapes, one thread, a seed, and corpora where there are any."""

from __future__ import annotations

import functools
import gc
import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from tests import shape_checks

settings.register_profile("untimed", deadline=None)  # machines are shared: no example fails for being slow
settings.load_profile("untimed")

# Before any of them is imported. Only what computes: elsewhere the check costs more than it finds.
CHECKED = ("attention", "core.state", "models", "search")
shape_checks.install([f"regard.{part}" for part in CHECKED])

# anyio imports its parts at their first use, and pytest rewrites what it imports. In Python 3.11 two threads cannot
# parse source at once ("AST constructor recursion depth mismatch"), so no thread of a server may be the first.
with suppress(ImportError):  # without the server's libraries there is no server
    anyio = import_module("anyio")
    for _part in dir(anyio):
        getattr(anyio, _part)


def pytest_sessionstart() -> None:
    gc.disable()  # while modules are imported and tests collected: nothing of them is garbage


def pytest_collection_finish() -> None:
    """Collections look at what tests make, not at the million objects of modules and of the tests themselves."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Tiny tensors gain nothing from threads, and sums then do not depend on the machine's cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", autouse=True)
def _unsynced() -> Iterator[None]:
    """No test can see what a disk keeps when power fails: of syncing a file only that it is open is left.

    A checkpoint syncs a dozen files, which took half of the time of a tiny training.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture(scope="session", autouse=True)
def _certificates_read_once() -> Iterator[None]:
    """Every request by httpx reads a file of certificates, which took most of the time of a request to a tiny model."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))
        yield


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Each test draws the same numbers whichever others ran before it."""
    if torch.cuda.is_available():
        torch.manual_seed(1)
    else:
        torch.default_generator.manual_seed(1)  # the other formats stacks for devices that never begin
    shape_checks.begin_test()


@pytest.fixture(scope="module")
def lanes() -> Iterator[str]:
    """A kind of work that nobody ships, allowed as a user's own is; it carries state from batch to batch."""
    from tests.laws.lanes_task import KIND

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_TASKS", KIND)
        yield KIND


@pytest.fixture
def data() -> Callable[[str], Path]:
    """``data("multi30k/raw")``: that folder or file under REGARD_DATA, or a skip that says what is missing."""

    def find(name: str) -> Path:
        folder = os.environ.get("REGARD_DATA")
        if not folder:
            pytest.skip(f"needs {name}: REGARD_DATA names no folder with corpora")
        path = Path(folder) / name
        if not path.exists():
            pytest.skip(f"needs {name}: {path} is not there")
        return path

    return find


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    shape_checks.switch(on=folder not in shape_checks.UNCHECKED and item.get_closest_marker("unchecked") is None)
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs an accelerator, and torch sees none")
