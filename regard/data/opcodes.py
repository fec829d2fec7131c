"""Plain values of a pickle, read from its opcodes: nothing is imported, called or created by name.

A pickle is a program that can run any code, so Regard never loads one. This reader knows a closed list of opcodes.
Names of classes and functions stay names. An object that a pickle would make by calling them becomes a
``PickledObject`` with their arguments. Opcodes: Python's ``pickletools``.
"""

from __future__ import annotations

import io
import pickletools
import warnings
from collections.abc import Callable, Iterable
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from regard.errors import DataError

MOST = 50_000_000  # opcodes of one pickle
MOST_BYTES = 256 << 20  # that it makes of text: a few opcodes may make a long one again and again
PERSISTENT = "persistent"  # name of a reference to data outside the pickle, whose argument is its id
ARRAY_TYPES = {"f4": np.float32, "f8": np.float64, "i4": np.int32, "i8": np.int64}
MARK = object()


class PickledObject:
    """A class or function of a pickle, or an object made by one.

    ``name``: with a space after the module. ``arguments``: None for the class or function itself. ``state``, ``items``,
    ``pairs``: what the pickle sets, appends and assigns afterward.
    """

    def __init__(self, name: str, arguments: tuple[Any, ...] | None = None) -> None:
        self.name, self.arguments = name, arguments
        self.state: Any = None
        self.items: list[Any] = []
        self.pairs: list[tuple[Any, Any]] = []


def read_opcodes(contents: bytes | IO[bytes], where: str, limit: int = MOST) -> Any:
    """Return the value of a pickle: numbers, texts, bytes, lists, tuples, dicts with plain keys, and ``PickledObject``.

    Args:
        contents: the pickle, of any protocol; of a file, one pickle is read.
        where: its place, for messages.
        limit: the maximum number of opcodes; each takes up to 70 bytes of memory, and its text.

    Raises:
        DataError: the pickle is damaged, or has an opcode outside the closed list.
    """
    machine = _Machine(limit)
    try:
        with warnings.catch_warnings():  # pickletools warns of wrong escapes in text
            warnings.simplefilter("ignore")
            return machine.value(io.BytesIO(contents) if isinstance(contents, bytes) else contents)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, UnicodeError) as error:
        why = str(error) or type(error).__name__
        raise DataError("cannot read the values of a pickle", where=where, why=why) from error


def read_array(value: Any, where: str) -> npt.NDArray[Any]:
    """Return the numbers of a NumPy array in a pickle; DataError if it is none of numbers, or its size is wrong."""
    try:
        _, shape, kind, by_columns, contents = value.state
        code = str(kind.arguments[0])
        contents = contents.encode("latin-1") if isinstance(contents, str) else contents
        array = np.frombuffer(contents, np.dtype(ARRAY_TYPES[code]).newbyteorder(kind.state[1]))
        array = array.reshape(shape, order="F" if by_columns else "C")
        return array.astype(ARRAY_TYPES[code])
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, UnicodeError) as error:
        raise DataError(
            "cannot read an array of a pickle", where=where, why=str(error) or type(error).__name__
        ) from error


