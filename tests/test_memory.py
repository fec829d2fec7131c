"""Translation memory: the targets of training pairs for near sources, chosen by the outputs of the validation data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import regard as library
from regard.errors import ModelError
from regard.inference.results import Translation
from regard.runs.baseline_choice import NAME, BaselineChoice, MemoryChoice, read_choice
from regard.runs.run_folder import RunFolder
from regard.server.batching.metrics import ServerMetrics
from regard.tasks.translation.memory import MemoryTranslator
from regard.tasks.translation.translator import Translator

from .server.conftest import serving
from .test_baseline_alone import regard, trained

CODES = [f"code k{number} q{number % 30}" for number in range(300)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines that a network translates word by word, and sentences about a code that only their pairs explain."""
    draw, words = np.random.default_rng(1), [f"w{number}" for number in range(14)]
    lines = sorted({" ".join(draw.choice(words, 3)) for _ in range(600)})
    rule = [(line, line.upper()) for line in lines]
    answers = [" ".join(draw.choice(words, 4)).upper() for _ in CODES]
    codes = [*zip(CODES, answers, strict=True)]
    settings = ["steps=240", "batch_tokens=512", "lr=1e-2", "warmup=10", "validate_every=240"]
    more = [*(f"train.{setting}" for setting in settings), "model.width=32", "model.feed_forward=32", "model.norm=pre"]
    folder = tmp_path_factory.mktemp("memory")
    return trained(folder, rule[40:] + codes, rule[:40] + codes[::12], *more)[0]


def pairs(run: Path, part: str) -> dict[str, str]:
    lines = (run.parent / f"{part}.tsv").read_text().splitlines()
    return dict(line.split("\t") for line in lines)


def opened(run: Path, **options: Any) -> MemoryTranslator:
    model: Any = library.load(run, **options)
    assert isinstance(model, MemoryTranslator)
    return model


def test_it_is_chosen_where_it_is_better(run: Path) -> None:
    choice = read_choice(run)
    assert choice is not None and choice.memory is not None and choice.model == "network with memory"
    assert choice.memory.value > max(choice.network, choice.baseline) + 5 and not choice.is_baseline
    assert choice.as_dict()["memory"]["threshold"] == choice.memory.threshold
    assert f"network with memory {choice.memory.value:.2f}" in choice.figures
    assert f"choice      network with memory, by {choice.figures}" in regard("info", run).stdout
    assert f"| Chosen by | {choice.figures} |" in (run / "README.md").read_text()


@pytest.mark.parametrize(("memory", "error", "model"), [
    (60.0, 9.9, "network with memory"), (60.0, 10.0, "network"), (40.0, 1.0, "network"),
])  # fmt: skip
def test_one_standard_error_decides(memory: float, error: float, model: str) -> None:
    """By how much the memory improves on the better of the other two, not on either."""
    combined = MemoryChoice(threshold=0.5, value=memory, error=error)
    choice = BaselineChoice(
        metric="chrf", sources=9, network=50, baseline=20, error=1, lower_is_better=False, memory=combined
    )
    assert choice.model == model
    opposite = choice.model_copy(update={"lower_is_better": True, "baseline": 80.0})
    assert opposite.model == ("network with memory" if memory == 40 else "network")
    alone = choice.model_copy(update={"baseline": 55.0})
    assert alone.model == "baseline alone"


def test_near_sources_have_the_target_of_their_pair(run: Path) -> None:
    model, known = opened(run), pairs(run, "train")
    for source in [source for source in known if source.startswith("code")][:5]:
        output = model(source)
        assert output.text == known[source] and output.recalled == pytest.approx(1)
        assert output.as_dict()["recalled"] == output.recalled
    far = next(source for source in pairs(run, "valid") if not source.startswith("code"))
    if model.pairs.nearest([far])[0].cosine < model.threshold:
        output = model(far)
        assert output.recalled is None and "recalled" not in output.as_dict()
        assert output.as_dict() == model.without_memory(far).as_dict()
    assert model("").text == "" and model(" \n").text == ""


