"""The scheduler of a language model: which texts run, for how long, and that no text depends on others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from regard.core.deadline import DeadlineExceeded
from regard.inference.search_model import SearchInput
from regard.server.batching.jobs import Limits, Overloaded, SchedulerObserver, SearchJob, WorkJob
from regard.server.batching.scheduler import Scheduler
from regard.tasks.language_model.config import GenerateConfig
from regard.tasks.language_model.generator import Generator
from regard.tasks.language_model.text_listener import TextStep
from regard.tasks.language_model.text_search import TextSearch

from ..inspection.language_models import generator

SEED = 0  # of a text that does not end within 25 tokens


class Counts(SchedulerObserver):
    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.rows: list[int] = []

    def on_finished(self, tokens: int, seconds: float = 0.0) -> None:
        self.tokens.append(tokens)

    def on_step(self, rows: int, max_rows: int) -> None:
        self.rows.append(rows)


class TextJob(SearchJob):
    """A text, with the steps that it has made."""

    def __init__(self, input: SearchInput, settings: GenerateConfig, steps: list[TextStep], **options: Any) -> None:
        super().__init__(input, settings, **options)
        self.steps = steps


class Desk:
    """A queue whose turns the test takes, with a clock of its own."""

    def __init__(self, rows: int = 8, waiting: int = 20) -> None:
        self.model: Generator = generator()
        self.now, self.counts = 0.0, Counts()
        limits = Limits(rows=rows, waiting=waiting, patience=0, shares=True)
        self.queue = Scheduler(self.model.decoding, limits, observer=self.counts, clock=lambda: self.now)

    def job(
        self, prompt: str = "a", *, client: str = "one", deadline: float = 1e9, seed: int = 1, **options: Any
    ) -> TextJob:
        settings, steps = self.model.adjusted({"length": 8, **options}), list[TextStep]()
        search = TextSearch(self.model.decoding, self.model.tokenizer, settings, seed)
        input = search.input(self.model.tokens(prompt), 0, 0, steps.append)
        return TextJob(input, settings, steps, client=client, deadline=deadline)

    def submit(self, *jobs: Any) -> None:
        self.queue.submit(jobs)

    def turns(self, number: int) -> None:
        for _ in range(number):
            self.queue.turn()


def endless(desk: Desk, **options: Any) -> TextJob:
    """A text that does not end for as long as a test looks."""
    return desk.job(length=1000, **{"seed": SEED, **options})


def text(job: TextJob) -> str:
    assert job.future.result(timeout=0)
    return "".join(step.piece.text for step in job.steps)


def test_each_text_is_what_it_would_be_alone_whatever_its_settings_and_company() -> None:
    desk = Desk()
    asked: list[dict[str, Any]] = [
        {"prompt": "ab", "seed": 1, "length": 14}, {"prompt": "abcdefgabcdefg", "seed": 2, "top_k": 2},
        {"prompt": "", "seed": 3, "stop": ["b"], "length": 14}, {"prompt": "g", "seed": 4, "temperature": 0},
        {"prompt": "ab", "seed": 5, "frequency_penalty": 2.0, "length": 12},
        {"prompt": "c", "seed": 6, "no_repeat_ngram": 1},
    ]  # fmt: skip
    jobs = [desk.job(**each) for each in asked]
    for job in jobs:  # each joins a batch that is two tokens further
        desk.submit(job)
        desk.turns(2)
    assert max(desk.counts.rows) >= 4
    desk.turns(16)
    alone = [desk.model(each.pop("prompt"), **{"length": 8, **each}) for each in asked]
    assert [text(job) for job in jobs] == [each.text for each in alone]
    last = [job.steps[-1].piece for job in jobs]
    assert [each.log_probability for each in last] == pytest.approx([each.log_probability for each in alone])
    assert sorted(desk.counts.tokens) == sorted(each.tokens for each in alone)
    assert desk.queue.load == (0, 0)


def test_a_long_text_holds_up_nobody() -> None:
    desk = Desk(rows=4)
    long, short = endless(desk), desk.job(client="two", length=3)
    desk.submit(long)
    desk.turns(5)
    desk.submit(short)
    desk.turns(3)
    assert short.future.done() and not long.future.done() and desk.queue.load == (0, 1)


def test_one_client_leaves_rows_for_another() -> None:
    desk = Desk(rows=4)
    first = [endless(desk) for _ in range(5)]
    desk.submit(*first)
    desk.turns(1)
    assert desk.queue.load == (3, 2), "half of the rows, though nobody else is here"
    second = [endless(desk, client="two") for _ in range(2)]
    desk.submit(*second)
    desk.turns(1)
    assert desk.queue.load == (4, 3) and len(second[0].steps) == 1
    desk.submit(third := desk.job(client="three"))
    desk.turns(1)
    assert len(third.steps) == 1


def test_whose_client_left_runs_no_more() -> None:
    desk = Desk()
    running, waiting, other = endless(desk), [endless(desk) for _ in range(9)], endless(desk, client="two")
    desk.submit(running, *waiting)
    desk.submit(other)
    desk.turns(3)
    for job in (running, *waiting):
        job.future.cancel()
    desk.turns(1)
    assert desk.queue.load == (0, 1) and len(other.steps) == 4 and len(running.steps) == 3
    assert desk.counts.tokens == [3, 3], "two of one client ran, for another was there"


def test_what_takes_too_long_fails_running_or_waiting() -> None:
    desk = Desk(rows=2)
    running, waiting = endless(desk, deadline=5.0), endless(desk, deadline=5.0)
    desk.submit(running, waiting)
    desk.turns(2)
    desk.now = 5.0
    desk.turns(1)
    for job in (running, waiting):
        with pytest.raises(DeadlineExceeded):
            job.future.result(timeout=0)
    assert desk.queue.load == (0, 0)


def test_other_work_of_the_model_has_its_turn_between_two_tokens() -> None:
    desk = Desk()
    running = endless(desk)
    found: list[int] = []
    works = [WorkJob(lambda interrupted: found.append(len(running.steps)), "two", 1e9) for _ in range(2)]
    desk.submit(running)
    desk.turns(2)
    desk.submit(*works)
    desk.turns(2)
    assert found == [3, 4] and all(work.future.done() for work in works)


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*arguments: Any, **options: Any) -> Any:
        raise error

    return fail


def test_an_error_fails_those_it_concerns_and_the_queue_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    running, bad, after = endless(desk), desk.job(), desk.job(client="two")
    desk.submit(running)
    desk.turns(1)
    with monkeypatch.context() as patch:
        patch.setattr(desk.model.decoding, "read", failing(RuntimeError("of this one alone")))
        desk.submit(bad)
        desk.turns(1)
    assert isinstance(bad.future.exception(timeout=0), RuntimeError) and len(running.steps) == 2
    with monkeypatch.context() as patch:
        patch.setattr(desk.model.decoding, "_fed", failing(RuntimeError("of the model")))
        desk.turns(1)
    assert isinstance(running.future.exception(timeout=0), RuntimeError) and desk.queue.load == (0, 0)
    desk.submit(after)
    desk.turns(8)
    assert text(after) == desk.model("a", seed=1, length=8).text


def test_a_queue_that_is_full_refuses() -> None:
    desk = Desk(waiting=3)
    desk.submit(*(desk.job() for _ in range(3)))
    with pytest.raises(Overloaded):
        desk.submit(desk.job())


def test_a_queue_that_is_closed_finishes_what_it_accepted() -> None:
    desk = Desk(rows=2)
    jobs = [desk.job(seed=seed) for seed in range(3)]
    desk.submit(*jobs)
    desk.turns(1)
    desk.queue.close()
    desk.queue.run()
    assert all(job.future.done() for job in jobs)
