"""One search over every decoder: cached as uncached, batched as alone, and the true argmax where it can be listed."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from regard.attention.mask import Padding
from regard.attention.positions.absolute import SinusoidalPosition
from regard.attention.span import Span
from regard.models.copying import Copying
from regard.models.encoder_decoder import EncoderDecoder, Session
from regard.models.head import Head
from regard.models.transformer.feed_forward import FeedForward
from regard.models.transformer.layer import TransformerLayer
from regard.models.transformer.norms import PostNorm
from regard.models.transformer.transformer import TransformerEncoder
from regard.search.batch_search import RunningBatch, search
from regard.search.beam import beam_search, start_beam
from regard.search.best_types import best_types
from regard.search.choice import TokenChoice
from regard.search.contract import Symbols, chunked
from regard.search.draws import Draws
from regard.search.rows import row_search, start_rows
from regard.testing.law import ready

from . import cases
from .cases import DECODERS, TYPES, WIDTH

BEGIN, END = 2, 3
SYMBOLS = Symbols(begin=BEGIN, end=END, suppressed=(0, BEGIN))
ENDLESS = Symbols(begin=BEGIN, end=END, suppressed=(0, BEGIN, END))  # but for the limits
VALID = torch.arange(5) < torch.tensor([[5], [2], [4]])
SPAN = Span.of(VALID)
LONGEST = torch.tensor([6, 4, 5])
# Those of which another has the same order of things; each is under all laws.
ALIKE = {
    "convolutional-wide", "transformer-local-p", "luong-local-m", "luong-copying", "luong-unfed-local-m",
    "luong-unfed-location-aware", "bahdanau-lstm", "unread-gru-before",
}  # fmt: skip
KINDS = [name for name in DECODERS if name not in ALIKE] + ["copying-transformer", "copying-luong-dot"]


def transducer(name: str, monkeypatch: pytest.MonkeyPatch, *, seed: int = 0) -> EncoderDecoder:
    """A random model, sharp enough that its choices are not ties; ``copying-`` a decoder's name has a pointer."""
    monkeypatch.setattr(cases, "SUMMARY", WIDTH)
    torch.manual_seed(seed)
    frames = (PostNorm(WIDTH, dropout=0.0), PostNorm(WIDTH, dropout=0.0))
    layer = TransformerLayer(cases.attention(Padding()), None, FeedForward(WIDTH, WIDTH), frames)
    encoder = TransformerEncoder(cases.embedding(SinusoidalPosition(WIDTH)), [layer], nn.Identity())
    kind = name.removeprefix("copying-")
    copying = Copying(WIDTH, WIDTH) if kind != name else None
    return ready(EncoderDecoder(encoder, DECODERS[kind](), Head(nn.Parameter(torch.randn(TYPES, WIDTH))), copying))


@pytest.fixture(params=KINDS)
def model(request, monkeypatch) -> EncoderDecoder:
    return transducer(request.param, monkeypatch)


@pytest.fixture
def source() -> Tensor:
    return torch.randint(0, TYPES, VALID.shape, generator=torch.Generator().manual_seed(5))


class Tape(NamedTuple):
    """The state of a decoder that remembers nothing but its tokens."""

    tokens: Tensor
    rows: Tensor


def uncached(model: EncoderDecoder, source: Tensor, valid: Tensor):
    """A step that starts over each time."""

    def step(tokens: Tensor, tape: Tape) -> tuple[Tensor, Tape]:
        whole = torch.cat([tape.tokens, tokens], 1)
        spans = Span.of(valid[tape.rows]), Span.without_padding(whole)
        log_p = model.log_probabilities(source[tape.rows], spans[0], whole, spans[1])
        return log_p[:, -tokens.shape[1] :], Tape(whole, tape.rows)

    return step, Tape(torch.empty(len(source), 0, dtype=torch.int64), torch.arange(len(source)))


def same_hypotheses(actual, expected) -> None:
    for one, other in zip(actual, expected, strict=True):
        assert one.tokens == other.tokens
        assert one.finished == other.finished
        assert one.score == pytest.approx(other.score, abs=1e-10)
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-10)


