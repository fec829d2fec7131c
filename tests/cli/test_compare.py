"""``regard compare``: interrupted, killed, finished, measured anew; what fails fails alone."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from regard.core.atomic_files import locked
from regard.core.figure import can_draw
from regard.core.installation import extra_command
from regard.data.reading import CorpusConfig
from regard.errors import ConfigError, DataError, ModelError
from regard.runs.config import dump_config, load_config

from .conftest import write_pairs

STEPS = 60
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
MAIN = "from regard.cli import main; main()"


def recipe(folder: Path, name: str, *overrides: str) -> str:
    """A tiny model as a recipe, its steps left to the budget."""
    corpora = {}
    for part, count, seed in (("train", 300, 1), ("valid", 30, 2)):
        source, target = write_pairs(folder, part, count, seed)
        corpora[part] = [{"source": str(source), "target": str(target)}]
    config = {
        "data": corpora | {"tokenizer": {"kind": "word"}, "joint": False},
        "model": {
            "layers": 1, "width": 16, "feed_forward": 32, "heads": 2, "dropout": 0.0,
            "norm": "pre", "share": "target",
        },
        "train": {
            "epochs": 1, "batch_tokens": 128, "learning_rate": 0.01, "warmup": 10, "validate_every": 30,
            "save_every": 15, "precision": "float32", "threads": 1,
        },
    }  # fmt: skip
    path = folder / f"{name}.toml"
    path.write_text(dump_config(load_config(config, overrides)))
    return str(path)


class Compared(NamedTuple):
    """Three sittings of one command: stopped in the first member, killed in the second, finished."""

    folder: Path
    codes: list[int]
    told: list[str]  # on standard error
    results: dict[str, Any]  # of the last sitting, from standard output
    trained_first: float  # when the first member's training was finished


class Ended(NamedTuple):
    code: int
    output: str
    said: str


class Comparisons:
    """``comparisons.run(folder, arguments)``: a command line in a process that is forked, its members, too."""

    def __init__(self, folder: Path) -> None:
        file = Path(__file__).with_name("forked_comparison.py")
        self.folder = folder
        self.server = subprocess.Popen(
            [sys.executable, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
        )

    def run(self, *arguments: object, kill: Path | None = None) -> Ended:
        """What it ended with; killed once the run in the folder ``kill`` is well in training."""
        assert self.server.stdin is not None and self.server.stdout is not None
        places = {name: str(self.folder / name) for name in ("output", "said")}
        self.server.stdin.write(json.dumps({"arguments": list(map(str, arguments)), **places}) + "\n")
        self.server.stdin.flush()
        child = int(self.server.stdout.readline())
        if kill is not None:
            wait_for_updates(kill)
            os.kill(child, signal.SIGKILL)
        code = int(self.server.stdout.readline())
        return Ended(code, *(Path(place).read_text(encoding="utf-8") for place in places.values()))


def interrupted(run: Path, *arguments: str) -> Ended:
    """The command itself, with Ctrl-C once the run is well in training."""
    command = [sys.executable, "-c", MAIN, "compare", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=ENVIRONMENT, text=True, stdout=pipe, stderr=pipe) as process:
        wait_for_updates(run)
        process.send_signal(signal.SIGINT)
        output, said = process.communicate(timeout=120)
    return Ended(process.returncode, output, said)


def wait_for_updates(run: Path) -> None:
    until = time.monotonic() + 120
    while len(lines(run)) < 5:
        assert time.monotonic() < until
        time.sleep(0.005)


def lines(run: Path) -> list[str]:
    path = run / "metrics.jsonl"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@pytest.fixture(scope="module")
def comparisons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comparisons]:
    comparisons = Comparisons(tmp_path_factory.mktemp("said"))
    assert comparisons.server.stdin is not None and comparisons.server.stdout is not None
    yield comparisons
    comparisons.server.stdin.close()
    comparisons.server.wait()
    comparisons.server.stdout.close()


def unknown_kind(folder: Path, base: str) -> str:
    """A recipe that no model can be built from."""
    path = folder / "unknown.toml"
    path.write_text(f'extends = "{base}"\n[model.cross_attention]\nkind = "dott"\n')
    return str(path)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory, comparisons: Comparisons) -> Compared:
    folder = tmp_path_factory.mktemp("compared")
    dot, general = (
        recipe(folder, "dot"),
        recipe(folder, "general", "model.cross_attention.kind=general", "train.warmup=60"),
    )
    tight, unknown = recipe(folder, "tight", "train.batch_tokens=2"), unknown_kind(folder, dot)
    arguments = [dot, general, tight, unknown, "--seeds", "2", "--budget", f"{STEPS}steps"]
    arguments += ["--metric", "wer", "--beam", "1", "--json", "--out", str(folder / "out")]
    first, second = (folder / "out" / "dot" / f"seed-{seed}" for seed in (1, 2))
    sittings = [interrupted(first, *arguments), comparisons.run(*arguments, kill=second)]
    trained_first = (first / "training.json").stat().st_mtime
    sittings.append(comparisons.run(*arguments))
    codes, outputs, told = zip(*sittings, strict=True)
    return Compared(folder / "out", list(codes), list(told), json.loads(outputs[-1]), trained_first)


def members(compared: Compared) -> dict[str, list[dict[str, Any]]]:
    return {row["name"]: row["members"] for row in compared.results["rows"]}


def test_stopped_and_killed_the_same_command_goes_on(compared: Compared) -> None:
    assert compared.codes[:2] == [130, -signal.SIGKILL]
    assert "stopped; run the same command again" in compared.told[0]
    assert "resuming at step" in compared.told[1], "Ctrl-C left nothing to go on from"
    for run in (compared.folder / "dot" / "seed-1", compared.folder / "dot" / "seed-2"):
        steps = [record["step"] for record in map(json.loads, lines(run)) if "loss" in record]
        assert steps == list(range(1, STEPS + 1))


def test_what_is_finished_is_not_trained_again(compared: Compared) -> None:
    assert (compared.folder / "dot" / "seed-1" / "training.json").stat().st_mtime == compared.trained_first
    assert "dot, seed 1" not in compared.told[2]
    assert "[4/8] dot, seed 2" in compared.told[2]  # behind what is done and what cannot begin


def test_each_row_has_its_figures(compared: Compared) -> None:
    rows = {row["name"]: row for row in compared.results["rows"]}
    assert list(rows) == ["dot", "general", "tight", "unknown"]
    for name in ("dot", "general"):
        values = [member["value"] for member in rows[name]["members"]]
        assert [member["seed"] for member in rows[name]["members"]] == [1, 2]
        assert rows[name]["mean"] == pytest.approx(statistics.fmean(values))
        assert rows[name]["spread"] == pytest.approx(statistics.stdev(values))
        for member in rows[name]["members"]:
            updates = [record for record in map(json.loads, lines(Path(member["run"]))) if "loss" in record]
            seconds = sum(record["seconds"] for record in updates)
            assert member["state"] == "done" and member["updates"] == STEPS and member["error"] is None
            assert member["target_tokens"] == sum(record["tokens"] for record in updates)
            assert member["train_tokens_per_second"] == pytest.approx(member["target_tokens"] / seconds)
            assert member["decode_tokens_per_second"] > member["decode_lines_per_second"] > 0
            assert 50 * 2**20 < member["peak_memory"] < 4 * 2**30
            assert member["search"]["beam"] == 1
    assert rows["general"]["members"][0]["parameters"] > rows["dot"]["members"][0]["parameters"]
    assert compared.results["signatures"][0].startswith("WER|")


def test_the_value_is_that_of_evaluate(compared: Compared, regard) -> None:
    member = members(compared)["general"][1]
    corpus = CorpusConfig.model_validate(compared.results["measured"]["test"][0]["corpus"])
    found = regard("evaluate", member["run"], corpus.source, corpus.target, "--metric", "wer", "--beam", 1, "--json")
    assert json.loads(found.stdout)["scores"]["wer"]["value"] == pytest.approx(member["value"])


def test_a_failure_is_one_row_s(compared: Compared) -> None:
    """Of a child, with its code; of a config, before anything is trained; the others go on."""
    assert compared.codes[2] == 3
    by_row = members(compared)
    for member in by_row["tight"]:
        assert member["state"] == "failed" and "do not fit into a batch of 2 tokens" in member["error"]["what"]
        assert member["error"]["exit_code"] == 3
    assert "tight, seed 2 failed: " in compared.told[2] and "help: lower data.max_length" in compared.told[2]
    assert [member["error"]["exit_code"] for member in by_row["unknown"]] == [2, 2]
    assert compared.told[0].count("unknown failed: unknown mechanism 'dott'") == 1
    assert compared.told[0].index("unknown failed") < compared.told[0].index("dot, seed 1")
    assert all("Traceback" not in said for said in compared.told)


def test_the_files_beside_the_runs(compared: Compared) -> None:
    kept = json.loads((compared.folder / "results.json").read_text(encoding="utf-8"))
    assert kept["rows"] == compared.results["rows"]
    page = (compared.folder / "results.md").read_text(encoding="utf-8")
    assert f"budget: {STEPS}steps; seeds: 2" in page and "| general |" in page and "torch " in page
    if can_draw():
        assert (compared.folder / "figure.png").read_bytes().startswith(b"\x89PNG")
        assert "general" in (compared.folder / "figure.svg").read_text(encoding="utf-8")


def test_a_warm_up_that_outlasts_the_budget_is_told(compared: Compared) -> None:
    assert compared.told[2].count("warning: the warm-up of 60 updates is longer than the training of 60") == 2


def test_another_metric_measures_anew_and_trains_nothing(
    compared: Compared, comparisons: Comparisons, regard, tmp_path: Path
) -> None:
    """One row of those that are there, over another text, by its loss; the table fits."""
    source, target = write_pairs(tmp_path, "test", 10, seed=9)
    name = compared.folder.parent / "general.toml"
    before = [(compared.folder / "general" / f"seed-{seed}" / "metrics.jsonl").read_bytes() for seed in (1, 2)]
    found = comparisons.run(
        name, "--budget", f"{STEPS}steps", "--seeds", 2, "--metric", "loss", "--test", source, target,
        "--average", 2, "--out", compared.folder,
    )  # fmt: skip
    assert found.code == 0, found.said
    assert [(compared.folder / "general" / f"seed-{seed}" / "metrics.jsonl").read_bytes() for seed in (1, 2)] == before
    head, row = found.output.splitlines()
    assert head.split()[0] == "loss" and row.split()[0] == "general" and len(row) == 100
    result = json.loads((compared.folder / "results.json").read_text(encoding="utf-8"))
    assert result["rows"][0]["members"][0]["checkpoint"].startswith(f"average (steps {STEPS - 15}, {STEPS})")
    scored = regard("score", result["rows"][0]["members"][0]["run"], source, target, "--json")
    assert scored.exit_code == 0 and result["rows"][0]["mean"] > 0
    without = regard("compare", name, "--budget", f"{STEPS + 1}steps", "--out", compared.folder)
    assert isinstance(without.exception, ConfigError) and "another config or budget" in without.exception.what


def test_one_comparison_at_a_time_in_a_folder(regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.comparison.execution.PATIENCE", 0.1)
    out = tmp_path / "out"
    out.mkdir()
    with locked(out / "lock"):
        found = regard("compare", recipe(tmp_path, "a"), "--budget", "3steps", "--out", out)
    assert isinstance(found.exception, ModelError) and "another process is comparing" in found.exception.what


def test_bad_input_trains_nothing(regard, tmp_path: Path) -> None:
    a, out = recipe(tmp_path, "a"), tmp_path / "out"
    for arguments, kind, what in (
        ((a, "--budget", "soon"), ConfigError, "not a budget"),
        ((a, a), ConfigError, "two rows"),
        ((a, "--metric", "blue"), ConfigError, "blue"),
        ((a, "--test", a, a, "--test-file", a), ConfigError, "cannot be combined"),
        ((a, "--test-file", tmp_path / "none.tsv"), DataError, "file not found"),
    ):
        found = regard("compare", *arguments, "--out", out)
        assert isinstance(found.exception, kind) and what in str(found.exception), arguments
    assert not out.exists()
    assert regard("compare").exit_code == 2


def test_without_matplotlib_there_is_a_table(regard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The row fails at once here, which needs no training."""
    monkeypatch.setattr("regard.core.figure.find_spec", lambda name: None)
    unknown = unknown_kind(tmp_path, recipe(tmp_path, "dot"))
    found = regard("compare", unknown, "--budget", "3steps", "--out", tmp_path / "out")
    assert found.exit_code == 2
    assert extra_command("plot") in found.stderr
    assert found.stdout.splitlines()[1].split()[:2] == ["unknown", "failed"]
