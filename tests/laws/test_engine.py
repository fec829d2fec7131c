"""The fast decoder does what the model's own does: the same numbers under any reordering, the same outputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention.mask import Padding, VisibleUntil
from regard.attention.observe import observe
from regard.attention.span import Span
from regard.core.state import join, repeat, select, truncate
from regard.engine import packed
from regard.engine.native import NativeEncoderDecoder
from regard.engine.packed import PackedLinear, PackedMatrix, rounded
from regard.engine.transformer import FastEncoderDecoder, obstacle
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.transformer.layer import TransformerLayer
from regard.native.library import find, library
from regard.native.program import Format
from regard.search.batch_search import search
from regard.search.beam import beam_search, start_beam
from regard.search.best_types import BestTypes
from regard.search.choice import TokenChoice
from regard.search.contract import Hypothesis, Symbols, chunked
from regard.search.draws import Draws
from regard.search.rows import TokenListener, row_search, start_rows

pytestmark = pytest.mark.unchecked  # of models and searches the other laws check the same calls
TYPES, UNKNOWN, BEGIN, END = 23, 1, 2, 3
SYMBOLS = Symbols(BEGIN, END, suppressed=(0, BEGIN))
LENGTHS = [5, 2, 4, 1, 5, 3, 4]
SHAPES: dict[str, dict[str, Any]] = {
    "post": {},
    "pre": {"norm": "pre"},
    "biases": {"attention_bias": True, "activation": "gelu"},
    "grouped": {"key_heads": 2},
    "squared": {"activation": "relu2"},
    "tanh": {"activation": "gelu-tanh", "normalization_epsilon": 0.1},
    "gated": {"activation": "swiglu", "normalization": "rms", "norm": "pre"},
    "turned": {"position": "rotary", "key_heads": 2, "value_width": 3, "attention_bias": True},
    "newer": {
        "norm": "pre",
        "position": {"kind": "rotary", "layout": "half"},
        "qk_norm": True,
        "context_norm": True,
        "attention_gate": True,
        "embedding_residual": True,
    },
    "causal encoder": {"encoder": {"causal": True, "position": "rotary"}, "encoder_layers": 2},
    "unscaled": {"mixer": {"kind": "dot", "scale": 1.0}, "position": "learned"},
    "copying": {"copying": True},
    "copying-newer": {
        "copying": True,
        "norm": "pre",
        "position": "rotary",
        "key_heads": 1,
        "width": 24,
        "decoder_layers": 1,
        "attention_bias": True,
        "output_bias": True,
    },
}


def model_of(shape: dict[str, Any], *, dtype: torch.dtype = torch.float64) -> EncoderDecoder:
    torch.manual_seed(3)
    config = {"width": 16, "heads": 4, "feed_forward": 24, "encoder_layers": 1, "decoder_layers": 2, "dropout": 0.1}
    model = build(ModelConfig.model_validate(config | shape), source_types=TYPES, target_types=TYPES)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(1.7)  # sharp enough that choices are not ties
            if "_norm." in name or "start_mix" in name:
                parameter.add_(torch.rand_like(parameter))  # no feature is like another
    return model.to(dtype).eval()


def parts_of(model: EncoderDecoder) -> dict[str, Any]:
    return {
        "encoder": model.encoder, "decoder": model.decoder, "projection": model.head.weight, "bias": model.head.bias,
        "copying": model.copying,
    }  # fmt: skip


def fast(model: EncoderDecoder, dtype: torch.dtype | None = None) -> FastEncoderDecoder:
    return FastEncoderDecoder(**parts_of(model), dtype=dtype)


def native(model: EncoderDecoder, format: Format = "float32", threads: int = 1) -> NativeEncoderDecoder:
    return NativeEncoderDecoder(**parts_of(model), format=format, threads=threads)


needs_kernels = pytest.mark.skipif(library() is None, reason=f"needs the kernels: {find().reason}")
FORMS = ["torch", pytest.param("native", marks=needs_kernels)]


def form_of(form: str, model: EncoderDecoder) -> FastEncoderDecoder | NativeEncoderDecoder:
    """A fast form of a model, and the kernels' own, which compute in float32."""
    return fast(model) if form == "torch" else native(model, threads=2)


