"""Laws of mixers over one sequence: self-attention, recurrent units, convolutions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.contract import Mixed, Mixer
from regard.attention.span import Span
from regard.core.state import State, join, repeat, select, truncate
from regard.testing.draw import Draw, piece_of
from regard.testing.law import Law, law, ready, reloaded, run_laws, same

MIXER_LAWS: list[Law] = []


@dataclass(frozen=True, kw_only=True)
class MixerCase:
    """A mixer in float64.

    Attributes:
        mixer: the mixer.
        width: features of its input and output.
        packs: whether it separates ``Span.segment``.
    """

    mixer: Mixer
    width: int
    packs: bool = False

    def run(self, x: Tensor, span: Span, state: State | None = None) -> Mixed:
        """Mix positions; with ``state`` None, from the start."""
        mixed: Mixed = self.mixer(x, span, self.mixer.start(len(x)) if state is None else state)
        return mixed


def check_mixer(mixer: Mixer, *, width: int, packs: bool = False, trials: int = 4, seed: int = 0) -> list[str]:
    """Check every applicable law of a mixer; return their names.

    Args:
        mixer: the mixer; a copy in float64 is tested.
        width: features of the input and the output.
        packs: whether documents of a row, separated by ``Span.segment``, must not see each other.
        trials: random inputs per law.
        seed: seed of the first trial; later trials count up.

    Raises:
        AssertionError: a law is violated; the message names it.
    """
    return run_laws(MIXER_LAWS, MixerCase(mixer=ready(mixer), width=width, packs=packs), trials=trials, seed=seed)


def _streams(case: MixerCase) -> bool:
    return case.mixer.can().stream == "exact"


class Inputs(NamedTuple):
    """Positions of a batch, and two more for every row, to compare the outputs after a state."""

    x: Tensor
    span: Span
    more: Tensor
    after: Span

    def following(self, span: Span) -> Span:
        """Return the span of the two additional positions after ``span``."""
        return self.after._replace(start=span.start + span.length)


def _inputs(
    case: MixerCase, draw: Draw, rows: int, length: int, *, padded: bool = True, placed: bool | None = None
) -> Inputs:
    """Return random inputs; ``placed``: whether positions are given; random if None."""
    placed = draw.integer(0, 1) == 1 if placed is None else placed
    whole = draw.full_span(rows, length + 2, packed=case.packs, placed=placed)
    valid = draw.valid(rows, length) if padded else torch.ones(rows, length, dtype=torch.bool)
    span = whole.columns(0, length)._replace(valid=valid)
    after = whole.columns(length, length + 2)._replace(valid=torch.ones(rows, 2, dtype=torch.bool))
    inputs = Inputs(draw.tensor(rows, length, case.width), span, draw.tensor(rows, 2, case.width), after)
    return inputs._replace(after=inputs.following(span))


def _piecewise(case: MixerCase, x: Tensor, span: Span, draw: Draw) -> tuple[Tensor, State]:
    """Return the output of random pieces in order, and the state after them."""
    state, parts = case.mixer.start(len(x)), []
    for positions in draw.pieces(x.shape[1]):
        part = case.run(x[:, positions], piece_of(span, positions), state)
        state = part.state
        parts.append(part.output)
    return torch.cat(parts, 1), state


@law(MIXER_LAWS, applies=_streams)
def chunk(case: MixerCase, draw: Draw) -> None:
    """Any pieces with carried state give the same outputs as one pass; padding occupies no position."""
    x, span, more, after = _inputs(case, draw, 3, draw.integer(1, 9))
    whole = case.run(x, span)
    pieces, state = _piecewise(case, x, span, draw)
    valid = span.valid[..., None]
    same(pieces * valid, whole.output * valid, "outputs")
    same(case.run(more, after, state).output, case.run(more, after, whole.state).output, "later outputs")


@law(MIXER_LAWS)
def reorder(case: MixerCase, draw: Draw) -> None:
    """forward(x[rows], select(state, rows)) == forward(x, state)[rows]."""
    x, span, more, after = _inputs(case, draw, 3, 4)
    rows = draw.rows(3)
    if not _streams(case):
        actual = case.run(x[rows], select(span, rows)).output
        return same(actual, case.run(x, span).output[rows], "rows of a batch")
    expected = case.run(more, after, case.run(x, span).state).output[rows]
    moved = select(after, rows)
    actual = case.run(more[rows], moved, select(case.run(x, span).state, rows)).output
    return same(actual, expected, "outputs after selecting rows")


@law(MIXER_LAWS, applies=_streams)
def repeated(case: MixerCase, draw: Draw) -> None:
    """A state repeated n times serves n copies of every row, next to each other."""
    x, span, more, after = _inputs(case, draw, 2, 4)
    times = draw.integer(1, 3)
    rows = torch.arange(2).repeat_interleave(times)
    expected = case.run(more, after, case.run(x, span).state).output[rows]
    copies = select(after, rows)
    actual = case.run(more[rows], copies, repeat(case.run(x, span).state, times)).output
    same(actual, expected, "outputs after repeating rows")


@law(MIXER_LAWS, applies=_streams)
def joined(case: MixerCase, draw: Draw) -> None:
    """Rows of batches of different lengths, or new rows, continue as one batch."""
    lengths, placed = [0, draw.integer(1, 3), draw.integer(4, 40)], draw.integer(0, 1) == 1
    batches = [_inputs(case, draw, 2, length, padded=False, placed=placed) for length in lengths]

    def state(number: int) -> State:
        return case.run(*batches[number][:2]).state if lengths[number] else case.mixer.start(2)

    expected = [case.run(batch.more, batch.after, state(number)).output for number, batch in enumerate(batches)]
    more, after = torch.cat([batch.more for batch in batches]), join([batch.after for batch in batches])
    actual = case.run(more, after, join([state(number) for number in range(3)])).output
    same(actual, torch.cat(expected), "outputs after joining rows")


@law(MIXER_LAWS, applies=_streams)
def truncated(case: MixerCase, draw: Draw) -> None:
    """A truncated state equals the state of the shorter input; a state that cannot be truncated raises TypeError."""
    inputs = _inputs(case, draw, 3, 5, padded=False)
    x, span = inputs[:2]
    length = torch.tensor([draw.integer(1, 5) for _ in range(3)])
    try:
        state = truncate(case.run(x, span).state, length)
    except TypeError:
        return
    short = span._replace(valid=torch.arange(5) < length[:, None])
    more, after = inputs.more, inputs.following(short)
    expected = case.run(more, after, case.run(x, short).state).output
    same(case.run(more, after, state).output, expected, "outputs after truncation")


@law(MIXER_LAWS)
def batched(case: MixerCase, draw: Draw) -> None:
    """A row in a padded batch has the same outputs as alone, also later ones."""
    x, span, more, after = _inputs(case, draw, 3, draw.integer(1, 9))
    whole = case.run(x, span)
    follows = case.run(more, after, whole.state).output if _streams(case) else None
    for row in range(3):
        length = int(span.length[row])
        separate = case.run(x[row : row + 1, :length], select(span, torch.tensor([row])).columns(0, length))
        same(whole.output[row, :length], separate.output[0], f"row {row} of the batch, alone")
        if follows is not None:
            one = select(after, torch.tensor([row]))
            expected = case.run(more[row : row + 1], one, separate.state).output
            same(follows[row : row + 1], expected, f"outputs after row {row}")


@law(MIXER_LAWS)
def padding_leaves_no_trace(case: MixerCase, draw: Draw) -> None:
    """Padding may be any number: it affects neither outputs nor later outputs, in one pass or in pieces."""
    x, span, more, after = _inputs(case, draw, 3, draw.integer(1, 9))
    valid = span.valid[..., None]
    noisy = torch.where(valid, x, draw.tensor(*x.shape, scale=1e30))
    expected, actual = case.run(x.masked_fill(~valid, 0.0), span), case.run(noisy, span)

    def shown(output: Tensor) -> Tensor:
        return output.masked_fill(~valid, 0.0)

    same(shown(actual.output), shown(expected.output), "outputs with such padding")
    if not _streams(case):
        return
    pieces, state = _piecewise(case, noisy, span, draw)
    same(shown(pieces), shown(expected.output), "outputs in pieces with such padding")
    follows = case.run(more, after, expected.state).output
    for name, left in (("a pass", actual.state), ("pieces", state)):
        outputs, total = list[Tensor](), left
        for position in range(2):
            part = case.run(more[:, position : position + 1], piece_of(after, slice(position, position + 1)), total)
            outputs, total = [*outputs, part.output], part.state
        same(torch.cat(outputs, 1), follows, f"outputs after {name} over such padding")


@law(MIXER_LAWS, applies=lambda case: case.packs)
def packed(case: MixerCase, draw: Draw) -> None:
    """Documents packed into a row have the same outputs as alone, in one pass and in any pieces."""
    lengths = [[draw.integer(1, 3) for _ in range(draw.integer(1, 3))] for _ in range(2)]
    total = max(map(sum, lengths))
    x = draw.tensor(2, total, case.width)
    valid, segment, position = (torch.zeros(2, total, dtype=torch.int64) for _ in range(3))
    expected = torch.zeros_like(x)
    for row, documents in enumerate(lengths):
        for number, length in enumerate(documents):
            begin = sum(documents[:number])
            document = (slice(row, row + 1), slice(begin, begin + length))
            valid[document], segment[document], position[document] = 1, number, torch.arange(length)
            own_span = Span.of(torch.ones(1, length, dtype=torch.bool))._replace(segment=segment[document])
            expected[document] = case.run(x[document], own_span).output
    span = Span.of(valid.bool())._replace(segment=segment, given_position=position)
    same(case.run(x, span).output * valid[..., None], expected, "a row at once")
    if _streams(case):
        same(_piecewise(case, x, span, draw)[0] * valid[..., None], expected, "a row in pieces")


@law(MIXER_LAWS, applies=lambda case: case.mixer.can().causal)
def causal(case: MixerCase, draw: Draw) -> None:
    """∂ output_i / ∂ x_j is exactly 0 for j > i and not for j = i, in one pass and in two pieces."""
    x, span = _inputs(case, draw, 2, 5, padded=False)[:2]
    x.requires_grad_()
    middle = draw.integer(1, 4)
    first = case.run(x[:, :middle], piece_of(span, slice(0, middle)))
    second = case.run(x[:, middle:], piece_of(span, slice(middle, 5)), first.state)
    for output in (case.run(x, span).output, torch.cat([first.output, second.output], 1)):
        for i in range(5):
            (gradient,) = torch.autograd.grad(output[:, i].square().sum(), x, retain_graph=True)
            assert not gradient[:, i + 1 :].any(), f"position {i} sees a later position"
            sees_itself = i == 0 or not case.mixer.can().excludes_self
            assert gradient[:, i].any() or not sees_itself, f"position {i} does not see itself"


@law(MIXER_LAWS, applies=lambda case: case.mixer.can().differentiable)
def differentiable(case: MixerCase, draw: Draw) -> None:
    """Gradients of the input and of every parameter match finite differences."""
    x, span = _inputs(case, draw, 2, 3)[:2]
    x.requires_grad_()
    names = [name for name, _ in case.mixer.named_parameters()]
    parameters = [p.detach().clone().requires_grad_() for p in case.mixer.parameters()]

    def output(x: Tensor, *values_of_parameters: Tensor) -> Tensor:
        mixed: Mixed = torch.func.functional_call(
            case.mixer, dict(zip(names, values_of_parameters, strict=True)), (x, span, case.mixer.start(2))
        )
        return mixed.output

    agree = torch.autograd.gradcheck(output, (x, *parameters), fast_mode=True, raise_exception=False)
    assert agree, "gradients differ from finite differences"


@law(MIXER_LAWS)
def saved(case: MixerCase, draw: Draw) -> None:
    """All learned parameters are in the state dict, and are restored from a safetensors file."""
    x, span = _inputs(case, draw, 2, 4)[:2]
    again = replace(case, mixer=reloaded(case.mixer))
    assert torch.equal(again.run(x, span).output, case.run(x, span).output), "output after loading"