class _Machine:
    """The stack and the memo of a pickle."""

    def __init__(self, limit: int) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.text_bytes = 0  # in all texts
        self.limit = limit

    def value(self, contents: IO[bytes]) -> Any:
        """Return the value of a pickle. ValueError and others if it is damaged."""
        for number, (opcode, argument, _) in enumerate(pickletools.genops(contents)):
            if opcode.name == "STOP":
                value = self.stack.pop()
                if value is MARK:
                    raise ValueError("a mark is no value")
                return value
            if number >= self.limit:
                raise ValueError("it has too many opcodes")
            self.run(opcode.name, argument)
        raise ValueError("it has no end")

    def run(self, name: str, argument: Any) -> None:
        """Run one opcode. ValueError for one that is not in the list."""
        if name in CONSTANTS:
            self.stack.append(CONSTANTS[name])
        elif name in VALUES:
            self.stack.append(argument)
        elif name in EMPTY:
            self.stack.append(EMPTY[name]())
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[argument] = self.stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        elif name in STEPS:
            STEPS[name](self, argument)
        elif name not in ("PROTO", "FRAME"):
            raise ValueError(f"the opcode {name} is not read")

    def marked(self) -> list[Any]:
        """Remove and return the values above the last mark."""
        above = next((n for n, value in enumerate(reversed(self.stack)) if value is MARK), None)
        if above is None:
            raise ValueError("a mark is missing")
        place = len(self.stack) - 1 - above
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values

    def extend(self, values: list[Any]) -> None:
        target = self.stack[-1]
        (target.items if isinstance(target, PickledObject) else target).extend(values)

    def assign(self, values: list[Any]) -> None:
        pairs = [*zip(values[::2], values[1::2], strict=True)]
        target = self.stack[-1]
        if isinstance(target, PickledObject):
            target.pairs.extend(pairs)
        else:
            target.update(_with_plain_keys(pairs))

    def call(self) -> None:
        """Make an object of a name and its arguments. Text that represents bytes becomes bytes."""
        arguments, function = self.stack.pop(), self.stack.pop()
        if function.arguments is not None or not isinstance(arguments, tuple):
            raise ValueError("a call of something other than a name")
        if function.name == "_codecs encode" and arguments[1:] == ("latin1",):
            self.stack.append(arguments[0].encode("latin-1"))
            self.text_bytes += len(self.stack[-1])
            if self.text_bytes > MOST_BYTES:
                raise ValueError("it makes too many bytes")
        elif function.name in ("__builtin__ bytes", "builtins bytes") and not arguments:
            self.stack.append(b"")
        else:
            self.stack.append(PickledObject(function.name, arguments))

    def build(self) -> None:
        state = self.stack.pop()
        if not isinstance(self.stack[-1], PickledObject):
            raise ValueError("a state of a plain value")
        self.stack[-1].state = state

    def tuple(self, count: int | None) -> None:
        values = self.marked() if count is None else [self.stack.pop() for _ in range(count)][::-1]
        self.stack.append(tuple(values))

    def dict(self) -> None:
        values = self.marked()
        self.stack.append(dict(_with_plain_keys(zip(values[::2], values[1::2], strict=True))))

    def name(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.stack.append(PickledObject(f"{module} {name}"))


def _with_plain_keys(pairs: Iterable[tuple[Any, Any]]) -> Iterable[tuple[Any, Any]]:
    """Yield the pairs. ValueError for a key of nested tuples: its hash would exhaust the stack of C."""
    for key, value in pairs:
        if isinstance(key, tuple) and any(isinstance(part, tuple) for part in key):
            raise ValueError("a key of a dict is nested")
        yield key, value


CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "MARK": MARK}
VALUES = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT",
    "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
    "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
}  # fmt: skip
EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple}
STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "GLOBAL": lambda m, argument: m.stack.append(PickledObject(argument)),
    "STACK_GLOBAL": lambda m, _: m.name(),
    "MEMOIZE": lambda m, _: m.memo.__setitem__(len(m.memo), m.stack[-1]),
    "POP": lambda m, _: m.stack.__delitem__(-1),
    "APPEND": lambda m, _: m.extend([m.stack.pop()]),
    "APPENDS": lambda m, _: m.extend(m.marked()),
    "SETITEM": lambda m, _: m.assign([m.stack.pop(), m.stack.pop()][::-1]),
    "SETITEMS": lambda m, _: m.assign(m.marked()),
    "LIST": lambda m, _: m.stack.append(m.marked()),
    "DICT": lambda m, _: m.dict(),
    "TUPLE": lambda m, _: m.tuple(None),
    "TUPLE1": lambda m, _: m.tuple(1),
    "TUPLE2": lambda m, _: m.tuple(2),
    "TUPLE3": lambda m, _: m.tuple(3),
    "REDUCE": lambda m, _: m.call(),
    "NEWOBJ": lambda m, _: m.call(),
    "BUILD": lambda m, _: m.build(),
    "BINPERSID": lambda m, _: m.stack.append(PickledObject(PERSISTENT, (m.stack.pop(),))),
}
