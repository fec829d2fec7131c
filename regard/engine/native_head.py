"""Results of a program's head: the best types, selected during the computation, or all log-probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from regard.native.beam import MAX_BEST, BeamRows
from regard.native.program import filled
from regard.native.runner import Runner, int32
from regard.search.best_types import BestTypes
from regard.search.contract import Reduce


class NativeHead:
    """Runs a program that ends with a head over ``types`` types."""

    def __init__(self, runner: Runner, types: int) -> None:
        self.runner, self.types = runner, types
        self._suppressed: tuple[int, ...] = ()
        self._suppressed_tensor = int32(())

    def run(
        self, reduce: Reduce, rows: int, longest: int, *, every: int = 1, cuts: Sequence[int] | None = None
    ) -> tuple[Tensor, ...]:
        """Apply ``reduce`` to the log-probabilities of every ``every``-th row; the kernels compute ``BestTypes``.

        ``longest``: maximum number of keys that a row attends to. ``cuts``: see ``Runner.run``.
        """
        batch, results = self.runner.batch, rows // every
        batch.every = every
        if isinstance(reduce, BestTypes) and reduce.count <= MAX_BEST:
            return self._best(reduce, results, lambda: self.runner.run(rows, longest, cuts))
        log_p = torch.empty(results, filled(self.types))
        batch.best, batch.log_p = 0, log_p
        self.runner.run(rows, longest, cuts)
        return reduce(log_p[:, : self.types], slice(0, results))

    def log_probabilities(self, types: Tensor, longest: int, *, cuts: Sequence[int]) -> Tensor:
        """Return the log-probability of a type of each row, at least the lowest finite number.

        ``types``: (rows,). ``longest``, ``cuts``: as in ``run``.
        """
        rows = len(types)
        log_p = torch.empty(rows)
        self._request(BestTypes(1), 1, torch.empty(rows, 1), torch.empty(rows, 1, dtype=torch.int32))
        self.runner.batch.requested, self.runner.batch.requested_value = types.int(), log_p
        self.runner.run(rows, longest, cuts)
        return log_p.clamp_min_(torch.finfo(log_p.dtype).min)

    def run_ahead(self, request: BestTypes, rows: int, longest: int, steps: int) -> tuple[Tensor, ...]:
        """Return the best type of each row and its log-probability for each step; each type is the row's next input.

        The second dimension of the results is the step. ``token`` and ``time`` of the batch advance in place.
        """
        value, token = torch.empty(steps, rows), torch.empty(steps, rows, dtype=torch.int32)
        self._request(request, 1, value, token)
        if any(request.forced):
            script = torch.full((steps, rows), -1, dtype=torch.int32)
            for row, types in enumerate(request.forced):
                script[: len(types), row] = int32(types[:steps])
            batch = self.runner.batch
            batch.requested, batch.requested_value = script.flatten(), torch.empty(steps * rows)
        done = self.runner.run(rows, longest, ahead=steps, end=request.end)
        return value[:done].t(), token[:done].t().long()

    def run_beam(self, request: BestTypes, rows: int, longest: int, steps: int) -> tuple[tuple[Tensor, ...], int]:
        """Return the result of ``BestTypes`` with a beam, and the number of steps that were run.

        ``time`` of the batch advances in place.
        """
        assert request.beam is not None
        value, token = torch.empty(rows, request.count), torch.empty(rows, request.count, dtype=torch.int32)
        self._request(request, request.count, value, token)
        beam = self.runner.batch.beam = BeamRows.of(*request.beam, steps)
        done = self.runner.run(rows, longest, ahead=steps, end=request.end)
        if done == 1:
            return (value, token.long()), 1
        before = (x[: done - 1] for x in (beam.parent.long(), beam.chosen.long(), beam.gain))
        return (value, token.long(), *before, beam.total), done

    def _request(self, request: BestTypes, count: int, value: Tensor, token: Tensor) -> None:
        batch = self.runner.batch
        if request.suppressed != self._suppressed:
            self._suppressed, self._suppressed_tensor = request.suppressed, int32(request.suppressed)
        batch.best, batch.value, batch.best_type = count, value, token
        batch.suppressed = self._suppressed_tensor

    def _best(self, request: BestTypes, rows: int, run: Callable[[], object]) -> tuple[Tensor, ...]:
        batch, count = self.runner.batch, min(request.count, self.types)
        value, token = torch.empty(rows, count), torch.empty(rows, count, dtype=torch.int32)
        self._request(request, count, value, token)
        forced = request.forced_now(slice(0, rows))
        if not forced:
            run()
            return value, token.long()
        requested, log_p = int32([-1 if type is None else type for type in forced]), torch.empty(rows)
        batch.requested, batch.requested_value = requested, log_p
        run()
        best = token.long()
        request.force(value, best, forced, list(log_p))
        return value, best
