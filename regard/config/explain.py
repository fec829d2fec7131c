"""The dotted keys of nested pydantic models: short names, the nearest one, and a failure in plain words."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import AliasChoices, BaseModel, ValidationError
from pydantic_core import ErrorDetails

from regard.config.toml_layers import Key, TomlLayer, locate, spell
from regard.core.untrusted_files import shortened
from regard.core.wording import did_you_mean, reason
from regard.errors import ConfigError

__all__ = ["Misfit", "explain", "fields_of", "in_full", "key_in_full", "nearest", "short_keys"]


class Misfit(ValueError):
    """Raised by a validator: keys that do not fit together, of tables that know nothing of each other."""

    def __init__(self, *keys: str, why: str, help: str) -> None:
        super().__init__(why)
        self.keys = [tuple(key.split(".")) for key in keys]
        self.help = help


def fields_of(model: type[BaseModel], prefix: Key = ()) -> Iterator[tuple[Key, tuple[str, ...]]]:
    """Every key of a model and of the models inside, with the short names it also answers to.

    A table that may be one of several models has the keys of all of them.
    """
    for name, field in model.model_fields.items():
        choices = field.validation_alias.choices if isinstance(field.validation_alias, AliasChoices) else []
        yield (*prefix, name), tuple(str(choice) for choice in choices if choice != name)
        found: dict[Key, tuple[str, ...]] = {}
        for part, many in _models_in(field.annotation):
            found.update(fields_of(part, (*prefix, name, "*") if many else (*prefix, name)))
        yield from found.items()


def _models_in(annotation: Any, many: bool = False) -> Iterator[tuple[type[BaseModel], bool]]:
    """The models a field may hold, and whether it holds a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, many
    for inner in get_args(annotation):
        yield from _models_in(inner, many or getattr(annotation, "__origin__", None) in (tuple, list))


def short_keys(model: type[BaseModel]) -> dict[Key, Key]:
    """Every short spelling (``train.lr``) and the key it stands for."""
    return {(*key[:-1], name): key for key, names in fields_of(model) for name in names}


def _pattern(key: Key) -> Key:
    return tuple("*" if isinstance(part, int) else part for part in key)


def key_in_full(key: Key, short: Mapping[Key, Key]) -> Key:
    """The key itself, or the one its short spelling stands for."""
    full = short.get(_pattern(key))
    return (*key[:-1], full[-1]) if full else key


def in_full(layer: TomlLayer, short: Mapping[Key, Key]) -> TomlLayer:
    """The layer with every short name replaced, so that two spellings of one key meet when layers are merged."""

    def rename(value: Any, key: Key) -> Any:
        if isinstance(value, list):
            return [rename(item, (*key, number)) for number, item in enumerate(value)]
        if not isinstance(value, Mapping):
            return value
        return {key_in_full((*key, name), short)[-1]: rename(item, (*key, name)) for name, item in value.items()}

    lines = {key_in_full(key, short): line for key, line in layer.lines.items()}
    return TomlLayer(layer.label, rename(layer.values, ()), lines)


