"""Inputs of floats: frames, subsampled frames, and patches of frames."""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.attention.span import Span
from regard.core.wording import pluralize
from regard.models.input import Embedded, Input, Vectors
from regard.models.input_config import InputOptions

Frames = Float[Tensor, "rows length channels"]


class FrameInput(Input):
    """Dropout(scale · (W x + b) + position) of each frame x of ``channels`` floats (Dosovitskiy et al. 2021, Eq. 1).

    Shapes: x (rows, length, channels), W (width, channels), b (width,); ``scale`` is 1 by default. Frames are cast to
    the dtype of W. Padded frames may hold any finite number. Cost: channels · width multiply-adds per frame.

    ``subsample`` 2, 4 or 8: the frames first pass one to three convolutions with kernel 3, stride 2 and padding 1, and
    max(0, ·) (Dong et al. 2018, §3.1, in one dimension). Each has ⌈length / 2⌉ outputs. Output j is valid if
    input 2j is, and padding is set to 0 before and after each convolution: its bias would turn zeros into other
    numbers. Cost: 3 · channels · width / 2 multiply-adds per frame; the others 3 · width² / 4 and / 8.
    """

    def __init__(self, channels: int, width: int, *, subsample: int = 1) -> None:
        super().__init__(width)
        sizes = [channels, *[width] * {1: 0, 2: 1, 4: 2, 8: 3}[subsample]]
        self.channels, self.subsample = channels, subsample
        self.convolutions = nn.ModuleList(
            nn.Conv1d(read, width, 3, stride=2, padding=1) for read, width in pairwise(sizes)
        )
        self.linear = nn.Linear(sizes[-1], width)

    @property
    def description(self) -> str:
        after = f"{pluralize(len(self.convolutions), 'convolution')} and " if self.convolutions else ""
        return f"{after}linear map of frames of {pluralize(self.channels, 'number')}"

    def vectors(self, inputs: Frames) -> Vectors:
        projected: Tensor = self.linear(inputs.to(self.linear.weight.dtype))
        return projected

    def forward(self, inputs: Shaped[Tensor, "rows length *features"], span: Span) -> Embedded:
        if not self.convolutions:
            return super().forward(inputs, span)
        x, valid = inputs.to(self.linear.weight.dtype), span.valid
        for convolution in self.convolutions:
            x = convolution(_masked(x, valid).transpose(1, 2)).transpose(1, 2).relu()
            valid = valid[:, ::2]
        shorter = _shorter(span, valid)
        return Embedded(self.embed(_masked(x, valid), shorter.position), shorter)

    def ranges(self, length: int) -> list[tuple[int, int]]:
        step = self.subsample
        return [(start, min(start + step, length)) for start in range(0, length, step)]


class PatchInput(Input):
    """Dropout(scale · (W p + b) + position) of each patch p of consecutive frames (Nie et al. 2023, §3.1).

    Patch j holds the frames from j · ``stride`` up to, but without, j · ``stride`` + ``patch``, concatenated; frames
    after the end of a row are 0. A row of n frames has 1 + ⌈max(n − patch, 0) / stride⌉ patches. Shapes: x (rows,
    length, channels), W (width, patch · channels). Differs from the paper, which repeats the last frame at the end.
    """

    def __init__(self, channels: int, width: int, *, patch: int, stride: int | None = None) -> None:
        super().__init__(width)
        self.patch, self.stride = patch, stride or patch
        self.linear = nn.Linear(patch * channels, width)

    @property
    def description(self) -> str:
        return f"linear map of patches of {pluralize(self.linear.in_features, 'number')}"

    def vectors(self, inputs: Float[Tensor, "rows patches numbers"]) -> Vectors:
        projected: Tensor = self.linear(inputs.to(self.linear.weight.dtype))
        return projected

    def forward(self, inputs: Shaped[Tensor, "rows length *features"], span: Span) -> Embedded:
        number = self._number(inputs.shape[1])
        missing = self.patch + (number - 1) * self.stride - inputs.shape[1]
        frames = pad(_masked(inputs, span.valid), (0, 0, 0, torch.sym_max(missing, 0)))
        patches = frames.unfold(1, self.patch, self.stride)[:, :number].transpose(2, 3).flatten(2)
        shorter = _shorter(span, self._valid(span.valid, number))
        return Embedded(self.embed(patches, shorter.position), shorter)

    def _valid(self, valid: Bool[Tensor, "rows length"], number: int) -> Bool[Tensor, "rows patches"]:
        """Return whether each patch exists: the first one, and those after a patch that does not reach the end."""
        first_new = torch.arange(number - 1, device=valid.device) * self.stride + self.patch
        return torch.cat([valid[:, :1], valid[:, first_new]], 1)

    def _number(self, length: int) -> int:
        """Return the number of patches; in a trace, the length is a symbol."""
        later: int = torch.sym_max(length - self.patch, 0)
        return 1 + -(-later // self.stride)

    def ranges(self, length: int) -> list[tuple[int, int]]:
        starts = range(0, self._number(length) * self.stride, self.stride)
        return [(start, min(start + self.patch, length)) for start in starts]


def _shorter(span: Span, valid: Bool[Tensor, "rows positions"]) -> Span:
    """Return the span of fewer positions. Raises ValueError if a field of ``span`` is about single frames."""
    if span.fields():
        raise ValueError(f"an input that joins frames has no {', '.join(span.fields())}")
    return Span.of(valid)


def _masked(frames: Frames, valid: Bool[Tensor, "rows length"]) -> Frames:
    """Return the frames with 0 in padding, which may hold any number."""
    return frames.masked_fill(~valid[..., None], 0)


def frame_input(channels: int, width: int, options: InputOptions) -> Input:
    """Return the input of frames for ``model.encoder.input``, initialized from torch's default generator."""
    if options.patch is not None:
        return PatchInput(channels, width, patch=options.patch, stride=options.stride)
    return FrameInput(channels, width, subsample=options.subsample)
