"""Laws of encoders, of tokens and of floats alike."""

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
    """Encoder in float64; ``draw_inputs`` returns random inputs of some rows and columns."""

    encoder: Encoder
    draw_inputs: DrawInputs

    def run(self, inputs: Tensor, span: Span) -> Encoded:
        """Encode inputs."""
        encoded: Encoded = self.encoder(inputs, span)
        return encoded


def check_encoder(encoder: Encoder, *, draw_inputs: DrawInputs, trials: int = 3, seed: int = 0) -> list[str]:
    """Run every law and return the names; AssertionError names the law that fails.

    Args:
        encoder: the encoder to test; a copy in float64 is used.
        draw_inputs: of ``(draw, rows, length)``, random inputs: ``draw.tokens(rows, length, types)`` for an encoder of
            tokens, ``draw.tensor(rows, length, channels)`` for one of frames.
        trials: random inputs a law.
        seed: of the first trial; the next ones count on.
    """
    case = EncoderCase(encoder=ready(encoder), draw_inputs=draw_inputs)
    return run_laws(ENCODER_LAWS, case, trials=trials, seed=seed)


def _padded(case: EncoderCase, draw: Draw) -> tuple[Tensor, Span]:
    """Return inputs of three rows, at least one of which has no padding, and their span."""
    span = draw.span(3, draw.integer(2, 6))
    return case.draw_inputs(draw, *span.valid.shape), span


def _shown(encoded: Encoded) -> tuple[tuple[str, Tensor], ...]:
    """Return what an encoder promises: the vectors of valid columns, 0 in the others, and the summaries."""
    padding = ~encoded.span.valid[..., None]
    states, embedded = (x.masked_fill(padding, 0.0) for x in (encoded.states, encoded.embedded))
    return ("states", states), ("embedded", embedded), ("summary", encoded.final)


@law(ENCODER_LAWS)
def batched(case: EncoderCase, draw: Draw) -> None:
    """A sentence in a padded batch is encoded as it is alone."""
    inputs, span = _padded(case, draw)
    whole = case.run(inputs, span)
    for row, length in enumerate(span.length.tolist()):
        alone = case.run(inputs[row : row + 1, :length], select(span, torch.tensor([row])).columns(0, length))
        same(whole.states[row, :length], alone.states[0], f"states of row {row} of the batch, alone")
        same(whole.embedded[row, :length], alone.embedded[0], f"embedded columns of row {row} of the batch, alone")
        same(whole.final[row], alone.final[0], f"summary of row {row} of the batch, alone")


@law(ENCODER_LAWS)
def padding_leaves_no_trace(case: EncoderCase, draw: Draw) -> None:
    """Padded columns may hold any token, or any finite number."""
    inputs, span = _padded(case, draw)
    noise = case.draw_inputs(draw, *span.valid.shape)
    noise = noise * 1e30 if noise.is_floating_point() else noise
    valid = span.valid.view(*span.valid.shape, *[1] * (inputs.dim() - 2))
    found, expected = case.run(torch.where(valid, inputs, noise), span), case.run(inputs, span)
    for (name, one), (_, other) in zip(_shown(found), _shown(expected), strict=True):
        same(one, other, f"{name} beside such padding")


@law(ENCODER_LAWS)
def reorder(case: EncoderCase, draw: Draw) -> None:
    """Encoding rows of a batch, in any order and with repeats, gives these rows of the encoded batch."""
    inputs, span = _padded(case, draw)
    rows = draw.rows(3)
    found, expected = case.run(inputs[rows], select(span, rows)), case.run(inputs, span)
    for (name, one), (_, other) in zip(_shown(found), _shown(expected), strict=True):
        same(one, other[rows], f"{name} of rows {rows.tolist()}")


@law(ENCODER_LAWS)
def rows_apart(case: EncoderCase, draw: Draw) -> None:
    """Other inputs in a row change its own states, and nothing of any other row."""
    inputs, span = _padded(case, draw)
    row, other = draw.integer(0, 2), inputs.clone()
    other[row] = case.draw_inputs(draw, 1, inputs.shape[1])[0]
    rest = torch.arange(3) != row
    found, expected = case.run(other, span), case.run(inputs, span)
    for (name, one), (_, two) in zip(_shown(found), _shown(expected), strict=True):
        same(one[rest], two[rest], f"{name} of rows beside row {row}", tolerance=1e-13)
    changed = bool((other[row] != inputs[row])[span.valid[row]].any()) and int(span.length[row]) > 1
    moved = not torch.allclose(found.final[row], expected.final[row])
    assert moved or not changed, f"the summary of row {row} does not depend on its inputs"


@law(ENCODER_LAWS)
def limited(case: EncoderCase, draw: Draw) -> None:
    """In blocks by ``Span.visible_until`` no column sees a later block; ValueError where an encoder cannot obey it."""
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
    alone = case.run(inputs[:, :border], span.columns(0, border)).states
    same(one[:, first], alone, f"the first {border} columns, alone")


@law(ENCODER_LAWS)
def saved(case: EncoderCase, draw: Draw) -> None:
    """All that the encoder has learned is in its state dict, and comes back from a safetensors file."""
    inputs, span = _padded(case, draw)
    again = replace(case, encoder=reloaded(case.encoder))
    assert torch.equal(again.run(inputs, span).states, case.run(inputs, span).states), "states after loading"
