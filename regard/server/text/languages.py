"""Identification of the served languages, matching of language codes, and names of languages."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from regard.core.language_names import NAMES

UNDETERMINED = "und"  # ISO 639-2 code for the unknown languages of a model

CERTAIN = 0.75  # confidence that most texts of two or more words in a served language reach, but other texts do not


class Language(NamedTuple):
    """Language of a text, with the confidence (0 to 1) among the served languages."""

    code: str
    confidence: float

    @property
    def uncertain(self) -> bool:
        """True if the text may be in another language, as for very short texts and languages that are not served."""
        return self.confidence < CERTAIN


class LanguageIdentifier:
    """Identifier of the language of a text among the source languages of the models, by py3langid."""

    def __init__(self, languages: Sequence[str | None]) -> None:
        self.codes = sorted({code for code in languages if code})
        self._lock = threading.Lock()
        self._library: Any = None

    def __call__(self, text: str) -> list[Language]:
        """Return the languages, most probable first; an empty list if no source language is known.

        A single language has confidence 1.
        """
        if len(self.codes) < 2 or not text.strip():
            return [Language(code, 1.0 if len(self.codes) == 1 else 0.0) for code in self.codes]
        with self._lock:
            ranked = {code: float(probability) for code, probability in self._identifier().rank(text)}
        # A language that py3langid does not support has confidence 0.
        languages = [Language(code, ranked.get(base_language(code), 0.0)) for code in self.codes]
        return sorted(languages, key=lambda language: -language.confidence)

    def _identifier(self) -> Any:
        """Return the identifier of py3langid, restricted to the served languages, and load it at first use."""
        if self._library is None:
            from py3langid.langid import MODEL_FILE
            from py3langid.langid import LanguageIdentifier as LibraryIdentifier

            self._library = LibraryIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
            known = {base_language(code) for code in self.codes} & set(self._library.labels)
            self._library.set_languages(sorted(known) or None)
        return self._library


def base_language(code: str) -> str:
    """Return a code without its region: ``en`` for ``EN-GB`` and ``en_GB``."""
    return _normalize(code).partition("-")[0]


def match_language(language: str | None, requested: str | None) -> int | None:
    """Return the rank of the match between the language of a model and the requested one.

    3: same code; 2: the language of the model has no region; 1: another region; 0: one of both is None (any); None: no
    match.
    """
    if requested is None:
        return 0
    if _normalize(requested) == UNDETERMINED:
        return 3 if language is None else None
    if language is None:
        return 0
    if _normalize(language) == _normalize(requested):
        return 3
    if base_language(language) != base_language(requested):
        return None
    return 1 if "-" in _normalize(language) else 2


def _normalize(code: str) -> str:
    """Return a code in lower case with hyphens."""
    return code.strip().lower().replace("_", "-")


def language_name(code: str) -> str:
    """Return the English name of a language, or the code if it is not in NAMES."""
    return NAMES.get(base_language(code), code)
