"""Cells, first states and the order of reading, in numbers that a pencil can check."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from regard.attention.contract import Encoded
from regard.attention.observe import observe
from regard.attention.span import Span
from regard.models.dropout import Dropout
from regard.models.recurrent.cells import GRU, LSTM, Cell, Elman
from regard.models.recurrent.decoder_memory import CopiedState, LearnedState
from regard.models.recurrent.stack import Stack

from ..laws import cases


def zeroed(module: nn.Module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    return module


@torch.no_grad()
def one_step(cell: Cell, x: Tensor, *carried: Tensor) -> tuple[Tensor, ...]:
    return cell.step_function()(cell.project_input(x), carried)


def numbers(*values: float) -> Tensor:
    return torch.tensor([values])


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def gru(reset: str = "after", update: str = "keeps") -> GRU:
    """Width 1: r = z = σ(ln 3) = 3/4 whatever comes, candidate weights W = 1 and U = 2."""
    cell = zeroed(GRU(1, 1, reset=reset, update=update))
    with torch.no_grad():
        cell.core.bias_ih_l0.copy_(torch.tensor([math.log(3), math.log(3), 0.0]))
        cell.core.weight_ih_l0[2], cell.core.weight_hh_l0[2] = 1.0, 2.0
    return cell


@pytest.mark.parametrize(("update", "old", "new"), [("keeps", 0.75, 0.25), ("renews", 0.25, 0.75)])
@pytest.mark.parametrize("reset", ["after", "before"])
def test_gru_mixes_old_state_and_candidate(reset, update, old, new):
    (hidden,) = one_step(gru(reset, update), numbers(0.1), numbers(0.4))
    candidate = math.tanh(0.1 + 0.75 * 2 * 0.4)  # of width 1, reset before and after are one
    assert float(hidden) == pytest.approx(old * 0.4 + new * candidate, abs=1e-6)


def test_a_second_bias_is_reset_after_and_not_before():
    for reset, inner in (("after", 0.75 * (2 * 0.4 + 0.5)), ("before", 2 * 0.75 * 0.4 + 0.5)):
        cell = gru(reset)
        with torch.no_grad():
            cell.core.bias_hh_l0[2] = 0.5
        (hidden,) = one_step(cell, numbers(0.1), numbers(0.4))
        assert float(hidden) == pytest.approx(0.75 * 0.4 + 0.25 * math.tanh(0.1 + inner), abs=1e-6)


@pytest.mark.parametrize("reset", ["after", "before"])
def test_what_renews_is_what_keeps_with_the_update_gate_negated(reset):
    keeps, renews = (GRU(3, 4, reset=reset, update=update) for update in ("keeps", "renews"))
    turned = {name: tensor.clone() for name, tensor in keeps.core.state_dict().items()}
    for tensor in turned.values():
        tensor[4:8] *= -1
    renews.core.load_state_dict(turned)
    x, full = torch.randn(2, 5, 3), torch.full((2,), 5)
    one, two = keeps.run(x, full, keeps.start(2)), renews.run(x, full, renews.start(2))
    torch.testing.assert_close(one[0], two[0])
    torch.testing.assert_close(one[1], two[1])


def test_reset_before_and_after_are_one_if_and_only_if_u_is_diagonal():
    after, before = GRU(3, 4), GRU(3, 4, reset="before")
    with torch.no_grad():
        after.core.bias_hh_l0.zero_()
    for diagonal in (True, False):
        with torch.no_grad():
            after.core.weight_hh_l0[8:] = torch.diag(torch.tensor([1.0, -2, 3, 0.5])) if diagonal else 1.0
        before.core.load_state_dict(after.core.state_dict())
        x, hidden = torch.randn(2, 3), torch.randn(2, 4)
        assert torch.allclose(*one_step(after, x, hidden), *one_step(before, x, hidden), atol=1e-6) == diagonal


def test_lstm_in_numbers():
    """All gates by their biases: i = σ(0), f = σ(ln 3), g = tanh(1), o = σ(0)."""
    cell = zeroed(LSTM(1, 1))
    with torch.no_grad():
        cell.core.bias_ih_l0.copy_(torch.tensor([0.0, math.log(3), 1.0, 0.0]))
    hidden, kept = one_step(cell, numbers(5.0), numbers(7.0), numbers(2.0))
    assert float(kept) == pytest.approx(0.75 * 2 + 0.5 * math.tanh(1), abs=1e-6)
    assert float(hidden) == pytest.approx(0.5 * math.tanh(0.75 * 2 + 0.5 * math.tanh(1)), abs=1e-6)


def test_elman_in_numbers():
    cell = zeroed(Elman(1, 1))
    with torch.no_grad():
        cell.core.weight_ih_l0.fill_(2.0)
        cell.core.weight_hh_l0.fill_(-1.0)
    (hidden,) = one_step(cell, numbers(0.5), numbers(0.25))
    assert float(hidden) == pytest.approx(math.tanh(2 * 0.5 - 0.25), abs=1e-6)


@pytest.mark.parametrize(("cell", "kept"), [
    (lambda: LSTM(1, 1), 1), (lambda: GRU(1, 1), 0), (lambda: GRU(1, 1, reset="before", update="renews"), 0),
], ids=["lstm", "gru", "gru-renews"])  # fmt: skip
def test_a_forget_bias_is_set_once_and_keeps_the_old_state(cell, kept):
    """Nothing else in the cell: what is kept decays by σ(bias) a step."""
    made = zeroed(cell())
    made.add_forget_bias(2.0)
    before = tuple(numbers(1.0) for _ in range(made.parts))
    assert float(one_step(made, numbers(3.0), *before)[kept]) == pytest.approx(sigmoid(2.0), abs=1e-6)


def test_an_elman_cell_has_nothing_to_forget_with():
    with pytest.raises(ValueError, match="requires a cell with gates"):
        Elman(1, 1).add_forget_bias(1.0)


@pytest.mark.parametrize("kind", cases.CELLS)
def test_recurrent_matrices_start_orthogonal_gate_by_gate(kind):
    cell = cases.CELLS[kind](3, 5)
    assert cell.core.weight_hh_l0.shape == (cell.gates * 5, 5)
    cell.make_orthogonal()
    for block in cell.core.weight_hh_l0.chunk(cell.gates):
        torch.testing.assert_close(block @ block.T, torch.eye(5), atol=1e-6, rtol=0)


def test_first_states():
    """Summary: what layer 1 carries (h, c), then layer 2."""
    cells = Stack([LSTM(1, 2), LSTM(2, 2)])
    final = torch.arange(8.0)[None]
    copied = CopiedState(8, cells)(final)
    assert [[part.tolist() for part in layer] for layer in copied] == [[[[0, 1]], [[2, 3]]], [[[4, 5]], [[6, 7]]]]
    learned = LearnedState(8, cells)
    (first, empty), (second, _) = learned(final)
    torch.testing.assert_close(torch.cat([first, second], 1), torch.tanh(learned.linear(final)))
    assert not empty.any()
    with pytest.raises(ValueError, match="it has 6 numbers, and the cells require 8"):
        CopiedState(6, cells)


def encoded(rows: int) -> Encoded:
    width, length = cases.WIDTH, 3
    states = torch.randn(rows, length, width)
    return Encoded(states, states, torch.randn(rows, cases.SUMMARY), Span.of(torch.ones(rows, length) > 0))


def run(decoder, tokens: Tensor, source: Encoded):
    memory = decoder.prepare(source)
    return decoder(tokens, Span.without_padding(tokens), memory, decoder.start(memory, torch.arange(len(tokens))))


def attend(decoder, query: Tensor, states: Tensor) -> Tensor:
    """Unscaled dot attention over the states themselves."""
    return torch.softmax(states @ query[:, :, None], 1).transpose(1, 2).matmul(states)[:, 0]


@torch.no_grad()
def test_luong_reads_with_the_new_state_and_feeds_what_it_read():
    decoder, source = cases.luong("dot-unscaled", layers=1, cell="gru"), encoded(2)
    tokens = torch.tensor([[3, 4], [5, 6]])
    hidden = torch.tanh(decoder.bridge.linear(source.final))
    feed, expected = torch.zeros(2, cases.WIDTH), []
    (cell,) = decoder.cells.layers
    for column in range(2):
        x = torch.cat([decoder.embedding.embed(tokens, tokens)[:, column], feed], 1)
        (hidden,) = one_step(cell, x, hidden)
        context = attend(decoder, hidden, source.states)
        feed = torch.tanh(decoder.combine(torch.cat([context, hidden], 1)))
        expected.append(feed)
    torch.testing.assert_close(run(decoder, tokens, source).features, torch.stack(expected, 1))


@torch.no_grad()
def test_without_input_feeding_the_cells_do_not_know_what_was_read():
    decoder, source = cases.luong_unfed("dot-unscaled", layers=1), encoded(2)
    tokens = torch.tensor([[3, 4, 3], [5, 6, 1]])
    other = source._replace(states=torch.randn_like(source.states))
    one, two = run(decoder, tokens, source), run(decoder, tokens, other)
    assert not torch.allclose(one.features, two.features)
    torch.testing.assert_close(one.state.layers, two.state.layers)


@torch.no_grad()
def test_luong_without_input_feeding_reads_with_the_new_state():
    """h̃ = tanh(W_c [c; h]), c first, of every column by itself (Luong et al. 2015, Eq. 5)."""
    decoder, source = cases.luong_unfed("dot-unscaled", layers=1, cell="gru"), encoded(2)
    tokens = torch.tensor([[3, 4], [5, 6]])
    hidden, expected = torch.tanh(decoder.bridge.linear(source.final)), []
    (cell,) = decoder.cells.layers
    for column in range(2):
        (hidden,) = one_step(cell, decoder.embedding.embed(tokens[:, column : column + 1], tokens[:, :1])[:, 0], hidden)
        context = attend(decoder, hidden, source.states)
        expected.append(torch.tanh(decoder.combine(torch.cat([context, hidden], 1))))
    torch.testing.assert_close(run(decoder, tokens, source).features, torch.stack(expected, 1))


@torch.no_grad()
def test_what_luong_feeds_back_is_not_dropped():
    """Dropout falls on h̃ on its way out: training, all that is carried is as without, and what is kept is doubled."""
    decoder, source = cases.luong("dot-unscaled"), encoded(8)
    tokens = torch.randint(1, cases.TYPES, (8, 5))
    plain = run(decoder.eval(), tokens, source)
    decoder.dropout = Dropout(0.5)
    dropped = run(decoder.train(), tokens, source)
    torch.testing.assert_close(dropped.state, plain.state, rtol=0, atol=0)
    kept = dropped.features != 0
    assert 0.2 < float(kept.float().mean()) < 0.8
    torch.testing.assert_close(dropped.features, 2 * kept * plain.features)
    torch.testing.assert_close(plain.state.feed, plain.features[:, -1], rtol=0, atol=0)


@torch.no_grad()
def test_bahdanau_reads_with_the_old_state_and_speaks_from_it():
    """s_{i−1} reads; the maxout layer sees s_{i−1}, y_{i−1} and c_i; only then the cell runs over [E y; c]."""
    decoder, source = cases.bahdanau("dot-unscaled"), encoded(2)
    tokens = torch.tensor([[3, 4], [5, 6]])
    hidden, expected = torch.tanh(decoder.bridge.linear(source.final)), []
    (cell,) = decoder.cells.layers
    for column in range(2):
        word, context = decoder.embedding.embed(tokens, tokens)[:, column], attend(decoder, hidden, source.states)
        both = decoder.read_out(torch.cat([hidden, word, context], 1))
        expected.append(torch.maximum(both[:, 0::2], both[:, 1::2]))
        (hidden,) = one_step(cell, torch.cat([word, context], 1), hidden)
    decoded = run(decoder, tokens, source)
    torch.testing.assert_close(decoded.features, torch.stack(expected, 1))
    torch.testing.assert_close(decoded.state.layers[0][0], hidden)


@torch.no_grad()
def test_without_attention_only_the_summary_is_known():
    decoder, source = cases.unread("lstm"), encoded(2)
    tokens = torch.tensor([[3, 4], [5, 6]])
    features = run(decoder, tokens, source).features
    other = source._replace(states=torch.randn_like(source.states), embedded=torch.randn_like(source.embedded))
    assert torch.equal(run(decoder, tokens, other).features, features)
    assert not torch.allclose(run(decoder, tokens, source._replace(final=-source.final)).features, features)


@torch.no_grad()
@pytest.mark.parametrize("make", [cases.luong, cases.luong_unfed, cases.bahdanau])
def test_what_each_token_looked_at_is_seen_whether_they_ask_in_turn_or_at_once(make):
    decoder, source = nn.ModuleDict({"decoder": make("dot-unscaled")}), encoded(2)
    tokens = torch.tensor([[3, 4, 1], [5, 6, 2]])
    with observe(decoder) as seen:
        run(decoder["decoder"], tokens.flip(1), source)
        run(decoder["decoder"], tokens, source)
    (weights,) = seen.values()
    assert list(seen) == ["decoder.source"] and weights.shape == (2, 1, 3, 3)
    for n in (1, 2):
        with observe(decoder) as some:
            run(decoder["decoder"], tokens[:, :n], source)
        torch.testing.assert_close(some["decoder.source"], weights[:, :, :n])
