"""Languages of parallel text, from language codes in file endings or column names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from regard.data.column_names import LANGUAGE_CODES, LANGUAGE_NAMES, pair_columns
from regard.data.reading import CorpusConfig
from regard.data.rows import column_names
from regard.errors import RegardError

REGION = re.compile(r"(?:[-_][A-Za-z]{2,4})?")  # region or script
PLAIN = (".gz", ".txt", ".bz2", ".xz", ".zst")


def language_code(text: str) -> str | None:
    """Return the code of a language code or name, with its region, if any, after a hyphen; None for other texts."""
    if text.strip().lower() in LANGUAGE_NAMES:
        return LANGUAGE_NAMES[text.strip().lower()]
    language, rest = text[:2].lower(), text[2:]
    return language + rest.replace("_", "-") if language in LANGUAGE_CODES and REGION.fullmatch(rest) else None


def language_pair(text: str) -> tuple[str, str] | None:
    """Return the two languages of a text such as ``en-de``; None for other texts, and for equal languages."""
    first, hyphen, second = text.partition("-")
    source, target = language_code(first), language_code(second)
    return (source, target) if hyphen and source and target and source != target else None


def pair_languages(corpus: CorpusConfig) -> tuple[str, str] | None:
    """Return the languages of the source and the target of a corpus; None if the names do not identify both.

    Examples: the files ``train.en train.fr`` or ``train.en.txt train.fr.txt``, and a table with the columns ``en`` and
    ``fr``.
    """
    source = _first(corpus.source)
    if corpus.target is not None:
        names = (_ending(source), _ending(_first(corpus.target)))
    else:
        try:
            names = pair_columns(column_names(source)) or ("", "")
        except (OSError, RegardError):
            return None
    codes = language_code(names[0]), language_code(names[1])
    return (codes[0], codes[1]) if codes[0] and codes[1] and codes[0] != codes[1] else None


def _first(names: Path | Sequence[Path]) -> Path:
    """Return the first of several files."""
    return Path(names) if isinstance(names, str | Path) else Path(names[0])


def _ending(path: Path) -> str:
    """Return the last ending of a file name that is not a plain-text format, without its dot."""
    endings = [ending for ending in path.suffixes if ending.lower() not in PLAIN]
    return endings[-1][1:] if endings else ""
