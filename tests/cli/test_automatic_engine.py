"""``--engine auto``: measured on the run's own lines, told in a sentence, remembered beside it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

import regard as package
from regard.attention.span import Span
from regard.data.document_stream import open_or_prepare_documents
from regard.data.documents import Cut
from regard.data.stream import TextConfig
from regard.data.tokenizers.tokenizer import BEGIN, END
from regard.errors import ConfigError
from regard.inference.engine_choice import ROWS, EngineTrials, Predictions
from regard.native.library import library
from regard.runs.run_folder import RunFolder
from regard.tasks import automatic_engine
from regard.tasks.language_model.engine_trials import CausalTrials
from regard.tasks.load import load_net
from regard.tasks.translation.engine_trials import PairTrials
from regard.tasks.translation.translator import Translation, Translator
from tests.cli.conftest import TinyRun
from tests.data.earlier_heads import write_earlier_head

pytestmark = pytest.mark.skipif(library() is None, reason="needs the kernels")
FASTEST = "torch"  # of the fakes below


class Fake:
    made: ClassVar[list[str]] = []
    clock = 0.0

    def __init__(self, name: str) -> None:
        self.name = name
        self.made.append(name)

    def predictions(self) -> Predictions:
        return Predictions(torch.zeros(3), torch.zeros(3))

    def run(self) -> None:
        Fake.clock += 0.1 if self.name == FASTEST else 0.2


@pytest.fixture
def run(tiny_run: TinyRun, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_run.path, tmp_path / "run"))


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The engines that were measured; by a clock of their own."""
    measure = automatic_engine.measure
    for trials in (PairTrials, CausalTrials):
        monkeypatch.setattr(trials, "trial", lambda self, name, lines: Fake(name))
    monkeypatch.setattr(automatic_engine, "measure", lambda trials, clock: measure(trials, lambda: Fake.clock))
    monkeypatch.setattr(Fake, "made", [])
    return Fake.made


def trials_of(path: Path) -> EngineTrials:
    net, codecs, run = load_net(path)
    assert run.task.engine_trials is not None
    trials: EngineTrials = run.task.engine_trials(run, net, codecs)
    return trials


def test_it_is_measured_once_and_told(regard: Any, run: Path, measured: list[str]) -> None:
    first = regard("translate", run, "--engine", "auto", input="a b\n")
    assert first.stdout == "A B\n" and f"engine {FASTEST}: float32 200 ms, torch 100 ms" in first.stderr
    assert measured[:3] == ["float32", "torch", "int8"]
    again = regard("translate", run, "--engine", "auto", input="a b\n")
    assert f"engine {FASTEST}: float32 200 ms" in again.stderr and len(measured) == len(set(measured))
    assert package.load(run, engine="auto").engine == FASTEST
    assert regard("translate", run, input="a b\n").stderr == "", "nobody asked"