@torch.no_grad()
def test_every_step_cached_is_as_uncached_under_reordering(model, source):
    step, tape = uncached(model, source, VALID)
    session = model.session(source, SPAN)
    generator = torch.Generator().manual_seed(3)
    tokens = torch.full((3, 1), BEGIN)
    for _ in range(6):
        cached, session = model.step(tokens, session)
        plain, tape = step(tokens, tape)
        torch.testing.assert_close(cached, plain, rtol=1e-10, atol=1e-10)
        rows = torch.randint(0, len(tokens), (4,), generator=generator)
        session, tape = session.select(rows), Tape(tape.tokens[rows], tape.rows[rows])
        tokens = torch.randint(0, TYPES, (4, 2), generator=generator)


@pytest.mark.unchecked
@torch.no_grad()
@pytest.mark.parametrize("width", [2, 3])
def test_beam_cached_is_as_uncached(model, source, width):
    options = dict(max_lengths=LONGEST, width=width, nbest=width)
    cached = beam_search(model.step, model.session(source, SPAN), SYMBOLS, **options)
    plain = beam_search(*uncached(model, source, VALID), SYMBOLS, **options)
    for one, other in zip(cached, plain, strict=True):
        same_hypotheses(one, other)


@pytest.mark.unchecked
@torch.no_grad()
def test_greedy_cached_is_as_uncached_and_as_a_beam_of_one(model, source):
    greedy = row_search(model.step, model.session(source, SPAN), SYMBOLS, max_lengths=LONGEST)
    same_hypotheses(greedy, row_search(*uncached(model, source, VALID), SYMBOLS, max_lengths=LONGEST))
    session = model.session(source, SPAN)
    beam = beam_search(model.step, session, SYMBOLS, max_lengths=LONGEST, width=1, length_penalty=0.0)
    same_hypotheses(greedy, [hypotheses[0] for hypotheses in beam])


@pytest.mark.unchecked
@torch.no_grad()
def test_a_batch_is_searched_as_its_sentences_alone(model, source):
    whole = beam_search(model.step, model.session(source, SPAN), SYMBOLS, max_lengths=LONGEST, width=3)
    for row, length in enumerate(VALID.sum(1).tolist()):
        session = model.session(source[row : row + 1, :length], Span.of(VALID[row : row + 1, :length]))
        alone = beam_search(model.step, session, SYMBOLS, max_lengths=LONGEST[row : row + 1], width=3)
        same_hypotheses(whole[row], alone[0])


@pytest.mark.unchecked
@torch.no_grad()
@pytest.mark.parametrize("width", [None, 3])
def test_sentences_that_enter_while_others_run_are_searched_as_alone(model, source, width):
    """Five sentences through a room of two: each joins others that stand at another step."""
    order, entered = [1, 0, 2, 1, 0], []

    def opened(numbers: list[int]):
        entered.append(numbers)
        rows = [order[number] for number in numbers]
        longest = LONGEST[rows]
        live = start_rows(numbers, SYMBOLS, max_lengths=longest) if width is None else start_beam(
            numbers, SYMBOLS, max_lengths=longest, width=width
        )  # fmt: skip
        length = int(VALID[rows].sum(1).max())
        return live, model.session(source[rows][:, :length], Span.of(VALID[rows][:, :length]))

    def waiting(free: int):
        begun = sum(map(len, entered))
        return opened(list(range(len(order)))[begun : begun + free]) if begun < len(order) else None

    found = dict(search(chunked(model.step), opened([0, 1]), waiting, capacity=2))
    assert len(entered) > 2, "they enter as places become free"
    session = model.session(source, SPAN)
    if width is None:
        alone = [[h] for h in row_search(model.step, session, SYMBOLS, max_lengths=LONGEST)]
    else:
        alone = beam_search(model.step, session, SYMBOLS, max_lengths=LONGEST, width=width)
    assert sorted(found) == list(range(len(order)))
    for number, row in enumerate(order):
        same_hypotheses(found[number], alone[row])


