"""The scheduler, over a model and a clock of its own: whoever asks is answered, once and rightly."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.config.settings import ChoiceConfig, SearchConfig
from regard.core.deadline import DeadlineExceeded
from regard.inference.search_model import SearchInput
from regard.search.beam import start_beam
from regard.search.constrained import start_constrained_beam
from regard.search.contract import Reduce, StatePair, Symbols
from regard.search.rows import start_rows
from regard.server.batching.jobs import Limits, Overloaded, SchedulerClosed, SearchJob, TooManyInputs
from regard.server.batching.scheduler import Scheduler

BEGIN, END, WORD = 0, 1, 2
GREEDY, BEAM = SearchConfig(beam=1, length_penalty=0.0), SearchConfig(beam=3, length_penalty=0.0)


class Left(NamedTuple):
    """How many words each row has still to say."""

    words: Tensor


class Counting:
    """Says as many words as the only piece of its source says, then ends."""

    def __init__(self) -> None:
        self.opened: list[list[int]] = []
        self.rows = 0
        self.broken = False

    def open(
        self,
        numbers: Sequence[int],
        inputs: Sequence[SearchInput],
        settings: ChoiceConfig,
        watch: Any = None,
    ) -> StatePair:
        sources = [input.tokens for input in inputs]
        self.opened.append([source[0] for source in sources])
        longest = torch.full((len(sources),), 99)
        state = Left(torch.tensor([source[0] for source in sources]))
        if any(input.constraints for input in inputs):
            constraints = [input.constraints for input in inputs]
            options: Any = {"max_lengths": longest, "width": settings.beam, "constraints": constraints}
            return start_constrained_beam(numbers, Symbols(BEGIN, END), length_penalty=0.0, **options), state
        if settings.beam == 1:
            return start_rows(numbers, Symbols(BEGIN, END), max_lengths=longest), state
        return start_beam(
            numbers, Symbols(BEGIN, END), max_lengths=longest, width=settings.beam, length_penalty=0.0
        ), state

    def step(self, tokens: Tensor, state: Any, read: Reduce) -> Any:
        if self.broken:
            raise RuntimeError("this model is broken")
        self.rows = max(self.rows, len(tokens))
        logits = torch.zeros(len(tokens), 4)
        logits[:, WORD] = 9.0 * (state.words > 0)
        logits[:, END] = 9.0 * (state.words == 0)
        return read(torch.log_softmax(logits, -1), slice(0, len(tokens))), Left((state.words - 1).clamp_min(0))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def made(**limits: Any) -> tuple[Scheduler, Counting, Clock]:
    model, clock = Counting(), Clock()
    return Scheduler(model, Limits(**limits), clock=clock), model, clock


def job(words: int, search: SearchConfig = GREEDY, **options: Any) -> SearchJob:
    constraints = options.pop("constraints", ())
    return SearchJob(SearchInput([words], constraints=constraints), search, **options)


def said(of: SearchJob) -> int:
    best = of.future.result(timeout=0)[0]
    assert best.finished and set(best.tokens) <= {WORD}
    return len(best.tokens)


def until_done(scheduler: Scheduler) -> int:
    turns = 0
    while any(scheduler.load):
        scheduler.turn()
        turns += 1
        assert turns < 10_000, "it does not end"
    return turns


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(0, 12), st.booleans(), st.sampled_from("abc"), st.integers(1, 40)),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("wait"), st.integers(1, 5)),
        st.tuples(st.just("turn")),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(events=EVENTS, rows=st.integers(1, 7))
def test_each_accepted_source_is_answered_once_and_as_alone(events: list[Any], rows: int) -> None:
    scheduler, model, clock = made(rows=rows, waiting=6, patience=2)
    accepted: list[tuple[int, SearchJob]] = []
    for event in events:
        if event[0] == "submit":
            _, words, wide, client, patience = event
            new = job(words, BEAM if wide else GREEDY, client=client, deadline=clock.now + patience)
            try:
                scheduler.submit([new])
                accepted.append((words, new))
            except Overloaded:
                assert scheduler.load[0] >= 2, "who is alone has six places, who is one of three two"
        elif event[0] == "cancel" and accepted:
            accepted[event[1] % len(accepted)][1].future.cancel()
        elif event[0] == "wait":
            clock.now += event[1]
        else:
            scheduler.turn()
    until_done(scheduler)
    assert model.rows <= max(rows, BEAM.beam)
    for words, each in accepted:
        assert each.future.done()
        if each.future.cancelled():
            continue
        if isinstance(each.future.exception(), DeadlineExceeded):
            assert clock.now >= each.deadline
        else:
            assert said(each) == words


def test_sources_join_what_runs_and_leave_as_they_end() -> None:
    scheduler, model, _ = made(rows=2)
    long, short, third = job(9), job(1), job(5)
    scheduler.submit([long, short, third])
    # The longest takes ten steps, one each turn; the third ran beside it in the place of the second.
    assert until_done(scheduler) == 10
    assert [said(each) for each in (long, short, third)] == [9, 1, 5]
    assert model.rows == 2


def test_clients_take_turns() -> None:
    scheduler, model, _ = made(rows=4, patience=0)
    many = [job(3, client="a") for _ in range(20)]
    scheduler.submit(many)
    scheduler.submit([job(7, client="b")])
    scheduler.turn()
    on_admitted = [words for group in model.opened for words in group]
    assert 7 in on_admitted and len(on_admitted) == 4, "the one source of another does not wait for twenty"


def test_who_is_wider_than_what_is_free_is_not_starved_by_who_fits() -> None:
    scheduler, _, _ = made(rows=4, patience=0)
    scheduler.submit([job(2), job(2), job(8)])
    scheduler.turn()
    wide = job(1, BEAM, client="wide")
    scheduler.submit([wide])
    for _ in range(8):
        scheduler.submit([job(2, client="narrow")])
        scheduler.turn()
    assert wide.future.done()
    too_wide = job(4, SearchConfig(beam=9, length_penalty=0.0))
    scheduler.submit([too_wide])
    until_done(scheduler)
    assert said(too_wide) == 4, "wider than all the room, it runs alone"


def test_newcomers_wait_for_company_but_not_for_long() -> None:
    scheduler, _, _ = made(rows=64, patience=3)
    scheduler.submit([job(50)])
    scheduler.turn()
    for _ in range(2):  # a second one waits no less for the first having waited
        scheduler.submit([job(20)])
        running = scheduler.load[1]
        for _ in range(3):
            scheduler.turn()
            assert scheduler.load == (1, running)
        scheduler.turn()
        assert scheduler.load == (0, running + 1)
    scheduler.submit([job(3) for _ in range(8)])
    scheduler.turn()
    assert scheduler.load == (0, 11), "eight are company enough"


def test_who_does_not_fit_yet_is_no_company() -> None:
    """Else a full batch with a queue would take them in one by one, and each costs a pass."""
    scheduler, model, _ = made(rows=32, patience=9)
    scheduler.submit([job(words) for words in range(1, 33)])
    scheduler.turn()
    scheduler.submit([job(40) for _ in range(20)])
    until_done(scheduler)
    assert [len(group) for group in model.opened] == [32, 4, 4, 4, 4, 4]


def test_those_of_like_length_are_opened_together() -> None:
    """Where padding would cost more than a pass of their own does."""
    scheduler, model, _ = made()
    scheduler.submit([SearchJob(SearchInput([1] * length), GREEDY) for length in (1, 30, 2, 31, 3, 300, 310, 270, 260)])
    scheduler.turn()
    assert sorted(map(len, model.opened)) == [4, 5]


def test_a_full_queue_of_one_client_leaves_room_for_another() -> None:
    scheduler, _, _ = made(rows=1, waiting=6)
    scheduler.submit([job(1, client="a") for _ in range(6)])
    with pytest.raises(Overloaded):
        scheduler.submit([job(1, client="a")])
    scheduler.submit([job(1, client="b") for _ in range(3)])
    with pytest.raises(Overloaded):
        scheduler.submit([job(1, client="b")])
    for number in range(20):  # however many clients there are, there is an end
        try:
            scheduler.submit([job(1, client=str(number))])
        except Overloaded:
            break
    assert scheduler.load[0] <= 24
    with pytest.raises(TooManyInputs):
        scheduler.submit([job(1, client="c") for _ in range(7)])
    until_done(scheduler)


def test_ways_of_searching_that_cost_a_pass_each_are_few() -> None:
    scheduler, _, _ = made(groups=2, patience=0)
    several = [job(4, SearchConfig(beam=2, length_penalty=number / 10)) for number in range(7)]
    scheduler.submit(several)
    scheduler.turn()
    assert len(scheduler._batches) == 2 and scheduler.load == (5, 2)
    until_done(scheduler)
    assert [said(each) for each in several] == [4] * 7


def test_what_must_be_in_an_output_is_each_sources_own() -> None:
    """Those of which something is demanded run in a batch apart from the plain ones of the same settings."""
    scheduler, _, _ = made(patience=0)
    other = WORD + 1
    demanding = [job(3, BEAM, constraints=[[other] * count]) for count in (1, 2)]
    plain = job(3, BEAM)
    scheduler.submit([demanding[0], plain])
    scheduler.turn()
    scheduler.submit([demanding[1]])
    scheduler.turn()
    assert len(scheduler._batches) == 2
    until_done(scheduler)
    for count, each in enumerate(demanding, start=1):
        best = each.future.result(timeout=0)[0]
        assert best.finished and best.tokens.count(other) == count
    assert said(plain) == 3


def test_newcomers_that_fail_leave_those_who_run_alone() -> None:
    scheduler, _, _ = made(patience=0)
    running, failing = job(9), SearchJob(SearchInput(["no number"]), GREEDY)  # type: ignore[list-item]
    scheduler.submit([running])
    scheduler.turn()
    scheduler.submit([failing])
    until_done(scheduler)
    assert said(running) == 9
    assert failing.future.exception(timeout=0) is not None


def test_too_many_are_refused_all_or_none_and_told_when_to_return() -> None:
    scheduler, _, clock = made(rows=1, waiting=3)
    scheduler.submit([job(1), job(1)])
    with pytest.raises(Overloaded) as caught:
        scheduler.submit([job(1), job(1)])
    assert scheduler.load == (2, 0) and caught.value.retry_after == 1.0
    for _ in range(4):  # a source every ten seconds
        clock.now += 10
        scheduler.turn()
    scheduler.submit([job(1), job(1), job(1)])
    with pytest.raises(Overloaded) as caught:
        scheduler.submit([job(1)])
    assert caught.value.retry_after == pytest.approx(60, abs=30), "three wait, and each takes twenty"


def test_late_ones_are_told_and_make_room() -> None:
    scheduler, _, clock = made(rows=1)
    running, waiting, patient = job(50, deadline=5.0), job(2, deadline=6.0), job(2)
    scheduler.submit([running, waiting, patient])
    scheduler.turn()
    clock.now = 5.5
    scheduler.turn()
    assert isinstance(running.future.exception(timeout=0), DeadlineExceeded) and not waiting.future.done()
    clock.now = 6.0
    scheduler.turn()
    assert isinstance(waiting.future.exception(timeout=0), DeadlineExceeded)
    until_done(scheduler)
    assert said(patient) == 2


def test_a_broken_model_is_told_to_whom_it_concerns() -> None:
    scheduler, model, _ = made(patience=0)
    failing = [job(5), job(4, BEAM)]
    scheduler.submit(failing)
    model.broken = True
    scheduler.turn()
    assert all("broken" in str(each.future.exception(timeout=0)) for each in failing)
    model.broken = False
    good = job(3)
    scheduler.submit([good])
    until_done(scheduler)
    assert said(good) == 3


def test_closing_finishes_what_was_accepted_and_nothing_more() -> None:
    scheduler, _, _ = made(rows=2)
    accepted = [job(number % 5) for number in range(12)]
    scheduler.submit(accepted)
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    scheduler.close()
    thread.join(timeout=20)
    assert not thread.is_alive()
    assert [said(each) for each in accepted] == [number % 5 for number in range(12)]
    with pytest.raises(SchedulerClosed):
        scheduler.submit([job(1)])


def test_it_sleeps_until_there_is_work() -> None:
    scheduler, _, _ = made()
    turns, turn = [], scheduler.turn
    scheduler.turn = lambda: (turns.append(1), turn())[1]  # type: ignore[func-returns-value, method-assign]
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    time.sleep(0.1)
    assert not turns
    first = job(4)
    scheduler.submit([first])
    assert len(first.future.result(timeout=20)[0].tokens) == 4
    second = job(2)
    scheduler.submit([second])
    assert len(second.future.result(timeout=20)[0].tokens) == 2
    scheduler.close()
    thread.join(timeout=20)
    assert not thread.is_alive()
