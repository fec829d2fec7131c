"""Our cells, stacks and encoder against torch's own RNN, LSTM and GRU, parameters copied: values and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.attention.span import Span
from regard.models.input import TokenInput
from regard.models.recurrent.cells import GRU, LSTM, Cell, Elman
from regard.models.recurrent.encoder import RecurrentEncoder
from regard.models.recurrent.stack import Stack

from ..tolerances import within

ENTER, WIDTH, TYPES = 3, 4, 11
KINDS = {"elman": (Elman, nn.RNN), "lstm": (LSTM, nn.LSTM), "gru": (GRU, nn.GRU)}
LENGTH = torch.tensor([4, 6, 1])
VALID = torch.arange(6) < LENGTH[:, None]


@pytest.fixture(params=[torch.float32, torch.float64], ids=str, autouse=True)
def dtype(request):
    """What parameters and random numbers are made in."""
    torch.set_default_dtype(request.param)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(params=KINDS)
def kinds(request) -> tuple[type[Cell], type[nn.RNNBase]]:
    return KINDS[request.param]


def near(actual: Tensor, expected: Tensor, law="value") -> None:
    torch.testing.assert_close(actual, expected, **within(torch.get_default_dtype(), path="foreign", law=law))


def copy_layer(cell: Cell, theirs: nn.RNNBase, layer: int, suffix: str = "") -> None:
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    cell.core.load_state_dict({f"{name}_l0": getattr(theirs, f"{name}_l{layer}{suffix}") for name in names})


def last(carried) -> tuple[Tensor, ...]:
    return carried if isinstance(carried, tuple) else (carried,)


def stepped(cell: Cell, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Column by column."""
    step, carried, states = cell.step_function(), cell.start(len(x)), []
    for entered in cell.project_input(x).unbind(1):
        carried = step(entered, carried)
        states.append(carried[0])
    return torch.stack(states, 1), carried


def test_a_cell_is_torchs_whole_and_step_by_step(kinds):
    ours, theirs = kinds[0](ENTER, WIDTH), kinds[1](ENTER, WIDTH, batch_first=True)
    ours.core.load_state_dict(theirs.state_dict())
    x = torch.randn(3, 6, ENTER)
    expected, expected_last = theirs(x)
    (wanted,) = torch.autograd.grad(expected.square().sum(), theirs.weight_hh_l0)
    full = torch.full((3,), 6)
    for states, carried in (ours.run(x, full, ours.start(3)), stepped(ours, x)):
        near(states, expected)
        for mine, its in zip(carried, last(expected_last), strict=True):
            near(mine, its[0])
        near(torch.autograd.grad(states.square().sum(), ours.core.weight_hh_l0)[0], wanted, "gradient")


def test_a_padded_row_ends_where_it_ends(kinds):
    ours = kinds[0](ENTER, WIDTH)
    x, before = torch.randn(4, 6, ENTER), tuple(torch.randn(4, WIDTH) for _ in range(ours.parts))
    length = torch.tensor([4, 6, 1, 0])
    states, carried = ours.run(x, length, before)
    for row, n in enumerate(length.tolist()):
        alone = tuple(part[row : row + 1] for part in before)
        if n:
            one, alone = ours.run(x[row : row + 1, :n], torch.tensor([n]), alone)
            near(states[row, :n], one[0])
        for mine, its in zip(carried, alone, strict=True):
            near(mine[row], its[0])


def test_a_stack_is_torchs_layers(kinds):
    theirs = kinds[1](ENTER, WIDTH, num_layers=3, batch_first=True)
    ours = Stack([kinds[0](ENTER if layer == 0 else WIDTH, WIDTH) for layer in range(3)], dropout=0.0)
    for layer, cell in enumerate(ours.layers):
        copy_layer(cell, theirs, layer)
    x = torch.randn(3, 6, ENTER)
    packed, expected_last = theirs(pack_padded_sequence(x, LENGTH, batch_first=True, enforce_sorted=False))
    expected, _ = pad_packed_sequence(packed, batch_first=True)
    states, layers = ours.run(x, LENGTH, tuple(cell.start(3) for cell in ours.layers))
    near(states[VALID], expected[VALID])
    for layer, carried in enumerate(layers):
        for mine, its in zip(carried, last(expected_last), strict=True):
            near(mine, its[layer])


@pytest.mark.parametrize("both", [False, True], ids=["one-direction", "both-directions"])
def test_an_encoder_is_torchs_over_packed_sentences(kinds, both):
    theirs = kinds[1](ENTER, WIDTH, num_layers=2, batch_first=True, bidirectional=both)
    directions = 1 + both
    embedding = TokenInput(nn.Parameter(torch.randn(TYPES, ENTER))).configure(scale=1.0)
    enters = (ENTER, directions * WIDTH)
    encoder = RecurrentEncoder(embedding, [[kinds[0](each, WIDTH) for _ in range(directions)] for each in enters])
    for layer, cells in enumerate(encoder.stack):
        for cell, suffix in zip(cells, ("", "_reverse"), strict=False):
            copy_layer(cell, theirs, layer, suffix)
    tokens = torch.randint(0, TYPES, (3, 6))
    x = embedding.weight[tokens]
    packed, expected_last = theirs(pack_padded_sequence(x, LENGTH, batch_first=True, enforce_sorted=False))
    expected, _ = pad_packed_sequence(packed, batch_first=True)
    encoded = encoder(tokens, Span.of(VALID))
    near(encoded.states[VALID], expected[VALID])
    per_layer = [part[2 * layer : 2 * layer + 2] if both else part[layer : layer + 1]
                 for layer in range(2) for part in last(expected_last)]  # fmt: skip
    near(encoded.final, torch.cat([part.transpose(0, 1).flatten(1) for part in per_layer], 1))
    assert encoded.states.shape[2] == encoder.width and encoded.final.shape[1] == encoder.summary
    loss, wanted = encoded.states[VALID].square().sum(), expected[VALID].square().sum()
    near(*(torch.autograd.grad(each, embedding.weight)[0] for each in (loss, wanted)), "gradient")
