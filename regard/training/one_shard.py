"""One shard a rank, and gradients by ``backward``: what DDP and FSDP2 have in common, and both for a single process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.core.randomness import mixed_seed, seeded_generator
from regard.core.task import Batch, Carry, ExampleIndices, Examples, LossTerms, MetricSums, Objective
from regard.core.tensors import added_sums, kept_buffers, to_device
from regard.errors import ConfigError
from regard.training.canonical_ranks import added, gathered
from regard.training.carry import continued, handed_on
from regard.training.ranks import Peers
from regard.training.row_parts import is_cut
from regard.training.shards import CPU, as_parameter
from regard.training.strategy import Carries, Gradient, Trainable


class _Pass(NamedTuple):
    """A batch of this rank: its number in the update, and whether its loss counts."""

    number: int
    examples: ExampleIndices
    counts: bool


class OneShard:
    """Gradients in one shard for each rank, left by ``backward``; without ``peers`` in one, by this process alone.

    The examples of each batch are dealt to the ranks; rank r draws in batch b by (seed, b · ranks + r). The loss is the
    sum over all ranks and batches of an update, over the sum of their weights, which are known before the first pass:
    so neither the number of batches nor how many tokens a rank was dealt changes what a token counts. Differs from
    ``Shards`` in: bits depend on the number of ranks, and gradients of a model in bfloat16 are added in bfloat16,
    unless a subclass knows better.
    """

    def __init__(self, peers: Peers | None, device: torch.device = CPU) -> None:
        self.peers, self.device = peers, device
        self.rank, self.world = (0, 1) if peers is None else (peers.rank, peers.world)
        self.number: int | None = self.world

    def wrap(self, model: Trainable) -> nn.Module:
        self.require_stateless(model)
        return model

    def require_stateless(self, model: Trainable) -> None:
        """ConfigError for a network that each pass changes: every rank would end with another one."""
        if self.world > 1 and (kept := kept_buffers(model.net)):
            raise ConfigError(
                "this model cannot be trained by several ranks",
                where="train.strategy",
                why=f"what a batch leaves in it, such as BatchNorm's running statistics ({next(iter(kept))}), would be "
                "another on each rank",
                help="train it in one process",
            )

    def deal(self, examples: ExampleIndices) -> list[tuple[int, ExampleIndices]]:
        parts = examples.shards(self.world)
        return [(self.rank, parts[self.rank])] if self.rank < len(parts) else []

    def idle(self, examples: ExampleIndices) -> ExampleIndices | None:
        return None

    def gathered(self, model: nn.Module) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def first(self) -> Iterator[bool]:
        if self.peers is None:
            yield True
            return
        with self.peers.first() as leads:
            yield leads

    def add(self, sums: MetricSums) -> MetricSums:
        return dict(sums) if self.peers is None else added(self.peers, sums, self.device)

    def full(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return tensors if self.peers is None else gathered(self.peers, tensors)

    def joins(self, last: bool) -> bool:
        """Return whether all ranks meet in a pass, in the ``last`` one of an update or in one before."""
        return False

    def passing(self, model: nn.Module, last: bool) -> AbstractContextManager[None]:
        """Surround the two directions of a pass."""
        return nullcontext()

    def collected(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        """The gradients that the passes left on this rank, at least float32 and laid out as the parameters."""
        return [as_parameter(p.grad, p) for p in parameters]

    def scale(self) -> float:
        """The factor of the loss that undoes a mean over ranks."""
        return 1.0

    def gradient(
        self,
        model: nn.Module,
        examples: Examples,
        update: Sequence[ExampleIndices],
        carry: Carries,
        *,
        seed: tuple[int, ...],
    ) -> Gradient:
        """The gradient of one update, as ``Strategy`` has it."""
        parameters = list(model.parameters())
        for parameter in parameters:
            parameter.grad = None
        passes = self._passes(update)
        batches = [examples.collate(each.examples) for each in passes]
        own = sum(batch.weight for batch, each in zip(batches, passes, strict=True) if each.counts)
        weight = float(self.add({"weight": torch.tensor(own, dtype=torch.float64)})["weight"])
        carried: Carry = carry.get(self.rank, ())
        minimized, sums, counted = 0.0, dict[str, Tensor](), 0
        for each, collated in zip(passes, batches, strict=True):
            batch, rows = to_device(collated, self.device), len(collated.index)
            last = each is passes[-1]
            with self.explained(), self.passing(model, last), self._drawing(seed, each.number):
                terms = model(batch, continued(carried, rows) if each.counts else ())
                (terms.minimized * (self.scale() / weight if each.counts else 0.0)).backward()
            if each.counts:
                carried, counted = handed_on(terms.carry, rows), counted + 1
                minimized += float(terms.minimized.detach()) / weight
                sums = added_sums(sums, terms.sums)
            del terms
        values = self.collected(parameters)
        for parameter in parameters:
            parameter.grad = None
        whole = self.add({f"sum.{name}": value for name, value in sums.items()} | {"minimized": _wide(minimized)})
        return Gradient(
            values,
            float(whole.pop("minimized")),
            {name.removeprefix("sum."): value for name, value in whole.items()},
            weight,
            {self.rank: carried} if carried and counted == len(update) else {},  # else: its lanes have ended
        )

    def _passes(self, update: Sequence[ExampleIndices]) -> list[_Pass]:
        """This rank's passes: its part of each batch, and where all meet and it has none, one that counts nothing."""
        passes = []
        for number, batch in enumerate(update):
            passes += [_Pass(number, part, True) for _, part in self.deal(batch)]
            if not (passes and passes[-1].number == number) and self.joins(number == len(update) - 1):
                passes.append(_Pass(number, first_of(batch), False))
        return passes

    @contextmanager
    def _drawing(self, seed: tuple[int, ...], number: int) -> Iterator[None]:
        drawn = mixed_seed(*seed, number * self.world + self.rank)
        torch.manual_seed(drawn)  # for what draws from torch's own generator
        with seeded_generator(drawn, self.device):
            yield

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise torch's failure to reach another rank in a pass as the TrainingError that ``Peers`` has for it."""
        try:
            yield
        except RuntimeError as error:
            text = str(error).lower()
            if self.peers is None or not any(word in text for word in ("gloo", "nccl", "connection", "timed out")):
                raise
            with self.peers.explained():
                raise


