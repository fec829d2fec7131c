"""Transformer-XL in small (Dai et al. 2019): attention that reads the hidden states of the segments before.

Documents, lanes and objective are those of ``lanes_task``. What is carried: each layer's input over the last MEMORY
columns, and which of them may be read.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.core.task import Carry
from regard.models.dropout import Dropout
from tests.laws import lanes_task
from tests.laws.lanes_task import TYPES, LanesConfig, SegmentBatch

CONFIG = LanesConfig
LAYERS, MEMORY, LONGEST = 2, 32, 64


class Layer(nn.Module):
    """Attention over memory and segment, with a bias learned for each distance."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key_value = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.distance = nn.Parameter(torch.zeros(LONGEST))
        self.inner, self.dropout = nn.Linear(width, width), Dropout(0.2)

    def forward(self, x: Tensor, memory: Tensor, readable: Tensor) -> Tensor:
        """``readable``: (rows, memory + columns), of columns that are no padding."""
        whole = torch.cat([memory, x], 1)
        key, value = self.key_value(whole).chunk(2, -1)
        columns = torch.arange(whole.shape[1])
        distance = columns[memory.shape[1] :, None] - columns
        energy = self.query(x) @ key.mT / x.shape[-1] ** 0.5 + self.distance[distance.clamp(min=0)]
        energy = energy.masked_fill((distance < 0) | ~readable[:, None], torch.finfo(x.dtype).min)
        return x + self.dropout(torch.tanh(self.inner(energy.softmax(-1) @ value)))


class TransformerXL(nn.Module):
    """Layers whose memory goes on from segment to segment; a fresh row reads none of it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding, self.output = nn.Embedding(TYPES, width), nn.Linear(width, TYPES)
        self.layers = nn.ModuleList(Layer(width) for _ in range(LAYERS))

    def forward(self, batch: SegmentBatch, carry: Carry) -> tuple[Tensor, Carry]:
        x = self.embedding(batch.previous)
        nothing = (*([x[:, :0]] * LAYERS), batch.valid[:, :0])
        *memories, remembered = carry or nothing
        readable = torch.cat([remembered & ~batch.fresh[:, None], batch.valid], 1)
        left = []
        for layer, memory in zip(self.layers, memories, strict=True):
            left.append(torch.cat([memory, x], 1)[:, -MEMORY:])
            x = layer(x, memory, readable)
        return self.output(x), (*left, readable[:, -MEMORY:])


TASK = replace(lanes_task.TASK, name="segment-memory", build=lambda config, spec: TransformerXL(config.hidden))
