"""The number of updates of a training: planned from a first measurement, adjusted to ``train.minutes`` by the clock.

The clock is not a function of the seed. Each of its decisions is therefore recorded with the update at which it is
made, and the learning rate depends only on these decisions. A resumed run replays them, and uses the clock again only
after the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from regard.config.settings import MAX_UPDATES, TrainConfig
from regard.runs.plan import Decision, Fit
from regard.training.optim import Schedule

CHECKS = 50  # number of clock checks in a training of the planned length
SLACK = 0.02  # smaller relative deviations do not change the plan

WARMUP, EVERY = 4000, 500  # defaults; in short trainings, a tenth and a fifth of the updates


VALIDATIONS = 50  # limit of those that small data has once an epoch


def fit(settings: TrainConfig, planned: int | None, epoch: int | None = None) -> Fit:
    """Return the configured intervals, or defaults.

    The default warm-up is at most a tenth of the ``planned`` updates, the other intervals at most a fifth. The default
    warm-up of ``noam`` is not shortened, since its peak would rise. If an ``epoch`` has fewer updates than this
    interval, validation is once an epoch, but at most ``VALIDATIONS`` times.
    """
    every, warmup = EVERY, WARMUP
    if planned is not None:
        every = min(every, max(planned // 5, 1))
    validate_every = every
    if planned is not None and epoch is not None:
        validate_every = min(every, max(epoch, planned // VALIDATIONS))
    if planned is not None and settings.schedule != "noam":
        warmup = min(warmup, max(planned // 10, 1))
    return Fit(
        warmup if settings.warmup is None else settings.warmup,
        settings.validate_every or validate_every,
        settings.save_every or every,
    )


def updates_within(minutes: float, seconds: float) -> int:
    """Return the number of updates of ``seconds`` each that fit into ``minutes``: at least one."""
    return max(int(min(60 * minutes / max(seconds, 1e-9), MAX_UPDATES)), 1)


def rate_over(shape: Callable[[int | None], Schedule], first: int | None, decisions: Sequence[Decision]) -> Schedule:
    """Return the learning rate, where ``shape(last)`` is that of a training that ends with update ``last``.

    After each decision, the rate follows the shape of the new end, scaled to be continuous: a line is bent toward it.
    """
    rate = shape(first)
    for step, steps in decisions:
        rate = _bent(rate, shape(steps), step)
    return rate


def _bent(before: Schedule, after: Schedule, step: int) -> Schedule:
    start = after(step)
    scale = before(step) / start if start else 0.0
    return lambda update: before(update) if update <= step else scale * after(update)


class TimeBudget:
    """The last update of one training, adjusted to a time budget. With ``minutes`` None, the planned end is fixed.

    ``max_steps``: the end set by other limits than the minutes. ``record`` receives all decisions before the last one
    takes effect.
    """

    def __init__(
        self,
        first: int | None,
        decisions: Sequence[Decision],
        *,
        minutes: float | None,
        max_steps: int | None,
        record: Callable[[list[Decision]], None],
    ) -> None:
        self.first, self.decisions = first, list(decisions)
        self.minutes, self.max_steps, self.record = minutes, max_steps, record

    def last_step(self, step: int) -> int | None:
        """Return the last update, as decided after ``step`` updates."""
        return next((one.steps for one in reversed(self.decisions) if one.step <= step), self.first)

    def replan(self, step: int, seconds: float) -> bool:
        """Decide the end again if a check is due; return True if it changes.

        Training ends with the first update that ends beyond the minutes. Before, the end is the number of updates that
        fit into the minutes at the mean speed so far.
        """
        end = self.last_step(step)
        if self.minutes is None or self.first is None or end is None or not 0 < step < end or seconds <= 0:
            return False
        if self.decisions and step <= self.decisions[-1].step:
            return False  # already decided before an interruption
        limit = 60 * self.minutes
        over = seconds >= limit
        if not over and step % max(self.first // CHECKS, 1):
            return False
        steps = step if over else max(int(min(step * limit / seconds, MAX_UPDATES)), step)
        steps = steps if self.max_steps is None else min(steps, self.max_steps)
        if not over and abs(steps - end) <= SLACK * end:
            return False
        self.decisions.append(Decision(step, steps))
        self.record(self.decisions)
        return True
