"""``model.encoder.from``: a run begins with the encoder, and the vocabulary, of a run of another kind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.errors import ConfigError, ModelError
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.tasks.automatic_training import fine_tuning_settings
from regard.tasks.find_config import find_config
from regard.training.progress import NullReporter, TrainingProgress
from regard.training.reading_part import reading_weights

LINES = ["the cat sat on the mat", "a rat sat in the hat", "the bat ate the rat", "a cat ate a mat"] * 6
LABELED = "".join(f"{line}\t{'cat' if 'cat' in line else 'none'}\n" for line in LINES)
TAGGED = "".join(
    json.dumps({"tokens": line.split(), "tags": ["N" if len(word) > 2 else "D" for word in line.split()]}) + "\n"
    for line in LINES
)
SMALL = {"layers": 2, "width": 16, "heads": 2, "feed_forward": 16, "dropout": 0.0}
FAST = {"batch_tokens": 64, "threads": 1, "precision": "float32", "learning_rate": 0.01, "warmup": 1}


def tables(folder: Path, task: str, model: dict[str, Any], *, steps: int = 3, **train: Any) -> dict[str, Any]:
    """A config of a task whose texts are all of the same words."""
    file = {"classification": "labeled.tsv", "tagging": "tagged.jsonl", "translation": "pairs.tsv"}
    corpus = {"source": str(folder / file.get(task, "text.txt"))}
    data: dict[str, Any] = {"train": [corpus], "valid": [corpus]}
    if task == "language-model":
        data |= {"tokenizer": {"kind": "character"}, "context": 32, "documents": "line"}
    if task == "masked":
        data |= {"context": 32}
    if task == "translation":
        data |= {"tokenizer": {"kind": "word"}, "joint": True}
    settings = FAST | {"steps": steps, "validate_every": steps, "save_every": steps} | train
    return {"task": task, "data": data, "model": model, "train": settings}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts, and a run of each kind that has read them."""
    folder = tmp_path_factory.mktemp("reading")
    (folder / "text.txt").write_text("\n".join(LINES) + "\n")
    (folder / "labeled.tsv").write_text(LABELED)
    (folder / "tagged.jsonl").write_text(TAGGED)
    (folder / "pairs.tsv").write_text("".join(f"{line}\t{line}\n" for line in LINES))
    for task in ("masked", "language-model", "classification", "tagging", "translation"):
        regard.train(tables(folder, task, dict(SMALL)), folder / task)
    affixes = SMALL | {"affixes": 40}
    regard.train(tables(folder, "tagging", affixes), folder / "affixes")
    return folder


def weights(run: Path, which: str | None = None) -> dict[str, torch.Tensor]:
    return dict(RunFolder.open(run).weights(which).groups["model"])


def begun(folder: Path, task: str, source: str, run: Path, **more: Any) -> dict[str, torch.Tensor]:
    """The weights before the first update of a run that starts from the encoder of ``source``."""
    encoder = {"from": str(folder / source)} | more.pop("encoder", {})
    values = tables(folder, task, more | {"encoder": encoder}, steps=1)
    regard.train(values, run)
    return weights(run, "0")


@pytest.mark.parametrize("source", ["masked", "language-model", "classification", "tagging", "translation"])
@pytest.mark.parametrize("task", ["classification", "tagging", "masked"])
def test_an_encoder_of_any_kind_starts_any_other(folder: Path, tmp_path: Path, source: str, task: str) -> None:
    found, there = begun(folder, task, source, tmp_path / "run"), weights(folder / source)
    prefix = "" if source == "language-model" else "encoder."
    for name, tensor in found.items():
        if name.startswith(("encoder.layers.", "encoder.norm")):
            assert torch.equal(tensor, there[prefix + name.removeprefix("encoder.")]), name
    table = there.get(f"{prefix}embedding.weight", there.get("head.weight"))
    assert table is not None
    rows = min(len(table), len(found["encoder.embedding.weight"]))
    assert torch.equal(found["encoder.embedding.weight"][:rows], table[:rows])
    run = RunFolder.open(tmp_path / "run")
    name = {"translation": "joint"}.get(source, "text")
    vocabulary = (folder / source / "tokenizer" / f"{name}.json").read_bytes()
    assert (run.tokenizers / "text.json").read_bytes() == vocabulary
    plan = run.read_plan()
    assert plan is not None and plan.origin is not None and plan.origin.run == str(folder / source)


