"""Several translation models as one: at each step, the mean of their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from torch import Tensor

from regard.config.settings import ChoiceConfig
from regard.core.state import State
from regard.inference.decoding import Decoding
from regard.inference.ensemble import log_mean, require_equal_pieces
from regard.inference.search_model import SearchInput, WatchBeam
from regard.search.contract import Reduce, StatePair
from regard.tasks.translation.translator import Translator


class EnsembleDecoding(Decoding):
    """The decoders of several models with one target vocabulary: p(y_t) = 1/K Σ_k p_k(y_t).

    See Sutskever et al. 2014, §3.6. Cost: the sum of the models. The state of a row is that of all of them.

    Args:
        members: the decoders.
    """

    def __init__(self, members: Sequence[Decoding]) -> None:
        self.members = tuple(members)
        first = self.members[0]
        self.sources, self.device = first.sources, first.device
        positions = [member.positions for member in self.members if member.positions is not None]
        self.positions = min(positions, default=None)

    def open(
        self, ids: Sequence[int], inputs: Sequence[SearchInput], settings: ChoiceConfig, watch: WatchBeam | None = None
    ) -> StatePair:
        """See ``SearchModel``. The limits of outputs are the least of all models."""
        state, _ = self.members[0].open(ids, inputs, self._within(settings), watch)
        return state, tuple(member.open(ids, inputs, self._within(settings))[1] for member in self.members)

    def step(self, tokens: Tensor, session: Any, read: Reduce) -> tuple[tuple[Tensor, ...], State]:
        """See ``ChunkedStep``."""
        log_p, sessions = [], []
        for member, own in zip(self.members, session, strict=True):
            (rows,), after = member.step(tokens, own, lambda log_p, rows: (log_p.float(),))
            log_p.append(rows)
            sessions.append(after)
        mean = log_mean(log_p)
        return read(mean, slice(0, len(mean))), tuple(sessions)

    def _within(self, settings: ChoiceConfig) -> ChoiceConfig:
        """Return the settings with the least number of positions of all models as a limit."""
        own = getattr(settings, "max_length", None)
        limits = [limit for limit in (own, self.positions) if limit is not None]
        return settings.model_copy(update={"max_length": min(limits)}) if limits else settings


class EnsembleTranslator(Translator):
    """A translator whose outputs are searched with several models; attention and scores of pairs are of the first.

    Args:
        members: the translators, with equal vocabularies. Settings, names and limits are those of the first.

    Raises:
        ConfigError: for other vocabularies.
    """

    def __init__(self, members: Sequence[Translator]) -> None:
        first = members[0]
        for number, member in enumerate(members[1:], start=2):
            _require_equal(first, member, number)
        super().__init__(
            first.model, first.source, first.target, first.search,
            max_length=min(member.max_length for member in members), crops=first.crops, language=first.language,
            reads_unfinished=False, engine=first.engine,
        )  # fmt: skip
        self.members = tuple(members)

    def __repr__(self) -> str:
        return f"EnsembleTranslator({', '.join(map(repr, self.members))})"

    @cached_property
    def decoding(self) -> EnsembleDecoding:
        """The decoders of all models."""
        return EnsembleDecoding([member.without_memory.decoding for member in self.members])


def _require_equal(first: Translator, member: Translator, number: int) -> None:
    for side in ("source", "target"):
        one, other = (
            tokenizer.pieces(range(len(tokenizer))) for tokenizer in (getattr(first, side), getattr(member, side))
        )
        require_equal_pieces(one, other, number, f"{side} vocabulary")
