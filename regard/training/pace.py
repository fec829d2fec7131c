"""The number of updates of a training: planned by a first measurement, held to ``train.minutes`` by the clock.

The clock is no function of the seed, so each of its decisions is written down with the update it is made at. The
learning rate is a function of these decisions alone: a resumed run replays them, and asks the clock again only after
the last of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from regard.config.settings import MAX_UPDATES, TrainConfig
from regard.runs.plan import Decision, Fit
from regard.training.optim import Schedule

CHECKS = 50  # times that the clock is asked in a training as long as first planned
SLACK = 0.02  # a plan that is off by a smaller share stays as it is

WARMUP, EVERY = 4000, 500  # unless given; in a shorter training, a tenth and a fifth of its updates


def fit(settings: TrainConfig, planned: int | None) -> Fit:
    """The numbers given, else usual ones: at most a tenth of the ``planned`` updates to warm up, a fifth between two.

    The warm-up of ``noam`` is left alone: the shorter it is, the higher the peak.
    """
    every, warmup = EVERY, WARMUP
    if planned is not None:
        every = min(every, max(planned // 5, 1))
    if planned is not None and settings.schedule != "noam":
        warmup = min(warmup, max(planned // 10, 1))
    return Fit(
        warmup if settings.warmup is None else settings.warmup,
        settings.validate_every or every,
        settings.save_every or every,
    )


def updates_within(minutes: float, seconds: float) -> int:
    """Return the number of updates of so many ``seconds`` that fit into ``minutes``: at least one."""
    return max(int(min(60 * minutes / max(seconds, 1e-9), MAX_UPDATES)), 1)


def rate_over(shape: Callable[[int | None], Schedule], first: int | None, decisions: Sequence[Decision]) -> Schedule:
    """The learning rate, where ``shape(last)`` is that of a training that ends with update ``last``.

    From a decision on, the rate goes from where it stands in the shape of the new end: a line is bent toward it.
    """
    rate = shape(first)
    for step, steps in decisions:
        rate = _bent(rate, shape(steps), step)
    return rate


def _bent(before: Schedule, after: Schedule, step: int) -> Schedule:
    start = after(step)
    scale = before(step) / start if start else 0.0
    return lambda update: before(update) if update <= step else scale * after(update)


class Pace:
    """The end of one training, by update. ``minutes`` None: it stays where it was planned.

    ``most``: the end that something else than the minutes sets. ``record`` is told of all decisions before the last
    of them takes effect.
    """

    def __init__(
        self,
        first: int | None,
        decisions: Sequence[Decision],
        *,
        minutes: float | None,
        most: int | None,
        record: Callable[[list[Decision]], None],
    ) -> None:
        self.first, self.decisions = first, list(decisions)
        self.minutes, self.most, self.record = minutes, most, record

    def end(self, step: int) -> int | None:
        """The last update, as it is decided when ``step`` of them are done."""
        return next((one.steps for one in reversed(self.decisions) if one.step <= step), self.first)

    def ask(self, step: int, seconds: float) -> bool:
        """Decide anew where it is time to; True where the end is another from here on.

        Time is up with the first update that ends beyond the minutes. Before that, the plan is what fits into them at
        the mean speed so far.
        """
        end = self.end(step)
        if self.minutes is None or self.first is None or end is None or not 0 < step < end or seconds <= 0:
            return False
        if self.decisions and step <= self.decisions[-1].step:
            return False  # decided in an earlier sitting
        limit = 60 * self.minutes
        over = seconds >= limit
        if not over and step % max(self.first // CHECKS, 1):
            return False
        steps = step if over else max(int(min(step * limit / seconds, MAX_UPDATES)), step)
        steps = steps if self.most is None else min(steps, self.most)
        if not over and abs(steps - end) <= SLACK * end:
            return False
        self.decisions.append(Decision(step, steps))
        self.record(self.decisions)
        return True