@pytest.fixture(params=SHAPES)
def model(request: pytest.FixtureRequest) -> EncoderDecoder:
    return model_of(SHAPES[request.param])


def sources(rows: list[int]) -> tuple[Tensor, Span]:
    valid = torch.arange(max(LENGTHS[row] for row in rows)) < torch.tensor([LENGTHS[row] for row in rows])[:, None]
    drawn = torch.randint(4, TYPES, (len(LENGTHS), 5), generator=torch.Generator().manual_seed(5))
    drawn[4::2, 3], drawn[4:, 1] = drawn[4::2, 0], UNKNOWN  # tokens that occur twice
    return drawn[rows, : valid.shape[1]], Span.of(valid)


@torch.no_grad()
@pytest.mark.parametrize(
    ("form", "seed", "dtype", "error"),
    [
        *(("torch", seed, torch.float64, 1e-10) for seed in range(3)),
        ("torch", 6, torch.float32, 1e-4),
        *(pytest.param("native", seed, torch.float32, 1e-4, marks=needs_kernels) for seed in (0, 6)),
    ],
)
def test_it_computes_the_same_whatever_is_done_to_its_state(
    model: EncoderDecoder, form: str, seed: int, dtype: torch.dtype, error: float
) -> None:
    """Random steps, reorderings, copies, truncations and newcomers, beside the model's own session."""
    model = model.to(dtype)
    quick = form_of(form, model)
    draw = torch.Generator().manual_seed(seed)
    ours, theirs = quick.session(*sources([0, 1, 2])), model.session(*sources([0, 1, 2]))
    length = torch.zeros(3, dtype=torch.int64)
    for step in range(9):
        tokens = torch.randint(0, TYPES, (len(length), 1 + step % 2), generator=draw)
        found, ours = quick.step(tokens, ours)
        wanted, theirs = model.step(tokens, theirs)
        torch.testing.assert_close(found, wanted, rtol=error, atol=error)
        length = length + tokens.shape[1]
        what = ["any", "beam", "drop", "repeat", "truncate", "join"][int(torch.randint(0, 6, (1,), generator=draw))]
        if what == "any":
            rows = torch.randint(0, len(length), (1 + step,), generator=draw)
        elif what == "beam":
            rows = torch.arange(len(length)).repeat_interleave(2)
        else:
            rows = torch.arange(len(length))[:: 2 if what == "drop" else 1]
        ours, theirs, length = select(ours, rows), select(theirs, rows), length[rows]
        if what == "repeat":
            ours, theirs, length = repeat(ours, 2), repeat(theirs, 2), length.repeat_interleave(2)
        elif what == "truncate":
            length = torch.minimum(length, torch.randint(1, 9, (len(length),), generator=draw))
            ours, theirs = truncate(ours, length), truncate(theirs, length)
        elif what == "join":
            # Newcomers that have made a step and lost the first of them, whose slot is empty.
            stepped = [
                each.step(torch.full((4, 1), BEGIN), each.session(*sources([1, 4, 3, 5])))[1] for each in (quick, model)
            ]
            ours, theirs = (
                join([old, select(new, torch.tensor([1, 2, 3]))])
                for old, new in zip((ours, theirs), stepped, strict=True)
            )
            length = torch.cat([length, length.new_ones(3)])
        if len(length) > 12:
            rows = torch.randperm(len(length), generator=draw)[:5]
            ours, theirs, length = select(ours, rows), select(theirs, rows), length[rows]


@torch.no_grad()
@pytest.mark.parametrize("form", FORMS)
def test_a_source_of_nothing_gives_nothing(model: EncoderDecoder, form: str) -> None:
    source, span = sources([0, 1, 2])
    span.valid[1] = False
    error = 1e-10 if form == "torch" else 1e-4
    model = model if form == "torch" else model.float()
    quick, tokens = form_of(form, model), torch.full((3, 1), BEGIN)
    found, _ = quick.step(tokens, quick.session(source, span))
    wanted, _ = model.step(tokens, model.session(source, span))
    torch.testing.assert_close(found, wanted, rtol=error, atol=error)