def test_scores_and_attention_are_those_of_the_network(run: Path) -> None:
    model, known = opened(run), pairs(run, "train")
    source = next(source for source in known if source.startswith("code"))
    output = model(source, beam=4, nbest=3)
    (scores,) = model.score([source], [known[source]])
    best = output.candidates[0]
    assert best.log_probability == pytest.approx(sum(scores), rel=1e-4)
    assert len(best.piece_log_probabilities) == len(best.pieces) + 1
    rows = [weights.shape[-2] for name, weights in output.attention.items() if name.endswith("source")]
    assert rows and set(rows) == {len(best.pieces) + 1}
    searched = model.without_memory(source, beam=4, nbest=3)
    others = [one.text for one in searched.candidates if one.text != known[source]]
    assert [one.text for one in output.candidates] == [known[source], *others][:3]
    assert len(model(source).candidates) == 1


def test_other_requests_ignore_it(run: Path) -> None:
    """What is asked of an output is more than its pair knows."""
    model, known = opened(run), pairs(run, "train")
    source = next(source for source in known if source.startswith("code"))
    plain: Translator = model.without_memory
    assert model(source, temperature=1.0, seed=3).as_dict() == plain(source, temperature=1.0, seed=3).as_dict()
    assert model(source, stop=["W1"], beam=1).as_dict() == plain(source, stop=["W1"], beam=1).as_dict()
    prefixed: list[Translation] = model.translate([source], prefixes=["W1"])
    assert prefixed[0].text.startswith("W1") and prefixed[0].recalled is None


def test_commands_use_it(run: Path, tmp_path: Path) -> None:
    known = pairs(run, "train")
    sources = [source for source in known if source.startswith("code")][:50]
    lines = "".join(source + "\n" for source in sources)
    assert regard("translate", run, input=lines).stdout.splitlines() == [known[source] for source in sources]
    network = regard("translate", run, "--checkpoint", "best", input=lines).stdout.splitlines()
    assert network != [known[source] for source in sources]
    evaluated = json.loads(regard("evaluate", run, run.parent / "valid.tsv", "--json").stdout)
    alone = json.loads(regard("evaluate", run, run.parent / "valid.tsv", "--json", "--checkpoint", "best").stdout)
    assert evaluated["checkpoint"] == alone["checkpoint"] + " with memory"
    assert evaluated["scores"]["chrf"]["value"] > alone["scores"]["chrf"]["value"] + 5
    published = regard("export", run, tmp_path / "hub", "--to", "hub")
    assert published.exit_code == 0, published.output
    model: Any = library.load(tmp_path / "hub")
    assert not isinstance(model, MemoryTranslator), "the texts of training are not published"


def test_without_its_pairs_it_is_the_network(run: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(run, tmp_path / "run"))
    (copied / "baseline" / "baseline.json").write_text("{")
    with pytest.raises(ModelError, match="damaged"):
        library.load(copied)
    shutil.rmtree(copied / "baseline")
    model: Any = library.load(copied)
    assert not isinstance(model, MemoryTranslator) and "memory" not in str(RunFolder.open(copied).selected())
    (copied / NAME).write_text((copied / NAME).read_text().replace('"threshold":', '"limit":'))
    with pytest.raises(ModelError, match="damaged"):
        library.load(copied)


def test_a_server_uses_it(run: Path) -> None:
    from regard.commands.server_plan import ServerPlan

    known = pairs(run, "train")
    source = next(source for source in known if source.startswith("code"))
    (served,) = ServerPlan([f"codes={run}"], "127.0.0.1", 0).models(ServerMetrics()).all
    with serving([served]) as (port, _):
        address = f"http://127.0.0.1:{port}/v1"
        found = httpx.post(f"{address}/translate", json={"text": [source]}, timeout=60).json()["translations"][0]
        assert found["text"] == known[source]
        required = {"text": [source + " 77"], "beam": 4}
        other = httpx.post(f"{address}/translate", json=required, timeout=60).json()["translations"][0]
        assert "77" in other["text"]
        assert httpx.get(f"{address}/models/codes").json()["checkpoint"].startswith(("average", "best"))
