"""Inputs that a stranger gave to taggers, classifiers, next items and music, and what they were answered wrongly."""

from __future__ import annotations

import json
from pathlib import Path

import mido
import pytest
import torch

from regard.answers.number_scale import read_number
from regard.config.settings import SearchConfig, override_search
from regard.core.untrusted_files import parse_json
from regard.data.midi import read_midi
from regard.data.shared_files import FilesConfig
from regard.errors import ConfigError, DataError
from regard.fields.tokens import Tokens
from regard.metrics.ranking import next_item_metrics
from regard.runs.parameter_counts import parameters_by_part
from regard.tasks.classification.data_config import LabeledDataConfig
from regard.tasks.classification.labeled_text import make_answer
from regard.tasks.next_item.config import SessionDataConfig
from regard.tasks.supervised_codecs import SupervisedCodecs
from regard.tasks.supervised_predictor import SupervisedPredictor
from regard.tasks.tagging.config import TaggedDataConfig
from regard.tasks.tagging.task import read_tagged


@pytest.mark.parametrize("text", ['"\\ud800"', '["a", "\\udc00"]', '{"a": "\\uD83D"}', '{"\\ud800": 1}'])
def test_half_of_a_surrogate_pair_is_no_text(text: str) -> None:
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        parse_json(text)
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        parse_json(text.encode())


def test_a_whole_surrogate_pair_is() -> None:
    assert parse_json('"\\ud83d\\ude00"') == "\U0001f600" and parse_json('"\\\\ud800"') == "\\ud800"


@pytest.mark.parametrize("label", ["1e308", "-1e31", "inf", "nan", "\u0663", "1_000", "0x10", "", "1e", "one"])
def test_what_is_no_number_to_learn_is_told_with_its_line(label: str) -> None:
    with pytest.raises(DataError, match="is not a number") as caught:
        read_number((label,), "x.tsv:3")
    assert caught.value.where == "x.tsv:3"


@pytest.mark.parametrize(
    ("label", "value"), [("1e30", 1e30), (" -2.5 ", -2.5), (".5", 0.5), ("+3.", 3.0), ("1E-9", 1e-9)]
)
def test_numbers(label: str, value: float) -> None:
    assert read_number((label,), "x") == value


def test_an_option_of_another_kind_of_label_is_refused() -> None:
    for kind, option in (
        ("number", "threshold"),
        ("number", "abstain_below"),
        ("class", "threshold"),
        ("several", "abstain_below"),
    ):
        model = object.__new__(SupervisedPredictor)
        model.codec = SupervisedCodecs({}, make_answer(LabeledDataConfig(train=(), label_kind=kind)))  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=f"unknown setting {option}"):
            model.predict(["text"], **{option: 0.3})


def test_film_times_of_midi_are_refused(tmp_path: Path) -> None:
    file = mido.MidiFile()
    file.tracks.append(
        mido.MidiTrack([mido.Message("note_on", note=60, time=0), mido.Message("note_off", note=60, time=9)])
    )
    file.save(tmp_path / "x.mid")
    whole = (tmp_path / "x.mid").read_bytes()
    for division in (b"\xe7\x28", b"\0\0"):
        (tmp_path / "x.mid").write_bytes(whole[:12] + division + whole[14:])
        with pytest.raises(DataError, match="not valid MIDI") as caught:
            read_midi(tmp_path / "x.mid", 1)
        assert "SMPTE" in str(caught.value.why)
    with pytest.raises(DataError, match="file not found"):
        read_midi(tmp_path / "y.mid", 1)


@pytest.mark.parametrize("tokens", [["a\nb"], ["a", " "], ["a", "\n"]])
def test_a_token_is_one_line(tmp_path: Path, tokens: list[str]) -> None:
    row = {"tokens": tokens, "tags": ["X"] * len(tokens)}
    (tmp_path / "x.jsonl").write_text(json.dumps(row) + "\n")
    files = (FilesConfig(source=tmp_path / "x.jsonl"),)
    with pytest.raises(DataError, match="empty word or tag"):
        list(read_tagged(files, TaggedDataConfig(train=files)))
    with pytest.raises(DataError, match="token"):
        Tokens(("tokens",), max_length=8).parse(json.dumps(tokens))


def test_items_are_words_where_only_their_number_is_given() -> None:
    files = ({"source": "x.jsonl"},)
    assert SessionDataConfig.model_validate({"train": files, "tokenizer": {"size": 8}}).tokenizer.kind == "word"


def test_nothing_that_was_asked_gives_no_figures() -> None:
    sums = {"nll": torch.tensor(2.0), "items": torch.tensor(1), "asked": torch.tensor(0)}
    assert next_item_metrics(sums) == {"loss": 2.0}


def test_sampling_keeps_the_limit_of_n_grams() -> None:
    base = SearchConfig(no_repeat_ngram=3)
    for given in ({"temperature": 1.0}, {"beam": 2}):
        assert override_search(base, **given).no_repeat_ngram == 3
    assert override_search(base, temperature=1.0, no_repeat_ngram=2).no_repeat_ngram == 2


def test_matrices_are_not_norms() -> None:
    def build() -> torch.nn.Module:
        net = torch.nn.Module()
        net.copying, net.key = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
        return net

    assert parameters_by_part(build) == {"copying": 20, "pooling": 5}
