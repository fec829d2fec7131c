"""Alarms and events: thresholds from a budget of alarms, and how many events the alarms find.

An event is a window of rows in which something happened. It counts as found at its first alarm; its rows do not count
one by one (no point adjustment).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]
Window = tuple[int, int]  # first row, and the row after the last one


class EventMetrics(NamedTuple):
    """Counts of the alarms of one or several series, and of the events that they find.

    Attributes:
        events: number of events.
        detected: events with an alarm.
        alarms: number of alarms, of which all but the first in an event are not counted.
        false_alarms: alarms outside of events.
        days: length of the scored rows.
        delays: rows from the begin of each found event to its first alarm.
    """

    events: int
    detected: int
    alarms: int
    false_alarms: int
    days: float
    delays: tuple[int, ...]

    @property
    def recall(self) -> float:
        return self.detected / self.events if self.events else 0.0

    @property
    def precision(self) -> float:
        return 1 - self.false_alarms / self.alarms if self.alarms else 0.0

    @property
    def false_alarms_per_day(self) -> float:
        return self.false_alarms / self.days if self.days else 0.0

    def joined(self, other: EventMetrics) -> EventMetrics:
        """Return the metrics over the series of both."""
        counts = (self.events + other.events, self.detected + other.detected, self.alarms + other.alarms)
        false_alarms, days = self.false_alarms + other.false_alarms, self.days + other.days
        return EventMetrics(*counts, false_alarms, days, self.delays + other.delays)


def alarm_rows(scores: Scores, number: int, quiet: int) -> list[int]:
    """Return the rows of the ``number`` highest scores, each more than ``quiet`` rows from a higher one, in order.

    Rows with the score −∞ or NaN have no alarm.
    """
    left = np.where(np.isfinite(scores), scores, -np.inf)
    rows = list[int]()
    while len(rows) < number:
        row = int(left.argmax()) if len(left) else 0
        if not len(left) or not np.isfinite(left[row]):
            break
        rows.append(row)
        left[max(row - quiet, 0) : row + quiet + 1] = -np.inf
    return sorted(rows)


def threshold(scores: Scores, alarms: Sequence[int]) -> float:
    """Return the lowest score of the alarms; infinity without any."""
    return float(min((scores[row] for row in alarms), default=np.inf))


def event_metrics(alarms: Sequence[int], events: Sequence[Window], days: float) -> EventMetrics:
    """Count the events that the alarms of one series find."""
    hits: dict[int, int] = {}
    false = 0
    for row in sorted(alarms):
        event = next((number for number, (begin, end) in enumerate(events) if begin <= row < end), None)
        if event is None:
            false += 1
        else:
            hits.setdefault(event, row - events[event][0])
    return EventMetrics(len(events), len(hits), len(hits) + false, false, days, tuple(hits.values()))
