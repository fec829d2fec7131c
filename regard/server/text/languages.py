"""Which of the languages that are served a text is in, and what languages are called."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["NAMELESS", "Identifier", "Language", "base", "fit", "name"]

NAMELESS = "und"  # the code (ISO 639-2) for what a model that names no language reads and writes

# English names of the languages that models are most often made for; of others the code itself.
NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek",
    "en": "English", "es": "Spanish", "et": "Estonian", "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish",
    "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian", "id": "Indonesian", "it": "Italian", "ja": "Japanese",
    "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "ms": "Malay", "nb": "Norwegian", "nl": "Dutch",
    "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian",
    "sq": "Albanian", "sr": "Serbian", "sv": "Swedish", "th": "Thai", "tr": "Turkish", "uk": "Ukrainian",
    "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip


SURE = 0.75  # most texts of two words and more that are in a language served are above it, other texts below


class Language(NamedTuple):
    """``confidence`` from 0 to 1, among the languages that are served."""

    code: str
    confidence: float

    @property
    def uncertain(self) -> bool:
        """It may well be another: texts of a word or two, or in a language that is not served."""
        return self.confidence < SURE


class Identifier:
    """The languages that the models read, by the likelihood that a text is in them; py3langid's, loaded when asked."""

    def __init__(self, languages: Sequence[str | None]) -> None:
        self.codes = sorted({code for code in languages if code})
        self._lock = threading.Lock()
        self._library: Any = None

    def __call__(self, text: str) -> list[Language]:
        """Most likely first; none where no model says what it reads. One language alone is certain."""
        if len(self.codes) < 2 or not text.strip():
            return [Language(code, 1.0 if len(self.codes) == 1 else 0.0) for code in self.codes]
        with self._lock:
            ranked = {code: float(share) for code, share in self._identifier().rank(text)}
        found = [Language(code, ranked.get(base(code), 0.0)) for code in self.codes]  # 0: py3langid does not know it
        return sorted(found, key=lambda each: -each.confidence)

    def _identifier(self) -> Any:
        if self._library is None:
            from py3langid.langid import MODEL_FILE, LanguageIdentifier

            self._library = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
            self._library.set_languages(sorted({base(code) for code in self.codes} & set(self._library.labels)) or None)
        return self._library


def base(code: str) -> str:
    """The language without its region: ``en`` of ``EN-GB`` and of ``en_GB``."""
    return _plain(code).partition("-")[0]


def fit(language: str | None, wanted: str | None) -> int | None:
    """How well a model's language is the wanted one: 3 the same code, 2 without a region, 1 of another region, 0 where
    one of the two is open; None: not at all.
    """
    if wanted is None:
        return 0
    if _plain(wanted) == NAMELESS:
        return 3 if language is None else None
    if language is None:
        return 0
    if _plain(language) == _plain(wanted):
        return 3
    if base(language) != base(wanted):
        return None
    return 1 if "-" in _plain(language) else 2


def _plain(code: str) -> str:
    return code.strip().lower().replace("_", "-")


def name(code: str) -> str:
    """As a person reads it."""
    return NAMES.get(base(code), code)
