"""Summaries: ROUGE by pencil, sentences of the text itself, long inputs, a pointer from the config to the page."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from regard import cli
from regard.errors import ConfigError
from regard.metrics.text import evaluate
from regard.runs.config import load_config
from regard.server.batching.served import ServedModel
from regard.tasks.load import load
from regard.tasks.translation.evaluation import central_sentence, copied_share, first_sentence

from .server.conftest import serving


def test_rouge_by_pencil() -> None:
    """Said: the cats sat down. Wanted: the cat is sitting down. Stems: sat is not sit, cats is cat."""
    outputs, references = ["the cats sat down"], [["the cat is sitting down"]]
    one, two, longest = (evaluate(name, outputs, references).value for name in ("rouge-1", "rouge-2", "rouge-l"))
    assert one == pytest.approx(100 * 2 * 3 / (4 + 5))  # the, cat, down of 4 and of 5
    assert two == pytest.approx(100 * 2 * 1 / (3 + 4))  # the cat
    assert longest == pytest.approx(100 * 2 * 3 / (4 + 5))  # the cat … down
    swapped = evaluate("rouge-l", ["down sat the cats"], references)
    assert swapped.value == pytest.approx(100 * 2 * 2 / (4 + 5)), "the order counts"
    assert not swapped.lower_is_better and "stem:porter" in swapped.signature


def test_rouge_is_a_mean_over_outputs_and_the_nearest_reference_counts() -> None:
    score = evaluate("rouge-1", ["a b", "c"], [["x", "a b"], ["d"]])
    assert score.value == pytest.approx(50.0) and "nrefs:var" in score.signature


def test_sentences_of_the_text_itself() -> None:
    text = "Good morning. The meeting of the board is on Monday. The board invites all to the meeting. See you there."
    assert first_sentence(text, "en") == "Good morning."
    assert central_sentence(text, "en") == "The meeting of the board is on Monday."
    assert central_sentence("One.", "en") == "One." and first_sentence("", "en") == central_sentence("", "en") == ""


def test_copied_words_are_counted_whatever_their_case() -> None:
    assert copied_share(["The board meets.", "x y"], ["Board meeting", "z"]) == pytest.approx(100 / 3)


def test_a_pointer_needs_one_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("a\tb\n", encoding="utf-8")
    data = {"train": [{"source": str(tmp_path / "x.tsv")}], "joint": False}
    with pytest.raises(ConfigError, match="copying") as caught:
        load_config({"data": data, "model": {"share": "target", "copying": True}})
    assert "data.joint=true" in str(caught.value.help)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first two words of a text, in which each of the words to come is in no other."""
    folder, draw = tmp_path_factory.mktemp("summaries"), random.Random(3)
    words = [f"{one}{two}" for one in "bdfgklm" for two in ("a", "e", "i", "o", "u")]
    texts = [" ".join(draw.choices(words, k=draw.randint(4, 9))) for _ in range(300)]
    for part, some in (("train", texts[40:]), ("test", texts[:40])):
        lines = [json.dumps({"source": text, "target": " ".join(text.split()[:2])}) for text in some]
        (folder / f"{part}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = f"""
name = "first-words"
[data]
max_length = 6
long_sources = "cropped"
tokenizer = {{ kind = "word" }}
[[data.train]]
source = "{folder}/train.jsonl"
[[data.valid]]
source = "{folder}/test.jsonl"
[model]
layers = 1
width = 32
feed_forward = 32
heads = 2
dropout = 0.0
norm = "pre"
copying = true
[train]
steps = 150
batch_tokens = 512
learning_rate = 1e-2
warmup = 10
threads = 1
best_by = "rouge-l"
validate_every = 75
"""
    (folder / "config.toml").write_text(config, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = CliRunner().invoke(cli.build_app(), ["train", "config.toml", "--name", "run"])
    assert result.exit_code == 0, result.output
    assert "long sources truncated to 6 pieces" in result.output
    (folder / "run").symlink_to(folder / "runs" / "run")
    return folder


def test_what_is_learnt_is_measured_beside_sentences_of_the_text(run: Path) -> None:
    command = ["evaluate", str(run / "run"), str(run / "test.jsonl"), "--metric", "rouge-l,rouge-1"]
    told = json.loads(CliRunner().invoke(cli.build_app(), [*command, "--json"]).stdout)
    assert told["scores"]["rouge-l"]["value"] > 60
    model, first, central, references = told["tables"]["extracts"]
    assert model["rouge-l"] == pytest.approx(told["scores"]["rouge-l"]["value"])
    assert first["summary"] == "first sentence" and 30 < first["rouge-l"] < model["rouge-l"]  # the whole text, here
    assert central["rouge-1"] > 0 and references["copied words"] == 100.0 and model["copied words"] > 80
    printed = CliRunner().invoke(cli.build_app(), command).stdout
    assert "first sentence" in printed and "copied words" in printed


def test_what_was_not_read_is_told(run: Path) -> None:
    model = load(run / "run")
    long = "ba be bi bo bu da de di"
    assert model(long).unread == 2 and model(long).as_dict()["unread"] == 2
    assert model(long).text == model("ba be bi bo bu da").text and "unread" not in model("ba be").as_dict()
    result = CliRunner().invoke(cli.build_app(), ["translate", str(run / "run")], input=f"{long}\nba be\n")
    assert "truncated 1 line to 6 pieces" in result.output


def test_the_pointer_is_seen(run: Path) -> None:
    """Among the attentions of an output, and to the words that are repeated."""
    found = load(run / "run")("ka mo le fu")
    weights = found.attention["copying.source"]
    assert weights.shape[0] == 1 and weights.sum(-1).tolist()[0] == pytest.approx([1.0] * weights.shape[1], abs=1e-5)
    assert [int(row.argmax()) for row in weights[0]][:2] == [0, 1]
    result = CliRunner().invoke(cli.build_app(), ["inspect", str(run / "run"), "ka mo le fu", "--json"])
    assert result.exit_code == 0, result.output
    assert "copying.source" in result.stdout
    assert "copying" in CliRunner().invoke(cli.build_app(), ["info", str(run / "run")]).stdout


def test_no_pieces_are_said_twice_where_that_is_forbidden(run: Path) -> None:
    model = load(run / "run")
    for beam in (1, 2):
        free, once = (model("ka ka ka ka", beam=beam, no_repeat_ngram=n).text.split() for n in (0, 1))
        assert free == ["ka", "ka"] and len(set(once)) == len(once)
    for seed in range(3):
        once = model("ka ka ka ka", temperature=5.0, no_repeat_ngram=1, seed=seed).text.split()
        assert len(set(once)) == len(once)


def test_a_server_gives_one_summary_a_text(run: Path) -> None:
    """Sentences and lines are not summarized one by one."""
    model = load(run / "run")
    settings: dict[str, Any] = {
        "settings": model.search,
        "reads_whole": True,
        "task": "translation",
        "serves": {"translate"},
    }
    served = ServedModel("first", load_predictor=lambda: model, **settings)
    text = "ka mo. le fu\nba be bi bo"
    with serving([served]) as (port, _):
        found = httpx.post(f"http://127.0.0.1:{port}/v1/translate", json={"text": [text]}, timeout=60).json()
    (only,) = found["translations"]
    assert len(only["sentences"]) == 1 and only["unread"] == 2
    assert only["text"] == model(text.replace("\n", " ")).text


@pytest.mark.parametrize("to", ["ctranslate2", "onnx"])
def test_formats_that_know_no_pointer_are_refused(run: Path, to: str) -> None:
    result = CliRunner().invoke(cli.build_app(), ["export", str(run / "run"), str(run / to), "--to", to])
    assert "copy from the source" in str(result.exception)