def first_of(batch: ExampleIndices) -> ExampleIndices:
    """One example, for a rank that has none of its own."""
    return ExampleIndices(batch.index[:1], batch.visit[:1])


def reaching_all(objective: Objective) -> Objective:
    """The objective with a gradient, zero at least, of every parameter that is there as a whole.

    A pass may reach fewer on one rank than on another: a decoder that reads before its cells run, given targets of one
    token, never uses the cells. Ranks that add up different lists of gradients wait for each other, or worse.
    """

    def reaching(net: nn.Module, batch: Batch, carry: Carry) -> LossTerms:
        terms = objective(net, batch, carry)
        if not torch.is_grad_enabled():
            return terms
        there = [each for each in net.parameters() if each.requires_grad and not is_cut(each)]
        reached: Tensor = _Reaching.apply(terms.minimized, *there)
        return terms._replace(minimized=reached)

    return reaching


class _Reaching(torch.autograd.Function):
    """The loss, as if it depended on every parameter; their gradients are zeros that take no memory."""

    @staticmethod
    def forward(context: Any, loss: Tensor, *parameters: Tensor) -> Tensor:
        context.alike = [(each.shape, each.dtype, each.device) for each in parameters]
        return loss.clone()

    @staticmethod
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, ...]:
        zeros = [torch.zeros((), dtype=dtype, device=device).expand(shape) for shape, dtype, device in context.alike]
        return upstream, *zeros


def _wide(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)
