"""Config keys of nested pydantic models: short names, the nearest known key, and failures as error messages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args

from pydantic import AliasChoices, BaseModel, ValidationError
from pydantic_core import ErrorDetails

from regard.config.toml_layers import Key, TomlLayer, dotted, locate
from regard.core.untrusted_files import shortened
from regard.core.wording import describe_failure, did_you_mean
from regard.errors import ConfigError


class InvalidCombination(ValueError):
    """A conflict between keys of different tables; raised by validators and reported with every key."""

    def __init__(self, *keys: str, why: str, help: str) -> None:
        super().__init__(why)
        self.keys = [tuple(key.split(".")) for key in keys]
        self.help = help


def fields_of(model: type[BaseModel], prefix: Key = ()) -> Iterator[tuple[Key, tuple[str, ...]]]:
    """Yield every key of a model and of the models nested in it, each with its short names.

    A field that may hold one of several models yields the keys of all of them.
    """
    for name, field in model.model_fields.items():
        choices = field.validation_alias.choices if isinstance(field.validation_alias, AliasChoices) else []
        yield (*prefix, name), tuple(str(choice) for choice in choices if choice != name)
        nested: dict[Key, tuple[str, ...]] = {}
        for part, many in _models_in(field.annotation):
            nested.update(fields_of(part, (*prefix, name, "*") if many else (*prefix, name)))
        yield from nested.items()
    for name in _shared_keys(model):
        yield (*prefix, name), ()


def _shared_keys(model: Any) -> set[str]:
    """Return the keys of a model's tables that may be set directly below it, as defaults of all (``NetConfig``)."""
    keys: set[str] = getattr(model, "shared_keys", set)()
    return keys


def _models_in(annotation: Any, many: bool = False) -> Iterator[tuple[type[BaseModel], bool]]:
    """Yield each model that a field may hold, and whether the field holds a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, many
    for inner in get_args(annotation):
        yield from _models_in(inner, many or getattr(annotation, "__origin__", None) in (tuple, list))


def short_keys(model: type[BaseModel]) -> dict[Key, Key]:
    """Map every short key (``train.lr``) to the full key (``train.learning_rate``)."""
    return {(*key[:-1], name): key for key, names in fields_of(model) for name in names}


def _pattern(key: Key) -> Key:
    return tuple("*" if isinstance(part, int) else part for part in key)


def expand_key(key: Key, short: Mapping[Key, Key]) -> Key:
    """Return the full key of a short one; any other key unchanged."""
    full = short.get(_pattern(key))
    return (*key[:-1], full[-1]) if full else key


def expand_short_keys(layer: TomlLayer, short: Mapping[Key, Key]) -> TomlLayer:
    """Return the layer with full keys, so merged layers agree on the name of each key."""

    def rename(value: Any, key: Key) -> Any:
        if isinstance(value, list):
            return [rename(item, (*key, number)) for number, item in enumerate(value)]
        if not isinstance(value, Mapping):
            return value
        return {expand_key((*key, name), short)[-1]: rename(item, (*key, name)) for name, item in value.items()}

    lines = {expand_key(key, short): line for key, line in layer.lines.items()}
    return TomlLayer(layer.label, rename(layer.values, ()), lines)


def explain(
    error: ValidationError, model: type[BaseModel], layers: Sequence[TomlLayer], overridden: Sequence[Key]
) -> ConfigError:
    """Return the first failure as a ConfigError: the key, the file and line or the override, the reason, a remedy."""
    failures = _innermost(error.errors(include_url=False))
    failure = failures[0]
    written = _Written(model, layers, overridden)
    problem = failure.get("ctx", {}).get("error")
    if isinstance(problem, InvalidCombination):
        named = [written.set_key(key) for key in problem.keys]
        what = f"{' and '.join(map(dotted, named))} cannot be combined"
        where = next(filter(None, map(written.place, named)), None)
        return ConfigError(what, where=where, why=str(problem), help=problem.help)
    keys = [_untagged(tuple(other["loc"]), model) for other in failures]
    set_keys = [written.set_key(key) for key in keys]
    key = set_keys[0]
    where = written.named_in_message(key, failure["msg"]) or written.place(key) or dotted(key)
    further = len(set(set_keys)) - 1
    more = f" ({further} more)" if further else ""
    what, why, help = _what_why_help(failure, keys[0], model, set_key=key)
    return ConfigError(what + more, where=where, why=why, help=help)


def _what_why_help(
    failure: ErrorDetails, key: Key, model: type[BaseModel], *, set_key: Key
) -> tuple[str, str | None, str | None]:
    """Return a failure's message, its reason and a suggestion; ``set_key``: the key as the user set it."""
    kind, name = failure["type"], dotted(set_key)
    if kind == "extra_forbidden":
        why, suggestion = _other_kinds(key, model), nearest_key(key, model)
        if suggestion and key != set_key:  # the side is not named
            suggestion = suggestion.replace(dotted(key[:2]), dotted(key[:1]), 1)
        return f"unknown key {shortened(name)}", why, f"did you mean {suggestion}?" if suggestion and not why else None
    if kind == "missing":
        return f"the key {name} is missing", None, None
    if kind == "union_tag_not_found":
        return f"the key {name}.kind is missing", None, None
    if kind == "union_tag_invalid":
        tag, known = failure["ctx"]["tag"], failure["ctx"]["expected_tags"]
        what = f"{name}.kind cannot be {shortened(repr(tag))}"
        return what, f"it should be one of {known}", did_you_mean(tag, _quoted(known))
    value = failure["input"]
    invalid = f"{name} is invalid" if name else "these settings cannot be combined"
    what = invalid if isinstance(value, dict) else f"{name} cannot be {shortened(repr(value))}"
    choices = _quoted(failure["ctx"]["expected"]) if kind == "literal_error" else []
    return what, describe_failure(failure), did_you_mean(value, choices)


