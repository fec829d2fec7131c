"""Reading by the kernels: an encoder whose layers are one call of C, over the columns that are there."""

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
from regard.engine.native import encoder_obstacle, groups
from regard.engine.native_stack import NativeStack
from regard.models.input import TokenInput
from regard.models.transformer.layer import TransformerLayer
from regard.models.transformer.transformer import TransformerEncoder
from regard.native.library import find, library
from regard.native.program import Format
from regard.native.runner import Runner

AT_ONCE = 256  # rows of a thread that are read at a time, whose records stay in its cache


def reading_obstacle(encoder: nn.Module) -> str | None:
    """The reason why the kernels cannot compute this encoder; None if they can."""
    weight = next(encoder.parameters())
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return "they compute in float32 on the processor"
    return encoder_obstacle(cast(Encoder, encoder)) or find().reason


class NativeEncoder(Encoder):
    """States of a TransformerEncoder in float32, or by 8-bit products; those of padding are 0 and cost nothing.

    A row's states do not depend on the rows beside it, to the bit. ``embedded`` is not computed: it is the states, too.
    The weights are copied. ValueError where there is a ``reading_obstacle``.
    """

    def __init__(self, encoder: nn.Module, *, format: Format = "float32", threads: int | None = None) -> None:
        super().__init__()
        if (reason := reading_obstacle(encoder)) is not None:
            raise ValueError(f"the kernels cannot compute this encoder: {reason}")
        known, kernels = cast(TransformerEncoder, encoder), library()
        assert kernels is not None
        self.width = self.summary = known.width
        layers = cast(Iterable[TransformerLayer], known.layers)
        self._stack = NativeStack(
            kernels, format, cast(TokenInput, known.embedding), layers, known.norm, own_cells=False
        )
        self._runner = Runner(self._stack.program, threads or torch.get_num_threads())
        self._lock = Lock()  # threads of a server share a model, and a runner has room for one call

    @torch.no_grad()
    def forward(self, inputs: Int[Tensor, "sentences length"], span: Span) -> Encoded:
        span.refuse_limit(self)
        valid, lengths = span.valid, span.length.tolist()
        states = torch.zeros(*inputs.shape, self.width)
        with self._lock:
            if self._stack.grow(max(lengths, default=0)):
                self._runner.refresh()
            for first, last in groups(lengths, AT_ONCE * self._runner.threads):
                part = valid[first:last]
                states[first:last][part] = self._read(inputs[first:last][part], lengths[first:last])
        return Encoded(states, states, mean_state(states, span), span)

    def _read(self, tokens: Int[Tensor, "rows"], lengths: list[int]) -> Float[Tensor, "rows width"]:
        """States of the tokens of several sentences, one after the other."""
        runner, each = self._runner, torch.tensor(lengths)
        end = each.cumsum(0)
        sentence, rows = torch.arange(len(lengths)).repeat_interleave(each), len(tokens)
        begin = (end - each)[sentence]
        batch = runner.batch
        batch.token, batch.time, batch.slot = tokens.int(), (torch.arange(rows) - begin).int(), sentence.int()
        batch.begin, batch.end = begin.int(), end[sentence].int()
        runner.run(rows, max(lengths), [0, *end.tolist()])
        first = self._stack.features.first
        return runner.prepare(rows)[:, first : first + self.width]


def read_by_kernels(net: nn.Module, format: Format) -> nn.Module:
    """The network with the kernels in place of its ``encoder``, its other parts shared."""
    found = copy(net)
    found._modules = dict(net._modules)
    found._modules["encoder"] = NativeEncoder(cast(nn.Module, net.encoder), format=format)
    return found
