"""Baselines of hidden tokens: what they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from regard.baselines.context_product import ContextProduct, GapContexts, HeldOutGaps
from regard.baselines.context_tables import Numbers
from regard.core.baseline import Floats, SavedBaseline
from regard.data.tokenizers.tokenizer import UNKNOWN

HIDDEN = -1  # in place of a hidden token
FLOOR = -30.0  # least log-probability of ``GapEvidence``
FOLDS = 5
Flags = npt.NDArray[np.bool_]


class HiddenTokens(NamedTuple):
    """Texts, concatenated, each from its begin to its end token, with hidden tokens.

    Attributes:
        read: the visible tokens; ``HIDDEN`` in place of the others.
        chosen: the positions to predict.
        tokens: all tokens.
    """

    read: Numbers
    chosen: Flags
    tokens: Numbers

    @classmethod
    def of(cls, texts: Sequence[Numbers], hidden: Sequence[Flags]) -> HiddenTokens:
        """Return texts of which ``hidden`` positions are hidden and predicted."""
        if not texts:
            return cls(np.zeros(0, np.int64), np.zeros(0, bool), np.zeros(0, np.int64))
        tokens, chosen = np.concatenate(texts).astype(np.int64), np.concatenate(hidden)
        return cls(np.where(chosen, HIDDEN, tokens), chosen, tokens)

    @classmethod
    def unknown(cls, rows: Sequence[Numbers], mask: int) -> HiddenTokens:
        """Return texts whose hidden tokens, read as ``mask``, are not known."""
        read = np.concatenate(rows).astype(np.int64)
        return cls(np.where(read == mask, HIDDEN, read), read == mask, np.where(read == mask, UNKNOWN, read))


class GapEvidence(NamedTuple):
    """The distribution of hidden tokens, and what it rests on.

    Attributes:
        log_probabilities: (gaps, types) float32, at least ``FLOOR``, also for tokens that are never hidden.
        buckets: (gaps, chains) see ``ContextProduct.evidence``.
    """

    log_probabilities: npt.NDArray[np.float32]
    buckets: Numbers


class GapBaseline(ABC):
    """Base of the baselines of hidden tokens: contexts of gaps, and a ``ContextProduct`` over them."""

    kind: ClassVar[str]
    alone: ClassVar[bool]  # whether the contexts of a token are the same when it is visible
    levels: tuple[int, int, int, int]  # number of contexts by chain

    def __init__(self) -> None:
        self.product, self.types = ContextProduct(), 1

    @property
    @abstractmethod
    def description(self) -> str:
        """A readable name."""

    @abstractmethod
    def begin(self, types: int) -> Flags:
        """Set the size of the vocabulary, and return which outcomes are possible."""

    @abstractmethod
    def counted(self, texts: Sequence[Numbers]) -> HiddenTokens:
        """Return the gaps of texts from which the tables are counted."""

    @abstractmethod
    def gaps(self, tokens: HiddenTokens) -> tuple[GapContexts, Numbers, Numbers]:
        """Return the contexts of the chosen positions, their outcomes, and (gaps,) token − outcome."""

    @abstractmethod
    def token_distribution(self, tokens: HiddenTokens) -> tuple[Floats, Numbers]:
        """Return (gaps, types) the probability of each token, and ``GapEvidence.buckets``."""

    def learn(
        self, texts: Sequence[Numbers], hidden: Sequence[Flags], types: int, *, exponents: Floats | None = None
    ) -> None:
        """Fit the tables on all texts, and the exponents on gaps with tables of other texts.

        Args:
            texts: tokens of each text, with the begin and the end token.
            hidden: positions that evaluation hides, of the first texts, by which the exponents are chosen. If it has
                those of all texts, each of ``FOLDS`` parts is read with tables of the others.
            types: size of the vocabulary.
            exponents: of the product, if they are known; ``hidden`` is then not read.
        """
        allowed, distinct = self.begin(types), self.distinct(texts)
        if exponents is not None:
            self.product.exponents = exponents
        else:
            blocks = list[HeldOutGaps]()
            for part in _held_out_parts(distinct, len(hidden)):
                self._count([texts[index] for index in sorted({*distinct} - {*part})], allowed)
                tokens = HiddenTokens.of([texts[index] for index in part], [hidden[index] for index in part])
                blocks += self.product.held_out(*self.gaps(tokens)[:2])
            self.product.fit_exponents(blocks)
        self._count([texts[index] for index in distinct], allowed)

    def key(self, text: Numbers) -> bytes:
        """Return the content of a text, by which texts belong to one fold."""
        return text.tobytes()

    def distinct(self, texts: Sequence[Numbers]) -> list[int]:
        """Return the texts that are counted."""
        return list(range(len(texts)))

    def _count(self, texts: Sequence[Numbers], allowed: Flags) -> None:
        contexts, outcomes, _ = self.gaps(self.counted(texts))
        self.product.learn(contexts, outcomes, allowed)

    def predict(self, tokens: HiddenTokens) -> tuple[Floats, Numbers]:
        """Return (gaps,) the log-probability of each chosen token, and the most probable token there."""
        contexts, outcomes, offset = self.gaps(tokens)
        logs, best = self.product.predict(contexts, outcomes)
        return logs, best + offset

    def evidence(self, tokens: HiddenTokens) -> GapEvidence:
        """Return the distribution at each chosen position."""
        p, buckets = self.token_distribution(tokens)
        logs = np.log(np.maximum(p, np.exp(FLOOR)))
        return GapEvidence(logs.astype(np.float32), buckets)

    def save(self) -> SavedBaseline:
        saved = self.product.save()
        return saved._replace(settings={**saved.settings, "types": self.types})

    def open(self, saved: SavedBaseline) -> Self:
        allowed = self.begin(int(saved.settings["types"]))
        self.product.open(saved, self.levels)
        if ((self.product.popularity > 0) != allowed).any():
            raise ValueError("the outcomes of the baseline are not those of its vocabulary")
        return self


def _held_out_parts(texts: Sequence[int], number: int) -> list[Sequence[int]]:
    """Return the parts of ``texts`` by which exponents are chosen: those below ``number``, or folds if all are."""
    first = [index for index in texts if index < number]
    if len(first) < len(texts):
        return [first] if first else []
    return [texts[fold::FOLDS] for fold in range(FOLDS)] if len(texts) >= FOLDS else []
