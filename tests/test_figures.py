"""Figures hold the numbers that they were made of, and share one frame."""

from __future__ import annotations

import math
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.core.figure import COLORS, INK, Caption, write_figure
from regard.core.metric_figures import draw_counts, draw_notes
from regard.core.observation import AttentionMap, Axis, Influence, Observation, Prediction, Site, Surface
from regard.core.task import MetricTable
from regard.errors import ConfigError
from regard.inspection.document import Inspection
from regard.inspection.graph_picture import WIDEST, draw_graph, layout
from regard.inspection.pictures import available, draw_heads, draw_heat_map, draw_strips, save_picture
from regard.inspection.selection import ChosenAttention, Strip

pytest.importorskip("matplotlib", reason="matplotlib is not installed (the extra plot)")

WORDS = ("a", "fine", "film")


def drawn(draw: Any) -> Any:
    """Return the figure after a function has drawn in it."""
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    draw(figure)
    return figure


def attention(weights: torch.Tensor, allowed: torch.Tensor | None = None, labels: Any = WORDS) -> AttentionMap:
    return AttentionMap("encoder", 0, "edges", weights, Axis("query", labels), Axis("key", labels), allowed)


def test_a_bar_for_each_piece_is_as_high_as_its_value() -> None:
    values = tuple((-1) ** number * number / 7 for number in range(25))
    figure = drawn(partial(draw_strips, strips=[Strip(tuple(map(str, range(25))), values)], unit="nats"))
    heights = [bar.get_height() for axes in figure.axes for bar in axes.patches]
    assert heights == pytest.approx(values)
    assert {axes.get_ylim() for axes in figure.axes} == {figure.axes[0].get_ylim()}, "rows have different scales"
    labels = [label.get_text() for axes in figure.axes for label in axes.get_xticklabels()]
    assert labels == list(map(str, range(25)))


def test_a_heat_map_has_the_weights_and_hatches_the_mask() -> None:
    weights, allowed = torch.rand(2, 3, 3).tril(), torch.ones(3, 3).tril().bool()
    for head in (0, 1, None):
        chosen = ChosenAttention(attention(weights, allowed), head)
        axes = drawn(partial(draw_heat_map, chosen=chosen)).axes[0]
        expected = weights.mean(0) if head is None else weights[head]
        assert axes.images[0].get_array().tolist() == [pytest.approx(row) for row in expected.tolist()]
        assert sum(patch.get_width() for patch in axes.patches) == int((~allowed).sum())
        assert all(patch.get_hatch() for patch in axes.patches) and "masked" in axes.get_xlabel()
    axes = drawn(partial(draw_heat_map, chosen=ChosenAttention(attention(weights), None))).axes[0]
    assert not axes.patches and "masked" not in axes.get_xlabel()


def test_all_heads_have_one_scale() -> None:
    maps = (attention(torch.full((2, 3, 3), 0.2)), attention(torch.eye(3)[None])._replace(layer=1))
    figure = drawn(partial(draw_heads, observation=Observation((), (), maps)))
    images = [axes.images[0] for axes in figure.axes if axes.images]
    assert len(images) == 3 and {image.get_clim() for image in images} == {(0.0, 1.0)}


def test_links_are_as_wide_as_their_weights_in_either_direction() -> None:
    weights = torch.tensor([[[0.5, 0.5, 0.0], [0.1, 0.5, 0.4], [0.0, 0.2, 0.8]]])
    surface = Surface("graph", WORDS, edges=((0, 1), (1, 2), (2, 1)), center=1)
    observation = Observation((surface,), (), ())
    chosen = ChosenAttention(attention(weights), None)
    axes = drawn(partial(draw_graph, observation=observation, chosen=chosen)).axes[0]
    assert [line.get_linewidth() for line in axes.lines] == pytest.approx([0.5 + WIDEST, 0.5 + WIDEST * 0.4 / 0.5])
    assert [text.get_text() for text in axes.texts] == list(WORDS) and "0.5" in axes.get_xlabel()


@pytest.mark.parametrize("nodes", [1, 2, 5, 30])
def test_the_layout_is_deterministic_and_keeps_nodes_apart(nodes: int) -> None:
    edges = [(node, node + 1) for node in range(nodes - 1)]
    points = layout(nodes, edges)
    assert points.shape == (nodes, 2) and (points == layout(nodes, edges)).all()
    distances = [math.dist(one, other) for n, one in enumerate(points) for other in points[:n]]
    assert min(distances, default=1) > 0.1 / math.sqrt(nodes)


