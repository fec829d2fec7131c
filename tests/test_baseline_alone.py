"""Runs whose model is the baseline alone: the choice, and that every command uses it or refuses it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

import regard as library
from regard import cli
from regard.bulk.work import open_work, settings_of
from regard.errors import ConfigError, ModelError
from regard.inspection.inspector import inspect
from regard.runs.baseline_choice import NAME, BaselineChoice, read_choice, write_choice
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.server.batching.metrics import ServerMetrics
from regard.tasks.find_config import find_config
from regard.tasks.translation.baseline import Recalled
from regard.training.progress import NullReporter
from regard.training.start import train

from .server.conftest import serving

ANIMALS = "dog cat horse cow bird fish".split()
VERBS = "runs sleeps eats jumps sings".split()
PAIRS = [(f"the {animal} {verb}", f"{verb} {animal} {verb}") for animal in ANIMALS for verb in VERBS]


class Told(NullReporter):
    """The messages of a training."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, message: str) -> None:
        self.lines.append(message)


def trained(
    folder: Path, pairs: Sequence[tuple[str, str]], valid: Sequence[tuple[str, str]], *more: str
) -> tuple[Path, list[str]]:
    """Train a small network that chooses by validation; return the run and its messages."""
    for name, some in (("train", pairs), ("valid", valid)):
        (folder / f"{name}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in some))
    config = load_config({
        "data": {"train": [{"source": str(folder / "train.tsv")}], "valid": [{"source": str(folder / "valid.tsv")}],
                 "tokenizer": {"kind": "word"}, "target_language": "en"},
        "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2, "dropout": 0.0},
        "train": {"steps": 2, "batch_tokens": 256, "threads": 1, "choose": "validation"},
    }, more)  # fmt: skip
    told = Told()
    return train(config, folder / "run", reporter=told), told.lines


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A run of two updates, whose network is worse than the target of the nearest source."""
    return trained(tmp_path_factory.mktemp("alone"), PAIRS, PAIRS)


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A run whose network translates word by word, where the nearest source has another target."""
    draw, words = np.random.default_rng(1), [f"w{number}" for number in range(8)]
    lines = sorted({" ".join(draw.choice(words, 3)) for _ in range(400)})
    pairs = [(line, line.upper()) for line in lines]
    settings = ["steps=100", "batch_tokens=512", "lr=1e-2", "warmup=10", "validate_every=100"]
    more = [*(f"train.{setting}" for setting in settings), "model.width=32", "model.feed_forward=32", "model.norm=pre"]
    return trained(tmp_path_factory.mktemp("learned"), pairs[40:], pairs[:40], *more)


def regard(*arguments: object, input: str | None = None) -> Any:
    return CliRunner().invoke(cli.build_app(), [str(each) for each in arguments], input=input)


def test_a_network_that_is_not_better_is_not_the_model(alone: tuple[Path, list[str]]) -> None:
    run, lines = alone
    choice = read_choice(run)
    assert choice is not None and choice.is_baseline and choice.metric == "chrf" and choice.sources == len(PAIRS)
    assert choice.baseline == pytest.approx(100) and choice.network < 60 and 0 < choice.error < 20
    (line,) = [line for line in lines if line.startswith("the model is ")]
    assert choice.figures in line and "baseline alone" in line and "train.choose=network" in line
    assert library.load(run)("the dog runs").text == "runs dog runs"


def test_a_better_network_is_the_model(learned: tuple[Path, list[str]]) -> None:
    run, lines = learned
    choice = read_choice(run)
    assert choice is not None and not choice.is_baseline and choice.difference > choice.error, lines
    assert any(line.startswith("the model is the network: chrf") for line in lines)
    assert library.load(run).model is not None and RunFolder.open(run).selected().name == "best"
    assert library.load(run, checkpoint="baseline")("w1 w2 w3").text.isupper()


@pytest.mark.parametrize(("network", "error", "lower", "is_baseline"), [
    (51.0, 0.9, False, False), (51.0, 1.0, False, True), (49.0, 0.1, False, True), (50.0, 0.0, False, True),
    (49.0, 0.9, True, False), (49.0, 1.0, True, True), (51.0, 0.1, True, True),
])  # fmt: skip
def test_the_simpler_model_is_preferred(network: float, error: float, lower: bool, is_baseline: bool) -> None:
    choice = BaselineChoice(metric="wer", sources=9, network=network, baseline=50.0, error=error, lower_is_better=lower)
    assert choice.is_baseline is is_baseline


def test_the_error_is_that_of_paired_sources(learned: tuple[Path, list[str]], tmp_path: Path) -> None:
    """For a mean over sources: the deviation of the differences over √sources."""
    from regard.tasks.translation import task
    from regard.training.setup import prepare

    run = RunFolder.open(learned[0])
    config = load_config(run.config.model_dump(mode="json", exclude_none=True), ["train.best_by=wer"])
    lines = [line.split("\t") for line in (run.path.parent / "valid.tsv").read_text().splitlines()]
    rights = [dict(lines[::step]) for step in (2, 4)]  # both are wrong for some, often the same
    model: Any = SimpleNamespace(
        target=library.load(run.path).target,
        translate=lambda sources, **options: [SimpleNamespace(text=rights[0].get(one, "no")) for one in sources],
    )
    baseline: Any = SimpleNamespace(
        outputs=lambda sources: [rights[1].get(one, "no") for one in sources],
        nearest=lambda sources: [Recalled("no", 0.0) for _ in sources],
    )
    data = prepare(run, log=lambda line: None, progress=None)
    choice = task.TASK.choose_baseline(config, model, baseline, data.valid, lambda: False)  # type: ignore[misc]
    wrong = [[source not in right for source, _ in lines] for right in rights]
    differences = np.subtract(*np.array(wrong, float))
    assert choice.lower_is_better and choice.difference == pytest.approx(100 * differences.mean())
    assert choice.error == pytest.approx(100 * differences.std(ddof=1) / np.sqrt(len(lines)))


def test_few_sources_choose_nothing(tmp_path: Path) -> None:
    run, lines = trained(tmp_path, PAIRS, PAIRS[:19])
    assert read_choice(run) is None and any("too few validation examples" in line for line in lines)
    assert library.load(run).model is not None


def test_it_can_be_overridden(tmp_path: Path) -> None:
    run, lines = trained(tmp_path, PAIRS, PAIRS, "train.choose=network")
    assert not (run / NAME).exists() and not any(line.startswith("the model is") for line in lines)
    assert library.load(run).model is not None


@pytest.mark.parametrize("override", ["train.baseline=false", "task=language-model"])
def test_a_choice_needs_both(override: str, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("a\tb\n")
    corpus = {"source": str(tmp_path / "x.txt")}
    with pytest.raises(ConfigError, match=r"train\.choose"):
        load_config({"data": {"train": [corpus], "valid": [corpus]}, "train": {"choose": "validation", "steps": 1}},
                    [override])  # fmt: skip
    with pytest.raises(ConfigError, match=r"train\.choose"):
        load_config({"data": {"train": [corpus]}, "train": {"choose": "validation", "steps": 1}})


def test_the_automatic_choice_sets_it(tmp_path: Path) -> None:
    (tmp_path / "s.tsv").write_text("".join(f"{source} {n}\t{target}\n" for n in range(8) for source, target in PAIRS))
    path, steps = [str(tmp_path / "s.tsv")], "train.steps=1"
    told: list[str] = []
    assert find_config(path, [], [steps], log=told.append).train.choose == "validation"
    assert any("the baseline alone" in line for line in told)
    assert find_config(path, [], [steps, "train.choose=network"]).train.choose == "network"
    assert find_config(path, [], [steps, "train.baseline=false"]).train.choose == "network"
    (tmp_path / "few.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    assert find_config([str(tmp_path / "few.tsv")], [], [steps]).train.choose == "network"


def test_an_interrupted_comparison_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.tasks.translation.translator import Translator

    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Translator, "translate", interrupt)
        with pytest.raises(KeyboardInterrupt):
            trained(tmp_path, PAIRS, PAIRS)
    run = RunFolder.open(tmp_path / "run")
    assert read_choice(run.path) is None
    train(run.config, run.path)
    choice = read_choice(run.path)
    assert choice is not None
    write_choice(run.path, choice.model_copy(update={"sources": 99}))
    train(run.config, run.path)
    assert read_choice(run.path).sources == 99, "it is made once"  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"version": 2}', '{"error": NaN}'])
def test_a_damaged_choice_is_refused(alone: tuple[Path, list[str]], text: str) -> None:
    path = alone[0] / NAME
    whole = path.read_text()
    try:
        path.write_text(text)
        with pytest.raises(ModelError, match=NAME):
            library.load(alone[0])
    finally:
        path.write_text(whole)


def test_python_uses_it(alone: tuple[Path, list[str]]) -> None:
    model = library.load(alone[0])
    outputs = model(["the dog runs", " ", "the new cat sings"], beam=3, nbest=2)
    assert [one.text for one in outputs] == ["runs dog runs", "", "sings cat sings"]
    assert outputs[0].as_dict()["pieces"] == ["runs", "dog", "runs"] and "TF-IDF" in repr(model)
    for use in (lambda: outputs[0].attention, lambda: model.score(["a"], ["b"]), lambda: model.model,
                lambda: model.translate(["a"], prefixes=["runs"])):  # fmt: skip
        with pytest.raises(ConfigError) as caught:
            use()
        assert "simple baseline" in caught.value.what and "--checkpoint best" in str(caught.value.help)
    network = library.load(alone[0], checkpoint="best")
    assert network("the dog runs").text != "runs dog runs" and network.model is not None


def test_commands_use_it(alone: tuple[Path, list[str]]) -> None:
    run, _ = alone
    result = regard("translate", run, input="the dog runs\n\nthe cow sings\n")
    assert result.exit_code == 0, result.output
    assert result.stdout == "runs dog runs\n\nsings cow sings\n"
    assert regard("predict", run, input="the dog runs\n").stdout.strip() == "runs dog runs"
    search = RunFolder.open(run).config.search_settings.model_dump(mode="json")  # type: ignore[union-attr]
    spec = {"verb": "translate", "run": str(run), "search": search, "json": False, "prefix": None}
    assert open_work(spec, 1)(["the dog runs", ""]) == ["runs dog runs", ""]
    assert settings_of(spec)["model"] == settings_of(spec | {"checkpoint": "baseline"})["model"]
    assert settings_of(spec)["model"] != settings_of(spec | {"checkpoint": "best"})["model"]
    evaluated = json.loads(regard("evaluate", run, run.parent / "valid.tsv", "--json").stdout)
    assert evaluated["scores"]["chrf"]["value"] == pytest.approx(100) and evaluated["checkpoint"] == "baseline"
    assert not evaluated.get("baseline")
    network = json.loads(regard("evaluate", run, run.parent / "valid.tsv", "--json", "--checkpoint", "best").stdout)
    assert network["baseline"]["figures"]["chrf"] == pytest.approx(100) and network["checkpoint"].startswith("best")


def test_the_run_is_described(alone: tuple[Path, list[str]]) -> None:
    run, _ = alone
    card, choice = (run / "README.md").read_text(), read_choice(run)
    assert choice is not None
    assert "| Model | target of the nearest source" in card and f"| Chosen by | {choice.figures} |" in card
    assert "no attention" in card and "Attention weights show" not in card
    printed = regard("info", run).stdout
    assert f"choice      baseline alone, by {choice.figures}" in printed
    assert "warning: the network does not improve on its baseline" in printed
    facts = json.loads(regard("info", run, "--json").stdout)["choice"]
    assert facts["model"] == "baseline alone" and facts["difference"] == pytest.approx(choice.difference)


def test_commands_without_use_for_it_refuse(alone: tuple[Path, list[str]], tmp_path: Path) -> None:
    run, _ = alone
    for arguments in (("inspect", run, "the dog runs", "--json"), ("score", run, run.parent / "valid.tsv"),
                      *(("export", run, tmp_path / "x", "--to", to) for to in ("hub", "onnx", "marian"))):  # fmt: skip
        result = regard(*arguments)
        assert isinstance(result.exception, ConfigError), (arguments, result.output)
        assert "simple baseline" in result.exception.what and "--checkpoint best" in str(result.exception.help)
    with pytest.raises(ConfigError, match="simple baseline"):
        inspect(run, "the dog runs")
    assert inspect(run, "the dog runs", checkpoint="best").document["format"] == "regard-inspection"
    shown = regard("inspect", run, "the dog runs", "--json", "--checkpoint", "best")
    assert shown.exit_code == 0 and json.loads(shown.stdout)["format"] == "regard-inspection"
    published = regard("export", run, tmp_path / "hub", "--to", "hub", "--checkpoint", "best")
    assert published.exit_code == 0, published.output
    assert not (tmp_path / "hub" / NAME).exists() and library.load(tmp_path / "hub").model is not None


def test_another_task_has_no_baseline_alone(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("good one\ta\nbad one\tb\n" * 8)
    corpus = {"source": str(tmp_path / "x.tsv")}
    run = train(load_config({
        "task": "classification", "data": {"train": [corpus], "valid": [corpus]},
        "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2},
        "train": {"steps": 1, "threads": 1},
    }), tmp_path / "run")  # fmt: skip
    with pytest.raises(ConfigError, match="cannot be used alone"):
        library.load(run, checkpoint="baseline")


def test_a_server_uses_it(alone: tuple[Path, list[str]]) -> None:
    from regard.commands.server_plan import ServerPlan

    (served,) = ServerPlan([f"pairs={alone[0]}"], "127.0.0.1", 0).models(ServerMetrics()).all
    with serving([served]) as (port, _):
        address = f"http://127.0.0.1:{port}/v1"
        found = httpx.post(f"{address}/translate", json={"text": ["the dog runs", "the 77 cows sing"]}, timeout=60)
        assert found.json()["translations"][0]["text"] == "runs dog runs"
        assert "77" in found.json()["translations"][1]["text"], "required terms are inserted"
        predicted = httpx.post(f"{address}/predict", json={"inputs": ["the dog runs"], "model": "pairs"}, timeout=60)
        assert predicted.json()["outputs"][0]["text"] == "runs dog runs", predicted.text
        details = httpx.get(f"{address}/models/pairs").json()
        assert details["checkpoint"] == "baseline" and details["inspects"] is False and details["settings"] is None
        parts, choice = dict(details["parts"]), read_choice(alone[0])
        assert choice is not None and parts["baseline"].endswith(", used alone") and "compared by chrf" in parts
        assert details["comparison"]["metrics"]["chrf"]["error"] == pytest.approx(choice.error)
        refused = httpx.post(f"{address}/inspect", json={"text": "the dog runs"}, timeout=60)
        assert refused.status_code == 400 and "simple baseline" in refused.json()["error"]
        network = httpx.post(f"{address}/inspect", json={"text": "the dog runs", "checkpoint": "best"}, timeout=60)
        assert network.status_code == 200 and network.json()["format"] == "regard-inspection"
