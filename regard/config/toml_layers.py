"""TOML files in layers: the extended file, then the file, then overrides; and the line that each key stands on.

A table is merged key by key; anything else replaces what lies below it. Files that extend each other in a
circle are refused.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from regard.config.spelling import KEYS, current_spelling
from regard.core.untrusted_files import TooDeep, parse_toml, read_bytes, require_shallow, shortened
from regard.core.wording import describe_error
from regard.errors import ConfigError

Key = tuple[str | int, ...]

_HEADER = re.compile(r"(\[\[?)([^\[\]]+)\]")
LIMIT = 1 << 18  # bytes a file may have
PARTS = 16  # parts a dotted key may have; a config has six at most


class TomlLayer(NamedTuple):
    """Keys and values of one file or mapping, and the line of each key where there is one."""

    label: str
    values: dict[str, Any]
    lines: dict[Key, int]


def dotted(key: Key) -> str:
    """Return the dotted form of a key, as ``--set`` takes it."""
    return ".".join(str(part) for part in key)


def read_layers(source: Path | Mapping[str, Any], find: Callable[[str, Path | None], Path]) -> list[TomlLayer]:
    """Read the file or mapping and everything it extends, the lowest layer first; raises ConfigError.

    ``find(name, folder)`` returns the file that an ``extends`` written in ``folder`` means.
    """
    layers: list[TomlLayer] = []
    seen: list[Path] = []
    while True:
        if isinstance(source, Path):
            source = source.resolve()
            if source in seen:
                chain = " → ".join(path.name for path in [*seen[seen.index(source) :], source])
                raise ConfigError("these files extend each other in a circle", where=str(seen[-1]), why=chain)
            seen.append(source)
            layer, folder = _read_file(source), source.parent
        else:
            layer, folder = _from_mapping(source), None
        base = layer.values.pop("extends", None)
        layers.append(layer)
        if base is None:
            return layers[::-1]
        if not isinstance(base, str):
            raise ConfigError("extends takes the name of a recipe or a path", where=locate([layer], ("extends",)))
        source = find(base, folder)


def _from_mapping(source: Mapping[str, Any]) -> TomlLayer:
    try:
        require_shallow(dict(source))
    except TooDeep as error:
        raise ConfigError("this config cannot be read", why=str(error)) from error
    return TomlLayer("", copy.deepcopy(current_spelling(source)), {})


def _read_file(path: Path) -> TomlLayer:
    try:
        text = read_bytes(path, LIMIT).decode("utf-8")
        return TomlLayer(str(path), current_spelling(parse_toml(text)), _key_lines(text))
    except OSError as error:
        raise ConfigError("this recipe cannot be read", where=str(path), why=describe_error(error)) from error
    except UnicodeDecodeError as error:
        raise ConfigError("this recipe is not UTF-8 text", where=str(path), why=str(error)) from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        where = f"{path}:{line[1]}" if line else str(path)
        raise ConfigError("this recipe is not TOML", where=where, why=str(error)) from error
    except ValueError as error:
        raise ConfigError("this recipe cannot be read", where=str(path), why=str(error)) from error


def _key_lines(text: str) -> dict[Key, int]:
    """Map every key that starts a line to its number.

    Text in a multi-line string may be taken for a key: harmless, since only keys that exist are looked up.
    """
    lines: dict[Key, int] = {}
    tables: dict[Key, int] = {}  # how often an array of tables was opened
    here: Key = ()
    for number, line in enumerate(text.splitlines(), start=1):
        written = line.strip()
        if header := _HEADER.match(written):
            here = _with_indices(_split(header[2]), tables)
            if header[1] == "[[":
                tables[here] = tables.get(here, -1) + 1
                here = (*here, tables[here])
            lines.setdefault(here, number)
        elif "=" in written:
            parts = _split(written.partition("=")[0])
            for length in range(1, len(parts) + 1):  # `a.b = 1` opens a as well
                lines.setdefault(here + parts[:length], number)
    return lines


def _split(dotted: str) -> Key:
    """Split a key into parts in their present spelling, at most one more than a key may have."""
    parts = (part.strip().strip("\"'") for part in dotted.split(".", PARTS))
    return tuple(KEYS.get(part, part) for part in parts)


def _with_indices(key: Key, tables: Mapping[Key, int]) -> Key:
    """Insert the indices of arrays of tables: ``data.train.x`` in the second one becomes ``data.train.1.x``."""
    path: Key = ()
    for position, part in enumerate(key):
        path = (*path, part)
        if path in tables and position + 1 < len(key):
            path = (*path, tables[path])
    return path


def parse_override(text: str) -> tuple[Key, Any]:
    """Parse ``train.lr=1e-3`` into key and TOML value; a value that is not TOML is a string, an empty one is None."""
    dotted, equals, written = text.partition("=")
    if not equals or not dotted.strip():
        raise ConfigError(
            "an override is a key, '=' and a value",
            where=f"--set {text}",
            help="for example --set train.lr=1e-3",
        )
    key = tuple(int(part) if re.fullmatch("[0-9]{1,9}", part) else part for part in map(str, _split(dotted)))
    if len(key) > PARTS:
        raise ConfigError(f"a key has at most {PARTS} parts", where=f"--set {shortened(text)}")
    written = written.strip()
    if not written:
        return key, None
    try:
        parsed = parse_toml(f"value = {written}")
    except tomllib.TOMLDecodeError:
        return key, written
    except ValueError as error:
        raise ConfigError("this value cannot be read", where=f"--set {shortened(text)}", why=str(error)) from error
    return key, (parsed["value"] if len(parsed) == 1 else written)


def merge(
    layers: Iterable[TomlLayer],
    overrides: Iterable[tuple[Key, Any]] = (),
    replaced: Callable[[Key], Iterable[Key]] = lambda key: (),
) -> dict[str, Any]:
    """Merge all layers into one mapping, higher ones winning; an override of None removes the key.

    ``replaced(key)``: other keys that lower layers may have set, and that ``key`` takes the place of.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        merge_layer(merged, layer.values, replaced)
    for key, value in overrides:
        _drop(merged, replaced(key))
        _put(merged, key, value)
    return merged