def test_other_weights_and_other_threads_are_measured_anew(
    run: Path, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def times() -> int:
        package.load(run, engine="auto", checkpoint="last")
        return measured.count("float32")

    assert (times(), times()) == (1, 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    assert (times(), times()) == (2, 2)
    manifest = RunFolder.open(run).weights_path("last").path / "manifest.json"
    key = automatic_engine._key(manifest.parent)
    manifest.write_text(manifest.read_text() + "\n")
    assert automatic_engine._key(manifest.parent) != key


def test_an_engine_that_this_machine_has_not_is_not_taken_from_the_file(
    run: Path, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    package.load(run, engine="auto")
    monkeypatch.setattr(PairTrials, "candidates", lambda self: ["float32", "int8"])
    assert package.load(run, engine="auto").engine == "float32"
    monkeypatch.setattr(PairTrials, "candidates", lambda self: [])
    assert package.load(run, engine="auto").engine == "float32"


def test_without_lines_it_is_float32(regard: Any, run: Path, measured: list[str]) -> None:
    for name in ("valid-0", "train-0"):
        shutil.rmtree(run / "data" / name)
    result = regard("translate", run, "--engine", "auto", input="a b\n")
    assert result.stdout == "A B\n" and measured == [] and not (run / "engine.json").exists()
    assert "engine float32:" in result.stderr and "has no prepared lines" in result.stderr


def test_training_lines_serve_where_there_are_no_others(run: Path) -> None:
    shutil.rmtree(run / "data" / "valid-0")
    assert trials_of(run).lines() is not None


@pytest.fixture
def text_run(language_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(language_model, tmp_path / "text"))


def test_language_models_choose_too(regard: Any, text_run: Path, measured: list[str]) -> None:
    said = regard("generate", text_run, "--prompt", "the", "--seed", "1", "--engine", "auto")
    assert said.exit_code == 0 and f"engine {FASTEST}: float32 200 ms, torch 100 ms" in said.stderr


@torch.no_grad()
@pytest.mark.parametrize("engine", ["float32", "torch"])
def test_lines_are_judged_as_the_model_itself_judges_them(run: Path, text_run: Path, engine: Any) -> None:
    net, trials = load_net(run)[0], trials_of(run)
    lines = trials.lines()
    assert lines is not None and lines.source is not None and len(lines.inputs) == ROWS
    assert (lines.inputs[:, 0] == BEGIN).all() and ((lines.targets == END).sum(1) == 1).all()
    log_p = torch.log_softmax(
        net.head(net(lines.source, lines.source_span, lines.inputs, Span.of(lines.target_mask))), -1
    )
    texts, text_trials = load_net(text_run)[0], trials_of(text_run)
    text = text_trials.lines()
    assert text is not None and (text.inputs[:, 1:] == text.targets[:, :-1]).all() and text.inputs.shape[1] == 16
    for each, of, wanted in (
        (lines, trials, log_p),
        (text, text_trials, texts.step(text.inputs, texts.start(len(text.inputs)))[0]),
    ):
        found = of.trial(engine, each).predictions()
        torch.testing.assert_close(found.log_p, wanted.gather(-1, each.targets[..., None])[..., 0][each.target_mask])
        assert (found.best == wanted.argmax(-1)[each.target_mask]).all()


def test_documents_are_lines(text_run: Path) -> None:
    _, codecs, folder = load_net(text_run)
    (text_run / "lines.txt").write_text("the cat\nsat on\nthe mat\n")
    shutil.rmtree(folder.data / "valid-0")
    text = TextConfig(source=str(text_run / "lines.txt"))
    open_or_prepare_documents(text, Cut("line"), codecs.tokenizer, folder.data / "valid-0")
    lines = trials_of(text_run).lines()
    assert lines is not None and int((lines.inputs == BEGIN).any()) and lines.inputs.shape[1] == 16


@pytest.mark.parametrize("name", ["source.tokens", "target.tokens"])
def test_pieces_that_no_vocabulary_has_are_no_lines(run: Path, name: str) -> None:
    """As where somebody else made the files."""
    shutil.rmtree(run / "data" / "train-0")
    path = run / "data" / "valid-0" / name
    path.write_bytes(b"\xff" * path.stat().st_size)
    assert trials_of(run).lines() is None


@pytest.mark.parametrize(("content", "tokens"), [(b"", 0), (b"\x02\x00", 1), (b"\xff\xff" * 40, 40)])
def test_text_that_is_none_is_no_line(text_run: Path, content: bytes, tokens: int) -> None:
    shutil.rmtree(text_run / "data" / "train-0")
    folder = text_run / "data" / "valid-0"
    (folder / "tokens").write_bytes(content)
    write_earlier_head(folder / "stream.json", tokens=tokens)
    assert trials_of(text_run).lines() is None


def test_a_task_without_engines_has_nothing_to_choose(own_run: Path) -> None:
    assert package.load(own_run, engine="auto") is not None and not (own_run / "engine.json").exists()


def test_what_goes_on_after_an_interruption_has_the_engine_of_before(
    regard: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: list[str]
) -> None:
    """That which was chosen; not the word."""
    monkeypatch.setattr("regard.commands.translate.BATCHES", 1)
    monkeypatch.setattr(Translator, "translate", interrupted := Interrupted())
    (tmp_path / "in").write_text("a b\n" * 100)
    call = ("translate", run, tmp_path / "in", "-o", tmp_path / "out", "--beam", "1")
    assert "64 lines are done" in regard(*call, "--engine", "auto").stderr
    interrupted.after = 9
    error = regard(*call, "--engine", "int8", "--resume").exception
    assert isinstance(error, ConfigError) and "differs in engine" in str(error.why)
    assert regard(*call, "--engine", FASTEST, "--resume").exit_code == 0


class Interrupted:
    """``Translator.translate`` that is interrupted after so many calls."""

    after = 1

    def __init__(self) -> None:
        self.whole, self.calls = Translator.translate, 0

    def __get__(self, model: Translator, kind: type) -> Any:
        return lambda lines, **options: self(model, lines, **options)

    def __call__(self, model: Translator, lines: list[str], **options: Any) -> list[Translation]:
        if (calls := self.calls) >= self.after:
            raise KeyboardInterrupt
        self.calls = calls + 1
        return self.whole(model, lines, **options)


def test_real_engines_are_measured(run: Path) -> None:
    """Those of the machine, by a clock that adds a second a look: nobody is faster."""
    net, codecs, folder = load_net(run)
    said: list[str] = []
    looks = iter(range(1000))
    chosen = automatic_engine.automatic_engine(
        folder, net, codecs, folder.weights_path().path, said.append, lambda: float(next(looks))
    )
    assert chosen == "float32"
    (choice,) = json.loads((run / "engine.json").read_text())["choices"]
    assert list(choice["engines"]) == trials_of(run).candidates()
    torch_figures = choice["engines"]["torch"]
    assert torch_figures["difference"] < 1e-4 and torch_figures["agreement"] == 1.0
    assert 1e-7 < choice["engines"]["int8"]["difference"] < 0.5


def test_work_in_bulk_has_one_engine(regard: Any, run: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a b\n")
    out = f"{tmp_path / 'out'}/"
    error = regard("translate", run, tmp_path / "in", "-o", out, "--engine", "auto").exception
    assert isinstance(error, ConfigError) and error.where == "--engine" and "--engine float32" in str(error.help)
