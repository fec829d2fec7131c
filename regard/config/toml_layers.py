"""TOML files in layers: the extended file, then the file, then overrides; and the line number of each key.

A table is merged key by key; any other value replaces the lower one. Files that extend each other in a circle are
rejected. Keys in the British spelling of earlier configs are renamed.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.untrusted_files import TooDeep, parse_toml, read_bytes, require_shallow, shortened
from regard.core.wording import describe_error, pluralize
from regard.errors import ConfigError

Key = tuple[str | int, ...]

_HEADER = re.compile(r"(\[\[?)([^\[\]]+)\]")
LIMIT = 1 << 18  # limit of the bytes of a file
PARTS = 16  # limit of the parts of a dotted key; keys of Regard have at most six
# British spellings of keys in earlier configs; both spellings remain valid permanently.
SPELLINGS = {
    "neighbourhood": "neighborhood",
    "neighbours": "neighbors",
    "normalisation": "normalization",
    "normalisation_epsilon": "normalization_epsilon",
    "normalise": "normalize",
}


class TomlLayer(NamedTuple):
    """Keys and values of one file or mapping, and the line of each key of a file."""

    label: str
    values: dict[str, Any]
    lines: dict[Key, int]


def dotted(key: Key) -> str:
    """Return the dotted form of a key, as in ``--set``."""
    return ".".join(str(part) for part in key)


def read_layers(source: Path | Mapping[str, Any], find: Callable[[str, Path | None], Path]) -> list[TomlLayer]:
    """Read the file or mapping and everything it extends, lowest layer first. Raises ConfigError.

    ``find(name, folder)`` returns the file for an ``extends`` in a file of ``folder``.
    """
    layers: list[TomlLayer] = []
    seen: list[Path] = []
    while True:
        if isinstance(source, Path):
            source = source.resolve()
            if source in seen:
                chain = " → ".join(path.name for path in [*seen[seen.index(source) :], source])
                raise ConfigError("config files extend each other in a circle", where=str(seen[-1]), why=chain)
            seen.append(source)
            layer, folder = _read_file(source), source.parent
        else:
            layer, folder = _from_mapping(source), None
        base = layer.values.pop("extends", None)
        layers.append(layer)
        if base is None:
            return layers[::-1]
        if not isinstance(base, str):
            raise ConfigError("extends must be the name of a recipe or a path", where=locate([layer], ("extends",)))
        source = find(base, folder)


def _from_mapping(source: Mapping[str, Any]) -> TomlLayer:
    try:
        require_shallow(dict(source))
    except TooDeep as error:
        raise ConfigError("cannot parse the config", why=str(error)) from error
    return TomlLayer("", copy.deepcopy(current_spelling(source)), {})


def _read_file(path: Path) -> TomlLayer:
    try:
        text = read_bytes(path, LIMIT).decode("utf-8")
        return TomlLayer(str(path), current_spelling(parse_toml(text)), _key_lines(text))
    except OSError as error:
        raise ConfigError("cannot read the recipe", where=str(path), why=describe_error(error)) from error
    except UnicodeDecodeError as error:
        raise ConfigError("the recipe is not UTF-8 text", where=str(path), why=str(error)) from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        where = f"{path}:{line[1]}" if line else str(path)
        raise ConfigError("the recipe is not valid TOML", where=where, why=str(error)) from error
    except ValueError as error:
        raise ConfigError("cannot parse the recipe", where=str(path), why=str(error)) from error


def _key_lines(text: str) -> dict[Key, int]:
    """Map every key that starts a line to its line number.

    Text in a multi-line string may be taken for a key. This is harmless, since only existing keys are looked up.
    """
    lines: dict[Key, int] = {}
    tables: dict[Key, int] = {}  # index of the last table of each array of tables
    table_key: Key = ()
    for number, line in enumerate(text.splitlines(), start=1):
        written = line.strip()
        if header := _HEADER.match(written):
            table_key = _with_indices(_split(header[2]), tables)
            if header[1] == "[[":
                tables[table_key] = tables.get(table_key, -1) + 1
                table_key = (*table_key, tables[table_key])
            lines.setdefault(table_key, number)
        elif "=" in written:
            parts = _split(written.partition("=")[0])
            for length in range(1, len(parts) + 1):  # `a.b = 1` opens a as well
                lines.setdefault(table_key + parts[:length], number)
    return lines


def _split(dotted: str) -> Key:
    """Split a key into parts in their current spelling, at most one more than the limit."""
    parts = (part.strip().strip("\"'") for part in dotted.split(".", PARTS))
    return tuple(SPELLINGS.get(part, part) for part in parts)


def _with_indices(key: Key, tables: Mapping[Key, int]) -> Key:
    """Insert the indices of arrays of tables: ``data.train.x`` in the second one becomes ``data.train.1.x``."""
    path: Key = ()
    for position, part in enumerate(key):
        path = (*path, part)
        if path in tables and position + 1 < len(key):
            path = (*path, tables[path])
    return path


def parse_override(text: str) -> tuple[Key, Any]:
    """Parse ``train.lr=1e-3`` into key and TOML value; other values are strings, an empty one is None."""
    dotted, equals, written = text.partition("=")
    if not equals or not dotted.strip():
        raise ConfigError(
            "an override must have the form KEY=VALUE",
            where=f"--set {text}",
            help="for example --set train.lr=1e-3",
        )
    key = tuple(int(part) if re.fullmatch("[0-9]{1,9}", part) else part for part in map(str, _split(dotted)))
    if len(key) > PARTS:
        raise ConfigError(f"the key has more than {PARTS} parts", where=f"--set {shortened(text)}")
    written = written.strip()
    if not written:
        return key, None
    try:
        parsed = parse_toml(f"value = {written}")
    except tomllib.TOMLDecodeError:
        return key, written
    except ValueError as error:
        raise ConfigError("cannot parse the value", where=f"--set {shortened(text)}", why=str(error)) from error
    return key, (parsed["value"] if len(parsed) == 1 else written)


def merge(
    layers: Iterable[TomlLayer],
    overrides: Iterable[tuple[Key, Any]] = (),
    replaced: Callable[[Key], Iterable[Key]] = lambda key: (),
) -> dict[str, Any]:
    """Merge all layers into one mapping, higher ones taking precedence; an override of None removes the key.

    An override of a ``kind`` replaces the table, as in a layer; the other overrides fill it, in any order.
    ``replaced(key)``: other keys of lower layers that ``key`` replaces.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        merge_layer(merged, layer.values, replaced)
    for key, value in sorted(overrides, key=lambda override: len(override[0]) if override[0][-1] == "kind" else PARTS):
        _drop(merged, replaced(key))
        _put(merged, key, value)
    return merged