@torch.no_grad()
@pytest.mark.parametrize("form", FORMS)
def test_no_rows_are_rows(model: EncoderDecoder, form: str) -> None:
    none = torch.empty(0, dtype=torch.int64)
    quick, tokens = form_of(form, model), torch.full((3, 1), BEGIN)
    _, session = quick.step(tokens, quick.session(*sources([0, 1, 2])))
    beam = select(session, torch.arange(3).repeat_interleave(2))
    for empty in (select(beam, none), truncate(select(quick.session(*sources([1])), none), none)):
        log_p, _ = quick.step(none[:, None], empty)
        assert log_p.shape == (0, 1, TYPES)
    joined = join([quick.session(*sources([0])), select(quick.session(*sources([1])), none)])
    assert quick.step(tokens[:1], joined)[0].shape == (1, 1, TYPES)


@torch.no_grad()
def test_what_is_gone_is_not_read() -> None:
    """A long source and many steps leave nothing behind once those who had them are gone."""
    model = model_of({})
    quick = fast(model)
    session = quick.session(*sources([0, 1, 3]))
    for _ in range(20):
        _, session = quick.step(torch.full((3, 1), 5), session)
    session = select(session, torch.tensor([2]))  # one column
    assert (session.capacity, session.source_length) == (1, 1) and session.history.shape[2] == 32
    fresh = select(join([session, quick.session(*sources([1, 1]))]), torch.tensor([1]))
    assert fresh.history.shape[2] == 16


def outputs(model: Any, width: int, room: int) -> list[tuple[list[int], float]]:
    """Of all sources, ``room`` at a time, those that wait entering as others leave."""
    begun = 0

    def waiting(free: int):
        nonlocal begun
        rows = list(range(len(LENGTHS)))[begun : begun + free]
        begun += len(rows)
        if not rows:
            return None
        longest = torch.tensor([LENGTHS[row] + 20 for row in rows])
        make = start_rows if width == 1 else start_beam
        options = {} if width == 1 else {"width": width}
        return make(rows, SYMBOLS, max_lengths=longest, **options), model.session(*sources(rows))

    step = chunked(model.step) if isinstance(model, EncoderDecoder) else model.chunked_step
    found = dict(search(step, waiting(room), waiting, capacity=room))
    return [(found[row][0].tokens, found[row][0].score) for row in range(len(LENGTHS))]


