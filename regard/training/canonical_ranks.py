"""Shards over several processes: an update has the same bits for any number of ranks."""

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
from regard.training.ranks import ProcessGroup
from regard.training.shards import CPU, Part, Shards, TreeSum, Workers, joined_parts


class CanonicalRanks(Shards):
    """The shards of one of several ranks; each rank has a contiguous run of shards, a branch of the tree.

    The upper levels of the tree are added by recursive doubling. At level k, a rank exchanges its part with the rank
    whose number differs in bit k. Both add the parts in the order of ranks. Every rank therefore has the same bits as
    one process that computed all shards. Each level sends the whole gradient through CPU memory, log2(ranks) times its
    size; a ring sends at most twice its size.

    Args:
        shard_count: the number of shards, a power of two.
        workers: the threads of this rank.
        peers: the ranks.
        device: of the network.
    """

    def __init__(self, shard_count: int, workers: Workers, peers: ProcessGroup, device: torch.device = CPU) -> None:
        super().__init__(shard_count, workers, device)
        self.rank, self.world, self.peers = peers.rank, peers.world, peers

    def over_ranks(self, part: Part) -> Part:
        distance = 1
        while distance < self.world:
            partner = self.rank ^ distance
            received = _read(self.peers.exchange(partner, _written(part)), len(part.values), self.device)
            part = joined_parts(part, received) if self.rank < partner else joined_parts(received, part)
            distance *= 2
        return part

    def add(self, sums: MetricSums) -> MetricSums:
        """Add as a tree over the ranks in order. The sums are small, so all ranks receive those of all."""
        return added(self.peers, sums, self.device)

    def gather_full(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return gathered(self.peers, tensors)

    @contextmanager
    def first(self) -> Iterator[bool]:
        with self.peers.first() as leads:
            yield leads


def added(peers: ProcessGroup, sums: MetricSums, device: torch.device = CPU) -> MetricSums:
    """Return the sums over all ranks, added as a tree in the order of ranks; a rank may lack some names."""
    whole = TreeSum[MetricSums](added_sums)
    for payload in peers.gather(_bytes(sums)):
        whole.add({name: tensor.to(device) for name, tensor in load(payload).items()})
    return whole.value()


def gathered(peers: ProcessGroup, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Return this rank's tensors; on rank 0, also the tensors of other ranks whose names it lacks.

    If several ranks have a name, the first one provides it.
    """
    names_by_rank = [set(json.loads(names)) for names in peers.gather(json.dumps(list(tensors)).encode())]
    earlier_names = set.union(set(), *names_by_rank[: peers.rank])
    own = {name: tensor for name, tensor in tensors.items() if name not in earlier_names}
    payloads = peers.gather(_bytes(own if peers.rank else {}))
    whole = dict(tensors)
    for payload in payloads if peers.rank == 0 else ():
        whole |= load(payload)
    return whole


def require_shards(shard_count: int, ranks: int) -> None:
    """Raise ConfigError if the shards of an update cannot be divided evenly among the ranks as branches of the tree."""
    if ranks & (ranks - 1):
        raise ConfigError(
            f"the number of ranks, {ranks}, is not a power of two", where="train.strategy",
            why="'canonical' adds shards as a binary tree, and each rank has one branch",
            help="start 1, 2, 4, 8 … ranks, or use DDP: --set train.strategy=ddp",
        )  # fmt: skip
    if ranks > shard_count:
        raise ConfigError(
            f"{ranks} ranks cannot share {shard_count} shards", where="train.shards",
            why="the number of shards is fixed when a run begins, and each rank needs at least one",
            help=f"start at most {shard_count} ranks, or start another run with --set train.shards={ranks}",
        )  # fmt: skip


def _bytes(tensors: Mapping[str, Tensor]) -> bytes:
    return save(separate(tensors))


def _written(part: Part) -> bytes:
    values = {f"value.{index}": value for index, value in enumerate(part.values) if value is not None}
    sums = {f"sum.{name}": value for name, value in part.sums.items()}
    return _bytes(values | sums | {"minimized": torch.tensor(part.minimized, dtype=torch.float64)})


def _read(payload: bytes, parameters: int, device: torch.device) -> Part:
    tensors = load(payload)
    sums = {name.removeprefix("sum."): value.to(device) for name, value in tensors.items() if name.startswith("sum.")}
    values = [tensors.get(f"value.{index}") for index in range(parameters)]
    return Part([None if value is None else value.to(device) for value in values], float(tensors["minimized"]), sums)