@pytest.mark.unchecked
@torch.no_grad()
@pytest.mark.parametrize("model", KINDS, indirect=True)
@pytest.mark.parametrize("dropped", [[1], [0, 2], [0, 1, 2]])
def test_a_sentence_that_is_dropped_leaves_the_others_as_they_were(model, source, dropped, request):
    """Between two steps, before any has ended; another enters in its place. Each two of kind, width, dropped meet."""
    width = [None, 3][(KINDS.index(request.node.callspec.params["model"]) + len(dropped)) % 2]

    def opened(numbers, rows):
        live = start_rows(numbers, ENDLESS, max_lengths=LONGEST[rows]) if width is None else start_beam(
            numbers, ENDLESS, max_lengths=LONGEST[rows], width=width
        )  # fmt: skip
        return live, model.session(source[rows], Span.of(VALID[rows]))

    running, found = RunningBatch(chunked(model.step)), {}
    running.enter(opened([0, 1, 2], [0, 1, 2]))
    running.advance()
    assert running.active_ids == {0, 1, 2}
    running.drop(dropped)
    assert running.active_ids.isdisjoint(dropped)
    running.drop([7])  # nobody
    running.enter(opened([5], [0]))
    while running.active_ids:
        running.advance()
        found |= dict(running.take_finished())
    found |= dict(running.take_finished())
    assert sorted(found) == sorted({0, 1, 2, 5} - set(dropped))
    session = model.session(source, SPAN)
    if width is None:
        alone = [[h] for h in row_search(model.step, session, ENDLESS, max_lengths=LONGEST)]
    else:
        alone = beam_search(model.step, session, ENDLESS, max_lengths=LONGEST, width=width)
    for number, outputs in found.items():
        same_hypotheses(outputs, alone[{5: 0}.get(number, number)])


@torch.no_grad()
def test_draws_of_a_sentence_leave_together_and_make_room(monkeypatch):
    """Those that wait enter as sentences end, however many rows each has; a state is never split within one."""
    model, seen = transducer("transformer", monkeypatch), []
    rows = iter([2, 0, 1, 2])
    source = torch.randint(0, TYPES, VALID.shape, generator=torch.Generator().manual_seed(5))

    def waiting(free: int):
        seen.append(free)
        row = next(rows, None)
        if row is None:
            return None
        live = drawn([len(seen) + 2], LONGEST[row : row + 1], seed=row)
        return live, model.session(source[row : row + 1], Span.of(VALID[row : row + 1])).repeat(3)

    def drawn(ids, longest, *, seed):
        draws = [Draws(seed, sample, [id]) for id in ids for sample in range(3)]
        return start_rows(
            ids, SYMBOLS, max_lengths=longest, choice=TokenChoice(temperature=1.0), samples=3, draws=draws
        )

    live = drawn([0, 1], LONGEST[:2], seed=9)
    found = dict(
        search(
            chunked(model.step), (live, model.session(source[:2], Span.of(VALID[:2])).repeat(3)), waiting, capacity=2
        )
    )
    assert len(found) == 6 and set(map(len, found.values())) == {3}
    assert set(seen) == {1} or set(seen) == {1, 2}, "one sentence ends, one enters"
    for outputs in found.values():
        assert [each.score for each in outputs] == sorted((each.score for each in outputs), reverse=True)
        for each in outputs:
            assert len(each.token_log_probabilities) == len(each.tokens) + each.finished


@pytest.mark.parametrize("types", [1024, 1500, 9712])
@pytest.mark.parametrize(("count", "never"), [(1, ()), (4, (0, 2)), (12, (5,))])
def test_the_best_of_many_types_are_those_of_a_whole_sort(types, count, never):
    log_p = torch.randn(7, types, generator=torch.Generator().manual_seed(types))
    for row in log_p.split(1):  # one alone goes another way
        assert torch.equal(best_types(row, 1)[1], row.argmax(-1, keepdim=True))
    log_p[0, -count:] += 10  # in the rest beyond the last whole chunk
    log_p[1, :count] += 10  # all in one chunk
    log_p[2, list(never)] += 20
    value, token = best_types(log_p, count, never)
    expected = log_p.clone()
    expected[:, list(never)] = -float("inf")
    wanted = expected.sort(-1, descending=True)
    assert torch.equal(token, wanted.indices[:, :count])
    assert torch.equal(value, wanted.values[:, :count])


@pytest.mark.unchecked
@torch.no_grad()
def test_the_score_is_that_of_teacher_forcing(model, source):
    found = beam_search(model.step, model.session(source, SPAN), SYMBOLS, max_lengths=LONGEST, width=3, nbest=2)
    for row, hypotheses in enumerate(found):
        for hypothesis in hypotheses:
            tokens = torch.tensor([[BEGIN, *hypothesis.tokens, END][: len(hypothesis.token_log_probabilities) + 1]])
            pair = (
                source[row : row + 1],
                Span.of(VALID[row : row + 1]),
                tokens[:, :-1],
                Span.without_padding(tokens[:, :-1]),
            )
            log_p = model.log_probabilities(*pair)
            if model.copying is None:
                plain = torch.log_softmax(linear(model(*pair), model.head.weight), -1)
                torch.testing.assert_close(log_p, plain, rtol=1e-12, atol=1e-12)
            gains = log_p.gather(2, tokens[:, 1:, None]).flatten()
            assert hypothesis.log_probability == pytest.approx(float(gains.sum()), abs=1e-9)
            assert hypothesis.token_log_probabilities == pytest.approx(gains.tolist(), abs=1e-5)