def test_a_confusion_matrix_has_counts_and_sizes_and_can_be_sorted() -> None:
    table = MetricTable(("label", "x", "y", "z"), (("x", 1, 0, 0), ("y", 2, 7, 1), ("z", 0, 3, 2)), square=True)
    for by_size, names in ((False, ["x", "y", "z"]), (True, ["y", "z", "x"])):
        axes, bars, _ = drawn(partial(draw_counts, table=table, by_size=by_size)).axes
        assert [label.get_text() for label in axes.get_yticklabels()] == names
        assert [label.get_text() for label in axes.get_xticklabels()] == names
        sizes = {"x": 1, "y": 10, "z": 5}
        assert [bar.get_width() for bar in bars.patches] == [sizes[name] for name in names]
        counts = {(row[0], name): row[1 + n] for row in table.rows for n, name in enumerate("xyz")}
        cells = {(names[round(text.get_position()[1])], names[round(text.get_position()[0])]): text.get_text()
                 for text in axes.texts}  # fmt: skip
        assert cells == {place: str(count) for place, count in counts.items()}


def test_notes_of_one_voice_have_one_color() -> None:
    axes = drawn(partial(draw_notes, frames=[(48, 60), (50, 60), (50, 62)], steps=1)).axes[0]
    bars = {
        (path.vertices[:, 0].min(), round(path.vertices[:, 1].mean())): tuple(collection.get_facecolor()[0])
        for collection in axes.collections
        for path in collection.get_paths()
    }
    assert len(bars) == 4 and len(set(bars.values())) == 2


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_equal_numbers_give_equal_bytes(kind: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.{kind}" for name in "ab"]
    for path in paths:
        write_figure(lambda figure: figure.subplots().plot([1, 2], [3, 4]), [path], Caption("title", "source"))
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_the_frame_has_title_and_source_and_no_black(tmp_path: Path) -> None:
    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for series in range(2 * len(COLORS)):
            axes.loglog([1, 4, 64], [series + 1] * 3, "o-"[series % 2 :], label=f"series {series}")
        axes.set(xlabel="width", ylabel="loss, nats")
        axes.legend()

    write_figure(draw, [tmp_path / "a.svg"], Caption("what · run · data · n = 3", "regard study"))
    svg = (tmp_path / "a.svg").read_text()
    assert ">what · run · data · n = 3<" in svg and ">regard study<" in svg and INK in svg
    assert not re.search(r"#000000|fill: #ffffff", svg), "black text, or a white ground"
    ticks = re.findall(r'id="xtick_\d+">.*?<text[^>]*>([^<]+)</text>', svg, re.DOTALL)
    assert ticks == ["1", "4", "64"], "ticks are not the measured values"


MODEL = {"name": "tiny", "task": "classification", "checkpoint": "best"}
DOCUMENT: dict[str, Any] = {"model": MODEL, "text": "a fine film"}


def test_the_picture_is_influence_if_it_is_known_otherwise_attention(tmp_path: Path) -> None:
    surface, prediction = (Surface("tokens", WORDS),), (Prediction(Site("whole"), "label", "good", -0.1),)
    maps, influences = (attention(torch.eye(3)[None]),), (Influence(0, 0, (0.1, 0.2, 0.3), "hidden"),)
    both = Observation(surface, prediction, maps, influences)
    assert available(both) == ["influence", "attention", "heads"]
    for observation, expected in ((both, "influence"), (both._replace(influences=()), "attention")):
        assert save_picture(observation, DOCUMENT, tmp_path / "a.svg", None, None) == expected
        svg = (tmp_path / "a.svg").read_text()
        assert "good 90.5 %" in svg and "input: a fine film" in svg and "tiny" in svg and "checkpoint best" in svg
    with pytest.raises(ConfigError, match="graph") as error:
        save_picture(both, DOCUMENT, tmp_path / "b.svg", "graph", None)
    assert error.value.why == "it has influence, attention, heads" and not (tmp_path / "b.svg").exists()
    with pytest.raises(ConfigError, match="format"):
        save_picture(both, DOCUMENT, tmp_path / "b.pdf", None, None)
    with pytest.raises(ConfigError) as error:
        save_picture(both, DOCUMENT, tmp_path / "b.svg", "attention", "encoder.7.edges")
    assert "encoder.0.edges" in str(error.value.why)


def test_music_is_drawn_with_its_filled_gaps(tmp_path: Path) -> None:
    surface = Surface("tokens", ("C3 G3\nC3 ", "___", "\n"))
    observation = Observation((surface,), (Prediction(Site("gap", (1,)), "token", "A4", -1.0),))
    assert available(observation) == ["roll"]
    Inspection.of(observation, MODEL, "C3").draw(tmp_path / "a.svg")
    assert ">C4<" in (tmp_path / "a.svg").read_text()
    assert available(Observation((Surface("tokens", ("hello",)),))) == []
