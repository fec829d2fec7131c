"""Laws of encoders, for tokens and for floats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.attention.contract import Encoded, Encoder
from regard.attention.span import Span
from regard.core.state import select
from regard.testing.draw import Draw
from regard.testing.law import Law, law, ready, reloaded, run_laws, same

ENCODER_LAWS: list[Law] = []
DrawInputs = Callable[[Draw, int, int], Tensor]


@dataclass(frozen=True, kw_only=True)
class EncoderCase:
    """An encoder in float64.

    Attributes:
        encoder: the encoder.
        draw_inputs: returns random inputs for numbers of rows and positions.
    """

    encoder: Encoder
    draw_inputs: DrawInputs

    def run(self, inputs: Tensor, span: Span) -> Encoded:
        """Encode inputs."""
        encoded: Encoded = self.encoder(inputs, span)
        return encoded


def check_encoder(encoder: Encoder, *, draw_inputs: DrawInputs, trials: int = 3, seed: int = 0) -> list[str]:
    """Check every law of an encoder; return their names.

    Args:
        encoder: the encoder; a copy in float64 is tested.
        draw_inputs: returns random inputs for ``(draw, rows, length)``: ``draw.tokens(rows, length, types)`` for an
            encoder of tokens, ``draw.tensor(rows, length, channels)`` for one of frames.
        trials: random inputs per law.
        seed: seed of the first trial; later trials count up.

    Raises:
        AssertionError: a law is violated; the message names it.
    """
    case = EncoderCase(encoder=ready(encoder), draw_inputs=draw_inputs)
    return run_laws(ENCODER_LAWS, case, trials=trials, seed=seed)


def _padded(case: EncoderCase, draw: Draw) -> tuple[Tensor, Span]:
    """Return inputs of three rows, at least one without padding, and their span."""
    span = draw.span(3, draw.integer(2, 6))
    return case.draw_inputs(draw, *span.valid.shape), span


def _shown(encoded: Encoded) -> tuple[tuple[str, Tensor], ...]:
    """Return the guaranteed results of an encoder: the vectors of valid positions (0 at others), and the summaries."""
    padding = ~encoded.span.valid[..., None]
    states, embedded = (x.masked_fill(padding, 0.0) for x in (encoded.states, encoded.embedded))
    return ("states", states), ("embedded", embedded), ("summary", encoded.final)


@law(ENCODER_LAWS)
def batched(case: EncoderCase, draw: Draw) -> None:
    """A sentence in a padded batch is encoded as it is alone."""
    inputs, span = _padded(case, draw)
    whole = case.run(inputs, span)
    for row, length in enumerate(span.length.tolist()):
        separate = case.run(inputs[row : row + 1, :length], select(span, torch.tensor([row])).columns(0, length))
        encoded, expected = int(whole.span.length[row]), separate.states.shape[1]  # fewer if the input subsamples
        assert encoded == expected, f"row {row} has {encoded} encoded positions in the batch, {expected} alone"
        same(whole.states[row, :encoded], separate.states[0], f"states of row {row} of the batch, alone")
        same(whole.embedded[row, :encoded], separate.embedded[0], f"embeddings of row {row} of the batch, alone")
        same(whole.final[row], separate.final[0], f"summary of row {row} of the batch, alone")


@law(ENCODER_LAWS)
def padding_leaves_no_trace(case: EncoderCase, draw: Draw) -> None:
    """Padding may be any token, or any finite number, without an effect."""
    inputs, span = _padded(case, draw)
    noise = case.draw_inputs(draw, *span.valid.shape)
    noise = noise * 1e30 if noise.is_floating_point() else noise
    valid = span.valid.view(*span.valid.shape, *[1] * (inputs.dim() - 2))
    actual, expected = case.run(torch.where(valid, inputs, noise), span), case.run(inputs, span)
    for (name, one), (_, other) in zip(_shown(actual), _shown(expected), strict=True):
        same(one, other, f"{name} with such padding")


@law(ENCODER_LAWS)
def reorder(case: EncoderCase, draw: Draw) -> None:
    """Encoding rows of a batch, in any order and with repetitions, gives the same rows of the encoded batch."""
    inputs, span = _padded(case, draw)
    rows = draw.rows(3)
    actual, expected = case.run(inputs[rows], select(span, rows)), case.run(inputs, span)
    for (name, one), (_, other) in zip(_shown(actual), _shown(expected), strict=True):
        same(one, other[rows], f"{name} of rows {rows.tolist()}")


@law(ENCODER_LAWS)
def rows_apart(case: EncoderCase, draw: Draw) -> None:
    """Other inputs in a row change its own states, and no other row."""
    inputs, span = _padded(case, draw)
    row, other = draw.integer(0, 2), inputs.clone()
    other[row] = case.draw_inputs(draw, 1, inputs.shape[1])[0]
    rest = torch.arange(3) != row
    actual, expected = case.run(other, span), case.run(inputs, span)
    for (name, one), (_, two) in zip(_shown(actual), _shown(expected), strict=True):
        same(one[rest], two[rest], f"{name} of rows other than row {row}", tolerance=1e-13)
    changed = bool((other[row] != inputs[row])[span.valid[row]].any()) and int(actual.span.length[row]) > 1
    moved = not torch.allclose(actual.final[row], expected.final[row])
    assert moved or not changed, f"the summary of row {row} does not depend on its inputs"


@law(ENCODER_LAWS)
def limited(case: EncoderCase, draw: Draw) -> None:
    """With blocks in ``Span.visible_until``, no position sees a later block; ValueError if this is not supported."""
    length, rows = 6, 2
    inputs, border = case.draw_inputs(draw, rows, length), draw.integer(1, 5)
    first = torch.arange(length) < border
    limit = torch.where(first, border, length).expand(rows, -1)
    span = Span.without_padding(inputs)._replace(visible_until=limit)
    other = inputs.clone()
    other[:, border:] = case.draw_inputs(draw, rows, length - border)
    try:
        one, two = case.run(inputs, span).states, case.run(other, span).states
    except ValueError as refusal:
        assert "visible_until" in str(refusal), refusal
        return
    same(two[:, first], one[:, first], f"states before position {border}", tolerance=1e-13)
    separate = case.run(inputs[:, :border], span.columns(0, border)).states
    same(one[:, first], separate, f"the first {border} positions, alone")


@law(ENCODER_LAWS)
def saved(case: EncoderCase, draw: Draw) -> None:
    """All learned parameters are in the state dict, and are restored from a safetensors file."""
    inputs, span = _padded(case, draw)
    again = replace(case, encoder=reloaded(case.encoder))
    assert torch.equal(again.run(inputs, span).states, case.run(inputs, span).states), "states after loading"
