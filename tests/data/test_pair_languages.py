"""Languages of parallel text by names of files and columns, of a served run by its name, and sides that are swapped."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.commands.server_plan import _languages
from regard.data.lint.languages import is_swapped
from regard.data.pair_languages import language_pair, pair_languages
from regard.data.reading import CorpusConfig, corpus_of_files, read_pairs
from regard.errors import ConfigError
from regard.runs.config import load_config
from regard.tasks.translation.automatic_config import choose
from regard.tasks.translation.config import DataConfig
from tests.test_shortcomings import regard, settings

ENGLISH = [f"The old man number {row} walks slowly through the green garden." for row in range(9)]
GERMAN = [f"Der alte Mann Nummer {row} geht langsam durch den grünen Garten." for row in range(9)]


def written(folder: Path, names: tuple[str, ...], *sides: list[str]) -> list[Path]:
    paths = [folder / name for name in names]
    for path, side in zip(paths, sides, strict=True):
        path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    return paths


@pytest.mark.parametrize(
    ("source", "target", "languages"),
    [
        ("train.en", "train.fr", ("en", "fr")),
        ("train.en.txt", "train.fr.txt", ("en", "fr")),
        ("train.EN", "train.pt-BR.gz", ("en", "pt-BR")),
        ("a.zh_Hant", "a.en", ("zh-Hant", "en")),
        ("train.src", "train.tgt", None),
        ("train.txt", "test.txt", None),
        ("train.en", "other.en", None),
        ("train.en", "train", None),
        ("train.en", "train.english", None),
        ("news.v7.en", "news.v7.fr", ("en", "fr")),
    ],
)
def test_endings_that_are_codes_name_the_languages(source: str, target: str, languages: tuple[str, str] | None) -> None:
    assert pair_languages(CorpusConfig(source=Path(source), target=Path(target))) == languages


def test_columns_that_are_codes_name_the_languages(tmp_path: Path) -> None:
    for head, languages in (("en,de", ("en", "de")), ("source,target", None), ("en,en2", None), ("aaa,bbb", None),
                            ("English,German", ("en", "de"))):  # fmt: skip
        path = tmp_path / "pairs.csv"
        path.write_text(f"{head}\na b,c d\n", encoding="utf-8")
        assert pair_languages(CorpusConfig(source=path)) == languages
    assert pair_languages(CorpusConfig(source=tmp_path / "missing.csv")) is None


@pytest.mark.parametrize(
    ("first", "is_head"),
    [
        ("english\tgerman", True),
        ("English\tDeutsch", True),
        ("en\tde", True),
        ("no\tso", False),
        ("a man\tein Mann", False),
    ],
)
def test_a_first_line_of_languages_is_no_pair(tmp_path: Path, first: str, is_head: bool) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(f"{first}\na b\tc d\n", encoding="utf-8")
    corpus = corpus_of_files([path])
    assert corpus is not None and len(list(read_pairs(corpus))) == (1 if is_head else 2)


def test_a_run_saves_the_languages_and_reports_them(tmp_path: Path) -> None:
    source, target = written(tmp_path, ("train.en", "train.de"), ENGLISH, GERMAN)
    choice = choose(CorpusConfig(source=source, target=target), None)
    data = load_config(choice.config).data
    assert isinstance(data, DataConfig)
    assert (data.source_language, data.target_language) == ("en", "de")
    assert any("languages en to de" in reason for reason in choice.reasons)
    plain = written(tmp_path, ("train.src", "train.tgt"), ENGLISH, GERMAN)
    chosen = load_config(choose(CorpusConfig(source=plain[0], target=plain[1]), None).config).data
    assert isinstance(chosen, DataConfig) and chosen.source_language is None


@pytest.mark.parametrize("names", [("valid.de", "valid.en"), ("valid.en", "valid.de")], ids=["endings", "texts"])
def test_swapped_validation_data_are_reported(tmp_path: Path, names: tuple[str, str]) -> None:
    pytest.importorskip("py3langid")
    source, target = written(tmp_path, ("train.en", "train.de"), ENGLISH, GERMAN)
    train = CorpusConfig(source=source, target=target)
    right = written(tmp_path, ("right.en", "right.de"), ENGLISH, GERMAN)
    swapped = written(tmp_path, names, GERMAN, ENGLISH)

    def warned(paths: list[Path]) -> bool:
        return any(
            "check the order" in reason
            for reason in choose(train, CorpusConfig(source=paths[0], target=paths[1])).reasons
        )

    assert warned(swapped) and not warned(right)


def test_sides_are_swapped_if_most_of_both_are() -> None:
    pytest.importorskip("py3langid")
    right, wrong = list(zip(ENGLISH, GERMAN, strict=True)), list(zip(GERMAN, ENGLISH, strict=True))
    assert is_swapped(wrong, ("en", "de-AT")) and not is_swapped(right, ("en", "de"))
    assert not is_swapped(right + wrong[:4], ("en", "de")) and not is_swapped([("ein", "a")] * 9, ("en", "de"))
    assert not is_swapped(wrong[:2], ("en", "de")), "too few"


def test_a_served_run_has_the_languages_of_its_config_or_else_of_its_name() -> None:
    unnamed, named = DataConfig(train=()), DataConfig(train=(), source_language="fr")
    assert _languages("en-de=runs/a", None, unnamed) == ("en", "de")
    assert _languages("runs/en-de", None, unnamed) == ("en", "de")
    assert _languages("first=runs/a", None, unnamed) == _languages("en-en=a", None, unnamed) == (None, None)
    assert _languages("en-de=runs/a", None, named) == ("fr", None)
    assert _languages("en-de=runs/a", "cs-sk", named) == ("cs", "sk")
    with pytest.raises(ConfigError, match="is not a pair of languages"):
        _languages("a", "english", unnamed)
    assert language_pair("en-") is None


def test_an_evaluation_of_swapped_files_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("py3langid")
    monkeypatch.chdir(tmp_path)
    files = written(tmp_path, ("train.en", "train.de"), ENGLISH * 3, GERMAN * 3)
    small = settings("train.steps=1", "train.epochs=", "data.tokenizer.kind=word")
    assert regard("train", *files, *small, "--runs", tmp_path, "--name", "run").exit_code == 0
    swapped = written(tmp_path, ("one.txt", "other.txt"), GERMAN, ENGLISH)
    warning = "warning: the model translates en to de, but the files look like de to en"
    for sides in (swapped, swapped[::-1]):
        result = regard("evaluate", tmp_path / "run", *sides, "--beam", "1")
        assert (warning in result.stderr) is (sides is swapped), result.output
    summarizer = settings("data.source_language=en", "data.target_language=en")
    trained = ("train", *files, *small, *summarizer, "--runs", tmp_path, "--name", "one")
    assert regard(*trained).exit_code == 0
    english = written(tmp_path, ("longer.txt", "shorter.txt"), ENGLISH, ENGLISH)
    assert "files look like" not in regard("evaluate", tmp_path / "one", *english, "--beam", "1").stderr
