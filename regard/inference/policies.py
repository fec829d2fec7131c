"""Policies of streaming: how many words of a hypothesis are committed while its source is still arriving.

A policy sees counts of words and no model. Its source may be text, in words, or sound, in frames. Committed words are
never taken back: every later hypothesis begins with them. The end of the source commits the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from regard.config.stream_settings import DEFAULT_AGREE, MOST_AGREE, PolicyName
from regard.errors import ConfigError


class Draft(NamedTuple):
    """The words of a hypothesis, and what a policy knows of them.

    Attributes:
        words: all words, those committed earlier first.
        committed: the number of these.
        ended: whether the last word is complete.
        previous: the words of the hypothesis before this one.
        attended: for each word, the number of source units up to the last one that its pieces attend to; () unless the
            policy requested it.
        agreed: what ``Policy.agreed`` returned for the hypothesis before this one.
    """

    words: Sequence[str]
    committed: int
    ended: bool
    previous: Sequence[str] = ()
    attended: Sequence[int] = ()
    agreed: Sequence[int] = ()

    @property
    def complete(self) -> int:
        """The number of complete words."""
        return len(self.words) if self.ended else max(len(self.words) - 1, 0)


@dataclass(frozen=True)
class Policy(ABC):
    """Base of policies.

    Attributes:
        lag: see each policy; ``least`` is its minimum.
        unit: of the source, in the plural.
    """

    lag: int
    unit: str = "source words"
    name: ClassVar[PolicyName]
    least: ClassVar[int] = 1
    needs_attention: ClassVar[bool] = False
    paces: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.lag < self.least:
            raise ConfigError(
                f"{self.name} requires a lag of at least {self.least}, not {self.lag}", where="lag", help=self.meaning
            )

    @property
    @abstractmethod
    def meaning(self) -> str:
        """The quantity that the lag counts, as a sentence."""

    def reads(self, read: int) -> int:
        """Return the number of source units that the next hypothesis reads, of those that have arrived."""
        return read

    def may_write(self, read: int, committed: int) -> int | None:
        """Return the number of further words that may be committed; None: no limit.

        Args:
            read: the number of source units that were read.
            committed: the number of words that were committed earlier.
        """
        return None

    @property
    def title(self) -> str:
        """The name, with the settings other than the lag if they are not the defaults."""
        return self.name

    def agreed(self, draft: Draft) -> tuple[int, ...]:
        """Return the counts that the next draft of this stream must contain.

        Args:
            draft: the words of the hypothesis.
        """
        return ()

    @abstractmethod
    def commit(self, draft: Draft, read: int) -> int:
        """Return the number of words to commit in all, at least ``draft.committed``.

        Args:
            draft: the words of the hypothesis.
            read: the number of source units that it is based on.
        """


class WaitK(Policy):
    """Wait-k (Ma et al. 2019, Eq. 4): word t is written after g(t) = min(k + t − 1, |x|) source words; k is the lag.

    If the model predicts END before the source has ended, nothing is written: the next word waits.

    Attributes:
        lag: k, at least 1.
        unit: of the source, in the plural.
    """

    name = "wait-k"
    paces = True

    @property
    def meaning(self) -> str:
        return "the lag is k: the number of source words that are read before the first word is written"

    def may_write(self, read: int, committed: int) -> int | None:
        return max(read - self.lag + 1 - committed, 0)

    def commit(self, draft: Draft, read: int) -> int:
        return max(min(draft.complete, read - self.lag + 1), draft.committed)


@dataclass(frozen=True)
class LocalAgreement(Policy):
    """Local agreement (Liu et al. 2020, LA-n): the longest common prefix of the last n hypotheses is committed.

    The lag is the number of source units between two hypotheses, and ``agree`` is n. The last word of a hypothesis that
    has not ended is incomplete. A stream carries n − 2 counts instead of n − 1 hypotheses. If m hypotheses agree on
    k words, and the next one agrees with the last one on j, all agree on min(j, k).

    Attributes:
        lag: the number of source units between two hypotheses, at least 1.
        unit: of the source, in the plural.
        agree: the number n of hypotheses, 2 to 8.
    """

    agree: int = DEFAULT_AGREE
    name = "local-agreement"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.agree <= MOST_AGREE:
            raise ConfigError(
                f"{self.name} compares 2 to {MOST_AGREE} hypotheses, not {self.agree}", where="agree",
                help="2 has the shortest lag, 3 fewer errors",
            )  # fmt: skip

    @property
    def title(self) -> str:
        return self.name if self.agree == DEFAULT_AGREE else f"{self.name} of {self.agree}"

    @property
    def meaning(self) -> str:
        return f"the lag is the number of {self.unit} between two hypotheses"

    def reads(self, read: int) -> int:
        return read - read % self.lag

    def agreed(self, draft: Draft) -> tuple[int, ...]:
        return self._agreement(draft)[:-1]

    def commit(self, draft: Draft, read: int) -> int:
        return max(min(self._agreement(draft)[-1], draft.complete), draft.committed)

    def _agreement(self, draft: Draft) -> tuple[int, ...]:
        """Return the number of words on which the last 2, 3, …, n hypotheses agree, this one included."""
        count = 0
        for word, before in zip(draft.words, draft.previous, strict=False):
            if word != before:
                break
            count += 1
        missing = self.agree - 2 - len(draft.agreed)  # hypotheses that the stream has not had yet agree on nothing
        return count, *(min(count, earlier) for earlier in (*draft.agreed, *[0] * missing)[: self.agree - 2])


class AlignAtt(Policy):
    """AlignAtt (Papi et al. 2023, §3): words are committed while a_i = argmax_j A(x, y_i) ≤ |x| − f; f is the lag.

    A is the attention of one head, without END of the source, which heads use as a sink. The first word with a piece
    that attends to one of the last f source units waits, and all words after it.

    Attributes:
        lag: f, at least 0.
        unit: of the source, in the plural.
    """

    name = "alignatt"
    least = 0
    needs_attention = True

    @property
    def meaning(self) -> str:
        return f"the lag is f: words wait while they attend to one of the last f {self.unit}"

    def commit(self, draft: Draft, read: int) -> int:
        count = draft.committed
        while count < draft.complete and draft.attended[count] <= read - self.lag:
            count += 1
        return count


POLICIES: dict[PolicyName, type[Policy]] = {policy.name: policy for policy in (WaitK, LocalAgreement, AlignAtt)}


def make_policy(name: PolicyName, lag: int, unit: str = "source words", *, agree: int | None = None) -> Policy:
    """Return the policy of that name.

    Args:
        name: ``wait-k``, ``local-agreement`` or ``alignatt``.
        lag: the lag: see each policy.
        unit: of the source, in the plural, for messages.
        agree: of local agreement, the number of hypotheses; None for 2.

    Raises:
        ConfigError: for a lag below its minimum, or ``agree`` with another policy.
    """
    if agree is None:
        return POLICIES[name](lag, unit)
    if name != LocalAgreement.name:
        raise ConfigError(f"{name} does not compare hypotheses", where="agree", help="use local-agreement, or omit it")
    return LocalAgreement(lag, unit, agree)
