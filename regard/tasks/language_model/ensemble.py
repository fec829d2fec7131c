"""Several language models as one: at each step, the mean of their probabilities."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cached_property

from jaxtyping import Float, Int
from torch import Tensor

from regard.core.state import State
from regard.inference.ensemble import log_mean, require_equal_pieces
from regard.inference.prompt_decoding import DecodedModel, PromptDecoding
from regard.tasks.language_model.generator import Generator


class EnsembleModel:
    """A ``DecodedModel`` with p(y_t) = 1/K Σ_k p_k(y_t).

    See Sutskever et al. 2014, §3.6. Cost: the sum of the models. The state of a row is that of all of them.

    Args:
        members: the models, with one vocabulary.
    """

    def __init__(self, members: Sequence[DecodedModel]) -> None:
        self.members = tuple(members)

    def start(self, rows: int) -> tuple[State, ...]:
        """Return the state before the first token."""
        return tuple(member.start(rows) for member in self.members)

    def step(
        self, tokens: Int[Tensor, "rows length"], state: Sequence[State]
    ) -> tuple[Float[Tensor, "rows length types"], tuple[State, ...]]:
        """Return the log-probabilities of the token after each position, and the new state."""
        steps = [member.step(tokens, own) for member, own in zip(self.members, state, strict=True)]
        return log_mean([log_p for log_p, _ in steps]), tuple(after for _, after in steps)


class EnsembleGenerator(Generator):
    """A generator whose texts are searched with several models; attention and scores of texts are of the first.

    Args:
        members: the generators, with equal vocabularies. Settings and the chat template are those of the first, the
            context is the shortest.

    Raises:
        ConfigError: for other vocabularies.
    """

    def __init__(self, members: Sequence[Generator]) -> None:
        first = members[0]
        for number, member in enumerate(members[1:], start=2):
            require_equal_pieces(first.labels, member.labels, number, "vocabulary")
        super().__init__(
            first.model, first.tokenizer, first.settings, context=min(member.context for member in members),
            engine=first.engine, carried=first.carried, ngrams=first.ngrams, chat=first.chat_config,
        )  # fmt: skip
        self.members = tuple(members)

    @cached_property
    def decoding(self) -> PromptDecoding:
        """All models in the layout of their engines, built on first use."""
        members = [member.decoding for member in self.members]
        context = min(member.context for member in members)
        model = EnsembleModel([member.model for member in members])
        return PromptDecoding(
            model, context=None if context == sys.maxsize else context, types=len(self.tokenizer), device=self.device
        )