@torch.no_grad()
@pytest.mark.parametrize("pieces", [(64, 16), (4, 3)])
@pytest.mark.parametrize("how", ["greedy", "beams", "sampled"])
def test_forced_and_drawn_outputs_do_not_depend_on_the_pieces(
    how: str, pieces: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are read a few at a time, and a beam's or a prefix's rows are cut wherever a piece ends."""
    monkeypatch.setattr(packed, "PROJECTED", pieces[0])
    monkeypatch.setattr(packed, "REDUCED", pieces[1])
    model = model_of({})
    source, span = sources(list(range(len(LENGTHS))))
    options: dict[str, Any] = {
        "max_lengths": span.length + 9,
        "prefixes": [[5] * (row % 4) for row in range(len(LENGTHS))],
    }

    def made() -> Any:
        numbers = range(len(LENGTHS))
        if how == "sampled":
            draws = [Draws(7, 0, [number]) for number in numbers]
            return start_rows(numbers, SYMBOLS, choice=TokenChoice(temperature=1.0), draws=draws, **options)
        return (
            start_rows(numbers, SYMBOLS, **options)
            if how == "greedy"
            else start_beam(numbers, SYMBOLS, width=4, **options)
        )

    quick = fast(model)
    found = dict(search(quick.chunked_step, (made(), quick.session(source, span))))
    wanted = dict(search(chunked(model.step), (made(), model.session(source, span))))
    for row in wanted:
        assert found[row][0].tokens == wanted[row][0].tokens
        assert found[row][0].tokens[: row % 4] == [5] * (row % 4)
        assert found[row][0].score == pytest.approx(wanted[row][0].score, abs=1e-4)


@torch.no_grad()
@pytest.mark.parametrize(
    ("width", "room", "pieces"), [(1, 3, (64, 16)), (1, 7, (4, 3)), (4, 3, (4, 3)), (4, 7, (64, 16))]
)  # each two of them together once
def test_its_outputs_are_those_of_the_model(
    model: EncoderDecoder, width: int, room: int, pieces: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "PROJECTED", pieces[0])
    monkeypatch.setattr(packed, "REDUCED", pieces[1])
    found = outputs(fast(model), width, room)
    source, span = sources(list(range(len(LENGTHS))))
    longest = span.length + 20
    if width == 1:
        wanted = row_search(model.step, model.session(source, span), SYMBOLS, max_lengths=longest)
    else:
        session = model.session(source, span)
        wanted = [each[0] for each in beam_search(model.step, session, SYMBOLS, max_lengths=longest, width=width)]
    assert max(len(each.tokens) for each in wanted) > 16, "the cells have to grow"
    for (tokens, score), other in zip(found, wanted, strict=True):
        assert tokens == other.tokens
        assert score == pytest.approx(other.score, abs=1e-9)


@torch.no_grad()
@needs_kernels
@pytest.mark.parametrize(("width", "room"), [(1, 3), (4, 7)])
def test_the_kernels_outputs_are_those_of_the_model(model: EncoderDecoder, width: int, room: int) -> None:
    """The best types are found where probabilities are computed."""
    found, wanted = outputs(native(model.float(), threads=2), width, room), outputs(model, width, room)
    for (tokens, score), other in zip(found, wanted, strict=True):
        assert tokens == other[0]
        assert score == pytest.approx(other[1], rel=2e-5, abs=1e-4)


@torch.no_grad()
@needs_kernels
@pytest.mark.parametrize("format", ["float32", "int8"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_of_exactly_equal_types_the_first_are_the_best(format: Format, count: int) -> None:
    """As ``torch.argmax`` has it: types that have one row of the output's matrix between them, in several lanes."""
    types, groups = 150, 7
    torch.manual_seed(3)
    sizes = {"width": 16, "heads": 4, "feed_forward": 24, "layers": 1, "share": "none"}
    model = build(ModelConfig.model_validate(sizes), source_types=TYPES, target_types=types).eval()
    model.head.weight.copy_(torch.randn(groups, 16)[torch.arange(types) % groups])
    quick = native(model, format)
    tokens = torch.tensor([[5], [6], [7]])
    log_p, _ = quick.step(tokens, quick.session(*sources([0, 1, 2])))
    value, found = quick.chunked_step(tokens, quick.session(*sources([0, 1, 2])), BestTypes(count, (0, BEGIN)))[0]
    log_p[:, -1, [0, BEGIN]] = -torch.inf
    for row in range(3):
        order = sorted(range(types), key=lambda type: (-float(log_p[row, -1, type]), type))[:count]
        assert found[row].tolist() == order, "the first of those that are equal"
        torch.testing.assert_close(value[row], log_p[row, -1, order])
    assert len({int(type) % groups for type in found[0]}) == 1, "all that were found are equal"


@torch.no_grad()
@needs_kernels
@pytest.mark.parametrize(
    ("shape", "width", "nbest", "penalty", "early"),
    [
        ("newer", 2, 1, 0.6, False),
        ("pre", 4, 3, 1.0, False),
        ("post", 7, 7, 0.0, False),
        ("copying-newer", 5, 2, 0.6, True),
    ],
)
@pytest.mark.parametrize("capacity", [1, 3])
def test_steps_of_a_beam_that_the_kernels_run_alone_are_those_of_the_search(
    shape: str, width: int, nbest: int, penalty: float, early: bool, capacity: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit: sentences that enter and leave meanwhile, outputs beyond the best, prefixes, ends of all lengths."""
    quick, quiet = native(model_of(SHAPES[shape], dtype=torch.float32), threads=2), []
    run_beam = quick.head.run_beam

    def counted(*given: Any) -> Any:
        found, done = run_beam(*given)
        quiet.append(done - 1)
        return found, done

    monkeypatch.setattr(quick.head, "run_beam", counted)

    def made(rows: list[int], end: int) -> Any:
        how: dict[str, Any] = {"width": width, "nbest": nbest, "length_penalty": penalty, "early": early}
        how["prefixes"] = [[5] * (row % 3) for row in rows]
        source, span = sources(rows)
        limits = torch.tensor([9 + 3 * row for row in rows])
        return start_beam(rows, Symbols(BEGIN, end), max_lengths=limits, **how), quick.session(source, span)

    def found(end: int) -> dict[int, list[Hypothesis]]:
        waiting = [[row] for row in range(capacity, len(LENGTHS))]
        refill = lambda free: made(waiting.pop(0), end) if waiting else None  # noqa: E731
        return dict(search(quick.chunked_step, made(list(range(capacity)), end), refill, capacity=capacity))

    # What is likely after some tokens ends hypotheses of many lengths.
    ends = {END, *(token for row, each in found(END).items() for token in each[-1].tokens[3 + row : 4 + row])}
    ahead = {end: found(end) for end in ends}
    assert sum(quiet) > 0
    assert any(each.finished for outputs in ahead.values() for hypotheses in outputs.values() for each in hypotheses)
    monkeypatch.setattr(quick, "_can_run_ahead", lambda wanted, session: False)
    for end in ends:
        assert found(end) == ahead[end]


@torch.no_grad()
@needs_kernels
@pytest.mark.parametrize("format", ["float32", "int8"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", ["newer", "copying"])
def test_a_row_of_the_kernels_is_the_same_in_any_company(format: Format, threads: int, shape: str) -> None:
    """To the bit: by itself, among others, in a beam, and whatever the threads."""
    model = model_of(SHAPES[shape], dtype=torch.float32)
    quick, lone = native(model, format, threads), native(model, format)
    tokens = torch.randint(0, TYPES, (7, 9), generator=torch.Generator().manual_seed(1))
    together, _ = quick.step(tokens, quick.session(*sources(list(range(7)))))
    for row in range(7):
        alone, _ = lone.step(tokens[row : row + 1], lone.session(*sources([row])))
        assert torch.equal(alone[0], together[row])
    several = quick.session(*sources([2, 5])).repeat(20)
    found, _ = quick.step(tokens[[2, 5]].repeat_interleave(20, 0), several)
    assert all(torch.equal(found[20 * at + each], together[row]) for at, row in enumerate((2, 5)) for each in (0, 19))


@torch.no_grad()
@needs_kernels
@pytest.mark.parametrize("suppressed", [(), (0, 2, 7)])
@pytest.mark.parametrize("count", [1, 5, 40])
@pytest.mark.parametrize("shape", ["post", "copying"])
def test_the_kernels_find_the_types_that_a_search_asks_for(count: int, suppressed: tuple[int, ...], shape: str) -> None:
    model = model_of(SHAPES[shape], dtype=torch.float32)
    quick, rows = native(model), [4, 5, 6]
    tokens, forced = torch.tensor([[4], [5], [6]]), [(), (9, 4), (int(sources(rows)[0][2, 0]),)]
    for wanted in (BestTypes(count, suppressed), BestTypes(count, suppressed, forced)):
        (value, found), _ = quick.chunked_step(tokens, quick.session(*sources(rows)), wanted)
        log_p, _ = quick.step(tokens, quick.session(*sources(rows)))
        best, token = wanted(log_p[:, 0], slice(0, 3))
        torch.testing.assert_close(value, best, rtol=1e-5, atol=1e-5)
        reachable = best > -torch.inf
        assert torch.equal(found[reachable], token[reachable])


@torch.no_grad()
@needs_kernels
@pytest.mark.parametrize("shape", ["post", "newer", "turned", "grouped", "causal encoder", "copying"])
def test_the_kernels_return_the_attention_to_the_source(shape: str) -> None:
    model = model_of(SHAPES[shape], dtype=torch.float32)
    rows, targets = [4, 5, 0], [[9, 4, 17, 5] * 10, [5], []]
    source, span = sources(rows)
    longest = max(map(len, targets))
    inputs = torch.tensor([[BEGIN, *target, *[0] * (longest - len(target))] for target in targets])
    valid = torch.arange(longest + 1) < torch.tensor([[len(target) + 1] for target in targets])
    with observe(model) as seen:
        model.log_probabilities(source, span, inputs, Span.of(valid))
    quick = native(model)
    for layer in range(2):
        weights = quick.attention(source, span, targets, layer)
        expected = seen[f"decoder.{layer}.source"]
        for row, target in enumerate(targets):
            of_row = weights[row, :, : len(target) + 1], expected[row, :, : len(target) + 1]
            torch.testing.assert_close(*of_row, rtol=1e-4, atol=1e-5)
    several, alone = quick.attention(source, span, targets, 1), quick.attention(*sources([5]), [[5]], 1)
    assert torch.equal(several[1, :, :2, : alone.shape[3]], alone[0, :, :2])


@torch.no_grad()
@needs_kernels
@pytest.mark.parametrize("columns", [1, 15, 16, 17])
def test_attention_has_a_column_for_each_position_of_the_tensor(columns: int) -> None:
    """Padding beyond the longest source has the weight 0, also if an output is longer than the sources."""
    quick = native(model_of(SHAPES["post"], dtype=torch.float32))
    valid = torch.arange(48) < torch.tensor([48, 5])[:, None]
    source = torch.randint(4, TYPES, valid.shape, generator=torch.Generator().manual_seed(5))
    targets = [[9, 4, 17, 5] * 20, [5]]
    expected = quick.attention(source, Span.of(valid), targets, 1)
    wider, span = (torch.nn.functional.pad(each, (0, columns)) for each in (source, valid))
    weights = quick.attention(wider, Span.of(span), targets, 1)
    assert weights.shape[3] == 48 + columns and not weights[1, :, :2, 48:].any() and not weights[0, :, :, 48:].any()
    torch.testing.assert_close(weights[0, ..., :48], expected[0])
    torch.testing.assert_close(weights[1, :, :2, :48], expected[1, :, :2])


class _Ends(TokenListener):
    """Ends an output at its fourth token."""

    def __init__(self, received: list[int]) -> None:
        self.received = received

    def add(self, token: int, log_probability: float, alternatives: Any) -> bool:
        self.received.append(token)
        return len(self.received) == 4


@torch.no_grad()
@needs_kernels
@pytest.mark.parametrize("shape", ["post", "newer", "copying"])
def test_prefixes_of_any_lengths_are_forced_in_few_calls(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several forced tokens are one call of the kernels; outputs and all log-probabilities are those of the model."""
    model = model_of(SHAPES[shape], dtype=torch.float32)
    quick, rows, calls = native(model), [4, 5, 6, 0], 0
    prefixes = [[9, 4, 17, 5, 6, 7, 8], [], [12], [5, 5, 5]]

    def counted(call: Any) -> Any:
        def count(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            return call(*arguments, **options)

        return count

    for name in ("run_ahead", "log_probabilities"):
        monkeypatch.setattr(quick.head, name, counted(getattr(quick.head, name)))
    limit = torch.tensor([12, 9, 10, 11])
    for heard in (False, True):
        found, received = [], []
        for step, session in (
            (chunked(model.step), model.session(*sources(rows))),
            (quick.chunked_step, quick.session(*sources(rows))),
        ):
            own: list[list[int]] = [[] for _ in rows]
            listeners = [_Ends(tokens) for tokens in own] if heard else None
            state = start_rows(range(4), SYMBOLS, max_lengths=limit, prefixes=prefixes, listeners=listeners)
            found.append(dict(search(step, (state, session))))
            received.append(own)
        assert received[0] == received[1]
        for number, (one,) in found[0].items():
            (other,) = found[1][number]
            assert one.tokens == other.tokens and one.finished == other.finished
            assert one.tokens[: len(prefixes[number])] == prefixes[number][: len(one.tokens)]
            torch.testing.assert_close(
                torch.tensor(one.token_log_probabilities),
                torch.tensor(other.token_log_probabilities),
                rtol=1e-4,
                atol=1e-4,
            )
        if not heard:
            assert 0 < calls <= 12  # about one for each output that ends, not one for each token
    one = [prefixes[0]]
    heard_alone = start_rows([0], SYMBOLS, max_lengths=limit[:1], prefixes=one, listeners=[_Ends([])])
    calls = 0
    list(search(quick.chunked_step, (heard_alone, quick.session(*sources([4])))))
    assert calls == 1  # tokens that are forced are run ahead also if a listener may end the output


@torch.no_grad()
@pytest.mark.parametrize(
    ("engine", "error"), [("float32", 1e-5), ("bfloat16", 0.1), pytest.param("int8", 0.2, marks=needs_kernels)]
)
@pytest.mark.parametrize("rows", [[0, 1, 2], [3]])  # a row alone goes through products of its own
@pytest.mark.parametrize("shape", ["post", "pre", "biases", "gated", "grouped", "copying"])
def test_packed_matrices_compute_the_same(engine: str, error: float, rows: list[int], shape: str) -> None:
    model = model_of(SHAPES[shape], dtype=torch.float32)
    tokens = torch.randint(0, TYPES, (len(rows), 12), generator=torch.Generator().manual_seed(1))
    wanted, _ = model.step(tokens, model.session(*sources(rows)))
    quick = native(model, "int8") if engine == "int8" else fast(model, getattr(torch, engine))
    found, _ = quick.step(tokens, quick.session(*sources(rows)))
    assert found.dtype == torch.float32
    assert float((found - wanted).abs().mean()) < error
    assert model.head.weight.dtype == torch.float32, "the model is as it was"


def drawn(rows: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(rows)
    x, w, b, z = (torch.randn(*s, generator=draw, dtype=dtype) for s in ((rows, 24), (40, 24), (40,), (rows, 40)))
    return x, w, b, z


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [1, 5, 64])
def test_a_packed_matrix_is_its_formula(dtype: torch.dtype, rows: int) -> None:
    x, w, b, z = drawn(rows, dtype)
    plain = x @ w.T + b
    found = PackedLinear(PackedMatrix(w, b), alone=True)
    for one, wanted in (
        (found(x), plain),
        (PackedLinear(PackedMatrix(w))(x), x @ w.T),
        (found.relu(x), plain.clamp_min(0)),
        (found.add_to(z, x), z + plain),
    ):
        torch.testing.assert_close(one, wanted, rtol=1e-5, atol=1e-5)


def test_rows_are_padded_to_few_numbers_and_by_little() -> None:
    """A product is prepared for each number of rows: a power of two to the next has eight."""
    padded = {rows: rounded(rows) for rows in range(1, 4097)}
    assert all(rows <= to < rows + max(16, rows / 8) for rows, to in padded.items())
    assert len(set(padded.values())) == 128 // 16 + 5 * 8


def test_a_number_that_is_none_stays_none() -> None:
    x, w, b, _ = drawn(5, torch.float32)
    x[2, 3] = float("nan")
    assert PackedLinear(PackedMatrix(w, b)).relu(x)[2].isnan().all()


def test_a_class_of_another_name_is_not_taken_for_what_it_is_made_of() -> None:
    class ReadsFirst(TransformerLayer): ...

    model = model_of({})
    model.decoder.layers[0].__class__ = ReadsFirst
    assert "other than self-attention" in str(obstacle(model.decoder))


def test_a_reader_that_may_not_see_the_whole_source_has_no_fast_form() -> None:
    model = model_of({})
    model.decoder.layers[0].reader.mask = Padding() & VisibleUntil()
    assert "attention to the source is restricted" in str(obstacle(model.decoder))


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ({"decoder": {"kind": "recurrent"}}, "not the Transformer's"),
        ({"decoder": {"mixer": {"kind": "ssru"}}}, "other than self-attention"),
        ({"mixer": {"kind": "dot", "neighborhood": 2}}, "restricted"),
        ({"position": "alibi"}, "not plain dot-product attention"),
        ({"cross_attention": {"kind": "additive"}}, "not plain dot-product attention"),
    ],
)
def test_what_it_cannot_serve_it_says(shape: dict[str, Any], told: str) -> None:
    model = model_of(shape)
    reason = obstacle(model.decoder)
    assert reason is not None and told in reason
    with pytest.raises(ValueError, match=told):
        fast(model)