def test_it_says_what_it_starts_from_and_learns(folder: Path, tmp_path: Path) -> None:
    heard: list[str] = []

    class Hears(NullReporter):
        def log(self, message: str) -> None:
            heard.append(message)

    model = {"encoder": {"from": str(folder / "masked")}, "pooling": "first"}
    run = regard.train(tables(folder, "classification", model, steps=30), tmp_path / "run", reporter=Hears())
    assert f"the encoder starts from {folder / 'masked'}: best (step 3)" in heard
    assert any(line.startswith("vocabulary: ") and line.endswith(f"of {folder / 'masked'}") for line in heard)
    assert "Started from" in (run / "README.md").read_text()
    assert regard.load(run)(["the cat sat"])[0].label == "cat"
    shutil.copytree(run, tmp_path / "moved")
    assert regard.load(tmp_path / "moved")(["the bat ate"])[0].label == "none"


@pytest.mark.parametrize(
    ("frozen", "kept"),
    [("embedding", {"embedding"}), (1, {"embedding", "layers.0"}), ("all", {"embedding", "layers.0", "layers.1"})],
)
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_what_is_frozen_stays_and_the_rest_learns(
    folder: Path, tmp_path: Path, frozen: str | int, kept: set[str], optimizer: str
) -> None:
    model = {"encoder": {"from": str(folder / "masked"), "frozen": frozen}}
    values = tables(folder, "classification", model, steps=3, optimizer=optimizer, weight_decay=0.1, ema=0.5)
    run = regard.train(values, tmp_path / "run")
    before, after = weights(run, "0"), weights(run, "last")
    for name in before:
        part = next((part for part in kept if name.startswith(f"encoder.{part}.")), None)
        if part is not None:
            assert torch.equal(before[name], after[name]), name
        elif name.endswith("weight"):
            assert not torch.equal(before[name], after[name]), name


