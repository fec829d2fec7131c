"""Forced types, which the kernels read in one call: the numbers of single steps, and the same continuation."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.engine import native as engine
from regard.search.batch_search import search
from regard.search.beam import start_beam
from regard.search.best_types import BestTypes
from regard.search.contract import ChunkedStep, Hypothesis, SearchState, StatePair
from regard.search.rows import start_rows

from .test_engine import BEGIN, END, SHAPES, SYMBOLS, TYPES, fast, model_of, native, needs_kernels, sources

pytestmark = [pytest.mark.unchecked, needs_kernels]
ROWS = [0, 2, 4, 6]


@torch.no_grad()
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("format", ["float32", "int8"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("before", [0, 3])
def test_forced_types_are_read_like_single_steps(shape: str, format: Any, threads: int, before: int) -> None:
    model = model_of(SHAPES[shape], dtype=torch.float32)
    quick, lone = native(model, format, threads), native(model, format)
    drawn = torch.randint(4, TYPES, (len(ROWS), before + 8), generator=torch.Generator().manual_seed(before))
    first = torch.cat([torch.full((len(ROWS), 1), BEGIN), drawn[:, :before]], 1)
    together, single = quick.session(*sources(ROWS)), lone.session(*sources(ROWS))
    for token in first[:, :before].unbind(1):
        _, together = quick.chunked_step(token[:, None], together, BestTypes(1))
        _, single = lone.chunked_step(token[:, None], single, BestTypes(1))
    own = drawn[:, before:].tolist()
    forced = [own[0][:5], own[1], own[2][:6], own[3][:5]]  # five steps are known for all rows
    wanted = BestTypes(1, SYMBOLS.suppressed, forced, ahead=20, end=END)
    (value, token), together = quick.chunked_step(first[:, -1:], together, wanted)
    assert value.shape == token.shape == (len(ROWS), 5) and together.time == [before + 5] * len(ROWS)
    last = first[:, -1:]
    for step in range(5):
        (expected,), single = lone.chunked_step(last, single, lambda log_p, rows: (log_p,))
        last = drawn[:, before + step : before + step + 1]
        assert torch.equal(token[:, step : step + 1], last)
        torch.testing.assert_close(value[:, step], expected.gather(1, last)[:, 0], rtol=1e-5, atol=1e-5)
    (after,), _ = quick.chunked_step(last, together, lambda log_p, rows: (log_p,))
    (expected,), _ = lone.chunked_step(last, single, lambda log_p, rows: (log_p,))
    torch.testing.assert_close(after, expected, rtol=1e-5, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("capacity", [4, 3, 1])
@pytest.mark.parametrize("width", [None, 1, 2, 5])
@pytest.mark.parametrize("lengths", [(70, 70, 70, 70), (2, 3, 40, 70), (0, 9, 9, 9), (9, 1, 9, 9)])
def test_a_search_with_prefixes_is_that_of_single_steps(
    lengths: tuple[int, ...], width: int | None, capacity: int
) -> None:
    """Prefixes fill the cells of a session several times, contain END, and reach the limit of the output."""
    model = model_of(SHAPES["newer"], dtype=torch.float32)
    drawn = torch.randint(4, TYPES, (len(ROWS), 70), generator=torch.Generator().manual_seed(1))
    prefixes = [row[:length].tolist() for row, length in zip(drawn, lengths, strict=True)]
    prefixes[2][6:7] = [END]
    limits = torch.tensor([75, 75, 75, 9])

    def made(numbers: list[int], begins: list[list[int]]) -> SearchState:
        options: Any = {"max_lengths": limits[numbers], "prefixes": begins}
        return start_rows(numbers, SYMBOLS, **options) if width is None else start_beam(
            numbers, SYMBOLS, width=width, nbest=width, **options
        )  # fmt: skip

    def outputs(quick: Any, step: ChunkedStep) -> dict[int, list[Hypothesis]]:
        queue = list(range(len(ROWS)))

        def refill(free: int) -> StatePair | None:
            numbers = [queue.pop(0) for _ in range(min(free, len(queue)))]
            if not numbers:
                return None
            begins = [prefixes[number] for number in numbers]
            return made(numbers, begins), quick.session(*sources([ROWS[number] for number in numbers]))

        first = refill(capacity)
        assert first is not None
        return dict(search(step, first, refill, capacity=capacity))

    def single(tokens: Any, state: Any, reduce: Any) -> Any:
        """A step of one token, whatever may be done ahead."""
        return reference.chunked_step(tokens, state, lambda log_p, rows: reduce(log_p, rows))

    quick, reference = native(model), fast(model)
    found, expected = outputs(quick, quick.chunked_step), outputs(reference, single)
    for number in range(len(ROWS)):
        assert [one.tokens for one in found[number]] == [one.tokens for one in expected[number]]
        assert [one.finished for one in found[number]] == [one.finished for one in expected[number]]
        for own, other in zip(found[number], expected[number], strict=True):
            assert own.log_probability == pytest.approx(other.log_probability, rel=1e-4)
            assert own.token_log_probabilities == pytest.approx(other.token_log_probabilities, rel=1e-3, abs=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("rows_of_a_call", [1, 4, 13])
def test_long_rows_are_read_in_pieces(rows_of_a_call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of a call is bounded, and the numbers are the same."""
    quick, targets = native(model_of(SHAPES["newer"], dtype=torch.float32)), [[9, 4, 17, 5] * 5, [5], [], [7, 8]]
    drawn = torch.randint(4, TYPES, (4, 9), generator=torch.Generator().manual_seed(2))
    start = torch.full((4, 1), BEGIN)
    wanted = BestTypes(1, SYMBOLS.suppressed, drawn.tolist(), ahead=9)
    expected = quick.attention(*sources(ROWS), targets, 1)
    (whole, _), _ = quick.chunked_step(start, quick.session(*sources(ROWS)), wanted)
    monkeypatch.setattr(engine, "ROWS_PER_THREAD", rows_of_a_call)
    sizes, run = list[int](), quick.runner.run

    def counted(rows: int, *arguments: Any, **options: Any) -> int:
        sizes.append(rows)
        return run(rows, *arguments, **options)

    monkeypatch.setattr(quick.runner, "run", counted)
    weights = quick.attention(*sources(ROWS), targets, 1)
    for row, target in enumerate(targets):
        torch.testing.assert_close(weights[row, :, : len(target) + 1], expected[row, :, : len(target) + 1])
    (part, _), _ = quick.chunked_step(start, quick.session(*sources(ROWS)), wanted)
    torch.testing.assert_close(part, whole[:, : part.shape[1]])
    assert max(sizes) <= max(rows_of_a_call, 4)  # one token of each row at least


@pytest.mark.parametrize(
    ("forced", "known"), [((), 0), (([5, 4], []), 0), (([5, 4], [4]), 1), (([5, END, 4], [4, 5, 6]), 2), (([4],), 1)]
)
def test_known_steps_are_those_of_all_rows(forced: Any, known: int) -> None:
    assert BestTypes(1, forced=forced, end=END).known() == known
