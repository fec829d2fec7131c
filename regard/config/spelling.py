"""British spellings of keys in earlier configs; both spellings remain valid permanently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KEYS = {
    "neighbourhood": "neighborhood",
    "neighbours": "neighbors",
    "normalisation": "normalization",
    "normalisation_epsilon": "normalization_epsilon",
    "normalise": "normalize",
}


def current_spelling(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a config's tables with the current spelling of each key.

    If a table has both spellings of a key, the value of the current one is kept.
    """
    renamed: dict[str, Any] = {}
    for key, value in values.items():
        new = KEYS.get(key, key)
        if new == key or new not in values:
            renamed[new] = _current(value)
    return renamed


def _current(value: Any) -> Any:
    if isinstance(value, Mapping):
        return current_spelling(value)
    return [_current(item) for item in value] if isinstance(value, list) else value
