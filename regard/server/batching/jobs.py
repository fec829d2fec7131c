"""Jobs of a scheduler: searches, which take many steps in a batch with others, and works, which take one step alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from regard.config.settings import ChoiceConfig
from regard.core.predictor_interface import PredictionInterrupted
from regard.inference.search_model import SearchInput, rows_of
from regard.search.contract import Hypothesis


class Overloaded(Exception):
    """The queue is full; retry after ``retry_after`` seconds."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"the queue is full; try again in {retry_after:.0f} s")
        self.retry_after = retry_after


class TooManyInputs(Exception):
    """The request has more inputs than the queue can hold, so retrying does not help."""


class SchedulerClosed(Exception):
    """The server is stopping: it completes accepted jobs and rejects new ones."""


class Limits(NamedTuple):
    """Limits of a scheduler.

    Attributes:
        rows: the number of hypotheses that run together.
        waiting: the number of queued inputs of one client; several clients share it.
        patience: the number of turns that an input waits for others to start with it.
        groups: the number of running groups that cannot share a batch; each costs a separate pass of the model.
        shares: whether one client must leave rows for others, which is needed for long outputs.
    """

    rows: int = 64
    waiting: int = 256
    patience: int = 4
    groups: int = 4
    shares: bool = False


class SchedulerObserver:
    """Receiver of the scheduler's events. It ignores them; ``regard.server.batching.metrics`` counts them."""

    def on_admitted(self, waited: Sequence[float]) -> None:
        """Receive the waiting times of jobs that left the queue, in seconds."""

    def on_step(self, rows: int, max_rows: int) -> None:
        """Receive a step, which decoded one token for each of ``rows`` hypotheses; the limit is ``max_rows``."""

    def on_first_tokens(self, seconds: Sequence[float]) -> None:
        """Receive the times from the queueing of searches to their first tokens, in seconds."""

    def on_finished(self, tokens: int, seconds: float = 0.0) -> None:
        """Receive a finished or canceled search.

        Args:
            tokens: the length of its best output so far.
            seconds: the time from its first to its last token; 0 if it was canceled.
        """


class SearchGroup(NamedTuple):
    """Searches that share one running batch: single rows with any settings, or beams with equal settings.

    Attributes:
        rows: the rows of each input.
        beam: the settings of beams; None for single rows.
        constrained: whether inputs have constraints.
    """

    rows: int
    beam: ChoiceConfig | None = None
    constrained: bool = False


@dataclass(eq=False)
class Progress:
    """Progress of the jobs of one request: times on the clock of the scheduler, whose thread writes them.

    Attributes:
        queued: when the jobs entered the queue.
        admitted: when the last job left it.
        first_token: when the first search had its first token; None for works.
        tokens: the number of tokens of the best outputs; None for works.
    """

    queued: float = 0.0
    admitted: float = 0.0
    first_token: float | None = None
    tokens: int | None = None

    def on_first_token(self, now: float) -> None:
        """Record the first token of a search."""
        if self.first_token is None:
            self.first_token, self.tokens = now, 0

    def on_finished(self, tokens: int) -> None:
        """Add the length of an output."""
        self.tokens = (self.tokens or 0) + tokens


@dataclass(eq=False, kw_only=True)
class SchedulerJob:
    """One input of a client.

    Attributes:
        client: the name of the client in the queue.
        deadline: the deadline on the clock of the scheduler.
        future: receives the result; it may be canceled.
        queued_at: the time of queueing, set by the scheduler.
        first_token_at: the time of the first token of a search, set by the scheduler.
        progress: the progress of all jobs of its request.
        rows: the number of rows that the job needs.
        group: the group of jobs that it can share a batch with.
    """

    client: str = ""
    deadline: float = float("inf")
    future: Future[Any] = field(default_factory=Future)
    queued_at: float = 0.0
    first_token_at: float = 0.0
    progress: Progress = field(default_factory=Progress)
    rows: int = 1
    group: SearchGroup = SearchGroup(1)  # noqa: RUF009

    @property
    def runs_alone(self) -> bool:
        """True if the job runs alone, in one step."""
        return False

    def fail(self, error: Exception) -> None:
        """Set an error as the result, unless the job was canceled."""
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)

    def finish(self, result: Any) -> None:
        """Set the result, unless the job was canceled."""
        if self.future.set_running_or_notify_cancel():
            self.future.set_result(result)


class SearchJob(SchedulerJob):
    """Input to search. The result is its outputs, best first: ``list[Hypothesis]``."""

    def __init__(
        self,
        input: SearchInput,
        settings: ChoiceConfig,
        *,
        client: str = "",
        deadline: float = float("inf"),
        future: Future[list[Hypothesis]] | None = None,
    ) -> None:
        """Describe a search.

        Args:
            input: the input, with its constraints, draws and listeners.
            settings: the search settings.
            client: the name of the client in the queue.
            deadline: the deadline on the clock of the scheduler.
            future: receives the result; None for a new future.
        """
        constrained = bool(input.constraints)
        rows = settings.beam if constrained else rows_of(settings)
        by_rows = not constrained and (settings.draw_temperature is not None or settings.beam == 1)
        group = SearchGroup(rows) if by_rows else SearchGroup(rows, settings, constrained)
        super().__init__(client=client, deadline=deadline, future=future or Future(), rows=rows, group=group)
        self.input, self.settings = input, settings


class WorkJob(SchedulerJob):
    """Work of one step, such as a prediction.

    ``work`` is called with a function that returns whether to stop; it then raises PredictionInterrupted.
    """

    def __init__(self, work: Callable[[Callable[[], bool]], Any], client: str, deadline: float) -> None:
        super().__init__(client=client, deadline=deadline)
        self.work = work

    @property
    def runs_alone(self) -> bool:
        return True

    def compute(self, is_late: Callable[[], bool], late: Exception) -> None:
        """Set the result of the work or its error; ``late`` is the error if ``is_late`` returns true."""

        def interrupted() -> bool:
            return self.future.cancelled() or is_late()

        try:
            if interrupted():
                raise PredictionInterrupted
            result = self.work(interrupted)
        except PredictionInterrupted:
            self.fail(late)
        except Exception as error:  # noqa: BLE001 - any error reaches the client that waits
            self.fail(error)
        else:
            self.finish(result)
