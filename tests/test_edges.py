"""Edges that no other test reaches: changes drawn at random went unnoticed there (docs/evidence/mutation.md)."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import BaseModel

import regard
from regard.attention.span import Span
from regard.data.lanes import LaneExamples
from regard.data.packs import PackExamples
from regard.data.protected_spans import find_protected_spans, missing_terms
from regard.data.rows import read_rows
from regard.data.text_files import read_lines
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.sentencepiece_file import _fields
from regard.data.tokenizers.subword import MarianTokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.data.windows import WindowExamples
from regard.errors import DataError
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.cross_entropy import _nll
from regard.models.summary import one_line_summary
from regard.models.transformer.compressive import Compressive
from regard.models.transformer.hashed import HashedAttention
from regard.models.transformer.mamba2 import Mamba2
from tests.data.test_packs import Numbers


def config_classes() -> list[type[BaseModel]]:
    """Every class of a config that the package defines."""
    for module in pkgutil.walk_packages(regard.__path__, "regard."):
        if module.name.endswith(("config", "settings")) and not module.name.startswith("regard.server"):
            importlib.import_module(module.name)
    classes, found = [BaseModel], []
    for each in classes:
        classes += each.__subclasses__()
        if each.__module__.startswith("regard.") and each.__name__.endswith("Config"):
            found.append(each)
    return found


def test_no_config_can_be_changed() -> None:
    classes = config_classes()
    assert len(classes) > 40
    assert [each.__name__ for each in classes if not each.model_config.get("frozen")] == []


def test_digits_of_the_output_count_for_one_number_alone() -> None:
    terms = find_protected_spans("1,000 and 1,000")
    assert len(terms) == 2
    assert len(missing_terms(terms, "1 x 000")) == 1
    assert missing_terms(terms, "1 x 000 y 1 z 000") == []


def test_pieces_that_are_known_are_not_named_unknown() -> None:
    trained: Any = train_tokenizer(["low lower lowest"] * 9, TokenizerConfig(kind="unigram", size=14))
    known = [trained._piece(number) for number in trained.encode("low")]
    for tokenizer in (trained, MarianTokenizer(trained.config, trained._model, known)):
        assert tokenizer.unknown("low low") == []
        assert tokenizer.unknown("low ♞") == ["♞"]


def test_a_probability_of_0_in_single_precision_has_its_logarithm() -> None:
    logits = torch.tensor([[200.0, -200.0]])
    assert _nll(logits, logits.softmax(1), torch.tensor([[1]]), torch.float32).tolist() == [[400.0]]


def test_first_steps_of_mamba_2_are_between_a_thousandth_and_a_tenth() -> None:
    steps = torch.nn.functional.softplus(Mamba2(8, heads=4, causal=True).step_bias)
    torch.testing.assert_close(steps, torch.logspace(-3, -1, 4), rtol=1e-4, atol=0.0)


def test_autoencoding_is_the_mean_over_features_and_the_sum_over_columns() -> None:
    mixer = Compressive(6, heads=2, segment=4, memory=4, compressed=4, rate=2, reconstruction="autoencoding")
    old, slots = torch.randn(3, 4, 6), torch.randn(3, 2, 6)
    difference = old - mixer.compressor.restored(slots)
    torch.testing.assert_close(mixer._reconstruction_loss(old, old, slots), (difference**2).sum((1, 2)) / 6)


def test_evaluation_of_hashed_attention_drops_no_weight() -> None:
    torch.manual_seed(1)
    dropping, whole = (HashedAttention(8, dropout=dropout) for dropout in (0.5, 0.0))
    whole.load_state_dict(dropping.state_dict())
    x, span = torch.randn(2, 12, 8), Span.of(torch.ones(2, 12, dtype=torch.bool))
    outputs = [mixer.eval()(x, span, mixer.start(2)).output for mixer in (dropping, whole)]
    torch.testing.assert_close(*outputs)


def test_as_many_padded_rows_as_columns_of_each_stop_at_their_lengths() -> None:
    """Three rows of three columns and two of padding: the states are those without the padding."""
    model = ModelConfig.model_validate(
        {"kind": "recurrent", "width": 4, "layers": 1, "dropout": 0.0, "encoder": {"bidirectional": True}}
    )
    encoder = build(model, source_types=9, target_types=9).eval().encoder
    tokens, valid = torch.randint(4, 9, (3, 3)), torch.ones(3, 3, dtype=torch.bool)
    padded = torch.nn.functional.pad(tokens, (0, 2)), torch.nn.functional.pad(valid, (0, 2))
    alone, longer = encoder(tokens, Span.of(valid)), encoder(padded[0], Span.of(padded[1]))
    torch.testing.assert_close(longer.states[:, :3], alone.states)
    torch.testing.assert_close(longer.final, alone.final)


@pytest.mark.parametrize(
    ("first", "help"),
    [
        (b"%PDF-1.4\nplain letters\n", ""),
        ("a\tb\n".encode("utf-16-le") * 20, "UTF-16LE"),
        ("a\tb\n".encode("utf-16-be") * 20, "UTF-16BE"),
    ],
)
def test_files_that_are_no_text_are_refused_with_a_command(tmp_path: Path, first: bytes, help: str) -> None:
    (tmp_path / "a.txt").write_bytes(first)
    with pytest.raises(DataError, match="not text") as caught:
        list(read_lines(tmp_path / "a.txt"))
    assert help in str(caught.value.help)


def test_columns_are_found_in_any_case_and_first_as_they_are_spelled(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Text,LABEL,label\nx,y,z\n")
    (row,) = read_rows(tmp_path / "a.csv", ["text", "label"])
    assert (row.cells["text"], row.cells["label"]) == ("x", "z")


def test_numbers_of_eight_bytes_are_passed_over_in_a_sentencepiece_model() -> None:
    fixed, text = bytes([1 << 3 | 1, *range(200, 208)]), bytes([2 << 3 | 2, 2]) + b"ab"
    assert [part for _, part in _fields(fixed + text)][-1] == b"ab"
    fixed = bytes([1 << 3 | 5, *range(200, 204)])
    assert [part for _, part in _fields(fixed + text)][-1] == b"ab"


def test_where_a_window_begins_in_training_and_in_evaluation() -> None:
    streams: Any = [Numbers([20]), Numbers([9])]
    examples = WindowExamples(streams, context=8, tokens=24, seed=1, stride=3)
    plans = [np.sort(np.concatenate([part.index for part in examples.batches(epoch)])) for epoch in (0, None)]
    places = [[int(examples.where(int(index)).split()[-1]) for index in plan] for plan in plans]
    assert {place % 8 for place in places[0]} == {0} and any(place % 8 for place in places[1])
    assert {place % 3 for place in places[1]} == {0}


def test_where_a_segment_begins_in_training_and_in_evaluation() -> None:
    examples = LaneExamples([Text(41)], context=4, tokens=12, seed=1)  # type: ignore[list-item]
    begins = {}
    for epoch in (0, None):
        indices = np.concatenate([part.index for part in examples.batches(epoch)])
        begins[epoch] = sorted(int(examples.where(int(index)).split()[-1]) for index in indices)
    assert begins[None] == list(range(0, 40, 4))
    assert begins[0] != begins[None], "training reads the text in parts"


class Text:
    """A text of so many tokens, as a ``Stream``."""

    name = "text"

    def __init__(self, count: int) -> None:
        self.tokens = np.arange(count)

    def __len__(self) -> int:
        return len(self.tokens)


def test_texts_are_begun_by_the_first_row_of_an_evaluation_alone() -> None:
    streams: Any = [Numbers([5, 9, 3, 30])]
    examples = PackExamples(streams, context=8, tokens=24, seed=4, stride=2)
    training, evaluation = (np.concatenate([part.index for part in examples.batches(epoch)]) for epoch in (0, None))
    assert not {*training.tolist()} & {*evaluation.tolist()}
    first = int(evaluation.min())
    assert [examples.texts_started(np.array([int(index)])) for index in evaluation if index != first] == [[]] * (
        len(evaluation) - 1
    )
    assert examples.texts_started(np.array([first])) == streams


def test_a_summary_names_what_differs_from_the_transformer() -> None:
    def summary(**model: Any) -> str:
        return one_line_summary(ModelConfig.model_validate({"width": 8, "heads": 2, "layers": 1, **model}))

    assert "copying" not in summary() and "copying" in summary(copying=True)
    assert "additive" not in summary() and "additive" in summary(encoder={"mixer": "additive"})
    assert "dot" not in summary()
