"""``regard inspect --terminal`` of every task: the answer first, bars below the input, no line wider than 80."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.cells import cell_len

from regard.core.observation import Alternative, AttentionMap, Axis, Influence, Observation, Prediction, Site, Surface
from regard.core.task import find_task
from regard.core.task_table import TASKS
from regard.errors import ConfigError
from regard.inspection.document import Inspection
from regard.inspection.inspector import inspect
from regard.inspection.selection import answers, attention_strips, choose_attention, influence_strips, visible
from regard.inspection.terminal_heat_map import Bars, draw_bars
from regard.inspection.terminal_observation import draw_inspection


def inspections(runs: dict[str, Path], kind: str) -> Iterator[Inspection]:
    """Yield those of the sample lines that can be inspected, with influence where it exists."""
    for line, influence in product(find_task(kind).sample_lines, (True, False)):
        with suppress(ConfigError):
            yield inspect(runs[kind], line, influence=influence)


def sentence(words: int, *, weights: torch.Tensor | None = None, **more: Any) -> Observation:
    """A classified sentence of numbered words with one pooling head."""
    pieces = tuple(f"word{number}" for number in range(words))
    weights = torch.full((1, 1, words), 1 / words) if weights is None else weights
    pooling = AttentionMap("pooling", None, "", weights, Axis("answer", ("answer",)), Axis("token", pieces))
    return Observation(
        (Surface("tokens", pieces),), (Prediction(Site("whole"), "label", "good", -0.1),), (pooling,), **more
    )


def drawn(observation: Observation, columns: int = 80, head: str | None = None) -> str:
    return draw_inspection(Inspection.of(observation, {}, "text"), head, columns=columns)


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("columns", [40, 80, 132])
def test_the_answer_is_printed_and_no_line_is_too_wide(kind: str, columns: int, runs: dict[str, Path]) -> None:
    everything = list(inspections(runs, kind))
    assert everything
    for inspection in everything:
        text = draw_inspection(inspection, None, columns=columns)
        first = text.split("attention:")[0]
        for answer in answers(inspection.observation):
            assert visible(inspection.observation.predictions[answer].label) in first
        assert max(map(cell_len, text.splitlines())) <= columns
        assert not {"{", "}", '"'} & set(text), "JSON in the terminal"


@pytest.mark.parametrize("kind", TASKS)
def test_every_head_can_be_drawn(kind: str, runs: dict[str, Path]) -> None:
    inspection = next(inspections(runs, kind))
    for place, attention in inspection.observation.maps.items():
        for head in range(len(attention.weights)):
            text = draw_inspection(inspection, f"{place}:{head}", columns=80)
            assert place in text and attention.query.name in text
            assert max(map(cell_len, text.splitlines())) <= 80


@pytest.mark.parametrize("kind", TASKS)
def test_the_strip_has_the_weights_of_the_answer(kind: str, runs: dict[str, Path]) -> None:
    """Weights of pieces and of other symbols sum to 1, and equal the weights of labels with the same text."""
    for inspection in inspections(runs, kind):
        observation = inspection.observation
        chosen = choose_attention(observation)
        assert chosen is not None
        strips = attention_strips(observation, chosen)
        values = [value for strip in strips for value in strip.values if value is not None]
        assert sum(values) + strips[0].outside == pytest.approx(1, abs=1e-4)
        rows = chosen.weights
        lows, highs = rows.min(0).values, rows.max(0).values
        for strip in strips:
            for piece, value in zip(strip.labels, strip.values, strict=True):
                named = [at for at, label in enumerate(chosen.attention.key.labels) if label.strip() == piece.strip()]
                if named and value is not None:
                    assert any(lows[at] - 1e-5 <= value <= highs[at] + 1e-5 for at in named)


def test_the_rows_are_those_of_the_predictions() -> None:
    """A tagger reads each word in its own row; a language model's next token reads the last row."""
    labels = ("<s>", "a", "b", "</s>")
    weights = torch.eye(4)[[0, 2, 1, 3]][None]  # a reads b, b reads a
    attention = AttentionMap("encoder", 0, "self", weights, Axis("token", labels), Axis("key", labels))
    tags = (Prediction(Site("piece", (0,)), "tag", "X", -0.1), Prediction(Site("piece", (1,)), "tag", "Y", -0.1))
    surface = (Surface("tokens", ("a", "b")),)
    for predictions, expected in ((tags[:1], (0.0, 1.0)), (tags[1:], (1.0, 0.0)), (tags, (0.5, 0.5))):
        observation = Observation(surface, predictions, (attention,))
        chosen = choose_attention(observation)
        assert chosen is not None and attention_strips(observation, chosen)[0].values == expected
    follow = (Prediction(Site("after", (1,)), "token", "c", -0.1),)
    observation = Observation(surface, follow, (attention,))
    chosen = choose_attention(observation)
    assert chosen is not None and attention_strips(observation, chosen)[0].values == (1.0, 0.0)


def test_a_gap_is_read_in_its_own_row_and_the_words_between_gaps_have_bars() -> None:
    labels = ("<s>", "___", "on", "the", "___", "</s>")
    attention = AttentionMap("encoder", 0, "self", torch.eye(6)[None], Axis("token", labels), Axis("key", labels))
    gaps = tuple(Prediction(Site("gap", (piece,)), "token", "x", -0.1) for piece in (0, 2))
    surface = (Surface("tokens", ("___", " on the ", "___")),)
    for predictions, row in ((gaps[:1], 1), (gaps[1:], 4)):
        observation = Observation(surface, predictions, (attention,))
        chosen = choose_attention(observation)
        assert chosen is not None
        (strip,) = attention_strips(observation, chosen)
        assert strip.labels == labels and strip.values == tuple(torch.eye(6)[row].tolist())


