"""Encoding with the kernels: all layers of an encoder are a single C call over the valid positions."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from threading import Lock
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.contract import Encoded, Encoder, mean_state
from regard.attention.span import Span
from regard.engine.native import encoder_obstacle, groups, reads_forward
from regard.engine.native_stack import NativeStack
from regard.models.input import TokenInput
from regard.models.transformer.layer import TransformerLayer
from regard.models.transformer.transformer import TransformerEncoder
from regard.native.library import find, library
from regard.native.program import Format
from regard.native.runner import Runner

ROWS_PER_THREAD = 256  # rows of one call, whose records fit into the thread's cache


def reading_obstacle(encoder: nn.Module) -> str | None:
    """Return the reason why the kernels cannot compute this encoder, or None."""
    weight = next(encoder.parameters())
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return "they compute float32 weights on the CPU only"
    return encoder_obstacle(cast(Encoder, encoder)) or find().reason


class NativeEncoder(Encoder):
    """States of a TransformerEncoder in float32 or with 8-bit products; states of padding are 0 and cost nothing.

    A row's states do not depend on the other rows, to the bit. ``embedded`` is not computed: it equals the states. The
    weights are copied.

    Raises:
        ValueError: the encoder has a ``reading_obstacle``.
    """

    def __init__(self, encoder: nn.Module, *, format: Format = "float32", threads: int | None = None) -> None:
        super().__init__()
        if (reason := reading_obstacle(encoder)) is not None:
            raise ValueError(f"the kernels cannot compute this encoder: {reason}")
        transformer, kernels = cast(TransformerEncoder, encoder), library()
        assert kernels is not None
        self.width = self.summary = transformer.width
        self._causal = reads_forward(transformer)
        layers = cast(Iterable[TransformerLayer], transformer.layers)
        self._stack = NativeStack(
            kernels, format, cast(TokenInput, transformer.embedding), layers, transformer.norm, own_cells=False
        )
        self._runner = Runner(self._stack.program, threads or torch.get_num_threads())
        self._lock = Lock()  # threads of a server share a model, and a runner holds one call

    @torch.no_grad()
    def forward(self, inputs: Int[Tensor, "sentences length"], span: Span) -> Encoded:
        span.refuse_limit(self)
        valid, lengths = span.valid, span.length.tolist()
        states = torch.zeros(*inputs.shape, self.width)
        with self._lock:
            if self._stack.grow(max(lengths, default=0)):
                self._runner.refresh()
            for first, last in groups(lengths, ROWS_PER_THREAD * self._runner.threads):
                part = valid[first:last]
                states[first:last][part] = self._read(inputs[first:last][part], lengths[first:last])
        return Encoded(states, states, mean_state(states, span), span)

    def _read(self, tokens: Int[Tensor, "rows"], lengths: list[int]) -> Float[Tensor, "rows width"]:
        """Return the states of the tokens of several sentences, one after the other."""
        runner, counts = self._runner, torch.tensor(lengths)
        end = counts.cumsum(0)
        sentence, rows = torch.arange(len(lengths)).repeat_interleave(counts), torch.arange(len(tokens))
        begin = (end - counts)[sentence]
        batch = runner.batch
        batch.token, batch.time, batch.slot = tokens.int(), (rows - begin).int(), sentence.int()
        batch.begin, batch.end = begin.int(), (rows + 1 if self._causal else end[sentence]).int()
        runner.run(len(rows), max(lengths), [0, *end.tolist()])
        first = self._stack.features.first
        return runner.prepare(len(rows))[:, first : first + self.width]


def read_by_kernels(net: nn.Module, format: Format) -> nn.Module:
    """Return a copy of the network whose ``encoder`` runs in the kernels; its other parts are shared."""
    shared_net = copy(net)
    shared_net._modules = dict(net._modules)
    shared_net._modules["encoder"] = NativeEncoder(cast(nn.Module, net.encoder), format=format)
    return shared_net