def merge_layer(
    below: dict[str, Any], above: Mapping[str, Any], replaced: Callable[[Key], Iterable[Key]] = lambda key: ()
) -> None:
    """Merge ``above`` into ``below``, and remove the keys of ``below`` that keys of ``above`` replace.

    Keys that ``above`` sets itself are not removed first, so a table of another kind is recognized when it is merged.
    """
    for key in _values_in(above):
        _drop(below, (other for other in replaced(key) if not _has_value(above, other)))
    merge_into(below, above)


def _values_in(table: Mapping[str, Any], prefix: Key = ()) -> Iterator[Key]:
    """Yield the keys of all values; a table with a ``kind`` is one value."""
    for name, value in table.items():
        if isinstance(value, Mapping) and "kind" not in value:
            yield from _values_in(value, (*prefix, name))
        else:
            yield (*prefix, name)


def _drop(tree: dict[str, Any], keys: Iterable[Key]) -> None:
    for key in keys:
        table: Any = tree
        for part in key[:-1]:
            table = table.get(part) if isinstance(table, dict) else None
        if isinstance(table, dict):
            table.pop(key[-1], None)


def _has_value(table: Any, key: Key) -> bool:
    """Return whether the key exists and is not a table."""
    for part in key:
        if not isinstance(table, Mapping) or part not in table:
            return False
        table = table[part]
    return not isinstance(table, Mapping)


