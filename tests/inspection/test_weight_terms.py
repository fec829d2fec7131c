"""Terms of weights come from the mechanism itself, so that a new score explains itself without a change elsewhere."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.contract import Mechanism
from regard.attention.mask import Bound, Causal
from regard.attention.score import ScoreTerms, SoftmaxScore
from regard.attention.span import Span
from regard.attention.weight_terms import AttentionCall, weight_terms


class Silent(SoftmaxScore):
    def energy(self, query: Tensor, key: Tensor) -> Tensor:
        return 0.5 * torch.einsum("bhtd,bhsd->bhts", query, key)


class Explained(Silent):
    def terms(self, query: Tensor, key: Tensor, bound: Bound) -> ScoreTerms | None:
        return ScoreTerms("product", "q·k / 2", 0.5, query, key)


def look(mechanism: Mechanism) -> AttentionCall:
    draw = torch.Generator().manual_seed(1)
    query, key, value = (torch.randn(1, 2, 3, 4, generator=draw) for _ in range(3))
    span = Span.of(torch.ones(1, 3, dtype=torch.bool))
    return AttentionCall(query, key, value, Causal().bind(span, span), torch.ones(1, 2, 3, 3) / 3, mechanism)


def test_a_score_of_another_file_is_explained_by_its_own_terms() -> None:
    seen = look(Explained())
    found = weight_terms(seen)
    assert (found.kind, found.formula, found.scale) == ("product", "q·k / 2", 0.5)
    energy = found.scale * (found.query[:, :, None] * found.key[:, None]).sum(-1)
    torch.testing.assert_close(energy, Silent().energy(seen.query, seen.key)[0])
    assert torch.equal(found.allowed, torch.ones(3, 3).tril())


def test_a_score_without_terms_is_named_alone() -> None:
    found = weight_terms(look(Silent()))
    assert (found.kind, found.formula, found.vector, found.bias) == ("none", "Silent", None, None)
