"""Answers of a program's head: the best types, found while probabilities are computed, or all log-probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from regard.native.beam import MOST_BEST, BeamRows
from regard.native.program import filled
from regard.native.runner import Runner, int32
from regard.search.best_types import BestTypes
from regard.search.contract import Reduce


class NativeHead:
    """Runs a program that ends with a head over so many types."""

    def __init__(self, runner: Runner, types: int) -> None:
        self.runner, self.types = runner, types
        self._suppressed: tuple[int, ...] = ()
        self._kept = int32(())

    def run(
        self, reduce: Reduce, rows: int, columns: int, *, every: int = 1, cuts: Sequence[int] | None = None
    ) -> tuple[Tensor, ...]:
        """Tensors that ``reduce`` makes of the log-probabilities of every so-manieth row; ``BestTypes`` by the kernels.

        ``columns``: the most that a row attends to. ``cuts``: see ``Runner.run``.
        """
        batch, found = self.runner.batch, rows // every
        batch.every = every
        if isinstance(reduce, BestTypes) and reduce.count <= MOST_BEST:
            return self._best(reduce, found, lambda: self.runner.run(rows, columns, cuts))
        log_p = torch.empty(found, filled(self.types))
        batch.best, batch.log_p = 0, log_p
        self.runner.run(rows, columns, cuts)
        return reduce(log_p[:, : self.types], slice(0, found))

    def run_ahead(self, wanted: BestTypes, rows: int, columns: int, steps: int) -> tuple[Tensor, ...]:
        """Best type of each row and its log-probability, step by step, each fed to its row; columns are steps.

        ``token`` and ``time`` of the batch go on with them.
        """
        value, token = torch.empty(steps, rows), torch.empty(steps, rows, dtype=torch.int32)
        self._ask(wanted, 1, value, token)
        done = self.runner.run(rows, columns, ahead=steps, end=wanted.end)
        return value[:done].t(), token[:done].t().long()

    def run_beam(self, wanted: BestTypes, rows: int, columns: int, steps: int) -> tuple[tuple[Tensor, ...], int]:
        """Result of ``BestTypes`` with a beam, and the number of steps that were run.

        ``time`` of the batch goes on with them.
        """
        assert wanted.beam is not None
        value, token = torch.empty(rows, wanted.count), torch.empty(rows, wanted.count, dtype=torch.int32)
        self._ask(wanted, wanted.count, value, token)
        beam = self.runner.batch.beam = BeamRows.of(*wanted.beam, steps)
        done = self.runner.run(rows, columns, ahead=steps, end=wanted.end)
        if done == 1:
            return (value, token.long()), 1
        before = (x[: done - 1] for x in (beam.parent.long(), beam.chosen.long(), beam.gain))
        return (value, token.long(), *before, beam.total), done

    def _ask(self, wanted: BestTypes, count: int, value: Tensor, token: Tensor) -> None:
        batch = self.runner.batch
        if wanted.suppressed != self._suppressed:
            self._suppressed, self._kept = wanted.suppressed, int32(wanted.suppressed)
        batch.best, batch.value, batch.found = count, value, token
        batch.suppressed = self._kept

    def _best(self, wanted: BestTypes, rows: int, run: Callable[[], object]) -> tuple[Tensor, ...]:
        batch, count = self.runner.batch, min(wanted.count, self.types)
        value, token = torch.empty(rows, count), torch.empty(rows, count, dtype=torch.int32)
        self._ask(wanted, count, value, token)
        if not wanted.forced:
            run()
            return value, token.long()
        asked, forced = int32([-1 if type is None else type for type in wanted.forced]), torch.empty(rows)
        batch.asked, batch.asked_value = asked, forced
        run()
        found = token.long()
        wanted.force(value, found, wanted.forced, list(forced))
        return value, found
