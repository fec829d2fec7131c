"""CTC: prefix probabilities against all paths, paths of outputs, the loss, and joint search."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import pytest
import torch
from torch import Tensor

from regard.attention.contract import Encoded
from regard.attention.span import Span
from regard.core.state import join, repeat, select
from regard.models.ctc import Ctc, best_path, forced_path, required_states
from regard.search.beam import beam_search
from regard.search.contract import Symbols
from regard.search.ctc_prefix import CtcPrefix, CtcState
from regard.search.joint import JointStep, Scorer

STATES, TYPES, BEGIN, END = 4, 3, 1, 0  # in the brute force, type 0 ends an output
Sequence_ = tuple[int, ...]


def drawn(seed: int, states: int = STATES, rows: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, states, TYPES + 1, generator=generator, dtype=torch.float64).mul(2).log_softmax(-1)


def collapsed(path: Sequence_) -> Sequence_:
    runs = [symbol for place, symbol in enumerate(path) if place == 0 or symbol != path[place - 1]]
    return tuple(symbol for symbol in runs if symbol != TYPES)


def probabilities(log_p: Tensor) -> dict[Sequence_, float]:
    """Return the probability of each output by enumerating all paths of (states, symbols)."""
    outputs: dict[Sequence_, float] = {}
    for path in product(range(TYPES + 1), repeat=len(log_p)):
        probability = math.exp(sum(float(log_p[state, symbol]) for state, symbol in enumerate(path)))
        outputs[collapsed(path)] = outputs.get(collapsed(path), 0.0) + probability
    return outputs


def prefixes(state: CtcState, longest: int, prefix: Sequence_ = ()) -> Iterator[tuple[Sequence_, CtcState]]:
    yield prefix, state
    if len(prefix) < longest:
        for token in range(TYPES):
            yield from prefixes(state.extended(torch.tensor([token])), longest, (*prefix, token))


def check_prefixes(log_p: Tensor, start: CtcState) -> None:
    outputs = probabilities(log_p)
    for prefix, state in prefixes(start, 3):
        begins = sum(p for output, p in outputs.items() if output[: len(prefix)] == prefix)
        assert float(state.prefix.exp()) == pytest.approx(begins, abs=1e-12), prefix
        following = (state.next_log_probabilities(END) + state.prefix[:, None]).exp()[0]
        assert float(following[END]) == pytest.approx(outputs.get(prefix, 0.0), abs=1e-12), prefix
        for token in range(1, TYPES):
            begins = sum(p for output, p in outputs.items() if output[: len(prefix) + 1] == (*prefix, token))
            assert float(following[token]) == pytest.approx(begins, abs=1e-12), (prefix, token)


@pytest.mark.parametrize("seed", range(3))
def test_prefix_probabilities_are_sums_over_all_paths(seed: int) -> None:
    log_p = drawn(seed)
    check_prefixes(log_p[0], CtcState.start(log_p))


def test_the_empty_prefix_is_certain_and_outputs_sum_to_one() -> None:
    log_p = drawn(5)
    start = CtcState.start(log_p)
    assert float(start.prefix) == 0
    whole = sum(float((s.next_log_probabilities(END)[0, END] + s.prefix[0]).exp()) for _, s in prefixes(start, 4))
    assert whole == pytest.approx(1)


class RepeatsWithoutBlank(CtcState):
    """φ without the rule [c ≠ last]: a repeated token needs no blank."""

    def entering(self, tokens: Tensor) -> Tensor:
        return torch.logaddexp(self.token[:, :-1], self.blank[:, :-1])

    def extended(self, tokens: Tensor) -> CtcState:
        return RepeatsWithoutBlank(*super().extended(tokens))


def test_the_brute_force_finds_a_prefix_without_the_rule_of_repeated_tokens() -> None:
    log_p = drawn(0)
    with pytest.raises(AssertionError):
        check_prefixes(log_p[0], RepeatsWithoutBlank(*CtcState.start(log_p)))


def test_rows_are_selected_repeated_and_joined() -> None:
    short, long = CtcState.start(drawn(1, 3)), CtcState.start(drawn(2, 6, 2))
    both = join([short, long])
    tokens = torch.tensor([2, 1, 2])
    after = both.extended(tokens)
    separate = [short.extended(tokens[:1]), long.extended(tokens[1:])]
    expected = torch.cat([state.next_log_probabilities(END) for state in separate])
    torch.testing.assert_close(after.next_log_probabilities(END), expected)
    rows = torch.tensor([2, 0, 2, 2])
    torch.testing.assert_close(select(after, rows).next_log_probabilities(END), expected[rows])
    one = select(after, torch.tensor([1]))
    assert len(one.log_p) == 1  # sentences that no row reads are dropped
    torch.testing.assert_close(one.next_log_probabilities(END), expected[1:2])
    torch.testing.assert_close(repeat(after, 2).next_log_probabilities(END), expected.repeat_interleave(2, 0))
    later = join([select(after, torch.tensor([0])), CtcState.start(drawn(3, 9))])
    torch.testing.assert_close(later.next_log_probabilities(END)[:1], expected[:1])


def encoded(states: Tensor, lengths: list[int]) -> Encoded:
    span = Span.of(torch.arange(states.shape[1]) < torch.tensor(lengths)[:, None])
    return Encoded(states, states, states[:, 0], span)


def test_the_loss_is_the_probability_of_the_output_without_end() -> None:
    torch.manual_seed(0)
    ctc = Ctc(5, TYPES).double()
    inputs = encoded(torch.randn(2, 5, 5, dtype=torch.float64), [4, 3])
    target = torch.tensor([[2, 2, END], [1, END, 7]])
    loss = ctc.loss(inputs, target, torch.tensor([2, 1])).detach()
    log_p = ctc.log_probabilities(inputs).detach()
    expected = math.log(probabilities(log_p[0, :4])[2, 2]) + math.log(probabilities(log_p[1, :3])[(1,)])
    assert float(loss) == pytest.approx(-expected)
    with_end = ctc.loss(inputs, target.clamp_max(2), torch.tensor([3, 2])).detach()
    assert float(with_end) != pytest.approx(-expected)


def test_padded_states_are_blank() -> None:
    torch.manual_seed(0)
    ctc = Ctc(5, TYPES).double()
    states = torch.randn(2, 6, 5, dtype=torch.float64)
    alone = CtcState.start(ctc.log_probabilities(encoded(states[1:, :3], [3])))
    padded = CtcState.start(ctc.log_probabilities(encoded(states, [6, 3])))
    for token in (1, 2):
        alone, padded = alone.extended(torch.tensor([token])), padded.extended(torch.tensor([1, token]))
    torch.testing.assert_close(padded.next_log_probabilities(END)[1], alone.next_log_probabilities(END)[0])


def path_of(symbols: list[int]) -> Tensor:
    return torch.eye(TYPES + 1, dtype=torch.float64)[symbols].add(1e-3).log()


def test_the_best_path_is_collapsed_with_its_states() -> None:
    path = best_path(path_of([3, 1, 1, 3, 1, 2, 2, 3]))
    assert path.tokens == [1, 1, 2]
    assert path.states == [(1, 2), (4, 4), (5, 6)]
    assert best_path(path_of([2, 2])).states == [(0, 1)]
    assert best_path(path_of([3, 3])).tokens == []


@pytest.mark.parametrize("seed", range(5))
def test_the_forced_path_is_the_best_of_all_paths_of_the_output(seed: int) -> None:
    log_p, target = drawn(seed, 5)[0], [(1, 2), (2, 2), (0,), (1, 0, 1), (0, 0, 1)][seed]
    paths = [path for path in product(range(TYPES + 1), repeat=5) if collapsed(path) == target]
    best = max(paths, key=lambda path: sum(float(log_p[state, symbol]) for state, symbol in enumerate(path)))
    spans, previous = [], TYPES
    for state, symbol in enumerate(best):
        if symbol != TYPES and symbol != previous:
            spans.append((state, state))
        elif symbol != TYPES:
            spans[-1] = (spans[-1][0], state)
        previous = symbol
    assert forced_path(log_p, target) == spans
    assert forced_path(log_p, [1, 1, 1, 1]) == []


def test_equal_neighbors_need_a_blank() -> None:
    assert required_states([1, 2, 2, 2]) == 6
    assert probabilities(drawn(0)[0]).get((2, 2, 2)) is None


def uniform(tokens: Tensor, state: tuple[Tensor]) -> tuple[Tensor, tuple[Tensor]]:
    """A decoder that prefers type 2, for every row."""
    log_p = torch.tensor([0.2, 0.1, 0.7], dtype=torch.float64).log()
    return log_p.expand(*tokens.shape, TYPES), state


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_joint_search_returns_the_best_weighted_output(weight: float) -> None:
    begin = -1  # no type of this vocabulary
    log_p = drawn(4, rows=2)
    joint = JointStep([Scorer(uniform, 1 - weight), Scorer(CtcPrefix(begin, END).step, weight)])
    state = joint.start([(torch.zeros(2),), CtcState.start(log_p)])
    outputs_of_rows = beam_search(
        joint, state, Symbols(begin, END), max_lengths=torch.tensor([5, 5]), width=30, length_penalty=0.0
    )
    prior = torch.tensor([0.2, 0.1, 0.7]).log().tolist()
    for row, (best,) in enumerate(outputs_of_rows):
        outputs = probabilities(log_p[row])

        def score(output: Sequence_, outputs: dict[Sequence_, float] = outputs) -> float:
            decoder = sum(prior[token] for token in output) + prior[END]
            if weight and output not in outputs:
                return -math.inf
            return (1 - weight) * decoder + (weight * math.log(outputs[output]) if weight else 0)

        every = [output for length in range(5) for output in product(range(1, TYPES), repeat=length)]
        winner = max(every, key=score)
        assert tuple(best.tokens) == winner
        assert best.log_probability == pytest.approx(score(winner))


def test_a_joint_search_needs_a_weight() -> None:
    with pytest.raises(ValueError, match="weight above 0"):
        JointStep([Scorer(uniform, 0.0)])
