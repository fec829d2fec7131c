"""The coverage penalty, by a pencil and through a search."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from regard.config.settings import SearchConfig
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import ConfigError
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.search.contract import Hypothesis
from regard.search.coverage_penalty import FLOOR, coverage, reranked
from regard.tasks.translation.translator import Translator

WORDS = train_tokenizer(["a b c d e f"], TokenizerConfig(kind="word"))
SIZES: dict[str, Any] = dict(layers=1, width=8, heads=2, feed_forward=8, dropout=0.0)


def test_a_piece_that_is_looked_at_whole_costs_nothing_and_one_that_is_not_its_logarithm() -> None:
    looked = torch.tensor([[0.5, 0.25, 0.25], [0.5, 0.0, 0.25], [1.0, 0.0, 0.0]])
    assert coverage(looked) == pytest.approx(math.log(0.25) + math.log(0.5))  # 2 looks count as one
    assert coverage(torch.tensor([[1.0, 0.0]])) == pytest.approx(math.log(FLOOR))


def test_outputs_change_places_when_the_penalty_outweighs_their_scores() -> None:
    skips, reads = (Hypothesis([token], -1.0, score, [-1.0], True) for token, score in ((4, -1.0), (5, -1.5)))
    weights = [torch.tensor([[0.5, 0.5], [0.5, 0.0]]), torch.tensor([[0.5, 0.5], [0.5, 0.5]])]
    log = math.log(0.5)  # what the first output loses, times β
    for penalty, first in ((0.7, skips), (0.8, reads)):
        found = reranked([skips, reads], weights, penalty=penalty)
        assert found[0].tokens == first.tokens
        assert [each.score for each in found] == pytest.approx(sorted([-1.0 + penalty * log, -1.5], reverse=True))


def translator(**config: Any) -> Translator:
    torch.manual_seed(3)
    model = build(ModelConfig(**SIZES, **config), source_types=len(WORDS), target_types=len(WORDS))
    return Translator(model, WORDS, WORDS, SearchConfig(beam=4, length_penalty=0.0, max_extra=3), max_length=9)


@pytest.mark.parametrize(
    "config", [{}, {"kind": "recurrent"}, {"copying": True}], ids=["transformer", "recurrent", "copying"]
)
def test_a_search_ranks_all_that_its_beam_finished(config: dict[str, Any]) -> None:
    """The outputs are those of a beam without penalty, ordered by log P + β · coverage of their own weights."""
    model = translator(**config)
    plain = model("a b c d", nbest=4)
    found = model("a b c d", nbest=4, coverage_penalty=10.0)
    expected = {}
    for each in plain.candidates:
        source, target = model.source.encode("a b c d"), model.target.encode(" ".join(each.pieces))
        heads = [w for name, w in model.attention(source, target).items() if name.endswith("source")]
        seen = torch.cat(heads).mean(0)[: len(target) + each.finished, :4]
        expected[tuple(each.pieces)] = each.log_probability + 10 * coverage(seen)
    assert {tuple(each.pieces): pytest.approx(each.score, abs=1e-4) for each in found.candidates} == expected
    scores = [each.score for each in found.candidates]
    assert scores == sorted(scores, reverse=True) and scores != [
        expected[tuple(each.pieces)] for each in plain.candidates
    ]
    assert model("a b c d", coverage_penalty=10.0).text == found.text, "though one output alone is asked for"
    for alone in ({"beam": 1}, {"temperature": 1.0}):
        settings = SearchConfig(**alone, coverage_penalty=10.0)
        assert not settings.covers


def test_a_decoder_that_does_not_look_has_no_coverage() -> None:
    blind = translator(kind="recurrent", decoder={"kind": "recurrent", "order": "none"})
    with pytest.raises(ConfigError, match="coverage penalty does not apply"):
        blind("a b", coverage_penalty=0.2)
