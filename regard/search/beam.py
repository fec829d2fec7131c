"""Beam search: extend several hypotheses per sentence and keep the best, until no better output is possible."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor
from torch.nn.functional import pad

from regard.core.state import State, select
from regard.search.batch_search import in_order, search
from regard.search.best_types import BestTypes, LiveTotals
from regard.search.contract import Finished, Hypothesis, Prefixes, Reduce, SearchState, Step, Symbols, chunked
from regard.search.repetition import Ngrams
from regard.search.token_tables import append_columns, stack

Scores = Float[Tensor, "sentences candidates"]
Indices = Int[Tensor, "sentences candidates"]


class BeamStep(NamedTuple):
    """Candidates of one step of one sentence: the extensions of its live hypotheses with the highest log P, in order.

    Of the candidates that are not in ``live``, those among the first ``width`` ended if their token is the end symbol.
    """

    total: list[float]  # log P of the whole candidate in nats; −∞ if fewer candidates exist
    token_log_prob: list[float]  # log-probability of its last token
    parent: list[int]  # the live hypothesis of the previous step that it extends
    token: list[int]
    live: list[int]  # candidates that stay live, in the order in which the next step numbers them


def length_normalizer(length: float, penalty: float, offset: float = 5.0) -> float:
    """lp(Y) = ((k + |Y|) / (k + 1))^α, with k = ``offset`` and α = ``penalty``; |Y| includes the end symbol.

    k = 5 gives the penalty of Wu et al. 2016 (Eq. 14), k = 0 gives |Y|^α; 1 for α = 0.

    Args:
        length: |Y|, the number of tokens.
        penalty: α.
        offset: k.
    """
    return ((offset + length) / (offset + 1)) ** penalty


def beam_search(
    step: Step,
    state: State,
    symbols: Symbols,
    *,
    max_lengths: Int[Tensor, "sentences"],
    width: int,
    length_penalty: float = 0.6,
    length_offset: float = 5.0,
    nbest: int = 1,
    prefixes: Prefixes | None = None,
    no_repeat: int | None = None,
    early: bool = False,
) -> list[list[Hypothesis]]:
    """Return the ``nbest`` outputs of each sentence by log P(Y|X) / lp(Y) (Wu et al. 2016), best first.

    Each step extends ``width`` live hypotheses of a sentence. Of the ``width`` best extensions, those that end go to a
    pool; a beam of one is therefore greedy search, except for ties. A sentence stops when its ``nbest``-th finished
    hypothesis scores at least log P_live / lp(max_length) for every live one. log P only decreases and lp only
    increases with length, so no better output is possible. At the length limit, live hypotheses follow the finished
    ones if fewer than ``nbest`` ended. A wider beam is not always better, nor always of higher score.

    Args:
        step: the model's step.
        state: the model state of one row per sentence.
        symbols: the special tokens.
        max_lengths: maximum tokens of each sentence's outputs, including the end symbol.
        width: live hypotheses per sentence.
        length_penalty: α of ``length_normalizer``.
        length_offset: k of ``length_normalizer``.
        nbest: outputs per sentence.
        prefixes: tokens that the outputs of each sentence must begin with.
        no_repeat: see ``start_beam``.
        early: see ``start_beam``.
    """
    count = len(max_lengths)
    search_state = start_beam(
        range(count), symbols, max_lengths=max_lengths, width=width, length_penalty=length_penalty,
        length_offset=length_offset, nbest=nbest, prefixes=prefixes, no_repeat=no_repeat,
        early=early,
    )  # fmt: skip
    return in_order(search(chunked(step), (search_state, state)), count)


def start_beam(
    ids: Sequence[int],
    symbols: Symbols,
    *,
    max_lengths: Int[Tensor, "sentences"],
    width: int,
    length_penalty: float = 0.6,
    length_offset: float = 5.0,
    nbest: int = 1,
    prefixes: Prefixes | None = None,
    watch: Callable[[int, BeamStep], None] | None = None,
    no_repeat: int | None = None,
    early: bool = False,
) -> SearchState:
    """Return the state of a ``beam_search`` before its first step.

    Args:
        ids: one id per sentence.
        symbols: the special tokens.
        max_lengths: maximum tokens of each sentence's outputs, including the end symbol.
        width: live hypotheses per sentence.
        length_penalty: α of ``length_normalizer``.
        length_offset: k of ``length_normalizer``.
        nbest: outputs per sentence.
        prefixes: tokens that the outputs of each sentence must begin with.
        watch: called with a sentence's id and each of its steps.
        no_repeat: forbids outputs to repeat n-grams of this size (Paulus et al. 2018), except in a prefix.
        early: end a sentence as soon as ``width`` of its hypotheses have ended, although a live one might still become
            better: the rule of most programs.
    """
    normalize = partial(length_normalizer, penalty=length_penalty, offset=length_offset)
    search_state = _BeamState(ids, symbols, max_lengths, width, normalize, nbest, prefixes)
    search_state.watch, search_state.no_repeat, search_state.early = watch, no_repeat, early
    return search_state


class _BeamState(SearchState):
    """Live and finished hypotheses of a batch. Rows are ordered by sentence, ``width`` rows each.

    Before the first step a sentence has one row, of the empty hypothesis. ``normalize`` maps a length to its
    ``length_normalizer``; the other arguments are those of ``start_beam``.
    """

    watch: Callable[[int, BeamStep], None] | None = None
    no_repeat: int | None = None
    early = False

    def __init__(
        self,
        ids: Sequence[int],
        symbols: Symbols,
        max_lengths: Int[Tensor, "sentences"],
        width: int,
        normalize: Callable[[float], float],
        nbest: int,
        prefixes: Prefixes | None,
    ) -> None:
        self.active_ids, self.symbols = list(ids), symbols
        self.width, self.normalize, self.nbest = width, normalize, nbest
        sentences, device = len(self.active_ids), max_lengths.device
        self._max_lengths = max_lengths.tolist()
        self._prefixes = [list(prefix) for prefix in prefixes] if prefixes is not None else [[]] * sentences
        self._pools: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self._ended = [0] * sentences
        self._position = torch.zeros(sentences, dtype=torch.int64, device=device)
        self._tokens = torch.full((sentences, 1, 1), symbols.begin, dtype=torch.int64, device=device)
        self._log_probs = torch.zeros(sentences, 1, 0, device=device)
        self._total = torch.zeros(sentences, 1, dtype=torch.float64, device=device)
        self._finished: list[Finished] = []
        self._repeating: list[Collection[int]] = []

    def tokens(self) -> Int[Tensor, "rows 1"]:
        # Column 0 is the begin symbol, so the last token of a sentence is in the column of its position.
        last = self._position[:, None, None].expand(-1, self._tokens.shape[1], 1)
        return self._tokens.gather(2, last).view(-1, 1)

    @property
    def reads_prefix(self) -> bool:
        return self._known() > 0

    def _known(self) -> int:
        """Return the number of next tokens of the prefixes that all sentences have, except for the last one.

        They are read by one hypothesis for each sentence; the step of the last token makes ``width`` of it.
        """
        if self._tokens.shape[1] > 1 or self.watch is not None or not any(self._prefixes):
            return 0
        rest = zip(self._max_lengths, self._position.tolist(), strict=True)
        least = min((limit - position for limit, position in rest), default=1)
        return min(BestTypes(1, forced=self._forced(), end=self.symbols.end).known(), least) - 1

    @property
    def reduce(self) -> Reduce:
        count, forced = 2 * self.width, self._forced() if any(self._prefixes) else []
        if (known := self._known()) > 0:
            return BestTypes(1, self.symbols.suppressed, forced, known, self.symbols.end)
        if self.no_repeat is not None:  # enough candidates must remain without the repeating ones
            self._repeating = self._followers(self.no_repeat)
            repeating = max(map(len, self._repeating))
            return BestTypes(count + repeating, self.symbols.suppressed, forced)
        if forced or self.watch is not None or self._tokens.shape[1] < self.width or self.width == 1:
            return BestTypes(count, self.symbols.suppressed, forced)
        remaining = [limit - done for limit, done in zip(self._max_lengths, self._position.tolist(), strict=True)]
        live = LiveTotals(self._total, torch.tensor([self._least(block) for block in range(len(remaining))]).double())
        return BestTypes(count, self.symbols.suppressed, ahead=min(remaining), end=self.symbols.end, beam=live)

    def _least(self, block: int) -> float:
        """Return the log P that a live hypothesis has to exceed to continue the search of a sentence, rounded up."""
        pool = self._pools[block]
        if len(pool) < self.nbest:
            return -math.inf
        least = pool[-1].score * self.normalize(self._max_lengths[block])
        return least + 1e-12 * abs(least)

    def _forced(self) -> list[Sequence[int]]:
        """Return the tokens that a prefix forces on each row from now on; empty if no row has one."""
        forced: list[Sequence[int]] = []
        for prefix, position in zip(self._prefixes, self._position.tolist(), strict=True):
            forced += [prefix[position:]] * self._tokens.shape[1]
        return forced if any(forced) else []

    def advance(self, reduced: tuple[Tensor, ...], model_state: State) -> State:
        if self.reads_prefix:
            self._read_prefix(*reduced)
            return model_state
        if len(reduced) > 2:
            self._apply_steps(*reduced[2:])
            reduced = reduced[:2]
        rows_each, count = self._tokens.shape[1], len(reduced[0])
        sentence = torch.arange(len(self.active_ids), device=reduced[0].device)[:, None]
        value, token_log_prob, parent, token = self._candidates(*reduced)
        ends = token == self.symbols.end
        self._collect(value, parent, token, token_log_prob, ends)
        live = torch.argsort(ends, dim=1, stable=True)[:, : self.width]  # the best candidates that do not end
        if self.watch is not None:
            candidate_lists = (x.tolist() for x in (value, token_log_prob, parent, token, live))
            for id, *candidates in zip(self.active_ids, *candidate_lists, strict=True):
                self.watch(id, BeamStep(*candidates))
        parent, token = parent.gather(1, live), token.gather(1, live)
        self._total = value.gather(1, live).masked_fill(ends.gather(1, live), -math.inf)
        self._tokens = append_columns(self._tokens, parent, token[..., None], self._position + 1)
        log_prob = token_log_prob.gather(1, live).to(self._log_probs.dtype)
        self._log_probs = append_columns(self._log_probs, parent, log_prob[..., None], self._position)
        self._position = self._position + 1
        unfinished = self._unfinished()
        rows = (sentence * rows_each + parent)[unfinished].flatten()
        if len(unfinished) < len(self.active_ids):
            finished = sorted(set(range(len(self.active_ids))) - set(unfinished.tolist()))
            self._finished += [(self.active_ids[block], self._pools[block]) for block in finished]
            self._keep(unfinished)
        unmoved = len(rows) == count and torch.equal(rows, torch.arange(len(rows), device=rows.device))
        return model_state if unmoved or not self.active_ids else select(model_state, rows)

    def _read_prefix(self, log_prob: Float[Tensor, "rows steps"], token: Int[Tensor, "rows steps"]) -> None:
        """Append forced tokens to the only hypothesis of each sentence."""
        alone = torch.zeros_like(self._tokens[..., 0])
        self._tokens = append_columns(self._tokens, alone, token[:, None], self._position + 1)
        gained = log_prob[:, None].to(self._log_probs.dtype)
        self._log_probs = append_columns(self._log_probs, alone, gained, self._position)
        self._total = self._total + log_prob.sum(1, keepdim=True, dtype=torch.float64)
        self._position = self._position + token.shape[1]

    def _apply_steps(
        self,
        parent: Int[Tensor, "steps rows"],
        token: Int[Tensor, "steps rows"],
        token_log_prob: Float[Tensor, "steps rows"],
        total: Float64[Tensor, "sentences width"],
    ) -> None:
        """Apply steps that the decoder made without this state."""
        rows, tokens, log_probs = torch.arange(parent.shape[1], device=parent.device), [], []
        for step in reversed(range(len(parent))):  # from each row back to its first ancestor
            tokens.append(token[step, rows])
            log_probs.append(token_log_prob[step, rows])
            rows = parent[step, rows]
        new = torch.stack(tokens[::-1], 1).view(*total.shape, -1)
        gained = torch.stack(log_probs[::-1], 1).view(*total.shape, -1).to(self._log_probs.dtype)
        ancestor = (rows % self.width).view(total.shape)
        self._tokens = append_columns(self._tokens, ancestor, new, self._position + 1)
        self._log_probs = append_columns(self._log_probs, ancestor, gained, self._position)
        self._position, self._total = self._position + len(parent), total

    def _candidates(
        self, token_log_prob: Float[Tensor, "rows per_row"], token: Int[Tensor, "rows per_row"]
    ) -> tuple[Scores, Scores, Indices, Indices]:
        """Return the 2·width best extensions per sentence: total log P, token log P, parent row, token."""
        per_row = token_log_prob.shape[1]
        if self.no_repeat is not None:
            token_log_prob = self._without_repeating(token_log_prob, token)
        total = (self._total.reshape(-1, 1) + token_log_prob.to(torch.float64)).view(len(self.active_ids), -1)
        count = min(2 * self.width, total.shape[1])
        value, index = total.topk(count, -1)
        if count < 2 * self.width:  # a vocabulary smaller than the beam: pad with impossible candidates
            missing = 2 * self.width - count
            value, index = pad(value, (0, missing), value=-math.inf), pad(index, (0, missing))
        token_log_prob, token = (x.view(len(self.active_ids), -1).gather(1, index) for x in (token_log_prob, token))
        return value, token_log_prob, index // per_row, token

    def _followers(self, n: int) -> list[Collection[int]]:
        """Return the tokens that would repeat an n-gram of each row; none inside a prefix."""
        position = self._position.tolist()
        rows = [(block, beam) for block in range(len(position)) for beam in range(self._tokens.shape[1])]
        return [
            () if position[block] < len(self._prefixes[block]) else Ngrams(n, self._history(block, beam)[0]).repeating()
            for block, beam in rows
        ]

    def _without_repeating(
        self, token_log_prob: Float[Tensor, "rows many"], token: Int[Tensor, "rows many"]
    ) -> Float[Tensor, "rows many"]:
        rows = zip(token.tolist(), self._repeating, strict=True)
        repeats = [[id in repeating and id != self.symbols.end for id in ids] for ids, repeating in rows]
        return token_log_prob.masked_fill(torch.tensor(repeats, device=token.device), -math.inf)

    def _collect(
        self,
        value: Scores,
        parent: Indices,
        token: Indices,
        token_log_prob: Scores,
        ends: Bool[Tensor, "sentences candidates"],
    ) -> None:
        """Add the candidates among the ``width`` best that end to the pools."""
        among_best = ends[:, : self.width] & (value[:, : self.width] > -math.inf)
        for block, candidate in among_best.nonzero().tolist():
            log_probability = float(value[block, candidate])
            tokens, log_probs = self._history(block, int(parent[block, candidate]))
            log_probs.append(float(token_log_prob[block, candidate]))
            score = log_probability / self.normalize(len(log_probs))
            self._pools[block].append(Hypothesis(tokens, log_probability, score, log_probs, True))
            self._ended[block] += 1

    def _history(self, block: int, beam: int) -> tuple[list[int], list[float]]:
        """Return the tokens of a live hypothesis and their log-probabilities."""
        position = int(self._position[block])
        return self._tokens[block, beam, 1 : position + 1].tolist(), self._log_probs[block, beam, :position].tolist()

    def _unfinished(self) -> Int[Tensor, "kept"]:
        """Return the indices of unfinished sentences; at the length limit, live hypotheses fill the pool."""
        unfinished = []
        top, length = self._total.amax(1).tolist(), self._position.tolist()
        for block, pool in enumerate(self._pools):
            pool.sort(key=lambda hypothesis: -hypothesis.score)
            del pool[self.nbest :]
            bound = top[block] / self.normalize(self._max_lengths[block])
            if top[block] == -math.inf or (len(pool) == self.nbest and pool[-1].score >= bound):
                continue
            if self.early and self._ended[block] >= self.width:
                continue
            if length[block] >= self._max_lengths[block]:
                self._add_unfinished(block)
                continue
            unfinished.append(block)
        return torch.tensor(unfinished, dtype=torch.int64, device=self._total.device)

    def _add_unfinished(self, block: int) -> None:
        """Fill the pool of a sentence at its length limit with live hypotheses, best first."""
        pool = self._pools[block]
        for beam in range(self.width):
            total = float(self._total[block, beam])
            if len(pool) < self.nbest and total > -math.inf:
                tokens, log_probs = self._history(block, beam)
                if any(tokens == ended.tokens for ended in pool):
                    continue
                score = total / self.normalize(len(log_probs))
                pool.append(Hypothesis(tokens, total, score, log_probs, False))

    def _keep(self, indices: Int[Tensor, "kept"]) -> None:
        blocks = indices.tolist()
        self.active_ids, self._pools = (
            [self.active_ids[block] for block in blocks],
            [self._pools[block] for block in blocks],
        )
        self._max_lengths = [self._max_lengths[block] for block in blocks]
        self._ended = [self._ended[block] for block in blocks]
        self._prefixes = [self._prefixes[block] for block in blocks]
        self._position, self._total = self._position[indices], self._total[indices]
        self._tokens, self._log_probs = self._tokens[indices], self._log_probs[indices]

    def drop(self, ids: Collection[int], model_state: State) -> State:
        blocks = [block for block, id in enumerate(self.active_ids) if id not in ids]
        if len(blocks) == len(self.active_ids):
            return model_state
        indices = torch.tensor(blocks, dtype=torch.int64, device=self._total.device)
        width = self._tokens.shape[1]
        rows = indices[:, None] * width + torch.arange(width, device=indices.device)
        self._keep(indices)
        return select(model_state, rows.flatten()) if blocks else model_state

    def join(self, other: SearchState) -> None:
        assert isinstance(other, _BeamState)
        self._finished += other._finished
        self.active_ids, self._pools = self.active_ids + other.active_ids, self._pools + other._pools
        self._max_lengths, self._prefixes = self._max_lengths + other._max_lengths, self._prefixes + other._prefixes
        self._ended += other._ended
        self._position = torch.cat([self._position, other._position])
        self._total = torch.cat([self._total, other._total])
        self._tokens, self._log_probs = stack(self._tokens, other._tokens), stack(self._log_probs, other._log_probs)

    def take_finished(self) -> list[Finished]:
        finished, self._finished = self._finished, []
        return finished
