"""Masking as data: which tokens are predicted, what is read in their place, and that nothing else decides it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from regard.core.task import ExampleIndices
from regard.data.document_stream import DocumentStream, open_or_prepare_documents
from regard.data.documents import Cut
from regard.data.masked_examples import MaskedExamples
from regard.data.masking import LONGEST_SPAN, Masked, MaskingConfig, mask_fully, masked, number_masked, word_starts
from regard.data.stream import TextConfig
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import BEGIN, END, UNKNOWN, Tokenizer, TokenizerConfig

TYPES = 50
PLAIN = np.ones(TYPES, bool), np.zeros(TYPES, bool)


def draw(tokens: np.ndarray, seed: int = 1, **config: object) -> Masked:
    settings = MaskingConfig.model_validate(config)
    return masked(tokens, settings, np.random.default_rng(seed), types=TYPES, starts=PLAIN)


@pytest.fixture(scope="module")
def long() -> np.ndarray:
    return np.random.default_rng(0).integers(4, TYPES, 100_000)


def test_shares_are_those_of_bert(long: np.ndarray) -> None:
    found = draw(long)
    places = found.chosen
    assert places.sum() == 15_000
    as_it_was = float((found.read[places] == long[places]).mean())
    assert (found.read[places] == TYPES).mean() == pytest.approx(0.8, abs=0.01)
    assert as_it_was == pytest.approx(0.1 + 0.1 / (TYPES - 4), abs=0.01)
    assert found.read[places].min() >= 4
    assert (found.read[~places] == long[~places]).all()


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_special_tokens_are_never_masked(unit: str) -> None:
    tokens = np.array([BEGIN, 5, UNKNOWN, 6, 7, END])
    for seed in range(20):
        found = draw(tokens, seed, unit=unit, share=1.0)
        assert found.chosen.tolist() == [False, True, False, True, True, False]
        assert found.read[[0, 2, 5]].tolist() == [BEGIN, UNKNOWN, END]


def test_evaluation_reads_the_mask_at_every_place(long: np.ndarray) -> None:
    found = mask_fully(long, MaskingConfig(), np.random.default_rng(1), types=TYPES, starts=PLAIN)
    assert (found.read[found.chosen] == TYPES).all()
    assert (found.read[~found.chosen] == long[~found.chosen]).all()


def test_spans_are_short_runs_and_as_many_tokens(long: np.ndarray) -> None:
    text = long[:2_000]
    chosen = draw(text, unit="span").chosen
    assert chosen.sum() == 300
    edges = np.flatnonzero(np.diff(np.concatenate([[0], chosen.astype(int), [0]])))
    runs = edges[1::2] - edges[::2]
    assert runs.mean() > 2  # of tokens chosen one by one: 1 / (1 - 0.15)
    assert np.median(runs) <= LONGEST_SPAN


def test_words_are_masked_with_all_of_their_pieces() -> None:
    lines = ["the cats sat there on mats", "that rat ate the hats"] * 20
    tokenizer = train_tokenizer(lines, TokenizerConfig(kind="bpe", size=30))
    starts, tokens = word_starts(tokenizer), np.array([BEGIN, *tokenizer.encode(lines[0]), END])
    word = np.cumsum(starts[0][tokens])
    assert len(set(word.tolist())) == len(lines[0].split()) + 2 < len(tokens)
    for seed in range(10):
        random = np.random.default_rng(seed)
        found = masked(tokens, MaskingConfig(unit="word"), random, types=len(tokenizer), starts=starts)
        assert found.chosen.any()
        assert not set(word[found.chosen].tolist()) & set(word[~found.chosen].tolist())


def test_words_of_characters_are_between_spaces() -> None:
    tokenizer = train_tokenizer(["ab cd"], TokenizerConfig(kind="character"))
    tokens = np.array(tokenizer.encode("ab cd"))
    seen = set()
    for seed in range(20):
        found = masked(
            tokens, MaskingConfig(unit="word"), np.random.default_rng(seed), types=9, starts=word_starts(tokenizer)
        )
        seen.add("".join("ab cd"[at] for at in np.flatnonzero(found.chosen)))
    assert seen == {"ab", " ", "cd"}


def test_something_of_every_text_is_masked() -> None:
    assert number_masked(np.array([0, 1, 3, 10, 100]), 0.15).tolist() == [0, 1, 1, 2, 15]


def test_parts_are_of_one() -> None:
    with pytest.raises((ValidationError, ValueError), match="more than 1"):
        MaskingConfig(mask=0.9, random=0.2)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(["a b c d e f g h i j"], TokenizerConfig(kind="word"))


def stream(folder: Path, tokenizer: Tokenizer, lines: list[str]) -> DocumentStream:
    folder.mkdir()
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in lines))
    return open_or_prepare_documents(TextConfig(source=folder / "text.txt"), Cut("line"), tokenizer, folder / "made")


def examples(found: DocumentStream, tokenizer: Tokenizer, *, seed: int = 1, **config: object) -> MaskedExamples:
    return MaskedExamples(
        [found], MaskingConfig.model_validate(config), types=len(tokenizer), starts=word_starts(tokenizer),
        context=8, tokens=32, seed=seed,
    )  # fmt: skip


LINES = ["a b c d e f g h i j", "j i h", "z z", "c c c c a", "b"]


def test_a_long_document_is_in_pieces_and_one_of_unknown_words_in_none(tmp_path: Path, tokenizer: Tokenizer) -> None:
    found = examples(stream(tmp_path / "one", tokenizer, LINES), tokenizer)
    texts = [tokenizer.decode(found.text(index)[1:-1]) for index in range(len(found))]
    assert texts == ["a b c d e f", "g h i j", "j i h", "c c c c a", "b"]
    assert [found.where(index).rpartition(":")[2] for index in range(len(found))] == [
        " document 1", " document 1", " document 2", " document 4", " document 5",
    ]  # fmt: skip


def test_masks_are_a_function_of_seed_example_and_visit(tmp_path: Path, tokenizer: Tokenizer) -> None:
    found = stream(tmp_path / "one", tokenizer, LINES)
    alone, beside = (ExampleIndices(np.array(each), np.full(len(each), 3)) for each in ([3], [0, 3, 1]))
    one, other = (examples(found, tokenizer).collate(each) for each in (alone, beside))
    length = one.input.shape[1]
    assert one.input[0].tolist() == other.input[1, :length].tolist()
    assert one.chosen[0].tolist() == other.chosen[1, :length].tolist()
    masks = {
        (seed, visit): examples(found, tokenizer, seed=seed, share=0.5).collate(
            ExampleIndices(np.arange(5), np.full(5, visit))
        ).chosen.numpy().tobytes()
        for seed in (1, 2) for visit in (1, 2, 3)
    }  # fmt: skip
    assert len(set(masks.values())) == len(masks)


def test_evaluation_masks_go_by_seed_and_document_alone(tmp_path: Path, tokenizer: Tokenizer) -> None:
    one = examples(stream(tmp_path / "one", tokenizer, LINES), tokenizer)
    other = examples(stream(tmp_path / "other", tokenizer, ["d e f a", *LINES[::-1]]), tokenizer, seed=7)
    places = {tuple(one.text(index)): tuple(one.chosen(index)) for index in range(len(one))}
    again = {tuple(other.text(index)): tuple(other.chosen(index)) for index in range(len(other))}
    assert {text: again[text] for text in places} == places
    moved = MaskedExamples(
        one.streams, MaskingConfig(seed=2), types=one.types, starts=one.starts, context=8, tokens=32, seed=1
    )
    assert {tuple(moved.text(index)): tuple(moved.chosen(index)) for index in range(len(moved))} != places


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_counts_are_the_weights_of_evaluation(tmp_path: Path, tokenizer: Tokenizer, unit: str) -> None:
    found = examples(stream(tmp_path / "one", tokenizer, LINES), tokenizer, unit=unit, share=0.4)
    for batch in found.batches(None):
        made = found.collate(batch)
        assert made.weight == found.token_counts()[batch.index].sum() == made.chosen.sum()
        assert (made.input[made.chosen] == len(tokenizer)).all()
        assert not (made.chosen & ~made.valid).any()
