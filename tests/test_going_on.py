"""``model.from``: training begins with another run's weights, network and vocabulary, and needs the source no more."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.core.task import find_task
from regard.core.tensors import digest
from regard.errors import ConfigError, ModelError, RegardError
from regard.runs import checkpoint
from regard.runs.config import load_config
from regard.runs.run_config import RunConfig
from regard.runs.run_folder import RunFolder
from regard.share.import_folder import import_folder
from regard.share.transformers_format import write
from regard.tasks.find_config import find_config
from regard.training.progress import NullReporter, TrainingProgress
from regard.training.setup import rehearse
from tests.share.test_causal_export import LLAMA, config_of, model_of, tokenizer_of

TEXT = "the cat sat on the mat\nthe rat sat on the hat\n" * 12
FAST = {"batch_tokens": 64, "threads": 1, "precision": "float32", "learning_rate": 0.02, "warmup": 1}


def tables(folder: Path, model: Any, *, steps: int, **train: Any) -> dict[str, Any]:
    source = str(folder / "book.txt")
    data = {"train": [{"source": source, "share": [0.0, 0.8]}], "valid": [{"source": source, "share": [0.8, 1.0]}]}
    return {
        "task": "language-model", "data": data, "model": model,
        "train": FAST | {"steps": steps, "validate_every": steps, "save_every": steps} | train,
    }  # fmt: skip


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("book")
    (folder / "book.txt").write_text(TEXT)
    first = tables(folder, {"layers": 1, "width": 16, "heads": 2, "feed_forward": 16, "qk_norm": True}, steps=6)
    regard.train(first | {"data": first["data"] | {"context": 16}}, folder / "source")
    return folder


def validations(run: Path) -> list[tuple[int, float]]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [(each["step"], each["validation"]["loss"]) for each in lines if "validation" in each]


def weights(run: Path, which: str | None = None) -> str:
    return digest({"model": RunFolder.open(run).weights(which).groups["model"]})


class Heard(NullReporter):
    def __init__(self) -> None:
        self.lines = list[str]()

    def log(self, message: str) -> None:
        self.lines.append(message)


def test_it_begins_with_what_the_source_knows_and_learns_further(book: Path, tmp_path: Path) -> None:
    source, heard = book / "source", Heard()
    run = regard.train(tables(book, {"from": str(source)}, steps=12), tmp_path / "run", reporter=heard)
    begun, *_, ended = validations(run)
    assert begun == (0, validations(source)[-1][1]), "to the last bit"
    assert ended[0] == 12 and ended[1] < begun[1]
    assert f"starts from {source}: best (step 6)" in heard.lines
    assert weights(run, "0") == weights(source)
    opened, there = RunFolder.open(run), RunFolder.open(source)
    plan = opened.read_plan()
    assert plan is not None and plan.origin is not None
    assert plan.origin.digest == weights(source) and plan.origin.checkpoint == "best (step 6)"
    assert opened.config.data.context == 16 and opened.config.model.decoder == there.config.model.decoder
    assert "Started from" in (run / "README.md").read_text()
    assert regard.load(run).tokenizer.digest() == regard.load(source).tokenizer.digest()


@pytest.mark.parametrize("ema", [None, 0.9])
def test_it_is_resumed_bit_for_bit_when_the_source_is_gone(book: Path, tmp_path: Path, ema: float | None) -> None:
    class Stops(NullReporter):
        def updated(self, progress: TrainingProgress, steps: int | None, figures: dict[str, float]) -> None:
            if progress.step == 3:
                raise KeyboardInterrupt

    source = Path(shutil.copytree(book / "source", tmp_path / "source"))
    values = tables(book, {"from": str(source), "dropout": 0.1}, steps=5, save_every=2, ema=ema)
    config = load_config(values)
    whole = regard.train(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        regard.train(config, tmp_path / "run", reporter=Stops())
    shutil.rmtree(source)
    run = regard.train(RunFolder.open(tmp_path / "run").config, tmp_path / "run")
    assert weights(run, "last") == weights(whole, "last") and validations(run) == validations(whole)
    assert regard.load(run).score("the cat").nll > 0


def test_one_interrupted_before_its_first_checkpoint_needs_the_source_as_it_was(book: Path, tmp_path: Path) -> None:
    class Stops(NullReporter):
        def validated(self, *given: Any) -> None:
            raise KeyboardInterrupt

    source = Path(shutil.copytree(book / "source", tmp_path / "source"))
    config = load_config(tables(book, {"from": str(source)}, steps=2))
    with pytest.raises(KeyboardInterrupt):
        regard.train(config, tmp_path / "run", reporter=Stops())
    assert not checkpoint.list_steps(tmp_path / "run" / "checkpoints")
    found = checkpoint.load(checkpoint.step_path(source / "checkpoints", 6))
    changed = {name: tensor + 1 for name, tensor in found.groups["model"].items()}
    checkpoint.save(source / "checkpoints", 6, {"model": changed}, found.state, keep=1)
    with pytest.raises(ModelError, match="have changed since"):
        regard.train(config, tmp_path / "run")


def test_a_checkpoint_can_be_named_and_what_is_not_of_the_weights_said(book: Path, tmp_path: Path) -> None:
    origin = {"run": str(book / "source"), "checkpoint": "last"}
    model = {"from": origin, "width": 16, "decoder": {"dropout": 0.2, "heads": 2}, "position": "rotary"}
    run = regard.train(tables(book, model, steps=1), tmp_path / "run")
    found: Any = RunFolder.open(run).config
    assert found.model.origin.spelled == origin and found.model.decoder.dropout == 0.2
    assert 'from]\nrun = "' in (run / "config.toml").read_text()


def test_an_imported_model_is_trained_further(book: Path, tmp_path: Path) -> None:
    config, tokenizer = config_of(LLAMA, "byte-bpe"), tokenizer_of("byte-bpe")
    write(model_of(config, len(tokenizer)), config, tokenizer, tmp_path / "theirs")
    imported = import_folder(tmp_path / "theirs", tmp_path / "imported").path
    run = regard.train(tables(book, {"from": str(imported)}, steps=8), tmp_path / "run")
    assert validations(run)[-1][1] < validations(run)[0][1]
    assert weights(run, "0") == weights(imported)


def test_two_files_or_one_are_proposed_without_another_network(book: Path) -> None:
    lines = list[str]()
    config: Any = find_config([str(book / "book.txt")], [], [f"model.from={book / 'source'}"], log=lines.append)
    assert (config.model.decoder.width, config.data.context, config.data.tokenizer.kind) == (16, 16, "character")
    assert lines[0] == f"network and vocabulary from {book / 'source'}"
    with pytest.raises(ConfigError, match=r"model\.decoder\.width cannot be 32"):
        find_config([str(book / "book.txt")], [], [f"model.from={book / 'source'}", "model.width=32"])


def test_a_rehearsal_takes_its_vocabulary(book: Path, tmp_path: Path) -> None:
    config = load_config(tables(book, {"from": str(book / "source")}, steps=1))
    assert rehearse(RunFolder.create(tmp_path / "run", config)) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": {"width": 32}}, "model.decoder.width cannot be 32"),
        ({"model": {"preset": "tiny"}}, "model.preset cannot be 'tiny'"),
        ({"model": {"qk_norm": False}}, "trained with True"),
        ({"model": {"position": "learned"}}, "model.decoder.position.kind cannot be 'learned'"),
        ({"model": {"share": "none"}}, "model.share cannot be 'none'"),
        ({"data": {"tokenizer": {"kind": "byte"}}}, "data.tokenizer cannot be"),
        ({"task": "translation"}, "a translation model cannot start from"),
        ({"model": {"from": "gone"}}, "to start from, gone, is missing"),
        ({"model": {"from": {"checkpoint": "last"}}}, "model.from.run"),
        ({"model": {"from": 3}}, "model.from"),
    ],
)
def test_what_contradicts_the_source_is_refused(book: Path, changes: dict[str, Any], said: str) -> None:
    values = tables(book, {"from": str(book / "source")}, steps=1)
    for name, table in changes.items():
        values[name] = values[name] | table if isinstance(table, dict) else table
    with pytest.raises(ConfigError) as error:
        load_config(values)
    assert said in str(error.value)


def torn(folder: Path) -> None:
    path = next((folder / "checkpoints").glob("step-*")) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])


def of_another(folder: Path) -> None:
    path = folder / "config.toml"
    path.write_text(path.read_text().replace("feed_forward = 16", "feed_forward = 24"))


def without_weights(folder: Path) -> None:
    shutil.rmtree(folder / "checkpoints")
    (folder / "checkpoints").mkdir()


def without_pieces(folder: Path) -> None:
    shutil.rmtree(folder / "tokenizer")


def with_other_pieces(folder: Path) -> None:
    path = folder / "tokenizer" / "text.json"
    found = json.loads(path.read_text())
    path.write_text(json.dumps(found | {"pieces": [*found["pieces"], "☃"]}))


@pytest.mark.parametrize("spoil", [torn, of_another, without_weights, without_pieces, with_other_pieces])
def test_a_source_that_is_not_whole_is_told(book: Path, tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    source = Path(shutil.copytree(book / "source", tmp_path / "source"))
    spoil(source)
    with pytest.raises(RegardError) as error:
        regard.train(tables(book, {"from": str(source)}, steps=1), tmp_path / "run")
    assert isinstance(error.value, ModelError), error.value


def test_a_translation_goes_on_too(tmp_path: Path) -> None:
    task = find_task("translation")
    values = {"data": {}} | dict(task.sample(tmp_path))
    train = {"threads": 1, "precision": "float32", "steps": 1, "warmup": 1}
    source = regard.train({**values, "train": {**values.get("train", {}), **train}}, tmp_path / "source")
    data = {key: values["data"][key] for key in ("train", "valid") if key in values["data"]}
    model = {"from": str(source)}
    run = regard.train({"data": data, "model": model, "train": {**values.get("train", {}), **train}}, tmp_path / "run")
    assert weights(run, "0") == weights(source) and weights(run, "last") != weights(source)
    with pytest.raises(ConfigError, match=r"model\.share cannot be 'none' \(and 1 more\)"):
        load_config({"data": data | {"joint": False}, "model": model | {"share": "none"}})


def test_configs_without_it_are_saved_as_before() -> None:
    config: RunConfig = load_config({"task": "language-model", "data": {"train": []}})
    assert config.origin is None and "from" not in config.model_dump(exclude_none=True)["model"]
