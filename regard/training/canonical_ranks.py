"""Shards over several processes: an update has the same bits whatever the number of ranks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from safetensors.torch import load, save
from torch import Tensor

from regard.core.task import MetricSums
from regard.core.tensors import added_sums, separate
from regard.errors import ConfigError
from regard.training.ranks import Peers
from regard.training.shards import CPU, Part, Shards, TreeSum, Workers, joined_parts


class CanonicalRanks(Shards):
    """The shards of one of several ranks, each with a run of them that is a branch of the tree.

    The upper levels of the tree are added by recursive doubling: at level k a rank exchanges its part with the one
    whose number differs in bit k, and both add the lower rank's part and the higher one's. So every rank ends with the
    bits of one process that computed all shards. Each level sends the whole gradient, through the memory of the CPU:
    log2(ranks) times its size, where a ring sends twice its size at most.
    """

    def __init__(self, number: int, workers: Workers, peers: Peers, device: torch.device = CPU) -> None:
        super().__init__(number, workers, device)
        self.rank, self.world, self.peers = peers.rank, peers.world, peers

    def over_ranks(self, part: Part) -> Part:
        distance = 1
        while distance < self.world:
            other = self.rank ^ distance
            theirs = _read(self.peers.exchange(other, _written(part)), len(part.values), self.device)
            part = joined_parts(part, theirs) if self.rank < other else joined_parts(theirs, part)
            distance *= 2
        return part

    def add(self, sums: MetricSums) -> MetricSums:
        """As a tree over ranks, in their order; small, so all is shown to all at once."""
        return added(self.peers, sums, self.device)

    def full(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return gathered(self.peers, tensors)

    @contextmanager
    def first(self) -> Iterator[bool]:
        with self.peers.first() as leads:
            yield leads


def added(peers: Peers, sums: MetricSums, device: torch.device = CPU) -> MetricSums:
    """The sums of all ranks, on every rank, added as a tree in the order of ranks; a rank may lack some names."""
    whole = TreeSum[MetricSums](added_sums)
    for payload in peers.gather(_bytes(sums)):
        whole.add({name: tensor.to(device) for name, tensor in load(payload).items()})
    return whole.value()


def gathered(peers: Peers, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """This rank's tensors, and on rank 0 also those under names that it has not, from the first rank that has them."""
    every = [set(json.loads(names)) for names in peers.gather(json.dumps(list(tensors)).encode())]
    held = set.union(set(), *every[: peers.rank])
    own = {name: tensor for name, tensor in tensors.items() if name not in held}
    payloads = peers.gather(_bytes(own if peers.rank else {}))
    found = dict(tensors)
    for payload in payloads if peers.rank == 0 else ():
        found |= load(payload)
    return found


def require_shards(number: int, ranks: int) -> None:
    """ConfigError where an update's shards cannot be dealt evenly to the ranks as branches of the tree."""
    if ranks & (ranks - 1):
        raise ConfigError(
            f"{ranks} ranks are no power of two", where="train.strategy",
            why="'canonical' adds shards as a binary tree, of which each rank has a branch",
            help="start 1, 2, 4, 8 … ranks, or --set train.strategy=ddp",
        )  # fmt: skip
    if ranks > number:
        raise ConfigError(
            f"{ranks} ranks have no more than {number} shards to take", where="train.shards",
            why="an update is cut into shards once, when a run begins, and a rank takes whole ones",
            help=f"start at most {number} ranks, or begin another run with --set train.shards={ranks}",
        )  # fmt: skip


def _bytes(tensors: Mapping[str, Tensor]) -> bytes:
    return save(separate(tensors))


def _written(part: Part) -> bytes:
    values = {f"value.{at}": value for at, value in enumerate(part.values) if value is not None}
    sums = {f"sum.{name}": value for name, value in part.sums.items()}
    return _bytes(values | sums | {"minimized": torch.tensor(part.minimized, dtype=torch.float64)})


def _read(payload: bytes, parameters: int, device: torch.device) -> Part:
    tensors = load(payload)
    sums = {name.removeprefix("sum."): each.to(device) for name, each in tensors.items() if name.startswith("sum.")}
    values = [tensors.get(f"value.{at}") for at in range(parameters)]
    return Part([None if each is None else each.to(device) for each in values], float(tensors["minimized"]), sums)