@pytest.mark.unchecked
@torch.no_grad()
def test_a_beam_as_wide_as_the_space_finds_the_true_argmax(model, source):
    longest, live = 3, [t for t in range(TYPES) if t not in (0, BEGIN, END)][:3]
    symbols = Symbols(BEGIN, END, suppressed=tuple(t for t in range(TYPES) if t not in (*live, END)))
    totals = {}
    for length in range(1, longest + 1):
        for tokens in itertools.product(live, repeat=length - 1):
            given = torch.tensor([[BEGIN, *tokens]])
            log_p, _ = model.step(given, model.session(source[:1], Span.of(VALID[:1])))
            totals[tokens] = float(log_p[0].gather(1, torch.tensor([*tokens, END])[:, None]).sum())
    for penalty, offset in [(0.0, 5), (0.6, 5), (1.0, 5), (1.0, 0), (1.5, 0)]:
        (found,) = beam_search(
            model.step,
            model.session(source[:1], Span.of(VALID[:1])),
            symbols,
            max_lengths=torch.tensor([longest]),
            width=40,
            length_penalty=penalty,
            length_offset=offset,
        )
        best = max(
            (total / ((offset + len(tokens) + 1) / (offset + 1)) ** penalty, tokens) for tokens, total in totals.items()
        )
        assert found[0].finished
        assert found[0].score == pytest.approx(best[0], abs=1e-9)
        assert tuple(found[0].tokens) == best[1]


@pytest.mark.unchecked
@torch.no_grad()
def test_a_forced_prefix_is_kept_and_is_what_one_wide_step_gives(model, source):
    prefixes = [[4, 5], [], [6]]
    found = row_search(model.step, model.session(source, SPAN), SYMBOLS, max_lengths=LONGEST, prefixes=prefixes)
    for hypothesis, prefix in zip(found, prefixes, strict=True):
        assert hypothesis.tokens[: len(prefix)] == prefix
    tokens = torch.tensor([[BEGIN, 4, 5]])
    log_p, _ = model.step(tokens, model.session(source[:1], Span.of(VALID[:1])))
    assert found[0].token_log_probabilities[:2] == pytest.approx([float(log_p[0, 0, 4]), float(log_p[0, 1, 5])])


@pytest.mark.unchecked
@torch.no_grad()
def test_sampling_with_one_choice_is_greedy(model, source):
    greedy = row_search(model.step, model.session(source, SPAN), SYMBOLS, max_lengths=LONGEST)
    for options in (dict(top_k=1), dict(top_p=1e-9), dict(temperature=1e-6)):
        session = model.session(source, SPAN)
        choice = TokenChoice(**{"temperature": 1.0, **options})
        drawn = row_search(model.step, session, SYMBOLS, max_lengths=LONGEST, choice=choice)
        assert [hypothesis.tokens for hypothesis in drawn] == [hypothesis.tokens for hypothesis in greedy]


@torch.no_grad()
def test_the_memory_is_never_copied_per_beam_and_finished_sentences_leave(model, source):
    seen: list[tuple[int, int, int]] = []

    def step(tokens: Tensor, session: Session) -> tuple[Tensor, Session]:
        held = len(torch.unique(session.state.rows))
        seen.append((len(tokens), session.sentences, held))
        log_p, after = model.step(tokens, session)
        return log_p, after

    endless = Symbols(BEGIN, END, suppressed=(0, BEGIN, END))
    beam_search(step, model.session(source, SPAN), endless, max_lengths=torch.tensor([5, 1, 2]), width=4)
    assert [rows for rows, _, _ in seen] == [3, 8, 4, 4, 4], "live rows: sentence 1 leaves after 1 token, 2 after 2"
    assert [held for _, _, held in seen] == [3, 2, 1, 1, 1]
    assert [sentences for _, sentences, _ in seen] == [3, 3, 1, 1, 1], "keys are held once a sentence"
