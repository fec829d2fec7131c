"""Encoders that are wrong on purpose, each with the draw of its inputs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.attention.contract import Encoder
from regard.attention.heads import SelfAttention
from regard.attention.span import Span
from regard.models.frame_input import FrameInput, PatchInput
from regard.models.input import Embedded, Input
from regard.models.transformer.transformer import TransformerEncoder
from regard.testing import Draw

from ..cases import WIDTH
from ..encoder_cases import CHANNELS, INPUTS, built

Made = tuple[Encoder, Callable[[Draw, int, int], Tensor]]


def _frames(kind: type[FrameInput], name: str = "transformer") -> Made:
    return built(name, kind(CHANNELS, WIDTH)), INPUTS["frames"][1]


class Centered(FrameInput):
    """Subtracts the mean frame of a row, padding included."""

    def vectors(self, inputs):
        return super().vectors(inputs - inputs.mean(1, keepdim=True))


class NumbersRows(FrameInput):
    """Adds the number of its row to each frame."""

    def vectors(self, inputs):
        return super().vectors(inputs + torch.arange(len(inputs))[:, None, None])


class MixesRows(FrameInput):
    """Subtracts the mean of the batch at each column."""

    def vectors(self, inputs):
        return super().vectors(inputs - inputs.mean(0))


class Unmasked(FrameInput):
    """Subsamples without setting padding to 0 between the convolutions."""

    def forward(self, inputs, span: Span):
        x = inputs.masked_fill(~span.valid[..., None], 0)
        for convolution in self.convolutions:
            x = convolution(x.transpose(1, 2)).transpose(1, 2).relu()
        shorter = Span.of(span.valid[:, ::2][:, ::2])
        return Embedded(self.embed(x, shorter.position), shorter)


class LastPatchLost(PatchInput):
    """Drops the patch that reaches beyond the end of a row."""

    def _valid(self, valid, number: int):
        first, last = (torch.arange(number) * self.stride + shift for shift in (0, self.patch - 1))
        return valid[:, first] & valid[:, last.clamp(max=valid.shape[1] - 1)] | (first == 0)


class HalfSaved(TransformerEncoder):
    """Leaves the matrix of its frames out of what is saved."""

    def state_dict(self, *arguments, **options):
        saved = super().state_dict(*arguments, **options)
        return {name: tensor for name, tensor in saved.items() if name != "embedding.linear.weight"}

    def load_state_dict(self, state_dict, strict=True, assign=False):
        with torch.no_grad():
            self.embedding.linear.weight.zero_()
        return super().load_state_dict(state_dict, strict=False, assign=assign)


class SeesAll(nn.Module):
    """Self-attention that does not obey the limit of its columns."""

    def __init__(self, inner: SelfAttention) -> None:
        super().__init__()
        self.inner, self.obeys_limit = inner, True

    def start(self, rows):
        return self.inner.start(rows)

    def forward(self, x, span: Span, state):
        return self.inner(x, span._replace(visible_until=()), state)


def _sees_all(input: Input, draw_inputs: Callable[[Draw, int, int], Tensor]) -> Made:
    encoder = built("transformer", input)
    for layer in encoder.layers:
        layer.mixer = SeesAll(layer.mixer)
    return encoder, draw_inputs


def _half_saved() -> Made:
    encoder, draw_inputs = _frames(FrameInput)
    encoder.__class__ = HalfSaved
    return encoder, draw_inputs


def _subsampled() -> Made:
    return built("transformer", Unmasked(CHANNELS, WIDTH, subsample=4)), INPUTS["frames"][1]


def _patched() -> Made:
    return built("transformer", LastPatchLost(CHANNELS, WIDTH, patch=3, stride=2)), INPUTS["frames"][1]


MUTANTS = {
    "centered": (lambda: _frames(Centered), "batched"),
    "centered-padding": (lambda: _frames(Centered, "recurrent"), "padding_leaves_no_trace"),
    "numbers-rows": (lambda: _frames(NumbersRows), "reorder"),
    "mixes-rows": (lambda: _frames(MixesRows), "rows_apart"),
    "unmasked-convolution": (_subsampled, "batched"),
    "last-patch-lost": (_patched, "batched"),
    "half-saved": (_half_saved, "saved"),
    "sees-all-tokens": (lambda: _sees_all(INPUTS["tokens"][0](), INPUTS["tokens"][1]), "limited"),
    "sees-all-frames": (lambda: _sees_all(INPUTS["frames"][0](), INPUTS["frames"][1]), "limited"),
}
