"""The study of width: its verdict follows the accuracies, and its lookup can be learned."""

from __future__ import annotations

import pytest
import torch

from regard.attention.mechanisms.dot import Dot
from regard.studies import dimension
from regard.studies.dimension import EXAMPLES, KEYS, VALUES, Lookup
from regard.studies.study import ignore_report

PLAIN, SCALED = "q·k", "q·k / √d"


def failed(**changed: list[float]) -> set[str]:
    """Which scores' criteria fail, for accuracies as the claim has them but for those at d = 512 that are changed."""
    found = {
        (PLAIN, 8): [0.75, 0.7], (PLAIN, 512): changed.get("plain", [0.5, 0.45]),
        (SCALED, 8): [0.96, 0.95], (SCALED, 512): changed.get("scaled", [1.0, 1.0]),
        ("additive", 8): [1.0, 1.0], ("additive", 512): changed.get("additive", [1.0, 0.999]),
    }  # fmt: skip
    criteria = dimension._judge(found, (8, 512), [PLAIN, SCALED, "additive"])
    return {criterion.what for criterion in criteria if not criterion.holds}


def test_it_holds_for_accuracies_as_claimed() -> None:
    assert failed() == set()


def test_it_fails_where_the_product_does_not_fall() -> None:
    assert failed(plain=[0.72, 0.71]) == {"q·k: fall of accuracy from d = 8 to 512"}


def test_it_fails_where_the_fall_is_within_the_spread() -> None:
    assert "q·k: fall of accuracy from d = 8 to 512" in failed(plain=[0.3, 0.8])


def test_it_fails_where_the_others_fall_too() -> None:
    assert failed(scaled=[0.5, 0.52]) >= {f"{SCALED}: fall from d = 8 to 512", f"{SCALED}: accuracy from d = 64 on"}
    assert "additive: fall from d = 8 to 512" in failed(additive=[0.98, 0.97])


def test_it_fails_where_nothing_is_scaled() -> None:
    scores = {PLAIN: lambda width: Dot(scale=1.0), SCALED: lambda width: Dot(scale=1.0)}
    found = dimension.run(seed=1, minimal=True, report=ignore_report, scores=scores)
    assert {row[0] for row in found.rows} == {PLAIN, SCALED}
    assert not found.holds


def test_the_lookup_reads_the_key_that_is_asked_for_and_no_hidden_one() -> None:
    lookup = Lookup(Dot(scale=100.0), 16)
    with torch.no_grad():
        lookup.key.copy_(torch.randn(KEYS, 16))
        lookup.query.copy_(lookup.key)  # each query finds its own key
        lookup.value.weight.copy_(torch.eye(VALUES))
        lookup.out.weight.copy_(torch.eye(VALUES))
        lookup.out.bias.zero_()
        values = torch.randint(VALUES, (EXAMPLES, KEYS))
        asked = torch.arange(EXAMPLES)
        answer = values.gather(1, asked[:, None])[:, 0]
        seen = torch.ones(EXAMPLES, KEYS, dtype=torch.bool)
        assert (lookup(asked, seen, values).argmax(1) == answer).float().mean() > 0.8
        hidden = seen.scatter(1, asked[:, None], False)
        before = lookup(asked, hidden, values)
        changed = values.scatter(1, asked[:, None], (answer[:, None] + 1) % VALUES)
        torch.testing.assert_close(lookup(asked, hidden, changed), before)


def test_chance_is_learned_from_nothing() -> None:
    assert dimension._learn(Lookup(Dot(), 8), 3) == pytest.approx(1 / VALUES, abs=0.1)
