"""Laws of mixers: self-attention, recurrent units, convolutions over one sequence."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.attention.contract import Mixed, Mixer
from regard.attention.mask import Span
from regard.core.state import State, join, repeat, select, truncate
from regard.testing.draw import Draw, piece_of, rows_of, stacked
from regard.testing.law import Law, law, ready, reloaded, run_laws, same

__all__ = ["MIXER_LAWS", "MixerCase", "check_mixer"]

MIXER_LAWS: list[Law] = []


@dataclass(frozen=True, kw_only=True)
class MixerCase:
    """Mixer in float64, with the width of its input and output."""

    mixer: Mixer
    width: int

    def run(self, x: Tensor, span: Span, state: State | None = None) -> Mixed:
        """Mixed columns; ``state`` None: from the start."""
        mixed: Mixed = self.mixer(x, span, self.mixer.start(len(x)) if state is None else state)
        return mixed


def check_mixer(mixer: Mixer, *, width: int, trials: int = 4, seed: int = 0) -> list[str]:
    """Run every law that applies and return the names; AssertionError names the law that fails."""
    return run_laws(MIXER_LAWS, MixerCase(mixer=ready(mixer), width=width), trials=trials, seed=seed)


def _streams(case: MixerCase) -> bool:
    return case.mixer.can().stream == "exact"


def _then(case: MixerCase, draw: Draw, span: Span, rows: int) -> tuple[Tensor, Span]:
    """Two more columns for every row, to compare what follows a state."""
    return draw.tensor(rows, 2, case.width), Span(span.start + span.length, torch.ones(rows, 2, dtype=torch.bool))


@law(MIXER_LAWS, applies=_streams)
def chunk(case: MixerCase, draw: Draw) -> None:
    """Any pieces, carrying the state, equal one pass; padding at the end of a row takes no position."""
    x, span = draw.tensor(3, 6, case.width), draw.span(3, 6)
    more, after = _then(case, draw, span, 3)
    whole = case.run(x, span)
    state, parts = case.mixer.start(3), []
    for columns in draw.pieces(6):
        part = case.run(x[:, columns], piece_of(span, columns), state)
        state = part.state
        parts.append(part.output)
    valid = span.valid[..., None]
    same(torch.cat(parts, 1) * valid, whole.output * valid, "outputs")
    same(case.run(more, after, state).output, case.run(more, after, whole.state).output, "what follows")


@law(MIXER_LAWS)
def reorder(case: MixerCase, draw: Draw) -> None:
    """forward(x[rows], select(state, rows)) == forward(x, state)[rows]."""
    x, span, rows = draw.tensor(3, 4, case.width), draw.span(3, 4), draw.rows(3)
    if not _streams(case):
        actual = case.run(x[rows], Span.of(span.valid[rows])).output
        return same(actual, case.run(x, span).output[rows], "rows of a batch")
    more, after = _then(case, draw, span, 3)
    expected = case.run(more, after, case.run(x, span).state).output[rows]
    moved = rows_of(after, rows)
    actual = case.run(more[rows], moved, select(case.run(x, span).state, rows)).output
    return same(actual, expected, "what follows selected rows")


@law(MIXER_LAWS, applies=_streams)
def repeated(case: MixerCase, draw: Draw) -> None:
    """A state repeated n times serves n copies of every row, neighbours together."""
    x, span, times = draw.tensor(2, 4, case.width), draw.span(2, 4), draw.integer(1, 3)
    more, after = _then(case, draw, span, 2)
    rows = torch.arange(2).repeat_interleave(times)
    expected = case.run(more, after, case.run(x, span).state).output[rows]
    copies = rows_of(after, rows)
    actual = case.run(more[rows], copies, repeat(case.run(x, span).state, times)).output
    same(actual, expected, "what follows repeated rows")


@law(MIXER_LAWS, applies=_streams)
def joined(case: MixerCase, draw: Draw) -> None:
    """Rows that come from batches of different length, or are new, go on as one batch."""
    lengths = [0, draw.integer(1, 3), draw.integer(4, 40)]
    xs = [draw.tensor(2, length, case.width) for length in lengths]
    spans = [Span.of(torch.ones(2, length, dtype=torch.bool)) for length in lengths]

    def state(at: int) -> State:
        return case.run(xs[at], spans[at]).state if lengths[at] else case.mixer.start(2)

    follow = [_then(case, draw, span, 2) for span in spans]
    expected = [case.run(*follow[at], state(at)).output for at in range(3)]
    after = stacked([span for _, span in follow])
    actual = case.run(torch.cat([more for more, _ in follow]), after, join([state(at) for at in range(3)])).output
    same(actual, torch.cat(expected), "what follows joined rows")


@law(MIXER_LAWS, applies=_streams)
def truncated(case: MixerCase, draw: Draw) -> None:
    """A truncated state is the state of the shorter input; a memory that cannot forget says so (TypeError)."""
    x, span = draw.tensor(3, 5, case.width), Span.of(torch.ones(3, 5, dtype=torch.bool))
    length = torch.tensor([draw.integer(1, 5) for _ in range(3)])
    try:
        state = truncate(case.run(x, span).state, length)
    except TypeError:
        return
    short = Span.of(torch.arange(5) < length[:, None])
    more, after = _then(case, draw, short, 3)
    expected = case.run(more, after, case.run(x, short).state).output
    same(case.run(more, after, state).output, expected, "what follows a truncated state")


@law(MIXER_LAWS)
def batched(case: MixerCase, draw: Draw) -> None:
    """A row in a padded batch is what it is alone, and so is what follows."""
    x, span = draw.tensor(3, 5, case.width), draw.span(3, 5)
    more, after = _then(case, draw, span, 3)
    whole = case.run(x, span)
    follows = case.run(more, after, whole.state).output if _streams(case) else None
    for row in range(3):
        length = int(span.length[row])
        alone = case.run(x[row : row + 1, :length], Span.of(torch.ones(1, length, dtype=torch.bool)))
        same(whole.output[row, :length], alone.output[0], f"row {row} of the batch, alone")
        if follows is not None:
            one = rows_of(after, torch.tensor([row]))
            expected = case.run(more[row : row + 1], one, alone.state).output
            same(follows[row : row + 1], expected, f"what follows row {row}")


@law(MIXER_LAWS, applies=lambda case: case.mixer.can().causal)
def causal(case: MixerCase, draw: Draw) -> None:
    """∂ output_i / ∂ x_j is exactly 0 for j > i and not for j = i, in one pass and across a cut."""
    x, span = draw.tensor(2, 5, case.width).requires_grad_(), Span.of(torch.ones(2, 5, dtype=torch.bool))
    cut = draw.integer(1, 4)
    first = case.run(x[:, :cut], piece_of(span, slice(0, cut)))
    second = case.run(x[:, cut:], piece_of(span, slice(cut, 5)), first.state)
    for output in (case.run(x, span).output, torch.cat([first.output, second.output], 1)):
        for i in range(5):
            (gradient,) = torch.autograd.grad(output[:, i].square().sum(), x, retain_graph=True)
            assert not gradient[:, i + 1 :].any(), f"position {i} sees a later one"
            assert gradient[:, i].any(), f"position {i} does not see itself"


@law(MIXER_LAWS, applies=lambda case: case.mixer.can().differentiable)
def differentiable(case: MixerCase, draw: Draw) -> None:
    """Gradients of the input and of every parameter agree with finite differences."""
    x, span = draw.tensor(2, 3, case.width).requires_grad_(), draw.span(2, 3)
    names = [name for name, _ in case.mixer.named_parameters()]
    parameters = [p.detach().clone().requires_grad_() for p in case.mixer.parameters()]

    def output(x: Tensor, *given: Tensor) -> Tensor:
        mixed: Mixed = torch.func.functional_call(
            case.mixer, dict(zip(names, given, strict=True)), (x, span, case.mixer.start(2))
        )
        return mixed.output

    agree = torch.autograd.gradcheck(output, (x, *parameters), fast_mode=True, raise_exception=False)
    assert agree, "gradients differ from finite differences"


@law(MIXER_LAWS)
def saved(case: MixerCase, draw: Draw) -> None:
    """All that the mixer has learned is in its state dict, and comes back from a safetensors file."""
    x, span = draw.tensor(2, 4, case.width), draw.span(2, 4)
    again = replace(case, mixer=reloaded(case.mixer))
    assert torch.equal(again.run(x, span).output, case.run(x, span).output), "output after loading"
