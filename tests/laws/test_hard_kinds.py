"""Kinds of work that strain the seam of tasks: carried state, one graph, two losses; and wrong ways to carry.

A graph is one example, so that one shard of an update has all of it. State goes on by lanes, recurrent and as in
Transformer-XL. Speech has a CTC loss on the encoder beside the decoder's.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.core.task import Carry, ExampleIndices, LossTerms, Task, find_task
from regard.testing import TASK_LAWS, Draw, TaskCase
from regard.training import checkpoints
from tests.laws import graph_task, lanes_task, segment_memory_task, speech_task, test_tasks
from tests.laws.test_tasks import with_examples, with_loss

GRAPH, LANES, MEMORY, SPEECH = KINDS = [
    f"{module.__name__}:TASK" for module in (graph_task, lanes_task, segment_memory_task, speech_task)
]


@pytest.fixture(scope="module", autouse=True)
def _trusted() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_TASKS", ",".join(KINDS))
        yield


cases: dict[str, TaskCase] = {}


def case_of(kind: str) -> TaskCase:
    return cases.setdefault(kind, TaskCase(find_task(kind), kind))


@pytest.mark.parametrize("law", TASK_LAWS, ids=lambda law: law.name)
@pytest.mark.parametrize("kind", KINDS)
def test_a_hard_kind(kind: str, law: Any) -> None:
    law.check(case_of(kind), Draw(random.Random(1)))


def segments(net: nn.Module, document: int, length: int) -> Tensor:
    """The loss of a document read in pieces of ``length``, each going on with what the one before carried."""
    examples = case_of(LANES).data.train
    text = examples.documents[document]
    total, carry, loss = torch.zeros(()).double(), Carry(), lanes_task.objective(case_of(LANES).config)
    for at in range(0, len(text), length):
        target, previous = text[None, at : at + length], nn.functional.pad(text, (1, 0))[None, at:][:, :length]
        previous = previous[:, : target.shape[1]]
        batch = lanes_task.SegmentBatch(previous, target, target > 0, torch.tensor([at == 0]), torch.tensor([0]), 1.0)
        terms = loss(net, batch, carry)
        total, carry = total + terms.minimized, terms.carry
    return total


@pytest.mark.parametrize("kind", [LANES, MEMORY])
def test_segments_that_carry_read_what_a_whole_document_does(kind: str) -> None:
    net = case_of(kind).net()
    for document in (0, 3):
        torch.testing.assert_close(segments(net, document, 4), segments(net, document, 30), rtol=1e-9, atol=1e-9)


def test_an_update_goes_on_with_what_the_one_before_carried() -> None:
    """At the beginning of an epoch and of a validation there is nothing; else each lane has its own of before."""
    begun: list[tuple[bool, bool]] = []  # whether in training, whether something was carried

    def seen(net: nn.Module, batch: Any, carry: Carry) -> LossTerms:
        begun.append((net.training, bool(carry)))
        return lanes_task.objective(case.config)(net, batch, carry)

    case = TaskCase(replace(lanes_task.TASK, objective=lambda config: seen), LANES)
    case.tables["train"] |= {"steps": 11, "validate_every": 4, "shards": 1}
    assert case.undisturbed
    updates = [carried for training, carried in begun if training]
    assert len(case.data.train.batches(0)) == 9 and updates == [False, *[True] * 8, False, True]
    validation = [carried for training, carried in begun if not training]
    each = len(case.data.valid.batches(None))
    assert validation == [False, *[True] * (each - 1)] * 3, "at 4, at 8 and at the end"


def test_a_graph_has_one_shard_and_sums_of_any_shape() -> None:
    case = case_of(GRAPH)
    (batch,) = case.data.train.batches(0)
    assert len(batch.shards(2)) == 1
    terms, _ = case.terms(case.net(), batch)
    assert terms.sums["confusion"].shape == (2, 2)


def test_both_losses_of_speech_reach_their_sides() -> None:
    """CTC teaches the encoder's own output, the decoder's loss the rest; each has its sum."""
    case = case_of(SPEECH)
    net, batch = case.net(), case.data.train.batches(0)[0]
    terms, _ = case.terms(net, batch)
    both = float(terms.sums["nll"]) + speech_task.CTC_WEIGHT * float(terms.sums["ctc"])
    assert terms.minimized.item() == pytest.approx(both)
    gradients = torch.autograd.grad(terms.minimized, [net.to_ctc.weight, net.output.weight, net.pairs.weight])
    assert all(each.abs().sum() > 0 for each in gradients)


def remembered(config: Any) -> Any:
    """Kept beside what is carried: nobody saves it."""
    right, kept = lanes_task.objective(config), dict[int, Carry]()

    def loss(net: nn.Module, batch: Any, carry: Carry) -> LossTerms:
        rows = len(batch.index)  # of one shard there are as many, of the other fewer
        terms = right(net, batch, kept.get(rows, ()) if net.training else ())
        kept[rows] = tuple(each.detach() for each in terms.carry)
        return terms._replace(carry=())

    return loss


def spread(net: nn.Module, batch: Any, terms: LossTerms) -> LossTerms:
    return terms._replace(carry=tuple(each.mean(0, keepdim=True).expand_as(each) for each in terms.carry))


def never_fresh(config: Any) -> Any:
    """Every row goes on, into another document too."""
    right = lanes_task.objective(config)
    return lambda net, batch, carry: right(net, batch._replace(fresh=torch.zeros_like(batch.fresh)), carry)


WRONG: dict[str, tuple[Callable[[Task], Task], str]] = {
    "state kept on the objective": (
        lambda task: replace(task, objective=remembered),
        "interrupted_and_resumed_is_as_if_never_stopped",
    ),
    "a carry that lanes share": (with_loss(spread), "lanes_carry_on_their_own"),
    "a fresh row that goes on": (lambda task: replace(task, objective=never_fresh), "lanes_carry_on_their_own"),
}


def caught(case: TaskCase, name: str) -> None:
    (law,) = [each for each in TASK_LAWS if each.name == name]
    with pytest.raises(AssertionError):
        for trial in range(3):
            law.check(case, Draw(random.Random(trial)))


@pytest.mark.parametrize(("wrong", "name"), WRONG.values(), ids=WRONG)
def test_a_wrong_way_to_carry_is_caught(wrong: Callable[[Task], Task], name: str) -> None:
    caught(TaskCase(wrong(lanes_task.TASK), LANES), name)


def test_a_carry_that_is_not_saved_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "named_carries", lambda carries: {})
    caught(TaskCase(lanes_task.TASK, LANES), "interrupted_and_resumed_is_as_if_never_stopped")


def by_rank(right: Any, epoch: int | None) -> Any:
    plan = right.batches(epoch)
    return plan[::-1] if epoch is not None and threading.current_thread().name.endswith("_1") else plan


def new_masks(right: Any, examples: ExampleIndices) -> Any:
    """Frames drawn anew, instead of by (seed, stream, index, visit)."""
    batch = right.collate(examples)
    return batch._replace(frames=batch.frames * torch.from_numpy(np.random.default_rng().random(1)).float())


def learning(net: nn.Module, batch: Any, terms: LossTerms) -> LossTerms:
    """Statistics moved by whatever passes, in validation too."""
    with torch.no_grad():
        next(net.parameters()).mul_(1.001)
    return terms


ELSEWHERE: dict[str, tuple[str, Callable[[Task], Task], str]] = {
    "a plan that depends on the rank": (SPEECH, with_examples(batches=by_rank), "the_number_of_ranks_changes_no_bit"),
    "masks that are not replayed": (SPEECH, with_examples(collate=new_masks), "collating_is_pure"),
    "visits that are lost": (SPEECH, with_examples(batches=test_tasks.never_visited), "visits_count_uses"),
    "a validation that changes the network": (GRAPH, with_loss(learning), "evaluating_leaves_no_trace"),
    "a frame counted for CTC in every shard": (
        SPEECH,
        with_loss(lambda net, batch, terms: terms._replace(sums=terms.sums | {"pairs": terms.sums["pairs"] + 1})),
        "terms_add_over_dealing",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "wrong", "name"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_wrong_kind_is_caught(kind: str, wrong: Callable[[Task], Task], name: str) -> None:
    caught(TaskCase(wrong(find_task(kind)), kind), name)


def test_every_law_of_tasks_catches_something() -> None:
    named = {name for _, name in (*test_tasks.MUTANTS.values(), *WRONG.values())} | {
        row[2] for row in ELSEWHERE.values()
    }
    assert {law.name for law in TASK_LAWS} == named
