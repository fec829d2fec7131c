"""One shard per rank, with gradients by ``backward``: the base of DDP and FSDP2, also for a single process."""

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
from regard.training.carry import continued, detach_carry
from regard.training.ranks import ProcessGroup
from regard.training.row_parts import is_sharded
from regard.training.shards import CPU, as_parameter
from regard.training.strategy import Carries, Gradient, Trainable


class _Pass(NamedTuple):
    """A batch of this rank: its number in the update, and whether its loss counts."""

    number: int
    examples: ExampleIndices
    counts: bool


class OneShard:
    """Gradients in one shard per rank, computed by ``backward``; without ``peers``, in one shard in this process.

    The examples of each batch are divided among the ranks; the random seed of rank r in batch b is (seed, b · ranks +
    r). The loss is the sum over all ranks and batches of an update, divided by the sum of their weights. The weights
    are known before the first pass. A token therefore has the same weight for any number of batches and any
    distribution of tokens. Differs from ``Shards``: bits depend on the number of ranks, and gradients of bfloat16
    models are added in bfloat16, unless a subclass overrides this.

    Args:
        peers: the other ranks; None: one process.
        device: of the network.
    """

    def __init__(self, peers: ProcessGroup | None, device: torch.device = CPU) -> None:
        self.peers, self.device = peers, device
        self.rank, self.world = (0, 1) if peers is None else (peers.rank, peers.world)
        self.shard_count: int | None = self.world

    def wrap(self, model: Trainable) -> nn.Module:
        self.require_stateless(model)
        return model

    def require_stateless(self, model: Trainable) -> None:
        """Raise ConfigError for a network with buffers that each pass updates: they would differ between ranks."""
        if self.world > 1 and (buffers := kept_buffers(model.net)):
            raise ConfigError(
                "this model cannot be trained on several ranks",
                where="train.strategy",
                why=f"its buffers, such as BatchNorm's running statistics ({next(iter(buffers))}), would differ "
                "between ranks",
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

    def gather_full(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return tensors if self.peers is None else gathered(self.peers, tensors)

    def joins(self, last: bool) -> bool:
        """Return whether all ranks take part in a pass: the ``last`` one of an update, or an earlier one."""
        return False

    def passing(self, model: nn.Module, last: bool) -> AbstractContextManager[None]:
        """Return the context of the forward and backward pass."""
        return nullcontext()

    def collected(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        """Return the gradients of the passes on this rank, at least float32, laid out like the parameters."""
        return [as_parameter(p.grad, p) for p in parameters]

    def scale(self) -> float:
        """Return the factor of the loss that undoes a mean over ranks."""
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
        """Return the gradient of one update; see ``Strategy``."""
        parameters = list(model.parameters())
        for parameter in parameters:
            parameter.grad = None
        passes = self._passes(update)
        batches = [examples.collate(one.examples) for one in passes]
        own = sum(batch.weight for batch, one in zip(batches, passes, strict=True) if one.counts)
        weight = float(self.add({"weight": torch.tensor(own, dtype=torch.float64)})["weight"])
        carried: Carry = carry.get(self.rank, ())
        minimized, sums, counted_batches = 0.0, dict[str, Tensor](), 0
        for current, collated in zip(passes, batches, strict=True):
            batch, rows = to_device(collated, self.device), len(collated.index)
            last = current is passes[-1]
            with self.explained(), self.passing(model, last), self._drawing(seed, current.number):
                terms = model(batch, continued(carried, rows) if current.counts else ())
                (terms.minimized * (self.scale() / weight if current.counts else 0.0)).backward()
            if current.counts:
                carried, counted_batches = detach_carry(terms.carry, rows), counted_batches + 1
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
            {self.rank: carried}
            if carried and counted_batches == len(update)
            else {},  # otherwise, its lanes have ended
        )

    def _passes(self, update: Sequence[ExampleIndices]) -> list[_Pass]:
        """Return this rank's passes.

        A rank without a part of a batch has an uncounted pass if all ranks take part.
        """
        passes = []
        for number, batch in enumerate(update):
            passes += [_Pass(number, part, True) for _, part in self.deal(batch)]
            if not (passes and passes[-1].number == number) and self.joins(number == len(update) - 1):
                passes.append(_Pass(number, first_of(batch), False))
        return passes

    @contextmanager
    def _drawing(self, seed: tuple[int, ...], number: int) -> Iterator[None]:
        drawn = mixed_seed(*seed, number * self.world + self.rank)
        torch.manual_seed(drawn)  # for functions that use torch's global generator
        with seeded_generator(drawn, self.device):
            yield

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Convert torch's communication failures in a pass to the TrainingError of ``ProcessGroup``."""
        try:
            yield
        except RuntimeError as error:
            text = str(error).lower()
            if self.peers is None or not any(word in text for word in ("gloo", "nccl", "connection", "timed out")):
                raise
            with self.peers.explained():
                raise


def first_of(batch: ExampleIndices) -> ExampleIndices:
    """Return one example, for a rank without examples of its own."""
    return ExampleIndices(batch.index[:1], batch.visit[:1])


def reaching_all(objective: Objective) -> Objective:
    """Return the objective with a gradient, at least zero, for every unsharded parameter.

    Passes on different ranks may reach different parameters: a decoder that attends before its cells run never uses the
    cells if its targets have one token. Ranks that reduce different lists of gradients would deadlock, or mix them up.
    """

    def reaching(net: nn.Module, batch: Batch, carry: Carry) -> LossTerms:
        terms = objective(net, batch, carry)
        if not torch.is_grad_enabled():
            return terms
        parameters = [p for p in net.parameters() if p.requires_grad and not is_sharded(p)]
        reached: Tensor = _Reaching.apply(terms.minimized, *parameters)
        return terms._replace(minimized=reached)

    return reaching


class _Reaching(torch.autograd.Function):
    """The loss as a function of every parameter; the additional gradients are zeros without memory."""

    @staticmethod
    def forward(context: Any, loss: Tensor, *parameters: Tensor) -> Tensor:
        context.alike = [(p.shape, p.dtype, p.device) for p in parameters]
        return loss.clone()

    @staticmethod
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, ...]:
        zeros = [torch.zeros((), dtype=dtype, device=device).expand(shape) for shape, dtype, device in context.alike]
        return upstream, *zeros


def _wide(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)
