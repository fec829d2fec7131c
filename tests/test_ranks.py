"""Training by several ranks, simulated in one process: the same bits, one decision, and one rank that writes."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from regard.core.task import Carry, ExampleIndices, LossTerms, MetricSums
from regard.core.tensors import digest
from regard.runs import checkpoint
from regard.runs.run_folder import RunFolder
from regard.testing import TaskCase
from regard.testing.ranks import Alone, Meeting, SimulatedRanks, run_ranks
from regard.training.progress import NullReporter, Outcome
from regard.training.setup import set_up
from regard.training.shards import Part, Shards, TreeSum, Workers, joined_parts
from regard.training.strategy import Gradient, Trainable, on_any_rank
from regard.training.trainer import Trainer
from regard.training.validation import objective_sums, predictor_sums
from tests.laws import lanes_task
from tests.test_shards import WHOLE, Rows, equal, model, picks, smoothed

LANES = lanes_task.KIND
pytestmark = pytest.mark.usefixtures("lanes")


@pytest.fixture(scope="module")
def case() -> TaskCase:
    """Lanes that carry state, in four shards."""
    case = TaskCase(lanes_task.TASK, LANES)
    case.tables["train"] |= {"shards": 4}
    return case


def trained(
    case: TaskCase,
    run: RunFolder,
    world: int,
    interrupted: Callable[[int, Trainer], bool] = lambda rank, trainer: False,
) -> tuple[str, list[Outcome]]:
    """The digest of the weights, which every rank has, and how each ended."""
    nets = [set_up(run, log=lambda message: None) for _ in range(world)]

    def train(rank: int, meeting: Meeting) -> tuple[str, Outcome]:
        ready = nets[rank]
        trainer = Trainer(
            run, ready.net, ready.data, steps=ready.steps, reporter=NullReporter(),
            strategy=SimulatedRanks(4, rank, meeting), interrupted=lambda: interrupted(rank, trainer),
        )  # fmt: skip
        trainer.resume()
        outcome = trainer.fit()
        return digest({"model": trainer.optimizer.weights()}), outcome

    found = run_ranks(world, train)
    assert len({weights for weights, _ in found}) == 1, "ranks hold different weights"
    return found[0][0], [outcome for _, outcome in found]


@pytest.mark.parametrize("world", [1, 2, 4])
def test_ranks_change_no_bit_of_a_gradient(world: int) -> None:
    """In float32 sums, of which the order shows; draws, padding and sums are those of shards."""
    trainable, update = Trainable(model(dropout=0.3, dtype=torch.float32), smoothed()), [WHOLE, picks(1, 3, 4)]
    alone = Shards(8, Workers(1, 1)).gradient(trainable, Rows(), update, {}, seed=(3,))

    def one(rank: int, meeting: Meeting) -> Gradient:
        return SimulatedRanks(8, rank, meeting).gradient(trainable, Rows(), update, {}, seed=(3,))

    for found in run_ranks(world, one):
        assert equal(found, alone) and found.minimized == alone.minimized and found.weight == alone.weight
        assert all(torch.equal(alone.sums[name], value) for name, value in found.sums.items())


def test_adding_rank_after_rank_would_show() -> None:
    """So that the test above can fail: without branches of the tree, the sum of four differs from that of one."""
    trainable = Trainable(model(dropout=0.3, dtype=torch.float32), smoothed())

    class InOrder(SimulatedRanks):
        def own(self) -> range:
            return range(self.rank, 8, self.world)  # in turn, so that a rank's shards are no branch

    def one(rank: int, meeting: Meeting) -> Gradient:
        return InOrder(8, rank, meeting).gradient(trainable, Rows(), [WHOLE], {}, seed=(3,))

    alone = Shards(8, Workers(1, 1)).gradient(trainable, Rows(), [WHOLE], {}, seed=(3,))
    assert not equal(run_ranks(2, one)[0], alone)


@pytest.mark.parametrize(("world", "examples"), [(1, 9), (2, 9), (3, 9), (4, 2), (3, 1)])
def test_every_example_is_dealt_to_one_rank(world: int, examples: int) -> None:
    meeting = Meeting(world)
    dealt = [part for rank in range(world) for part in SimulatedRanks(8, rank, meeting).deal(picks(*range(examples)))]
    assert len({shard for shard, _ in dealt}) == len(dealt)
    assert sorted(index for _, part in dealt for index in part.index) == list(range(examples))


def test_a_run_that_changes_its_ranks_ends_in_the_bits_of_one(case: TaskCase) -> None:
    """Four, killed; two, killed; one: lanes go on with what their shards carried, whoever held them."""
    whole, run = digest({"model": case.undisturbed[1]}), case.run()
    for world, stop in ((4, 2), (2, 5)):
        trained(case, run, world, lambda rank, trainer, stop=stop: trainer.progress.step >= stop)
        carried = checkpoint.load(checkpoint.step_path(run.checkpoints, stop)).groups["carry"]
        assert sorted(carried) == ["0.0", "1.0", "2.0"], "of three lanes in four shards, gathered by rank 0"
    assert trained(case, run, 1)[0] == whole


def test_ranks_leave_together(case: TaskCase) -> None:
    """One alone was interrupted: all stop after the same update, with one checkpoint."""
    run = case.run()
    _, outcomes = trained(case, run, 2, lambda rank, trainer: rank == 1 and trainer.progress.step == 3)
    assert [(each.reason, each.progress.step) for each in outcomes] == [("interrupted", 3)] * 2
    assert checkpoint.list_steps(run.checkpoints)[-1] == 3


def test_ranks_leave_validation_together(case: TaskCase) -> None:
    """One alone was interrupted while all validated: the validation counts for none of them."""
    run = case.run()
    _, outcomes = trained(case, run, 2, lambda rank, trainer: rank == 1 and not trainer.model.training)
    assert [(each.reason, each.progress.validated) for each in outcomes] == [("interrupted", 0)] * 2
    assert outcomes[0].progress.step == outcomes[1].progress.step > 0


def test_ranks_agree_on_seconds_and_the_best(case: TaskCase) -> None:
    _, outcomes = trained(case, case.run(), 2)
    (one, other) = (each.progress for each in outcomes)
    assert one.seconds == other.seconds > 0
    assert (one.best_step, one.best_value) == (other.best_step, other.best_value) != (0, None)


def test_rank_0_alone_writes(case: TaskCase, monkeypatch: pytest.MonkeyPatch) -> None:
    writers, write = set(), Path.open

    def opened(path: Path, mode: str = "r", *given: Any, **options: Any) -> Any:
        writers.update([threading.current_thread().name] if set(mode) & set("wax+") else [])
        return write(path, mode, *given, **options)

    def saved(*given: Any, save: Any = checkpoint.save, **options: Any) -> Any:
        writers.add(threading.current_thread().name)
        return save(*given, **options)

    monkeypatch.setattr(Path, "open", opened)
    monkeypatch.setattr(checkpoint, "save", saved)
    trained(case, case.run(), 2)
    names = {name for name in writers if name.startswith("rank")}
    assert {name.rsplit("_", 1)[1] for name in names} == {"0"}


def test_a_flag_of_one_rank_is_that_of_all() -> None:
    def flags(rank: int, meeting: Meeting) -> list[bool]:
        strategy = SimulatedRanks(4, rank, meeting)
        return [on_any_rank(strategy, rank == which) for which in (0, 1, 7)]

    assert run_ranks(2, flags) == [[True, True, False]] * 2
    assert on_any_rank(Shards(1, Workers(1, 1)), True) and not on_any_rank(Shards(1, Workers(1, 1)), False)


def test_a_rank_that_leaves_or_does_something_else_is_told_of() -> None:
    def leaves(rank: int, meeting: Meeting) -> None:
        if rank == 0:
            meeting.all(rank, "sum", None)

    with pytest.raises(Alone, match="rank 0 waits"):
        run_ranks(2, leaves)

    def strays(rank: int, meeting: Meeting) -> None:
        meeting.all(rank, ["sum", "checkpoint"][rank], None)

    with pytest.raises(AssertionError, match="different kinds of values"):
        run_ranks(2, strays)

    def fails(rank: int, meeting: Meeting) -> None:
        if rank == 1:
            raise ZeroDivisionError
        meeting.all(rank, "sum", None)

    with pytest.raises(ZeroDivisionError):
        run_ranks(2, fails)


def test_a_sum_of_parts_counts_what_some_lack_as_nothing() -> None:
    def part(value: float | None, **sums: float) -> Part:
        values: list[Tensor | None] = [None if value is None else torch.tensor(value)]
        return Part(values, 1.0, {name: torch.tensor(each) for name, each in sums.items()})

    whole = TreeSum(joined_parts)
    for each in (part(None, nll=1.0), part(2.0), part(3.0, tokens=4.0)):
        whole.add(each)
    found = whole.value()
    assert found.values == [torch.tensor(5.0)] and found.minimized == 3.0
    assert {name: float(value) for name, value in found.sums.items()} == {"nll": 1.0, "tokens": 4.0}


def test_ranks_take_the_shards_of_one_process_in_order() -> None:
    meeting = Meeting(2)
    dealt = [SimulatedRanks(4, rank, meeting).deal(picks(*range(6))) for rank in range(2)]
    alone: list[tuple[int, ExampleIndices]] = Shards(4, Workers(1, 1)).deal(picks(*range(6)))
    assert [(shard, part.index.tolist()) for each in dealt for shard, part in each] == [
        (shard, part.index.tolist()) for shard, part in alone
    ]


def test_what_is_not_finite_on_another_rank_is_learned_by_none(case: TaskCase) -> None:
    class Elsewhere(Shards):
        """One of two ranks, of which the other has no finite loss."""

        def add(self, sums: MetricSums) -> MetricSums:
            return {name: value + (name == "flag") for name, value in sums.items()}

    run = case.run()
    ready = set_up(run, log=lambda message: None)
    trainer = Trainer(
        run, ready.net, ready.data, steps=6, reporter=NullReporter(), strategy=Elsewhere(4, Workers(1, 1)),
        interrupted=lambda: False,
    )  # fmt: skip
    before = digest({"model": trainer.optimizer.weights()})
    found, norm, _ = trainer.updater.update(trainer.progress, trainer.rate)
    assert math.isfinite(found.minimized) and not math.isfinite(norm)
    assert digest({"model": trainer.optimizer.weights()}) == before and trainer.progress.step == 1


class TwoBatches(Rows):
    """Three lanes, then two of them."""

    def batches(self, epoch: int | None) -> list[ExampleIndices]:
        return [picks(0, 1, 2), picks(3, 4)]


def counting(net: Any, batch: Any, carry: Carry) -> LossTerms:
    """Each lane carries how many batches it has had, which are summed."""
    had = 1 + (carry[0] if carry else torch.zeros(len(batch.index)))
    return LossTerms(had.sum(), {"had": had.sum().double()}, (had,))


@pytest.mark.parametrize("world", [1, 2, 4])
def test_a_validation_carries_by_lane_and_counts_all_ranks(world: int) -> None:
    class Predictor:
        def measure(self, examples: Any, indices: Any, names: Any, interrupted: Any) -> MetricSums:
            return {"indices": torch.tensor(float(sum(int(each) + 1 for each in indices)), dtype=torch.float64)}

    def one(rank: int, meeting: Meeting) -> MetricSums | None:
        strategy, predictor = SimulatedRanks(4, rank, meeting), cast(Any, Predictor())
        sums = objective_sums(Trainable(nn.Module(), counting), TwoBatches(), strategy)
        more = predictor_sums(predictor, TwoBatches(), ["any"], strategy)
        return None if sums is None or more is None else sums | more

    for found in run_ranks(world, one):
        assert found is not None and {name: float(each) for name, each in found.items()} == {
            "had": 1 + 1 + 1 + 2 + 2, "indices": 1 + 2 + 3 + 4 + 5,
        }  # fmt: skip
