"""Interpreter of a closed subset of Jinja, for chat templates of received files.

Jinja itself only parses a template; it never compiles or runs one. Names resolve to texts, numbers, lists and
objects of JSON. No attribute of a Python object is accessible. Every operation has a cost, and the sum is limited.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jinja2 import Environment, nodes

SIZE = 1 << 16  # characters of a template
DEPTH = 64  # nested statements and expressions
WORK = 1 << 17  # evaluated nodes and characters of one rendering
LARGEST = 1 << 31  # of a number

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "lteq": operator.le, "gt": operator.gt,
    "gteq": operator.ge,
}  # fmt: skip
TEXT_FILTERS: dict[str, Callable[[str], str]] = {
    "trim": str.strip, "lower": str.lower, "upper": str.upper, "capitalize": str.capitalize,
}  # fmt: skip
TEXT_METHODS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {  # with the possible numbers of arguments
    "strip": (str.strip, (0, 1)), "lstrip": (str.lstrip, (0, 1)), "rstrip": (str.rstrip, (0, 1)),
    "startswith": (str.startswith, (1,)), "endswith": (str.endswith, (1,)), "lower": (str.lower, (0,)),
    "upper": (str.upper, (0,)),
}  # fmt: skip


class Unsupported(ValueError):
    """Raised for a template that is malformed, too large, or outside the subset."""


class Refused(Exception):
    """Raised by ``raise_exception`` of a template: it does not allow the conversation."""


class Undefined:
    """Value of a name or key that does not exist; equal to itself only."""

    def __bool__(self) -> bool:
        return False


UNDEFINED = Undefined()


class Namespace(dict[str, Any]):
    """Object of ``namespace(…)``, whose keys a template may set."""


TESTS: dict[str, Callable[[Any], bool]] = {
    "defined": lambda value: value is not UNDEFINED,
    "undefined": lambda value: value is UNDEFINED,
    "none": lambda value: value is None,
    "string": lambda value: isinstance(value, str),
    "mapping": lambda value: isinstance(value, dict),
    "iterable": lambda value: isinstance(value, str | list | dict),
    "sequence": lambda value: isinstance(value, str | list | dict),
    "true": lambda value: value is True,
    "false": lambda value: value is False,
}


def parse(source: str) -> nodes.Template:
    """Parse a template with the options of ``transformers``. Raises Unsupported."""
    if len(source) > SIZE:
        raise Unsupported(f"it has more than {SIZE:,} characters")
    try:
        tree = Environment(trim_blocks=True, lstrip_blocks=True).parse(source)
    except RecursionError as error:
        raise Unsupported("it is nested too deeply") from error
    except Exception as error:  # numbers and escapes of a file may fail in any way
        raise Unsupported(f"it cannot be parsed: {str(error)[:100]}") from error
    level: list[nodes.Node] = [tree]
    for _ in range(DEPTH):
        level = [child for node in level for child in node.iter_child_nodes()]
    if level:
        raise Unsupported("it is nested too deeply")
    return tree


def render(template: nodes.Template, values: Mapping[str, Any]) -> str:
    """Return the text of a template.

    Args:
        template: the parsed template.
        values: values of names: texts, numbers, None, lists and dicts of these.

    Raises:
        Unsupported: an operation outside the subset is reached, or the limit of work.
        Refused: the template calls ``raise_exception``.
    """
    return _Rendering(values).text(template)


class _Rendering:
    """One rendering: the scopes of names, and the work done."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._scopes: list[dict[str, Any]] = [dict(values)]
        self._work = 0

    def text(self, template: nodes.Template) -> str:
        return "".join(self._body(template.body))

    def _spend(self, work: int) -> None:
        self._work += work
        if self._work > WORK:
            raise Unsupported(f"it takes more than {WORK:,} steps")

    def _spend_on_all(self, value: Any) -> None:
        """Count all parts of a value, each as often as it occurs in it: Python compares them all."""
        waiting = [(value, 0)]
        while waiting:
            part, depth = waiting.pop()
            if depth > DEPTH:
                raise Unsupported("it compares values that are nested too deeply")
            if isinstance(part, str | list | dict):
                self._spend(len(part))
            if isinstance(part, list | dict):
                waiting += [(item, depth + 1) for item in (part.values() if isinstance(part, dict) else part)]

    def _body(self, body: list[nodes.Node]) -> Iterator[str]:
        for node in body:
            self._spend(1)
            match node:
                case nodes.Output():
                    yield from map(self._output, node.nodes)
                case nodes.If():
                    branches = [(node.test, node.body), *((other.test, other.body) for other in node.elif_)]
                    yield from self._body(next((body for test, body in branches if self._value(test)), node.else_))
                case nodes.For():
                    yield from self._loop(node)
                case nodes.Assign(target=nodes.Name(name=name)):
                    self._scopes[-1][name] = self._value(node.node)
                case nodes.Assign(target=nodes.NSRef(name=name, attr=attribute)):
                    namespace, value = self._named(name), self._value(node.node)
                    if not isinstance(namespace, Namespace):
                        raise Unsupported(f"{name} is not a namespace")
                    namespace[attribute] = value
                case _:
                    raise _unsupported(node)

    def _output(self, node: nodes.Node) -> str:
        if isinstance(node, nodes.TemplateData):
            self._spend(len(node.data))
            return node.data
        text = self._written(self._value(node))
        self._spend(len(text))
        return text

    def _written(self, value: Any) -> str:
        """Return a value as Jinja writes it."""
        if value is UNDEFINED:
            return ""
        if value is not None and not isinstance(value, str | int):
            raise Unsupported("it writes a value that is not a text")
        return str(value)

    def _loop(self, node: nodes.For) -> Iterator[str]:
        if not isinstance(node.target, nodes.Name) or node.recursive or node.else_:
            raise _unsupported(node)
        items = self._value(node.iter)
        if not isinstance(items, list):
            raise Unsupported("it loops over a value that is not a list")
        self._scopes.append({})
        if node.test is not None:
            items = [item for item in items if self._holds_for(node.target.name, item, node.test)]
        for index, item in enumerate(items):
            self._spend(1)
            left = len(items) - index
            loop = {
                "index": index + 1, "index0": index, "first": index == 0, "last": left == 1, "length": len(items),
                "revindex": left, "revindex0": left - 1,
                "previtem": items[index - 1] if index else UNDEFINED,
                "nextitem": items[index + 1] if left > 1 else UNDEFINED,
            }  # fmt: skip
            self._scopes[-1] = {node.target.name: item, "loop": loop}
            yield from self._body(node.body)
        self._scopes.pop()

    def _holds_for(self, name: str, item: Any, test: nodes.Node) -> bool:
        self._scopes[-1] = {name: item}
        return bool(self._value(test))

    def _named(self, name: str) -> Any:
        if name == "strftime_now":
            raise Unsupported("it writes the date")
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), UNDEFINED)

    def _value(self, node: nodes.Node) -> Any:
        """Return the value of an expression."""
        self._spend(1)
        match node:
            case nodes.Const(value=value) if value is None or isinstance(value, str | int):
                return self._bounded(value)
            case nodes.Name(name=name):
                return self._named(name)
            case nodes.List() | nodes.Tuple():
                return [self._value(item) for item in node.items]
            case nodes.And():
                return self._value(node.left) and self._value(node.right)
            case nodes.Or():
                return self._value(node.left) or self._value(node.right)
            case nodes.Not():
                return not self._value(node.node)
            case nodes.CondExpr():
                branch = node.expr1 if self._value(node.test) else node.expr2
                return UNDEFINED if branch is None else self._value(branch)
            case nodes.Compare():
                return self._compare(node)
            case nodes.Test(name=name) if name in TESTS and not node.args and not node.kwargs:
                return TESTS[name](self._value(node.node))
            case _:
                return self._bounded(self._computed(node))

    def _computed(self, node: nodes.Node) -> Any:
        """Return the value of an expression that makes a new text or number, or that reads a part of a value."""
        match node:
            case nodes.Concat():
                return self._joined([self._written(self._value(part)) for part in node.nodes])
            case nodes.Add() | nodes.Sub() | nodes.Mod():
                return self._arithmetic(node, self._value(node.left), self._value(node.right))
            case nodes.Neg():
                value = self._value(node.node)
                if type(value) is int:
                    return -value
            case nodes.Getattr(attr=attribute):
                return _item(self._value(node.node), attribute)
            case nodes.Getitem(arg=nodes.Slice() as part):
                return self._slice(self._value(node.node), part)
            case nodes.Getitem():
                return _item(self._value(node.node), self._value(node.arg))
            case nodes.Filter() if node.node is not None and not node.args and not node.kwargs:
                return self._filtered(node.name, self._value(node.node))
            case nodes.Call() if node.dyn_args is None and node.dyn_kwargs is None:
                return self._call(node)
        raise _unsupported(node)

    def _bounded(self, value: Any) -> Any:
        """Return a value, and count its size as work."""
        if isinstance(value, int) and abs(value) > LARGEST:
            raise Unsupported("it computes with large numbers")
        self._spend(len(value) if isinstance(value, str | list) else 1)
        return value

    def _joined(self, texts: list[str]) -> str:
        self._spend(sum(map(len, texts)))
        return "".join(texts)

    def _arithmetic(self, node: nodes.BinExpr, left: Any, right: Any) -> Any:
        if isinstance(node, nodes.Add) and isinstance(left, str) and isinstance(right, str):
            return self._joined([left, right])
        if not isinstance(left, int) or not isinstance(right, int):
            raise Unsupported("it computes with a value that is neither text nor number")
        if isinstance(node, nodes.Mod):
            if right == 0:
                raise Unsupported("it divides by zero")
            return left % right
        return left + right if isinstance(node, nodes.Add) else left - right

    def _compare(self, node: nodes.Compare) -> bool:
        left = self._value(node.expr)
        for operand in node.ops:
            right = self._value(operand.expr)
            self._spend_on_all(left)
            self._spend_on_all(right)
            if operand.op in ("in", "notin"):
                holds = self._contains(right, left) == (operand.op == "in")
            else:
                if operand.op not in ("eq", "ne") and not _comparable(left, right):
                    raise Unsupported("it compares values that have no order")
                holds = COMPARISONS[operand.op](left, right)
            if not holds:
                return False
            left = right
        return True

    def _contains(self, container: Any, value: Any) -> bool:
        if isinstance(container, str) and isinstance(value, str):
            return value in container
        if isinstance(container, list) or (isinstance(container, dict) and isinstance(value, str)):
            return value in container
        raise Unsupported("it searches in a value that is neither text, list nor object")

    def _slice(self, value: Any, part: nodes.Slice) -> Any:
        bounds = [None if bound is None else self._value(bound) for bound in (part.start, part.stop, part.step)]
        if not isinstance(value, str | list) or not all(bound is None or type(bound) is int for bound in bounds):
            raise _unsupported(part)
        if bounds[2] == 0:
            raise Unsupported("it cuts with a step of zero")
        return value[slice(*bounds)]

    def _filtered(self, name: str, value: Any) -> Any:
        if name in TEXT_FILTERS and isinstance(value, str):
            self._spend(len(value))
            return TEXT_FILTERS[name](value)
        if name in ("length", "count") and isinstance(value, str | list):
            return len(value)
        raise Unsupported(f"it uses the filter {name[:50]}")

    def _call(self, node: nodes.Call) -> Any:
        match node.node:
            case nodes.Name(name="raise_exception") if len(node.args) == 1 and not node.kwargs:
                raise Refused(self._written(self._value(node.args[0]))[:200])
            case nodes.Name(name="namespace") if not node.args:
                return Namespace({pair.key: self._value(pair.value) for pair in node.kwargs})
            case nodes.Getattr(attr=name) if name in TEXT_METHODS and not node.kwargs:
                method, counts = TEXT_METHODS[name]
                value, arguments = self._value(node.node.node), [self._value(argument) for argument in node.args]
                if len(arguments) in counts and all(isinstance(text, str) for text in (value, *arguments)):
                    self._spend(len(value))
                    return method(value, *arguments)
            case nodes.Name(name=name):
                raise Unsupported(f"it calls {name[:50]}")
        raise Unsupported("it calls a method")


def _item(value: Any, key: Any) -> Any:
    """Return an item of an object or list; UNDEFINED if it is missing."""
    if isinstance(value, dict) and isinstance(key, str):
        if key not in value and hasattr(value, key):
            raise Unsupported(f"it uses the attribute {key[:50]}")
        return value.get(key, UNDEFINED)
    if isinstance(value, str | list) and type(key) is int:
        return value[key] if -len(value) <= key < len(value) else UNDEFINED
    raise Unsupported(f"it uses {str(key)[:50]!r} of a value that is not an object")


def _comparable(left: Any, right: Any) -> bool:
    return any(isinstance(left, kind) and isinstance(right, kind) for kind in (str, int))


def _unsupported(node: nodes.Node) -> Unsupported:
    return Unsupported(f"it uses {type(node).__name__}, line {node.lineno}")
