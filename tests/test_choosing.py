"""Without a recipe: a config that suits the corpus, that loads, and that says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.choosing import choose
from regard.config import load_config
from regard.data.corpora import CorpusConfig, read_pairs


def corpus(folder: Path, pairs: int, words: int) -> CorpusConfig:
    rows = [" ".join(f"word{(row * words + at) % 997}" for at in range(words)) for row in range(pairs)]
    path = folder / "pairs.tsv"
    path.write_text("".join(f"{row}\t{row}\n" for row in rows), encoding="utf-8")
    return CorpusConfig(source=path)


@pytest.mark.parametrize(("pairs", "preset"), [(50, "tiny"), (6_000, "tiny"), (100_001, "small")])
def test_the_preset_grows_with_the_corpus(tmp_path: Path, pairs: int, preset: str) -> None:
    choice = choose(corpus(tmp_path, pairs, 3), None)
    config = load_config(choice.config)
    assert config.model.preset == preset
    assert f"{pairs:,} pairs" in choice.reasons[0] and preset in choice.reasons[0]


def test_validation_data_are_held_out_where_none_are_given(tmp_path: Path) -> None:
    whole = corpus(tmp_path, 2_000, 6)
    config = load_config(choose(whole, None).config)
    assert config.data.valid is not None
    held = {source for _, source, _ in read_pairs(config.data.valid[0])}
    kept = {source for _, source, _ in read_pairs(config.data.train[0])}
    assert held and not held & kept
    assert held | kept == {source for _, source, _ in read_pairs(whole)}


def test_of_a_small_corpus_nothing_is_held_out_and_it_is_said(tmp_path: Path) -> None:
    """Its share could be no pair at all, and a loss over three pairs is no reason to stop."""
    whole = corpus(tmp_path, 12, 6)
    choice = choose(whole, None)
    config = load_config(choice.config)
    assert config.data.train == (whole,) and not config.data.valid
    assert config.train.early_stopping is None and config.train.epochs is not None
    assert "no validation" in choice.reasons[1] and "--valid" in choice.reasons[1]


def test_given_validation_data_are_used_and_the_corpus_left_whole(tmp_path: Path) -> None:
    whole, valid = corpus(tmp_path, 100, 6), CorpusConfig(source=tmp_path / "valid.tsv")
    config = load_config(choose(whole, valid).config)
    assert config.data.train == (whole,) and config.data.valid == (valid,)


def test_words_are_cut_into_characters_and_sentences_into_pieces(tmp_path: Path) -> None:
    assert load_config(choose(corpus(tmp_path, 100, 1), None).config).data.tokenizer.kind == "character"
    assert load_config(choose(corpus(tmp_path, 100, 9), None).config).data.tokenizer.kind == "bpe"