def _quoted(names: str) -> list[str]:
    """Extract the names from a list in pydantic's format: ``'a', 'b' or 'c'``."""
    return re.findall(r"'([^']+)'", names)


def _untagged(key: Key, model: type[BaseModel]) -> Key:
    """Return the key without the kind names that pydantic inserts for a table that may be one of several models."""
    plain: list[str | int] = []
    models = [model]
    for part in key:
        fields = [candidate.model_fields[str(part)] for candidate in models if part in candidate.model_fields]
        if isinstance(part, str) and not fields and any(_kind(candidate) == part for candidate in models):
            models = [candidate for candidate in models if _kind(candidate) == part]
            continue
        plain.append(part)
        if fields:
            models = [inner for field in fields for inner, _ in _models_in(field.annotation)]
    return tuple(plain)


def _other_kinds(key: Key, model: type[BaseModel]) -> str | None:
    """Return the kinds of the enclosing table that have this key; None if no kind has it."""
    models = [model]
    for part in key[:-1]:
        fields = [candidate.model_fields[str(part)] for candidate in models if part in candidate.model_fields]
        models = [inner for field in fields for inner, _ in _models_in(field.annotation)] if fields else models
    kinds = dict.fromkeys(str(_kind(candidate)) for candidate in models if key[-1] in candidate.model_fields)
    return f"only kind {' and '.join(kinds)} has this key" if kinds else None


def _kind(model: type[BaseModel]) -> object:
    return model.model_fields["kind"].default if "kind" in model.model_fields else None


class _Written(NamedTuple):
    """Locations in which keys were set: lines of files, and overrides."""

    model: type[BaseModel]
    layers: Sequence[TomlLayer]
    overridden: Sequence[Key]

    def place(self, key: Key) -> str | None:
        """Return the last override of the key, else the file and line that set it."""
        for other in reversed(self.overridden):
            if key[: len(other)] == other or other[: len(key)] == key:
                return f"--set {dotted(other)}"
        return locate(self.layers, key)

    def named_in_message(self, key: Key, message: str) -> str | None:
        """Return the last override, else the line, of a key named by the message about a whole table."""

        def is_named(other: Key) -> bool:
            inner = self._of_side(other, key)
            return inner[: len(key)] == key != inner and str(inner[-1]) in message

        named = [f"--set {dotted(other)}" for other in self.overridden if is_named(other)]
        lines = [
            f"{layer.label}:{line}" for layer in self.layers for other, line in layer.lines.items() if is_named(other)
        ]
        return next(reversed(named or lines), None)

    def set_key(self, key: Key) -> Key:
        """Return the key of a side, or the shared key that provides its value (``model.width``)."""
        if len(key) < 3 or not self._is_shared((key[0], *key[2:])):
            return key
        shared = (key[0], *key[2:])
        return shared if self._is_set(shared) and not self._is_set(key) else key

    def _of_side(self, other: Key, key: Key) -> Key:
        return (*key[:2], *other[1:]) if len(key) > 1 and self._is_shared(other) else other

    def _is_shared(self, key: Key) -> bool:
        field = self.model.model_fields.get(str(key[0]))
        net: Any = None if field is None else field.annotation
        return len(key) > 1 and key[1] in _shared_keys(net)

    def _is_set(self, key: Key) -> bool:
        """Return whether the key, or a table that contains it, was set; the tables of the sides do not count."""
        shortest = 2 if self._is_shared(key) else 3
        parts = [key[:length] for length in range(shortest, len(key) + 1)]
        tables = [layer.values for layer in self.layers]
        within = any(other[: len(key)] == key for other in self.overridden)
        return within or any(part in self.overridden or any(_holds(table, part) for table in tables) for part in parts)


def _holds(values: Any, key: Key) -> bool:
    for part in key:
        if not isinstance(values, Mapping) or part not in values:
            return False
        values = values[part]
    return True


def _innermost(failures: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Drop failures that only follow from a nested one, such as a list that is too short because an item failed."""
    around = {failure["loc"][:length] for failure in failures for length in range(len(failure["loc"]))}
    return [
        failure
        for failure in failures
        if failure["type"] != "default_factory_not_called" and failure["loc"] not in around
    ]


def nearest_key(key: Key, model: type[BaseModel]) -> str | None:
    """Return the known key that was probably meant: one with the same last part, else the most similar one."""
    known = [*(full for full, _ in fields_of(model)), *short_keys(model)]
    matches = [other for other in known if other[-1] == key[-1]]
    if not matches:
        by_name = {dotted(other): other for other in known}
        close = difflib.get_close_matches(dotted(_pattern(key)), by_name, n=1)
        siblings = {str(other[-1]): other for other in known if other[:-1] == _pattern(key)[:-1]}
        near = difflib.get_close_matches(str(key[-1]), siblings, n=1)
        matches = [siblings[near[0]]] if near else [by_name[close[0]]] if close else []
    if not matches:
        return None
    indices = [part for part in key if isinstance(part, int)]
    return dotted(tuple(indices.pop(0) if part == "*" and indices else part for part in matches[0]))