def explain(
    error: ValidationError, model: type[BaseModel], layers: Sequence[TomlLayer], overridden: Sequence[Key]
) -> ConfigError:
    """The first failure as what, where, why and help."""
    failures = _innermost(error.errors(include_url=False))
    failure = failures[0]
    problem = failure.get("ctx", {}).get("error")
    if isinstance(problem, Misfit):
        what = f"{' and '.join(map(spell, problem.keys))} do not fit together"
        where = next(filter(None, (_place(key, layers, overridden) for key in problem.keys)), None)
        return ConfigError(what, where=where, why=str(problem), help=problem.help)
    key = _untagged(tuple(failure["loc"]), model)
    # Of a whole table: the override that the reason speaks of, rather than just the last one within the table.
    spoken = [other for other in overridden if other[: len(key)] == key != other and str(other[-1]) in failure["msg"]]
    where = _place(spoken[-1] if spoken else key, layers, overridden) or spell(key)
    more = f" ({len(failures) - 1} more)" if len(failures) > 1 else ""
    if failure["type"] == "extra_forbidden":
        why, meant = _other_kinds(key, model), nearest(key, model)
        help = f"did you mean {meant}?" if meant and not why else None
        return ConfigError(f"unknown key {shortened(spell(key))}{more}", where=where, why=why, help=help)
    if failure["type"] == "missing":
        return ConfigError(f"the key {spell(key)} is missing{more}", where=where)
    if failure["type"] == "union_tag_not_found":
        return ConfigError(f"the key {spell(key)}.kind is missing{more}", where=where)
    if failure["type"] == "union_tag_invalid":
        tag, known = failure["ctx"]["tag"], failure["ctx"]["expected_tags"]
        help = did_you_mean(tag, _quoted(known))
        why = f"it should be one of {known}"
        return ConfigError(f"{spell(key)}.kind cannot be {shortened(repr(tag))}{more}", where=where, why=why, help=help)
    given = failure["input"]
    what = (
        f"{spell(key)} does not fit" if isinstance(given, dict) else f"{spell(key)} cannot be {shortened(repr(given))}"
    )
    known = _quoted(failure["ctx"]["expected"]) if failure["type"] == "literal_error" else []
    return ConfigError(what + more, where=where, why=reason(failure), help=did_you_mean(given, known))


def _quoted(names: str) -> list[str]:
    """The names in a list that pydantic has spelled: ``'a', 'b' or 'c'``."""
    return re.findall(r"'([^']+)'", names)


def _untagged(key: Key, model: type[BaseModel]) -> Key:
    """Without the names of kinds that pydantic puts behind a table that may be one of several models."""
    plain: list[str | int] = []
    models = [model]
    for part in key:
        fields = [each.model_fields[str(part)] for each in models if part in each.model_fields]
        if isinstance(part, str) and not fields and any(_kind(each) == part for each in models):
            models = [each for each in models if _kind(each) == part]
            continue
        plain.append(part)
        if fields:
            models = [inner for field in fields for inner, _ in _models_in(field.annotation)]
    return tuple(plain)


def _other_kinds(key: Key, model: type[BaseModel]) -> str | None:
    """Which kinds of the table around it have this key; None: no kind has."""
    models = [model]
    for part in key[:-1]:
        fields = [each.model_fields[str(part)] for each in models if part in each.model_fields]
        models = [inner for field in fields for inner, _ in _models_in(field.annotation)] if fields else models
    kinds = [str(_kind(each)) for each in models if key[-1] in each.model_fields]
    return f"it is a key of kind {' and '.join(kinds)}" if kinds else None


def _kind(model: type[BaseModel]) -> object:
    return model.model_fields["kind"].default if "kind" in model.model_fields else None


def _place(key: Key, layers: Sequence[TomlLayer], overridden: Sequence[Key]) -> str | None:
    """Who said so: the last override of that key, else the line of a file."""
    for other in reversed(overridden):
        if key[: len(other)] == other or other[: len(key)] == key:
            return f"--set {spell(other)}"
    return locate(layers, key)


def _innermost(failures: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Without those that only follow from a failure further inside, such as a list short of its failed item."""
    around = {failure["loc"][:length] for failure in failures for length in range(len(failure["loc"]))}
    return [
        failure
        for failure in failures
        if failure["type"] != "default_factory_not_called" and failure["loc"] not in around
    ]


def nearest(key: Key, model: type[BaseModel]) -> str | None:
    """The known key that was probably meant: the same last word elsewhere, else the most similar spelling."""
    known = [*(full for full, _ in fields_of(model)), *short_keys(model)]
    found = [other for other in known if other[-1] == key[-1]]
    if not found:
        spelled = {spell(other): other for other in known}
        close = difflib.get_close_matches(spell(_pattern(key)), spelled, n=1)
        beside = {str(other[-1]): other for other in known if other[:-1] == _pattern(key)[:-1]}
        near = difflib.get_close_matches(str(key[-1]), beside, n=1)
        found = [beside[near[0]]] if near else [spelled[close[0]]] if close else []
    if not found:
        return None
    indices = [part for part in key if isinstance(part, int)]
    return spell(tuple(indices.pop(0) if part == "*" and indices else part for part in found[0]))
