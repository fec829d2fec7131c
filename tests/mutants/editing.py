"""One line of a function, replaced while a test runs."""

from __future__ import annotations
import __future__

import inspect
import textwrap
from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

import pytest

__all__ = ["Edit"]


class Edit(NamedTuple):
    """``function`` with the text ``old``, which it contains once, replaced by ``new``.

    The code is changed inside the function object: whoever imported it by name meets the changed one, and decorators,
    among them those that check shapes, stay around it.
    """

    function: Callable[..., Any]
    old: str
    new: str

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        inner: Any = inspect.unwrap(self.function)
        source = textwrap.dedent(inspect.getsource(inner))
        times = source.count(self.old)
        assert times == 1, f"{self.old!r} stands {times} times in {inner.__qualname__}: mend this row of the table"
        patch.setattr(inner, "__code__", _compiled(source.replace(self.old, self.new), inner))


def _compiled(source: str, like: Any) -> CodeType:
    flags = __future__.annotations.compiler_flag
    module = compile(source, like.__code__.co_filename, "exec", flags=flags, dont_inherit=True)
    (code,) = (each for each in module.co_consts if isinstance(each, CodeType) and each.co_name == like.__name__)
    assert code.co_freevars == like.__code__.co_freevars, "a function with cells (super(), closures) cannot be edited"
    return code
