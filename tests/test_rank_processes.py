"""Training by two processes over gloo: the bits of one process for every task, and failures that all ranks are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch.distributed import HashStore

from regard.core.task import find_task
from regard.core.task_table import TASKS
from regard.core.tensors import digest
from regard.errors import ConfigError, TrainingError
from regard.runs import checkpoint
from regard.testing import TaskCase
from regard.training.canonical_ranks import require_shards
from regard.training.ranks import RankInfo, joined, of_this_attempt
from tests.laws import lanes_task
from tests.several_ranks import free_port, run_jobs

LANES = lanes_task.KIND
pytestmark = pytest.mark.usefixtures("lanes")
Found = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def cases() -> dict[str, TaskCase]:
    """Every task, and lanes that carry state."""
    found = {kind: TaskCase(find_task(kind), kind) for kind in TASKS}
    return found | {LANES: TaskCase(lanes_task.TASK, LANES)}


@pytest.fixture(scope="module")
def runs(cases: dict[str, TaskCase]) -> dict[str, Path]:
    return {kind: case.run().path for kind, case in cases.items()}


@pytest.fixture(scope="module")
def found(cases: dict[str, TaskCase], runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What both ranks found in every job, by its name: one start of two processes."""
    folder = tmp_path_factory.mktemp("ranks")
    jobs: list[tuple[str, dict[str, Any]]] = [
        ("program", {"run": str(runs["language-model"]), "folder": str(folder / "program")}), ("talk", {}),
        ("sums", {}), ("train", {"runs": [str(run) for run in runs.values()]}), ("disagree", {}),
        ("leave", {"run": str(cases["language-model"].run().path)}),
        ("fail", {"rank": 1}), ("fail_first", {}), ("prepare_long", {"patience": 1.5}),
        ("fall_silent", {"patience": 1.5}), ("die", {}),
    ]  # fmt: skip
    ranks = run_jobs(folder, jobs)
    return {name: [rank[at] for rank in ranks if at < len(rank)] for at, (name, _) in enumerate(jobs)}


def test_every_rank_is_shown_what_all_say(found: Found) -> None:
    one, other = (rank["value"] for rank in found["talk"])
    for each in (one, other):
        assert each["small"] == ["rank 0", "rank 1"] and each["empty"] == [504, 0]
        assert each["long"] == [[70_000, 1, 1], [3_000, 2, 2]]
    assert one["exchanged"] == [3, 3_000] and other["exchanged"] == [0, 70_000]
    assert one["led"] and not other["led"]


def test_sums_are_of_all_ranks_and_names_of_any(found: Found) -> None:
    one, other = (rank["value"] for rank in found["sums"])
    assert one["total"] == other["total"] == {"both": [2.0, 1.0], "only 0": 2.0, "only 1": 3.0}
    assert one["held"] == {"shared": 0.0, "of 0": 0.0, "of 1": 1.0}


def test_two_processes_end_in_the_bits_of_one(found: Found, cases: dict[str, TaskCase], runs: dict[str, Path]) -> None:
    assert [rank["value"] for rank in found["train"]] == [[0] * len(runs)] * 2
    for kind, case in cases.items():
        saved = checkpoint.load_latest(runs[kind] / "checkpoints", print)
        assert saved is not None
        assert digest({"model": saved.groups["model"]}) == digest({"model": case.undisturbed[1]}), kind


def test_a_program_of_ones_own_trains_on_all_ranks(found: Found, cases: dict[str, TaskCase]) -> None:
    (folder,) = {rank["value"] for rank in found["program"]}
    saved = checkpoint.load_latest(Path(folder) / "checkpoints", print)
    assert saved is not None
    assert digest({"model": saved.groups["model"]}) == digest({"model": cases["language-model"].undisturbed[1]})


def test_ranks_leave_together_and_none_says_that_it_is_done(found: Found) -> None:
    """One of them was sent SIGTERM: a scheduler must not take the other's end for the training's."""
    assert [rank["value"] for rank in found["leave"]] == [143, 143]


def test_ranks_that_begin_differently_are_told_of(found: Found) -> None:
    for rank in found["disagree"]:
        assert rank["error"] == "TrainingError" and rank["what"] == "rank 1 has another step than rank 0"
        assert rank["why"] == "step 1 instead of step 0"


def test_a_failure_is_told_to_the_other_rank(found: Found) -> None:
    waiting, failed = found["fail"]
    assert failed["error"] == "DataError" and failed["what"] == "a line cannot be read"
    assert waiting["error"] == "PeerFailure" and waiting["what"] == "rank 1 failed: a line cannot be read"
    assert "run the same command again" in waiting["help"]
    failed, waiting = found["fail_first"]
    assert failed["error"] == "DataError"
    assert waiting["error"] == "PeerFailure" and waiting["what"] == "rank 0 failed: there is no corpus"


def test_a_rank_waits_for_one_that_lives_however_long_it_takes(found: Found) -> None:
    assert all(rank["value"] >= 1.4 for rank in found["prepare_long"]), found["prepare_long"]


def test_a_rank_that_does_not_answer_ends_the_job(found: Found) -> None:
    waiting = found["fall_silent"][0]
    assert waiting["error"] == "PeerFailure" and waiting["what"] == "another rank has left the job without a reason"
    assert "cannot be reached" in waiting["why"]


def test_a_rank_that_was_killed_ends_the_job(found: Found) -> None:
    (waiting,) = found["die"]
    assert waiting["error"] == "PeerFailure" and "it was killed" in waiting["why"]
    assert "by peer" in waiting["why"] and "Check the logs" not in waiting["why"]


@pytest.mark.parametrize(("rank", "world"), [("2", "2"), ("-1", "2"), ("one", "2"), ("0", "")])
def test_numbers_that_are_no_place_are_refused(monkeypatch: pytest.MonkeyPatch, rank: str, world: str) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", world)
    with pytest.raises(ConfigError, match="rank of this process is invalid"):
        RankInfo.of_this_process()


def test_a_process_that_nobody_started_with_others_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with joined() as peers:
        assert peers is None


def test_a_rank_that_nobody_meets_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    place = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TrainingError, match="cannot reach the other 1") as failure, joined(0.5, meeting=0.5):
        pass
    assert "GLOO_SOCKET_IFNAME" in str(failure.value)


def test_what_ranks_said_before_a_restart_is_not_heard_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchrun --max-restarts keeps its store: who was there has left an address at which nobody answers."""
    store = HashStore()
    for attempt in ("0", "1"):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", attempt)
        assert not of_this_attempt(store).check(["here-1"])
        of_this_attempt(store).set("here-1", "")
        assert of_this_attempt(store).check(["here-1"])


@pytest.mark.parametrize(("shards", "ranks", "why"), [(4, 3, "power of two"), (2, 4, "cannot share 2 shards")])
def test_ranks_that_cannot_share_an_update_are_refused(shards: int, ranks: int, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        require_shards(shards, ranks)
    require_shards(4, 4)
