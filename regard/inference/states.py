"""Hidden states of networks, by layer, and their pooling to one vector for each input: embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from regard.attention.observe import shared_copy
from regard.attention.span import Span
from regard.data.order import packed_runs
from regard.errors import ConfigError

Pooling = Literal["mean", "max", "first", "last"]
BATCH = 4096  # positions


def reading_part(net: Any) -> nn.Module:
    """Return the part of a network that reads its input: the encoder, or a language model itself."""
    part: nn.Module = getattr(net, "encoder", net)
    return part


def require_output(layer: int | None) -> None:
    """Raise ConfigError for a layer of a network that is not a Transformer."""
    if layer is not None:
        why = "the network is not a Transformer"
        raise ConfigError("states by layer are not available", where="layer", why=why, help="leave out layer")


def cut_after(net: nn.Module, layer: int) -> nn.Module:
    """Return a network whose reading part ends after some layers; its tensors are shared.

    Args:
        net: the network.
        layer: the number of layers, 0 for the embedding of the input. Negative numbers count from the end: −1 is the
            output, −2 the states before the last layer. The output includes the last norm.

    Raises:
        ConfigError: if the network has no such layer, or is not a Transformer.
    """
    part = reading_part(net)
    if not getattr(part, "is_stack", False):
        why = f"{type(part).__name__} is not a Transformer"
        raise ConfigError("states by layer are not available", where="layer", why=why, help="leave out layer")
    count = len(cast("nn.ModuleList", part.layers))
    number = layer + count + 1 if layer < 0 else layer
    if not 0 <= number <= count:
        why = f"the numbers are 0 to {count}, or −1 to −{count + 1}"
        raise ConfigError(f"there is no layer {layer}", where="layer", why=why)
    if number == count:
        return net
    shared = shared_copy(net)
    cut: Any = reading_part(shared)
    cut.layers, cut.norm = cut.layers[:number], nn.Identity()
    return shared


class StateRecorder(nn.Module):
    """The reading part of a network, which also keeps the states of each sequence that it reads.

    It is a module of its own, not a hook, because other threads may predict with the same part.
    """

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part, self.sequences = part, list[Tensor]()

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("part"), name)

    def forward(self, inputs: Tensor, span: Span) -> Any:
        output = self.part(inputs, span)
        is_model = hasattr(output, "features")  # of a language model, which has no encoder
        states, valid = (output.features, span.valid) if is_model else (output.states, output.span.valid)
        self.sequences += [row[shown] for row, shown in zip(states, valid, strict=True)]
        return output


@torch.no_grad()
def row_states(
    net: nn.Module, batches: Sequence[Sequence[int]], read: Callable[[nn.Module, Sequence[int]], Any]
) -> list[Tensor]:
    """Return the states (positions, width) of each row, with those of its parts one after the other.

    Args:
        net: the network; see ``cut_after``.
        batches: the numbers of the rows of each batch. All rows of a batch have equally many parts.
        read: calls a network with the rows of these numbers.
    """
    results: dict[int, Tensor] = {}
    for numbers in batches:
        recording = StateRecorder(reading_part(net))
        read(recording if recording.part is net else _with_encoder(net, recording), numbers)
        parts = len(recording.sequences) // len(numbers)
        for place, number in enumerate(numbers):
            results[number] = torch.cat(recording.sequences[place * parts : (place + 1) * parts])
    return [results[number] for number in range(len(results))]


def _with_encoder(net: nn.Module, encoder: nn.Module) -> nn.Module:
    """Return a network with another encoder that shares everything else."""
    other = copy(net)
    vars(other)["_modules"] = {**vars(net)["_modules"], "encoder": encoder}
    return other


def sequence_states(net: nn.Module, sequences: Sequence[npt.NDArray[Any]], device: torch.device) -> list[Tensor]:
    """Return the states (positions, width) of each sequence, read without the others.

    Args:
        net: the network; see ``cut_after``.
        sequences: (positions,) of tokens, or (positions, numbers) of frames, each not empty.
        device: the device of the network.
    """
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)

    def read(part: nn.Module, numbers: Sequence[int]) -> None:
        values = pad_sequence([torch.from_numpy(sequences[number]) for number in numbers], batch_first=True)
        valid = torch.arange(values.shape[1]) < torch.from_numpy(lengths[list(numbers)])[:, None]
        part(values.to(device), Span.of(valid.to(device)))

    order = np.argsort(lengths, kind="stable")
    batches = [run.tolist() for run in packed_runs(order, lengths, BATCH)]
    return row_states(reading_part(net), batches, read)


def grouped(states: Sequence[Tensor], counts: Iterable[int]) -> list[Tensor]:
    """Return the states of each input, from those of its parts: ``counts`` parts each, 0 for an empty input."""
    left = iter(states)
    return [torch.cat([next(left) for _ in range(count)] or [torch.zeros(0, 0)]) for count in counts]


def pooled(states: Sequence[Tensor], pooling: str) -> npt.NDArray[np.float32]:
    """Return one vector (inputs, width) for the states (positions, width) of each input; 0 for an empty input.

    Args:
        states: of each input; one of them at least must have positions.
        pooling: ``mean`` or ``max`` over the positions, or the ``first`` or ``last`` position.

    Raises:
        ConfigError: for another name.
    """
    if pooling not in get_args(Pooling):
        raise ConfigError(f"unknown pooling {pooling!r}", where="pooling", help=", ".join(get_args(Pooling)))
    width = max((rows.shape[-1] for rows in states), default=0)
    vectors = np.zeros((len(states), width), np.float32)
    for number, rows in enumerate(rows.float().cpu() for rows in states):
        if len(rows):
            vectors[number] = _pool(rows, pooling).numpy()
    return vectors


def _pool(rows: Tensor, pooling: str) -> Tensor:
    if pooling == "mean":
        return rows.mean(0)
    return rows.amax(0) if pooling == "max" else rows[0 if pooling == "first" else -1]