def test_a_frozen_run_is_resumed_bit_for_bit_without_its_source(folder: Path, tmp_path: Path) -> None:
    class Stops(NullReporter):
        def updated(self, progress: TrainingProgress, steps: int | None, figures: dict[str, float]) -> None:
            if progress.step == 3:
                raise KeyboardInterrupt

    source = Path(shutil.copytree(folder / "masked", tmp_path / "source"))
    model = {"encoder": {"from": str(source), "frozen": 1, "dropout": 0.2}}
    config = load_config(tables(folder, "classification", model, steps=5, save_every=2))
    whole = regard.train(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        regard.train(config, tmp_path / "run", reporter=Stops())
    shutil.rmtree(source)
    run = regard.train(RunFolder.open(tmp_path / "run").config, tmp_path / "run")
    one, other = weights(run, "last"), weights(whole, "last")
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_affixes_are_learned_where_the_source_has_none_and_refused_where_only_it_has(
    folder: Path, tmp_path: Path
) -> None:
    found = begun(folder, "tagging", "masked", tmp_path / "run", affixes=40)
    table = weights(folder / "masked")["encoder.embedding.weight"]
    assert torch.equal(found["encoder.embedding.tokens.weight"], table[:-1])
    assert len(found["encoder.embedding.affixes"]) == 41
    again = begun(folder, "tagging", "affixes", tmp_path / "again", affixes=40)
    assert torch.equal(again["encoder.embedding.affixes"], weights(folder / "affixes")["encoder.embedding.affixes"])
    with pytest.raises(ModelError, match=r"they differ in embedding\.affixes"):
        begun(folder, "classification", "affixes", tmp_path / "other")


def test_files_are_proposed_without_another_encoder(folder: Path) -> None:
    lines = list[str]()
    given = [f"model.encoder.from={folder / 'masked'}"]
    config: Any = find_config([str(folder / "labeled.tsv")], [], given, log=lines.append)
    assert lines[0] == f"encoder and vocabulary from {folder / 'masked'}"
    assert (config.task.kind, config.model.encoder.width, config.model.pooling) == ("classification", 16, "attention")


def test_a_trained_encoder_is_tuned_in_small_steps_unless_it_is_frozen(folder: Path) -> None:
    given = [f"model.encoder.from={folder / 'masked'}"]

    def choice(*more: str) -> tuple[Any, ...]:
        train: Any = find_config([str(folder / "labeled.tsv")], [], [*given, *more]).train
        return train.optimizer, train.learning_rate, train.schedule, train.epochs, train.early_stopping

    assert choice() == ("adamw", 1e-3, "linear", 3, None)
    assert choice("train.steps=7") == ("adamw", 1e-3, "linear", None, None)
    assert choice("train.learning_rate=0.5")[1] == 0.5
    assert choice("model.encoder.frozen=all")[3] > 3
    assert fine_tuning_settings({}, {}, width=768)[0]["learning_rate"] == 3e-5


def test_taggers_of_files_keep_their_affixes_whose_encoder_is(folder: Path) -> None:
    given = [f"model.encoder.from={folder / 'masked'}"]
    lines = list[str]()
    config: Any = find_config([str(folder / "tagged.jsonl")], [], given, log=lines.append)
    assert len(lines) == 4 and not any("GRU" in line for line in lines)
    alone: Any = find_config([str(folder / "tagged.jsonl")], [], [])
    assert config.model.encoder.kind == "transformer" and config.model.encoder.width == 16
    assert config.model.affixes == alone.model.affixes > 0


def test_a_run_that_took_an_encoder_is_gone_on_from_as_a_whole(folder: Path, tmp_path: Path) -> None:
    model = {"encoder": {"from": str(folder / "masked"), "frozen": "all"}}
    first = regard.train(tables(folder, "classification", model, steps=1), tmp_path / "first")
    run = regard.train(tables(folder, "classification", {"from": str(first)}, steps=2), tmp_path / "run")
    config: Any = RunFolder.open(run).config
    assert config.model.encoder.origin is None and config.model.encoder.frozen == "none"
    assert not torch.equal(weights(run, "0")["encoder.embedding.weight"], weights(run)["encoder.embedding.weight"])


@pytest.mark.parametrize(
    ("task", "model", "said"),
    [
        ("classification", {"width": 32}, "model.encoder.width cannot be 32"),
        ("classification", {"encoder": {"from": "gone"}}, "to start from, gone, is missing"),
        ("classification", {"from": "masked"}, "can use only the encoder: model.encoder.from"),
        ("classification", {"encoder": {"frozen": 3}}, "it has 2 layers"),
        ("classification", {"encoder": {"from": None, "frozen": 1}}, "random weights have to be trained"),
        ("classification", {"encoder": {"kind": "recurrent"}}, "cannot be"),
        ("translation", {}, "a translation model cannot use the encoder"),
        ("translation", {"encoder": {"from": None}, "decoder": {"from": "masked"}}, "model.decoder.from"),
    ],
)
def test_what_cannot_be_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, task: str, model: dict[str, Any], said: str
) -> None:
    monkeypatch.chdir(folder)
    encoder = {} if "from" in model else {"from": "masked"} | model.get("encoder", {})
    stated = {key: value for key, value in encoder.items() if value is not None}
    with pytest.raises(ConfigError) as error:
        load_config(tables(folder, task, model | {"encoder": stated}))
    assert said in str(error.value)


def test_another_vocabulary_is_refused(folder: Path) -> None:
    values = tables(folder, "classification", {"encoder": {"from": str(folder / "masked")}})
    values["data"]["tokenizer"] = {"kind": "character"}
    with pytest.raises(ConfigError, match=r"data\.tokenizer cannot be"):
        load_config(values)


def test_tables_that_differ_by_more_than_the_mask_are_refused() -> None:
    net = {"encoder.embedding.weight": torch.zeros(5, 2)}
    for rows in (4, 5, 6):
        assert len(reading_weights({"encoder.embedding.weight": torch.ones(rows, 2)}, net, where="")) == 1
    for shape in ((3, 2), (7, 2), (5, 3)):
        with pytest.raises(ModelError, match=r"embedding\.weight"):
            reading_weights({"encoder.embedding.weight": torch.ones(shape)}, net, where="")


def test_a_missing_run_is_named_for_files_of_every_task(tmp_path: Path) -> None:
    for name, text in (("a.en", "a b\n"), ("a.de", "A B\n"), ("labeled.tsv", LABELED)):
        (tmp_path / name).write_text(text * 20)
    for files in (["a.en", "a.de"], ["labeled.tsv"]):
        with pytest.raises(ConfigError, match=r"the run to start from, .*nowhere, is missing"):
            find_config([str(tmp_path / name) for name in files], [], [f"model.encoder.from={tmp_path / 'nowhere'}"])
