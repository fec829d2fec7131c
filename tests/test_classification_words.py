"""Classifiers of words: affixes of words that training never met, and pieces that are hidden from training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.core.task import ExampleIndices
from regard.data.affixes import AFFIXES, affix_buckets, match_buckets
from regard.data.tokenizers.tokenizer import BEGIN, END, UNKNOWN
from regard.errors import ConfigError
from regard.fields.text import Text
from regard.runs.config import load_config
from regard.tasks.classification.task import CLASSIFICATION
from regard.tasks.supervised_examples import SupervisedExamples

LINES = [f"the film is {word} {ending}\t{word}" for word in ("fine", "dull") for ending in ("now", "here", "again")]
SMALL = {"layers": 1, "width": 8, "heads": 2, "feed_forward": 8, "dropout": 0.0, "pooling": "attention"}


def tables(folder: Path, model: dict[str, Any] | None = None, **data: Any) -> dict[str, Any]:
    (folder / "a.tsv").write_text("".join(f"{line}\n" for line in LINES * 2))
    corpus = [{"source": str(folder / "a.tsv")}]
    settings = {"batch_tokens": 64, "steps": 1, "threads": 1, "precision": "float32", "validate_every": 1}
    return {
        "task": "classification", "data": {"train": corpus, "valid": corpus} | data, "model": SMALL | (model or {}),
        "train": settings,
    }  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("affixes")
    return regard.load(regard.train(tables(folder, {"affixes": 50}), folder / "run"))


def test_each_word_has_its_affixes_and_other_columns_have_none(model: Any) -> None:
    field = Text((1, 2), max_length=256, subword_features=50, separate=True)
    field.tokenizer = model.codec.fields["text"].tokenizer
    encoded = field.encode([("the unseen", "film")])
    (row,) = encoded.rows
    assert row.shape == (6, 1 + AFFIXES) and encoded.truncated == [False]
    assert row[[0, 3, 5]].tolist() == [[each, *[0] * AFFIXES] for each in (BEGIN, END, END)]
    assert row[2].tolist() == [UNKNOWN, *affix_buckets("unseen", 50)]
    assert row[4, 1:].tolist() == list(affix_buckets("film", 50))
    first, second = field.parts(row)
    assert first.tolist() == row[:4].tolist() and second.tolist() == row[[0, 4, 5]].tolist()
    padded = field.pad([row])
    assert padded.values.shape == (1, 2, 4, 1 + AFFIXES) and padded.valid.sum(-1).tolist() == [[4, 3]]


def test_a_cut_text_has_the_affixes_of_what_is_read(model: Any) -> None:
    field = Text((1,), max_length=2, subword_features=50)
    field.tokenizer = model.codec.fields["text"].tokenizer
    encoded = field.encode([("the film is fine",)])
    (row,) = encoded.rows
    assert encoded.truncated == [True] and row[1:3, 1:].tolist() == [
        list(affix_buckets(word, 50)) for word in ("the", "film")
    ]


def test_words_never_met_differ_by_their_affixes_alone(model: Any, tmp_path: Path) -> None:
    plain = regard.load(regard.train(tables(tmp_path), tmp_path / "run"))
    for each, alike in ((plain, True), (model, False)):
        one, other, empty = each(["unheard", "walking", ""])
        assert (one.probabilities == other.probabilities) is alike
        assert sum(empty.probabilities.values()) == pytest.approx(1)
    shown = model.inspect("unheard film").maps["pooling"]
    assert shown.key.labels == ("<s>", "<unk>", "film", "</s>")


def test_a_text_has_one_answer_alone_and_beside_a_longer_one(model: Any) -> None:
    alone, beside = model(["dull"])[0], model(["dull", "the film is fine now and again"])[0]
    assert alone.probabilities == pytest.approx(beside.probabilities)


@pytest.mark.parametrize("pairs", ["together", "apart"])
def test_two_texts_with_affixes_learn(pairs: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a b\tb a\tyes\nc d\te f\tno\n" * 3)
    wanted = tables(tmp_path, {"affixes": 9, "pairs": pairs}, text=[1, 2], label=3)
    wanted["data"] |= {part: [{"source": str(tmp_path / "pairs.tsv")}] for part in ("train", "valid")}
    found = regard.load(regard.train(wanted, tmp_path / "run"))([("a b", "x")])[0]
    assert sum(found.probabilities.values()) == pytest.approx(1)
    assert len(found.weights) == 6


def test_hidden_pieces_are_unknown_without_affixes_and_drawn_by_the_visit(model: Any, tmp_path: Path) -> None:
    config: Any = load_config(tables(tmp_path, {"affixes": 50}, hidden_tokens=0.4))
    fields = CLASSIFICATION.fields(config)
    fields["text"].tokenizer = model.codec.fields["text"].tokenizer  # type: ignore[attr-defined]
    codecs = model.codec._replace(fields=fields)
    examples = SupervisedExamples(CLASSIFICATION.read(config, "train"), config, codecs)

    def shown(visit: int) -> torch.Tensor:
        index = np.arange(len(examples))
        return examples.collate(ExampleIndices(index, np.full(len(index), visit))).inputs[0].values

    plain, one, other = shown(0), shown(1), shown(2)
    assert torch.equal(one, shown(1)) and not torch.equal(one, other)
    assert not (plain[..., 0] == UNKNOWN).any()
    hidden = one[..., 0] == UNKNOWN
    assert 0.25 < float(hidden[plain[..., 0] > END].double().mean()) < 0.55
    assert not one[..., 1:][hidden].any() and torch.equal(one[~hidden], plain[~hidden])
    assert torch.equal(one[..., 0] == BEGIN, plain[..., 0] == BEGIN)
    assert torch.equal(one[..., 0] == END, plain[..., 0] == END)


def test_smaller_pieces_have_affixes_of_their_own(tmp_path: Path) -> None:
    run = regard.train(tables(tmp_path, {"affixes": 50}, tokenizer={"kind": "character"}), tmp_path / "run")
    found = regard.load(run)
    (row,) = found.codec.fields["text"].encode([("fiz",)]).rows
    assert row[1:3, 1:].tolist() == [list(affix_buckets(letter, 50)) for letter in "fi"]
    assert row[3].tolist() == [UNKNOWN, *affix_buckets("<unk>", 50)]


def test_words_of_a_pair_are_marked_by_their_match(model: Any) -> None:
    """The same word in any letter case, one with the same four first letters, or none; the rest of a row is equal."""
    field = Text((1, 2), max_length=256, subword_features=10**6, separate=True, matches=True)
    plain = Text((1, 2), max_length=256, subword_features=10**6, separate=True)
    field.tokenizer = plain.tokenizer = model.codec.fields["text"].tokenizer
    pair = ("The walking film", "film walks")
    ((row,), (without_matches,)) = field.encode([pair]).rows, plain.encode([pair]).rows
    assert row[:, :-1].tolist() == without_matches.tolist()
    begin, the, walking, film, end, other_film, walks, last = row[:, -1].tolist()
    assert begin == end == last == 0 and len({the, walking, film}) == 3 and min(the, walking, film) > 0
    assert film == other_film and walking == walks
    assert match_buckets(["The"], ["THE"], 10**6) == [film] and match_buckets(["the"], [], 10**6) == [the]
    (empty,) = field.encode([("", "film")]).rows
    assert empty[:, -1].tolist() == [0, 0, the, 0]


@pytest.mark.parametrize(
    ("data", "model", "help"),
    [({"text": [1]}, {"affixes": 50}, "matches=false"), ({"text": [1, 2], "label": 3}, {}, "affixes=20000")],
)
def test_matches_need_two_texts_and_affixes(data: Any, model: Any, help: str, tmp_path: Path) -> None:
    (tmp_path / "film.tsv").write_text("a\tb\tc\n" * 4)
    tables = {
        "task": "classification", "data": {"train": [{"source": str(tmp_path / "film.tsv")}]} | data,
        "model": SMALL | model | {"matches": True},
    }  # fmt: skip
    with pytest.raises(ConfigError, match=r"model\.matches") as error:
        load_config(tables, [])
    assert help in str(error.value)