def move_key(values: Mapping[str, Any], old: Key, new: Key) -> dict[str, Any]:
    """Return the values with the value of ``old`` moved to ``new``, unless ``new`` is already set."""
    moved: dict[str, Any] = copy.deepcopy(dict(values))
    *path, last = old
    table: Any = moved
    for part in path:
        table = table.get(part) if isinstance(table, dict) else None
    if not isinstance(table, dict) or last not in table:
        return moved
    value, table = table.pop(last), moved
    for part in new[:-1]:
        table = table.setdefault(part, {})
    if isinstance(table, dict) and value is not None:
        table.setdefault(new[-1], value)
    return moved


def merge_into(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    """Write ``above`` into ``below``, table by table; a table of another ``kind`` replaces the lower one.

    A string is a table of that ``kind`` if another table is merged with it.
    """
    for key, value in above.items():
        under = below.get(key)
        if isinstance(under, str) and isinstance(value, Mapping):  # "rotary" is { kind = "rotary" }
            under = below[key] = {"kind": under}
        if isinstance(under, dict) and isinstance(value, Mapping) and not _another_kind(under, value):
            merge_into(under, value)
        else:
            below[key] = copy.deepcopy(value)


def _another_kind(below: Mapping[str, Any], above: Mapping[str, Any]) -> bool:
    return "kind" in below and above.get("kind", below["kind"]) != below["kind"]


def _put(tree: Any, key: Key, value: Any) -> None:
    """Write one value; missing tables are created, list items must exist."""
    for position, part in enumerate(key):
        last = position + 1 == len(key)
        if isinstance(tree, list) and not (isinstance(part, int) and part < len(tree)):
            raise ConfigError(
                f"{dotted(key[:position])} has no item {part!r}",
                where=f"--set {dotted(key)}",
                why=f"the list has {pluralize(len(tree), 'item')}, counted from 0",
            )
        if not isinstance(tree, dict | list):
            raise ConfigError(f"{dotted(key[:position])} is a value, not a table", where=f"--set {dotted(key)}")
        slot: Any = part if isinstance(tree, list) else str(part)
        if last and value is None:
            tree.pop(slot) if isinstance(tree, list) else tree.pop(slot, None)
        elif last:
            if isinstance(tree, dict) and slot == "kind" and _another_kind(tree, {slot: value}):
                tree.clear()
            tree[slot] = value
        else:
            if isinstance(tree, dict) and isinstance(tree.get(slot), str):  # "rotary" is { kind = "rotary" }
                tree[slot] = {"kind": tree[slot]}
            tree = tree[slot] if isinstance(tree, list) else tree.setdefault(slot, {})


def locate(layers: Iterable[TomlLayer], key: Key) -> str | None:
    """Return ``file:line`` of a key, or of the nearest enclosing table, in the highest layer that has it."""
    for length in range(len(key), 0, -1):
        for layer in reversed(list(layers)):
            if key[:length] in layer.lines:
                return f"{layer.label}:{layer.lines[key[:length]]}"
    return None


def current_spelling(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a config's tables with the current spelling of each key.

    If a table has both spellings of a key, the value of the current one is kept.
    """
    renamed: dict[str, Any] = {}
    for key, value in values.items():
        new = SPELLINGS.get(key, key)
        if new == key or new not in values:
            renamed[new] = _current(value)
    return renamed


def _current(value: Any) -> Any:
    if isinstance(value, Mapping):
        return current_spelling(value)
    return [_current(item) for item in value] if isinstance(value, list) else value