def merge_layer(
    below: dict[str, Any], above: Mapping[str, Any], replaced: Callable[[Key], Iterable[Key]] = lambda key: ()
) -> None:
    """Write ``above`` into ``below``, from which the keys go that those of ``above`` take the place of.

    What ``above`` sets in that place itself stays until it is merged, so that a table of another kind is seen as one.
    """
    for key in _values_in(above):
        _drop(below, (other for other in replaced(key) if not _has_value(above, other)))
    merge_into(below, above)


def _values_in(table: Mapping[str, Any], prefix: Key = ()) -> Iterator[Key]:
    """Keys of all values; a table that says its kind is one value."""
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
    """Return whether something other than a table stands at the key."""
    for part in key:
        if not isinstance(table, Mapping) or part not in table:
            return False
        table = table[part]
    return not isinstance(table, Mapping)


def move_key(values: Mapping[str, Any], old: Key, new: Key) -> dict[str, Any]:
    """Values with what stands at ``old``, if anything does, at ``new``, unless something stands there."""
    moved: dict[str, Any] = copy.deepcopy(dict(values))
    *way, last = old
    table: Any = moved
    for part in way:
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
    """Write ``above`` into ``below``, table by table; a table of another ``kind`` replaces the one below.

    A name alone is a table of that ``kind``, where another table is to be merged with it.
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
    """Write one value; tables on the way are created, list items must exist."""
    for position, part in enumerate(key):
        last = position + 1 == len(key)
        if isinstance(tree, list) and not (isinstance(part, int) and part < len(tree)):
            raise ConfigError(
                f"{dotted(key[:position])} has no item {part!r}",
                where=f"--set {dotted(key)}",
                why=f"it is a list of {len(tree)}, counted from 0",
            )
        if not isinstance(tree, dict | list):
            raise ConfigError(f"{dotted(key[:position])} is a value, not a table", where=f"--set {dotted(key)}")
        slot: Any = part if isinstance(tree, list) else str(part)
        if last and value is None:
            tree.pop(slot) if isinstance(tree, list) else tree.pop(slot, None)
        elif last:
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
