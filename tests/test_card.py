"""The model card: figures of this run, and nothing that is not so."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.models.configuration import ModelConfig
from regard.models.summary import one_line_summary
from regard.runs import checkpoint
from regard.runs.config import load_config
from regard.runs.model_card import write_card
from regard.runs.run_folder import RunFolder
from regard.tasks.language_model.task import TASK


def made(folder: Path, **data: object) -> RunFolder:
    corpus = {"source": str(folder / "private" / "train.en"), "target": str(folder / "private" / "train.de")}
    config = {
        "name": "mine",
        "seed": 7,
        "model": {"encoder_layers": 2, "decoder_layers": 3, "width": 16, "heads": 4},
        "data": {"train": [corpus], "tokenizer": {"kind": "word"}} | data,
    }
    return RunFolder.create(folder / "run", load_config(config))


def test_it_says_what_was_trained_on_what_and_how_well(tmp_path: Path) -> None:
    run = made(tmp_path, source_language="en", target_language="de")
    run.checkpoints.mkdir()
    checkpoint.mark_best(run.checkpoints, 1500, "loss", 1.25)
    card = write_card(run, parameters=1_234_567, updates=2000, seconds=600)
    assert (run.path / "README.md").read_text(encoding="utf-8") == card
    head, _, text = card.removeprefix("---\n").partition("---\n")
    assert head.splitlines() == ["library_name: regard", "pipeline_tag: translation", "language:", "- en", "- de"]
    for row in (
        "| Model | transformer, 2+3 layers, width 16, feed-forward 2048, 4 heads, post-norm, dropout 0.1 |",
        "| Parameters | 1,234,567 |",
        "| Training data | train.en |",
        "| Updates | 2,000, in 10 minutes |",
        "| Seed | 7 |",
        "| Best checkpoint | step 1,500, loss 1.2500 on the validation data |",
    ):
        assert row in text.splitlines()
    assert "# mine" in text.splitlines()
    assert f'regard.load("{run.path}")' in text


@pytest.mark.parametrize(
    "model, told",
    [
        ({}, None),
        ({"cross_attention": "additive"}, "additive attention"),
        ({"mixer": "general", "position": "rotary"}, "general self-attention, rotary positions"),
        ({"kind": "recurrent", "decoder": {"order": "none"}}, "no attention, lstm cells"),
        ({"preset": "luong-small"}, "local-p attention, lstm cells"),
        ({"kind": "convolutional"}, "learned positions"),
        ({"position": "none"}, ", no positions"),
        ({"encoder": {"qk_norm": True}, "decoder": {"qk_norm": True, "value_embedding": True}}, "qk_norm, value_embed"),
    ],
)
def test_models_that_differ_in_attention_are_told_apart(model: dict[str, object], told: str | None) -> None:
    words = one_line_summary(ModelConfig(**model))
    assert (
        told in words
        if told
        else "norm," not in words.partition("post-norm,")[2] and "attention" not in words and "positions" not in words
    )


@pytest.mark.parametrize(
    "seconds, told",
    [(0.6, "1 second"), (48, "48 seconds"), (89.4, "89 seconds"), (90, "2 minutes"), (600, "10 minutes")],
)
def test_a_short_training_is_told_in_seconds(seconds: float, told: str, tmp_path: Path) -> None:
    card = write_card(made(tmp_path), parameters=1, updates=20, seconds=seconds)
    assert f"| Updates | 20, in {told} |" in card.splitlines()


def test_a_language_model_without_positions_is_told_so() -> None:
    model = {"preset": "tiny", "position": "none"}
    data = {"train": [{"source": "book.txt"}], "tokenizer": {"kind": "character"}}
    config = load_config({"task": {"kind": "language-model"}, "model": model, "data": data})
    assert "no positions" in config.summary and "none" not in config.summary


def test_what_a_language_model_suggests_first_can_be_read_by_every_vocabulary() -> None:
    """A prompt of letters fails where the text has none of them."""
    assert '--prompt ""' in TASK.card.command and 'model("")' in TASK.card.usage


def test_it_names_neither_languages_nor_a_best_that_are_unknown(tmp_path: Path) -> None:
    card = write_card(made(tmp_path), parameters=1, updates=1, seconds=1)
    assert "language:" not in card and "Best checkpoint" not in card
    assert "private" not in card, "where the corpus lay is nobody's business"
