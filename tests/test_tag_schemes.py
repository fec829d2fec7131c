"""Tagging schemes: spans written in each are found again, detected, and decoded."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.answers.spans import (
    SCHEMES,
    TagScheme,
    TagSpan,
    best_path,
    find_scheme,
    scheme_of_names,
    spans,
    transitions,
)  # fmt: skip
from regard.core.task import find_task
from regard.errors import ModelError
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.tasks.supervised_predictor import SupervisedPredictor

PREFIXES: dict[TagScheme, str] = {"iob1": "BI", "iob2": "BI", "iobes": "BIES", "bilou": "BILU"}
CERTAIN = 1 - 1e-9


def written(found: list[TagSpan], length: int, scheme: TagScheme) -> list[str]:
    """The tags of spans, by the definition of the scheme."""
    tags = ["O"] * length
    for kind, begin, end in found:
        follows = begin > 0 and tags[begin - 1][2:] == kind
        letters = ["I"] * (end - begin)
        if scheme != "iob1" or follows:
            letters[0] = "B"
        if scheme in ("iobes", "bilou"):
            last, single = PREFIXES[scheme][2:]
            letters[-1] = single if end - begin == 1 else last
        tags[begin:end] = [f"{letter}-{kind}" for letter in letters]
    return tags


def names(scheme: TagScheme, kinds: str = "XY") -> tuple[str, ...]:
    return "O", *(f"{prefix}-{kind}" for kind in kinds for prefix in PREFIXES[scheme])


@st.composite
def sentences(draw: st.DrawFn) -> tuple[list[TagSpan], int]:
    """Spans of two kinds, some directly after another."""
    found, at = [], 0
    for _ in range(draw(st.integers(1, 5))):
        begin = at + draw(st.integers(0, 2))
        at = begin + draw(st.integers(1, 4))
        found.append(TagSpan(draw(st.sampled_from("XY")), begin, at))
    return found, at + draw(st.integers(0, 2))


def certain(tags: list[str] | tuple[str, ...], classes: tuple[str, ...]) -> np.ndarray:
    table = np.full((len(tags), len(classes)), (1 - CERTAIN) / (len(classes) - 1))
    table[np.arange(len(tags)), [classes.index(tag) for tag in tags]] = CERTAIN
    return np.log(table)


@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=60)
@given(sentence=sentences())
def test_spans_written_in_a_scheme_are_read_and_decoded(scheme: TagScheme, sentence: tuple[list[TagSpan], int]) -> None:
    found, length = sentence
    tags, classes = written(found, length, scheme), names(scheme)
    assert spans(tags) == found
    assert [classes[at] for at in best_path(certain(tags, classes), classes, scheme)] == tags


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_scheme_of_training_tags_is_detected(scheme: TagScheme) -> None:
    every = [TagSpan("X", 0, 1), TagSpan("X", 1, 3), TagSpan("Y", 4, 7), TagSpan("X", 8, 9)]
    tags = written(every, 9, scheme)
    assert find_scheme(transitions([tags, ["O"], []])) == scheme


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ("I-X I-X O", "iob1"), ("B-X O B-X", "iob2"), ("S-X O S-Y", "iobes"), ("U-X O", "bilou"), ("O O", None),
        ("DET NOUN", None), ("B-X NOUN", None), ("B- I-X", None), ("E-X L-X", None), ("I-X O B-X O B-X I-X", "iob2"),
        ("B-X O I-X I-X O I-Y O", "iob1"), ("I-X I-Y", "iob1"), ("B-X-Y I-X-Y", "iob2"),
    ],
)  # fmt: skip
def test_the_more_frequent_begin_decides_and_other_tags_spell_none(tags: str, scheme: TagScheme | None) -> None:
    assert find_scheme(transitions([tags.split()])) == scheme


@pytest.mark.parametrize("scheme", ["iob2", "iobes", "bilou"])
def test_decoding_is_the_best_of_all_that_are_well_formed(scheme: TagScheme) -> None:
    """Well formed is what spans are written as; in IOB1, which allows all, each token has its own best tag."""
    classes, length = names(scheme, "X" if scheme != "iob2" else "XY"), 4
    paths = [
        path for path in product(range(len(classes)), repeat=length)
        if (tags := [classes[at] for at in path]) == written(spans(tags), length, scheme)
    ]  # fmt: skip
    draw, changed = np.random.default_rng(1), 0
    for _ in range(30):
        log_p = np.log(draw.dirichlet(np.ones(len(classes)), size=length))
        best = max(paths, key=lambda path: sum(row[at] for row, at in zip(log_p, path, strict=True)))
        assert tuple(best_path(log_p, classes, scheme)) == best
        assert best_path(log_p, classes, "iob1") == log_p.argmax(1).tolist()
        changed += list(best) != log_p.argmax(1).tolist()
    assert changed > 10


def test_names_alone_suggest_iob1_where_a_kind_has_no_begin() -> None:
    """Every sentence whose tokens are certain keeps its tags: all of them spell spans."""
    classes = ("B-PER", "I-LOC", "I-PER", "O")
    assert scheme_of_names(classes) == "iob1" and scheme_of_names((*classes, "B-LOC")) == "iob2"
    assert scheme_of_names(("O", "I-X")) is None and scheme_of_names(("S-X", "O")) is None
    for tags in product(classes, repeat=3):
        assert tuple(classes[at] for at in best_path(certain(tags, classes), classes)) == tags


def test_kinds_without_a_begin_or_an_end_are_not_lost() -> None:
    """A rare kind of the training data may have one of its tags alone."""
    for classes, tags, scheme in (
        (("B-X", "I-X", "I-Y", "O"), ("I-Y", "O", "B-X", "I-Y"), "iob2"),
        (("B-X", "E-X", "S-X", "I-Y", "O"), ("I-Y", "O", "S-X", "I-Y"), "iobes"),
        (("B-X", "L-X", "B-Y", "O"), ("B-Y", "O", "B-X", "L-X"), "bilou"),
        (("B-X", "E-X"), ("B-X", "B-X", "E-X"), "iobes"),  # no sequence of three is well formed
    ):
        found = best_path(certain(tags, classes), classes, scheme)  # type: ignore[arg-type]
        assert tuple(classes[at] for at in found) == tags


def corpus(scheme: TagScheme, seed: int, count: int) -> str:
    """Sentences of names of people, of whom two may follow each other, and of places, which never do."""
    draw, lines = np.random.default_rng(seed), list[str]()
    people, places = "Ann Bob Eve Max".split(), "York Rome Oslo".split()
    for _ in range(count):
        words, found = list[str](), list[TagSpan]()
        for _ in range(draw.integers(1, 3)):
            two = bool(draw.integers(2))
            words += [str(draw.choice(people)), "Jr"][: 1 + two]
            found.append(TagSpan("PER", len(words) - 1 - two, len(words)))
        words += ["met", "in", "New", str(draw.choice(places))]
        found.append(TagSpan("LOC", len(words) - 2, len(words)))
        lines += [f"{word}\t{tag}" for word, tag in zip(words, written(found, len(words), scheme), strict=True)] + [""]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_tagger_learns_spans_in_each_scheme(tmp_path: Path, scheme: TagScheme) -> None:
    """Of places IOB1 has I-LOC alone."""
    for name, seed, count in (("train", 1, 60), ("valid", 2, 20)):
        (tmp_path / f"{name}.tsv").write_text(corpus(scheme, seed, count))
    parts = {name: [{"source": str(tmp_path / f"{name}.tsv")}] for name in ("train", "valid")}
    config = {
        "task": "tagging", "data": parts,
        "model": {"encoder": {"kind": "recurrent", "cell": "gru"}, "layers": 1, "width": 16, "dropout": 0.0},
        "train": {"epochs": 8, "learning_rate": 0.02, "warmup": 0, "batch_tokens": 128, "threads": 1},
    }  # fmt: skip
    run = regard.train(config, tmp_path / "run")
    assert regard.evaluate(run, str(tmp_path / "valid.tsv"), metrics=["entity_f1"]).figures["entity_f1"] > 0.97
    model = regard.load(run)
    assert isinstance(model, SupervisedPredictor) and model.codec.answer.span_scheme.scheme == scheme  # type: ignore[attr-defined]
    (output,) = model(["Bob Jr Eve met in New York"])
    assert list(output.tags) == written(list(output.spans), 7, scheme)
    assert [each.kind for each in output.spans] == ["PER", "PER", "LOC"]


def test_the_scheme_is_saved_and_an_earlier_run_uses_its_names(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tB-X\nb\tI-X\n\nc\tO\n\n")
    tables = find_task("tagging").sample(tmp_path)
    parts = {name: [{"source": str(tmp_path / "a.tsv")}] for name in ("train", "valid")}
    run = RunFolder.create(tmp_path / "run", load_config({**tables, "task": "tagging", "data": parts}))
    find_task("tagging").prepare(run, lambda message: None, None)
    path = run.path / "tokenizer" / "scheme.json"
    assert json.loads(path.read_text()) == "iob2"
    for content, scheme in (('"iobes"', "iobes"), ("null", None), (None, "iob2")):
        path.write_text(content) if content else path.unlink()
        assert find_task("tagging").open(run).codecs.answer.span_scheme.scheme == scheme
    for damaged in ('"iob3"', "{", "[]", "{}"):
        path.write_text(damaged)
        with pytest.raises(ModelError, match="scheme"):
            find_task("tagging").open(run)


def test_each_scheme_has_a_row_here() -> None:
    assert {*PREFIXES} == {*SCHEMES} == {*get_args(TagScheme)}
