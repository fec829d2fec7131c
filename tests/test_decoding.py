"""Settings of a search, by what they do to outputs, in every way of decoding: each of them must arrive."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from regard.config.settings import SearchConfig
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD
from regard.inference.decoding import Decoding, Engine
from regard.inference.run_search import inputs_of
from regard.inference.search_model import SearchInput
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.native.library import library
from regard.search.batch_search import in_order, search
from regard.search.contract import Hypothesis

TYPES = 9
SOURCES = [[5, 6, 7, 8], [5], [6, 8]]
BEAM = dict(beam=3, nbest=3)
WAYS: dict[str, dict[str, Any]] = {
    "greedy": dict(beam=1),
    "beam": BEAM,
    "constrained": BEAM | dict(constraints=[[[4]], [[6]], [[7, 4]]]),
    "sampled": dict(temperature=1.0, nbest=2),
}


@cache
def model(end: float) -> EncoderDecoder:
    """A random one that likes to end as much as ``end`` says, in logits."""
    torch.manual_seed(3)
    sizes = dict(layers=1, width=8, feed_forward=8, heads=2)
    made = build(ModelConfig(**sizes, output_bias=True, share="none"), source_types=TYPES, target_types=TYPES).eval()
    with torch.no_grad():
        made.head.bias.zero_()
        made.head.bias[END] = end
    return made


@cache
def decoding(end: float) -> Decoding:
    return Decoding(model(end), "float32")


def decoded(end: float, *, constraints: Any = None, **options: Any) -> list[list[Hypothesis]]:
    settings = SearchConfig(seed=4, **options)
    inputs = inputs_of(SOURCES, settings)
    if constraints is not None:
        inputs = [SearchInput(source, constraints=own) for source, own in zip(SOURCES, constraints, strict=True)]
    opened = decoding(end).open(range(len(SOURCES)), inputs, settings)
    return in_order(search(decoding(end).step, opened), len(SOURCES))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("extra", "most"), [(0, None), (3, None), (7, None), (7, 6)])
def test_an_output_ends_at_the_source_s_length_plus_max_extra_and_at_max_length(
    way: str, extra: int, most: int | None
) -> None:
    """By a model that never ends by itself. END counts on both sides, and one that was not said counts for a token."""
    found = decoded(-1e9, max_extra=extra, max_length=most, **WAYS[way])
    for source, hypotheses in zip(SOURCES, found, strict=True):
        limit = len(source) + 1 + extra if most is None else min(len(source) + 1 + extra, most)
        for hypothesis in hypotheses:
            assert len(hypothesis.tokens) == limit and not hypothesis.finished


@pytest.mark.parametrize("way", ["beam", "constrained"])
@pytest.mark.parametrize(("penalty", "offset"), [(0.0, 5.0), (0.6, 5.0), (1.7, 5.0), (0.6, 0.0), (1.0, 2.0)])
def test_scores_are_log_p_over_the_length_penalty_of_the_settings(way: str, penalty: float, offset: float) -> None:
    """((k + |Y|) / (k + 1))^α, END counted."""
    found = decoded(0.0, length_penalty=penalty, length_offset=offset, max_extra=4, **WAYS[way])
    lengths = set()
    for hypothesis in (each for hypotheses in found for each in hypotheses):
        length = len(hypothesis.tokens) + hypothesis.finished
        lengths.add(length)
        wanted = hypothesis.log_probability / ((offset + length) / (offset + 1)) ** penalty
        assert hypothesis.score == pytest.approx(wanted, abs=1e-12)
    assert len(lengths) > 1, "or the offset would say nothing"


def test_an_engine_computes_in_its_own_numbers() -> None:
    """float32 gives what the model gives, to rounding; bfloat16 does not; nor does int8, where there is one."""

    def log_p(engine: Engine) -> float:
        made = Decoding(model(0.0), engine)
        (found,) = in_order(
            search(made.step, made.open([0], [SearchInput([5, 6, 7])], SearchConfig(beam=1, max_extra=2))), 1
        )
        return found[0].token_log_probabilities[0]

    plain = log_p("reference")
    assert log_p("float32") == pytest.approx(plain, abs=1e-5)
    others: list[Engine] = ["bfloat16", *([] if library() is None else ["int8"])]
    for engine in others:
        assert log_p(engine) == pytest.approx(plain, abs=0.1) and abs(log_p(engine) - plain) > 1e-5


@pytest.mark.parametrize("way", ["greedy", "sampled"])
def test_where_nothing_is_ranked_by_length_the_score_is_log_p(way: str) -> None:
    for hypotheses in decoded(0.0, length_penalty=1.5, **WAYS[way]):
        for hypothesis in hypotheses:
            assert hypothesis.score == hypothesis.log_probability


@pytest.mark.parametrize("constraints", [None, [[]] * len(SOURCES)])
@pytest.mark.parametrize("early", [False, True])
def test_a_beam_ends_as_the_settings_say(early: bool, constraints: Any) -> None:
    """An output that is long enough to be better comes after as many have ended as the beam is wide, or not at all."""
    options: dict[str, Any] = {"max_extra": 20, "length_penalty": 2.0, "length_offset": 0.0, "beam": 2}
    scores = [each[0].score for each in decoded(1.0, early_stopping=early, constraints=constraints, **options)]
    exact = [each[0].score for each in decoded(1.0, early_stopping=False, constraints=constraints, **options)]
    assert (scores != exact) is early and all(one <= other for one, other in zip(scores, exact, strict=True))


@pytest.mark.parametrize("way", WAYS)
def test_as_many_outputs_as_asked_for_and_none_with_what_is_never_said(way: str) -> None:
    for hypotheses in decoded(0.0, **WAYS[way]):
        assert len(hypotheses) == WAYS[way].get("nbest", 1)
        assert not {PAD, BEGIN, END} & {token for hypothesis in hypotheses for token in hypothesis.tokens}


@torch.no_grad()
@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (1, dict(beam=1)),
        (2, dict(beam=2)),
        (4, dict(beam=4, nbest=2)),
        (4, dict(beam=4, constraints=[[[4]]])),
        (3, dict(beam=4, temperature=1.0, nbest=3)),
    ],
)
def test_a_sentence_has_as_many_rows_as_the_beam_is_wide_or_as_are_drawn(rows: int, options: dict[str, Any]) -> None:
    """After its first step, from which none ends."""
    settings = SearchConfig(**{name: value for name, value in options.items() if name != "constraints"})
    (input,) = inputs_of([[5, 6]], settings)
    if "constraints" in options:
        input = SearchInput([5, 6], constraints=options["constraints"][0])
    live, session = decoding(-1e9).open([0], [input], settings)
    live.advance(*decoding(-1e9).step(live.tokens(), session, live.reduce))
    assert len(live.tokens()) == rows


@pytest.mark.parametrize("way", ["greedy", "beam", "sampled"])
def test_a_learned_table_of_positions_limits_outputs(way: str) -> None:
    sizes = dict(layers=1, width=8, feed_forward=8, heads=2, position="learned", longest=6)
    made = build(ModelConfig(**sizes, output_bias=True, share="none"), source_types=TYPES, target_types=TYPES).eval()
    with torch.no_grad():
        made.head.bias[END] = -1e9
    short = Decoding(made, "float32")
    settings = SearchConfig(seed=4, **WAYS[way])
    opened = short.open([0], inputs_of([[5, 6]], settings), settings)
    (found,) = in_order(search(short.step, opened), 1)
    assert {len(hypothesis.tokens) for hypothesis in found} == {6}