def test_two_texts_have_a_strip_each() -> None:
    labels = ("a", "b", "<sep>", "c")
    weights = torch.tensor([[[0.1, 0.2, 0.3, 0.4]]])
    pooling = AttentionMap("pooling", None, "", weights, Axis("answer", ("answer",)), Axis("token", labels))
    surfaces = Surface("tokens", ("a", "b", "<sep>")), Surface("tokens", ("c",))
    observation = Observation(surfaces, (Prediction(Site("whole"), "label", "x", -1.0),), (pooling,))
    chosen = choose_attention(observation)
    assert chosen is not None
    strips = [strip.values for strip in attention_strips(observation, chosen)]
    assert strips == [pytest.approx((0.1, 0.2, 0.3)), pytest.approx((0.4,))]


def test_bars_are_scaled_to_the_largest_and_signed() -> None:
    lines = draw_bars(["a", "bb", "c", "d"], [Bars("x", [0.5, -1.0, 0.0, None], 1.0), Bars("yy", [8, 1, 4, 2], 8)], 80)
    assert lines == ["    a bb c d", "x   ▄ --", "yy  █ ▁▁ ▄ ▂"]


@pytest.mark.parametrize("seed", range(5))
def test_equal_values_have_equal_bars_and_larger_ones_are_not_lower(seed: int) -> None:
    draw = random.Random(seed)
    values = sorted(draw.choice([draw.random(), 1 / 3, 0.25]) for _ in range(30))
    bars = draw_bars(["x"] * 30, [Bars("v", values, max(values))], 200)[1].removeprefix("v  ").split(" ")
    heights = ["▁▂▃▄▅▆▇█".index(bar) for bar in bars]
    assert heights == sorted(heights) and heights[-1] == 7
    assert len({bar for bar, value in zip(bars, values, strict=True) if value == 1 / 3}) <= 1


def test_a_long_input_keeps_its_order_and_its_scale() -> None:
    observation = sentence(100)
    text = drawn(observation)
    words = [word for word in text.split() if word.startswith("word")]
    assert words == [f"word{number}" for number in range(100)]
    assert "█ = 0.01 of the weight (pooling)" in text
    assert set(text.split("attention:")[0]) & set("▁▂▃▄▅▆▇") == set(), "equal weights have full bars"


def test_influence_has_its_own_row_and_unit() -> None:
    influence = Influence(0, 0, (0.0, 2.0, -1.0), "replaced by the unknown piece")
    observation = sentence(3, influences=(influence,))
    assert influence_strips(observation)[0].values == (0.0, 2.0, -1.0)
    text = drawn(observation)
    assert "influence        █████ -----" in text
    assert "█ = 2 nats: change of log p" in text and "(replaced by the unknown piece)" in " ".join(text.split())
    number = observation._replace(predictions=(Prediction(Site("whole"), "number", "3.6"),))
    assert "█ = 2: change of the number" in drawn(number) and "nats" not in drawn(number)


def test_hidden_cells_are_marked_and_the_scale_is_printed() -> None:
    labels = ("a", "b")
    weights = torch.tensor([[[0.5, 0.0], [0.25, 0.25]]])
    allowed = torch.tensor([[True, False], [True, True]])
    attention = AttentionMap("decoder", 0, "self", weights, Axis("reader", labels), Axis("read", labels), allowed)
    text = drawn(Observation((Surface("tokens", labels),), (), (attention,)))
    assert "rows: reader; columns: read; ··: masked" in text
    assert "0 a ██··\n1 b ▒▒▒▒" in text and "██ = 0.5 of the weight" in text


def test_each_form_of_an_answer_against_lines_written_by_hand() -> None:
    words = (Surface("tokens", ("the", "doggy", "runs"), separator=" "),)
    tags = tuple(Prediction(Site("piece", (at,)), "tag", tag, -0.1) for at, tag in enumerate(("DET", "N", "VERB")))
    assert drawn(Observation(words, tags)) == "the  doggy  runs\nDET  N      VERB"
    text = (Surface("tokens", ("the ", "___", " sat\nhere")),)
    best = (Alternative("cat", math.log(0.75)), Alternative("dog", math.log(0.25)))
    filled = Prediction.best(Site("gap", (1,)), "token", best)
    assert drawn(Observation(text, (filled,))) == "the [cat] sat\nhere\n\ncat   75.0 %  dog 25.0 %"
    ranked = f"cat   75.0 %  {'█' * 18}\ndog   25.0 %  {'█' * 6}"
    assert drawn(Observation(words, (Prediction.best(Site("whole"), "label", best),))) == ranked
    graph = (Surface("graph", ("ann", "bob"), edges=((0, 1),)),)
    assert drawn(Observation(graph, (Prediction.best(Site("node", (1,)), "label", best),))) == f"node bob\n{ranked}"
    link = Prediction.best(Site("pair", (0, 1)), "link", best)
    assert drawn(Observation(graph, (link,))) == f"nodes ann – bob\n{ranked}"
    item = Prediction.best(Site("after", (2,)), "item", best)
    assert drawn(Observation(words, (item,))) == f"after runs\n{ranked}"
    assert drawn(Observation(words, (Prediction(Site("whole"), "number", "3.6"),))) == "3.6"


def test_a_model_without_attention_has_an_answer_and_influence() -> None:
    influence = Influence(0, 0, (1.0, 0.5), "hidden")
    observation = sentence(2, influences=(influence,))._replace(attention=())
    text = drawn(observation)
    assert text.startswith("good") and "influence" in text and "attention" not in text
    with pytest.raises(ConfigError, match="no attention"):
        drawn(observation, head="encoder.0.self")
