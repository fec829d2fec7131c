"""Prefix probabilities of CTC as a step of search: P(an output begins with these tokens)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor
from torch.nn.functional import pad

NEVER = -1e30  # log-probability of an impossible path: finite, so differences of two are numbers
FLOOR = -1e4  # lowest log-probability of a symbol: sums over a recording stay exact
LOWEST = -5e3  # lowest log-probability of a next token, which is above the rounding of impossible ones
CHUNK = 1 << 22  # numbers of one chunk of rows · states · types


class CtcState(NamedTuple):
    """State of the prefixes of a search.

    Attributes:
        log_p: log-probabilities of types and, last, of the blank; states after the end of a sentence are blank.
        sentence: the sentence of each row.
        token: log r^n_t of each row, the probability of its prefix at state t = 0 … length, ending in a token.
        blank: log r^b_t, the same, ending in a blank.
        last: the last token of each prefix; −1 for the empty one.
        prefix: log ψ, the probability that an output begins with the prefix.
    """

    log_p: Float64[Tensor, "sentences length symbols"]
    sentence: Int[Tensor, "rows"]
    token: Float64[Tensor, "rows states"]
    blank: Float64[Tensor, "rows states"]
    last: Int[Tensor, "rows"]
    prefix: Float64[Tensor, "rows"]

    @classmethod
    def start(cls, log_p: Float[Tensor, "sentences length symbols"]) -> CtcState:
        """Return the state of empty prefixes, one row per sentence."""
        log_p = log_p.double().clamp_min(FLOOR)
        sentences = len(log_p)
        blank = pad(log_p[..., -1].cumsum(1), (1, 0))
        rows = torch.arange(sentences, device=log_p.device)
        none = torch.full_like(rows, -1)
        return cls(log_p, rows, torch.full_like(blank, NEVER), blank, none, blank.new_zeros(sentences))

    def select(self, rows: Int[Tensor, "rows"]) -> CtcState:
        chosen = CtcState(self.log_p, *(part.index_select(0, rows) for part in self[1:]))
        used, sentence = torch.unique(chosen.sentence, return_inverse=True)
        if 2 * len(used) > len(self.log_p):
            return chosen
        return chosen._replace(log_p=self.log_p.index_select(0, used), sentence=sentence)

    def repeat(self, times: int) -> CtcState:
        return CtcState(self.log_p, *(part.repeat_interleave(times, 0) for part in self[1:]))

    def join(self, states: Sequence[CtcState]) -> CtcState:
        longest = max(state.log_p.shape[1] for state in states)
        padded = [state._padded(longest) for state in states]
        counts = torch.tensor([0, *(len(state.log_p) for state in states)]).cumsum(0).tolist()
        sentence = [state.sentence + first for state, first in zip(states, counts[:-1], strict=True)]
        parts = zip(*(state[2:] for state in padded), strict=True)
        log_p = torch.cat([state.log_p for state in padded])
        return CtcState(log_p, torch.cat(sentence), *(torch.cat(list(part)) for part in parts))

    def _padded(self, length: int) -> CtcState:
        """Return the state with more states, which are blank: they change no probability."""
        more = length - self.log_p.shape[1]
        if not more:
            return self
        silent = torch.full_like(self.log_p[:, :1], FLOOR)
        silent[..., -1] = 0
        log_p = torch.cat([self.log_p, silent.expand(-1, more, -1)], 1)
        total = torch.logaddexp(self.token[:, -1:], self.blank[:, -1:])
        token = torch.cat([self.token, torch.full_like(total, NEVER).expand(-1, more)], 1)
        return self._replace(log_p=log_p, token=token, blank=torch.cat([self.blank, total.expand(-1, more)], 1))

    def extended(self, tokens: Int[Tensor, "rows"]) -> CtcState:
        """Return the state after one more token of each row.

        With φ = r^b(h) + [c ≠ last(h)] r^n(h) (Watanabe et al. 2017, §3.2):

            r^n_t(h·c) = (r^n_{t−1}(h·c) + φ_{t−1}) p_t(c)
            r^b_t(h·c) = (r^b_{t−1}(h·c) + r^n_{t−1}(h·c)) p_t(blank)

        Both are sums of products, computed for all t at once by cumulative sums of logarithms.
        """
        index = tokens[:, None].expand(-1, self.log_p.shape[1])
        chosen = self.log_p[self.sentence].gather(2, index[..., None])[..., 0]
        entering = self.entering(tokens)
        token = _recurrence(entering, chosen)
        blank = _recurrence(token[:, :-1], self.log_p[self.sentence, :, -1])
        prefix = torch.logsumexp(entering + chosen, 1)
        return CtcState(self.log_p, self.sentence, token, blank, tokens, prefix)

    def entering(self, tokens: Int[Tensor, "rows"]) -> Float64[Tensor, "rows length"]:
        """Return log φ_{t−1} for a next token of each row."""
        repeats = (tokens == self.last)[:, None]
        token, blank = self.token[:, :-1], self.blank[:, :-1]
        return torch.where(repeats, blank, torch.logaddexp(token, blank))

    def next_log_probabilities(self, end: int) -> Float64[Tensor, "rows types"]:
        """Return log ψ(h·c) − log ψ(h) of every type c; that of ``end`` is P(the output is h) / ψ(h)."""
        per_row = self.log_p[0, :, :-1].numel()
        rows = torch.arange(len(self.last), device=self.last.device).split(max(CHUNK // max(per_row, 1), 1))
        values = torch.cat([self._begins(part) for part in rows])
        repeated = self.last >= 0
        last = self.last.clamp_min(0)
        same = self.log_p[self.sentence].gather(2, last[:, None, None].expand(-1, self.log_p.shape[1], 1))[..., 0]
        again = torch.logsumexp(self.blank[:, :-1] + same, 1)
        general = values.gather(1, last[:, None])[:, 0]
        values = values.scatter(1, last[:, None], torch.where(repeated, again, general)[:, None])
        values[:, end] = torch.logaddexp(self.token[:, -1], self.blank[:, -1])
        return (values - self.prefix[:, None]).clamp_min(LOWEST)

    def _begins(self, rows: Int[Tensor, "chunk"]) -> Float64[Tensor, "chunk types"]:
        """Return Σ_t φ_{t−1} p_t(c) of every type c as if it differed from the last token."""
        phi = torch.logaddexp(self.token[rows, :-1], self.blank[rows, :-1])
        return torch.logsumexp(phi[..., None] + self.log_p[self.sentence[rows], :, :-1], 1)


def _recurrence(
    entering: Float64[Tensor, "rows length"], log_p: Float64[Tensor, "rows length"]
) -> Float64[Tensor, "rows states"]:
    """Return log r_t for t = 0 … length, with r_0 = 0 and r_t = (r_{t−1} + entering_t) p_t."""
    total = log_p.cumsum(1)
    before = total - log_p
    return pad(total + torch.logcumsumexp(entering - before, 1), (1, 0), value=NEVER)


class CtcPrefix:
    """The step of CTC: log ψ(h·c) − log ψ(h) for the prefixes h of a search.

    Args:
        begin: first input of a search, which is no token of an output.
        end: the token that ends an output.
    """

    def __init__(self, begin: int, end: int) -> None:
        self.begin, self.end = begin, end

    def step(
        self, tokens: Int[Tensor, "rows length"], state: CtcState
    ) -> tuple[Float64[Tensor, "rows length types"], CtcState]:
        """Return the log-probabilities after each token, and the state after the last one."""
        log_p = []
        for token in tokens.unbind(1):
            if not bool((token == self.begin).all()):
                state = state.extended(token)
            log_p.append(state.next_log_probabilities(self.end))
        return torch.stack(log_p, 1), state
