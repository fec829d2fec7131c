"""Jobs of a scheduler: searches, which take many steps beside others, and works, which take one of their own."""

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
    """Queue is full; ask again after ``retry_after`` seconds."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"the queue is full; try again in {retry_after:.0f} s")
        self.retry_after = retry_after


class TooManyInputs(Exception):
    """Request has more inputs than the queue ever holds: retrying does not help."""


class SchedulerClosed(Exception):
    """Server is stopping: accepted jobs are finished, new ones refused."""


class Limits(NamedTuple):
    """Limits of a scheduler.

    ``rows``: hypotheses that run at once. ``waiting``: inputs of one client in the queue; several clients share it.
    ``patience``: turns that an input waits for others to join a batch with it. ``groups``: searches that run at once
    and cannot share a batch, each of which costs a pass of its own. ``shares``: one client leaves rows for others,
    since outputs are long; else it may have them all.
    """

    rows: int = 64
    waiting: int = 256
    patience: int = 4
    groups: int = 4
    shares: bool = False


class SchedulerObserver:
    """Receiver of the scheduler's events, ignored here; ``regard.server.batching.metrics`` counts them."""

    def on_admitted(self, waited: Sequence[float]) -> None:
        """Jobs left the queue; ``waited``: seconds that each was in it."""

    def on_step(self, rows: int, max_rows: int) -> None:
        """One token was decoded for each of ``rows`` hypotheses, of ``max_rows`` that may run."""

    def on_finished(self, tokens: int) -> None:
        """A job finished, or its client left; ``tokens``: length of its best output so far."""


class SearchGroup(NamedTuple):
    """Searches that share one running batch: by rows, whatever their settings, or by beams of equal settings.

    ``rows``: of each input. ``beam``: the settings of beams; None for rows.
    """

    rows: int
    beam: ChoiceConfig | None = None
    constrained: bool = False


@dataclass(eq=False, kw_only=True)
class SchedulerJob:
    """One input of a client. Its result comes to ``future``, which may be canceled.

    ``client``: whose turn in the queue it takes. ``deadline``: on the scheduler's clock. ``queued_at``: set by the
    scheduler.
    """

    client: str = ""
    deadline: float = float("inf")
    future: Future[Any] = field(default_factory=Future)
    queued_at: float = 0.0
    rows: int = 1
    group: SearchGroup = SearchGroup(1)  # noqa: RUF009

    @property
    def runs_alone(self) -> bool:
        """Return whether the job runs by itself, in one step, beside no other."""
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
            input: with its constraints, draws and listeners.
            settings: of the search.
            client: whose turn in the queue it takes.
            deadline: on the scheduler's clock.
            future: for the result; a new one unless given.
        """
        constrained = bool(input.constraints)
        rows = settings.beam if constrained else rows_of(settings)
        by_rows = not constrained and (settings.draw_temperature is not None or settings.beam == 1)
        group = SearchGroup(rows) if by_rows else SearchGroup(rows, settings, constrained)
        super().__init__(client=client, deadline=deadline, future=future or Future(), rows=rows, group=group)
        self.input, self.settings = input, settings


class WorkJob(SchedulerJob):
    """Work of one step, such as a prediction.

    ``work`` is called with a function that returns whether to stop, and raises PredictionInterrupted where it does.
    """

    def __init__(self, work: Callable[[Callable[[], bool]], Any], client: str, deadline: float) -> None:
        super().__init__(client=client, deadline=deadline)
        self.work = work

    @property
    def runs_alone(self) -> bool:
        return True

    def compute(self, is_late: Callable[[], bool], late: Exception) -> None:
        """Set the result of the work, or its error. ``is_late``: whether the deadline is over, and ``late`` says so."""

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
