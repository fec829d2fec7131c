"""Tokens with their tags: as data, and as a prediction with probabilities and spans."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from regard.answers.named_labels import DECIMALS
from regard.answers.spans import TagSpan


class TaggedTokens(NamedTuple):
    """The tokens of a sentence and their tags, equal in number."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]


class Tagging(NamedTuple):
    """One tag for each token of a sentence.

    Attributes:
        tokens: the tokens.
        tags: the tag of each token.
        probabilities: the probability of each tag, 0 to 1.
        spans: the spans that the tags encode; () if they encode none.
    """

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]
    spans: tuple[TagSpan, ...] = ()

    def as_text(self) -> str:
        """Return ``token/TAG`` with spaces between."""
        return " ".join(f"{token}/{tag}" for token, tag in zip(self.tokens, self.tags, strict=True))

    def as_json(self, *, with_spans: bool) -> str:
        """Return a JSON object with probabilities, and with spans if requested."""
        probabilities = [round(p, DECIMALS) for p in self.probabilities]
        fields: dict[str, Any] = {"tokens": self.tokens, "tags": self.tags, "probabilities": probabilities}
        if with_spans:
            fields["spans"] = [span.described(self.tokens) for span in self.spans]
        return json.dumps(fields, ensure_ascii=False)
