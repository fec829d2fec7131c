"""The table of known column names in docs/how-to/your-own-data.md, from ``regard/data/column_names.py``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.data import column_names as known

__all__ = ["PAGE", "table", "write"]

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "your-own-data.md"
START, END = "| Role | Names |\n|---|---|\n", "\n\n"


def table() -> str:
    """Return the rows: a role and its names."""
    rows = (
        ("text", _names(known.TEXTS)),
        ("label", _names(known.LABELS)),
        ("two texts", _pairs(known.TEXT_PAIRS)),
        ("source and target", _pairs(known.SIDES)),
        ("document of a language model", _names(known.DOCUMENTS)),
        ("prompt · completion", f"{_names(known.PROMPTS)} · {_names(known.COMPLETIONS)}"),
        ("words · tags, a sentence in a row", f"{_names(known.WORDS)} · {_names(known.TAGS)}"),
        ("word · tag, a word in a row", f"{_names(known.WORD)} · {_names(known.TAG)}"),
        ("session", _names(known.SESSIONS)),
        ("item · list of items", f"{_names(known.ITEMS)} · {_names(known.ITEM_LISTS)}"),
        ("time", _names(known.TIMES)),
        ("node", _names(known.NODES)),
        ("ends of an edge", _pairs(known.EDGES)),
        ("file of a sound or an image", _names(known.PATHS)),
        ("speaker", _names(known.SPEAKERS)),
        ("part · its values", f"{_names(known.SPLITS)} · {_names(known.PARTS)}"),
    )
    return "\n".join(f"| {role} | {names} |" for role, names in rows)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _pairs(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"`{one}` and `{other}`" for one, other in pairs)


def write() -> None:
    """Write the table into the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    PAGE.write_text(before + START + table() + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    write()
