"""Every SVG of the repository and of the commands, measured in Chromium: legible text, distinct series, named axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from regard.comparison.results import draw, summarize
from regard.core.figure import COLORS, Caption, can_draw, write_figure
from regard.core.metric_figures import draw_calibration, draw_counts, draw_notes
from regard.core.task import MetricTable, find_task
from regard.core.task_table import TASKS
from regard.errors import ConfigError
from regard.inspection.curve_figure import draw_curves
from regard.inspection.document import Inspection
from regard.inspection.graph_picture import draw_graph
from regard.inspection.inspector import inspect
from regard.inspection.pictures import available, draw_heads, draw_strips
from regard.inspection.projection import draw_classes
from regard.inspection.selection import Strip
from regard.runs.run_folder import RunFolder

from ..inspection.number_observations import OBSERVATIONS
from ..svg_faults import svg_faults
from .test_page import CHROMIUM, browser, playwright  # noqa: F401 - the browser, a fixture

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt install chromium"),
    pytest.mark.skipif(not can_draw(), reason="matplotlib is not installed"),
]
ROOT = Path(__file__).parents[2]
LONG = Caption("a long title · " * 12 + "end", "a long source · " * 20 + "end")

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 100" width="200" height="100" font-size="12">'
SERIES = '<g id="line2d_{}"><path d="M 10 {} h 20" style="fill: none; stroke: #0072b2; stroke-dasharray: {}"/></g>'
BROKEN = {
    "outside the picture: word": '<text x="185" y="50">word</text>',
    "touching: one | two": '<text x="20" y="50">one</text><text x="38" y="50">two</text>',
    "leaves its box: too wide": '<rect x="20" y="20" width="40" height="30"/><text x="12" y="40">too wide</text>',
    "two series of the look rgb(0, 114, 178) none": '<g id="legend_1">'
    + SERIES.format(1, 20, "none")
    + SERIES.format(2, 40, "none")
    + "</g>",
    "an axis without a name: 7": '<g id="matplotlib.axis_1"><g id="xtick_1"><text x="20" y="80">7</text></g></g>',
}
SOUND = {
    "rotated labels side by side": '<text x="40" y="50" transform="rotate(45 40 50)">label</text>'
    '<text x="60" y="50" transform="rotate(45 60 50)">label</text>',
    "another dash": '<g id="legend_1">' + SERIES.format(1, 20, "none") + SERIES.format(2, 40, "4 2") + "</g>",
    "a named axis": '<g id="matplotlib.axis_1"><g id="xtick_1"><text x="20" y="60">7</text></g>'
    '<g id="text_1"><text x="20" y="90">steps</text></g></g>',
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_picture_has_its_fault_reported(fault: str, browser: Any) -> None:  # noqa: F811
    assert svg_faults(browser, f"{HEAD}{BROKEN[fault]}</svg>") == [fault]


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_picture_has_no_fault(name: str, browser: Any) -> None:  # noqa: F811
    assert svg_faults(browser, f"{HEAD}{SOUND[name]}</svg>") == []


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.svg")), ids=lambda path: path.stem)
def test_the_pictures_of_the_docs(path: Path, browser: Any) -> None:  # noqa: F811
    assert svg_faults(browser, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("kind", TASKS)
def test_the_pictures_of_an_input(kind: str, runs: dict[str, Path], browser: Any, tmp_path: Path) -> None:  # noqa: F811
    count = 0
    for line in find_task(kind).sample_lines[:2]:
        for influence in (True, False):
            with suppress(ConfigError):
                inspection = inspect(runs[kind], line, influence=influence)
                for picture in available(inspection.observation):
                    inspection.draw(tmp_path / "a.svg", picture)
                    assert svg_faults(browser, (tmp_path / "a.svg").read_text()) == [], picture
                    count += 1
    assert count


@pytest.mark.parametrize("kind", TASKS)
def test_the_training_curves(kind: str, runs: dict[str, Path], browser: Any, tmp_path: Path) -> None:  # noqa: F811
    write_figure(partial(draw_curves, run=RunFolder.open(runs[kind])), [tmp_path / "a.svg"], LONG)
    assert svg_faults(browser, (tmp_path / "a.svg").read_text()) == []


def square(classes: int, label: str = "label") -> MetricTable:
    names = [f"{label} {number}" for number in range(classes)]
    rows = tuple((name, *((row * 7 + column) % 50 for column in range(classes))) for row, name in enumerate(names))
    return MetricTable(("class", *names), rows, square=True)


def many_series(figure: Any) -> None:
    left, right = figure.subplots(1, 2)
    for series in range(3 * len(COLORS)):
        steps = [2**step for step in range(12)]
        left.loglog(steps, [step * (series + 1) for step in steps], marker="o", label=f"series {series}")
    left.set(xlabel="steps", ylabel="seconds")
    right.semilogx([1, 10, 11, 12, 1000], [1, 2, 3, 4, 5])
    right.set(xlabel="width", ylabel="nats")
    figure.legend(loc="outside right upper")


def comparison(figure: Any) -> None:
    member = {
        "state": "done", "value": 31.5, "parameters": 10**6, "updates": 100, "train_seconds": 60.0,
        "train_tokens_per_second": 5000.0, "decode_tokens_per_second": 300.0, "peak_memory": 10**8,
    }  # fmt: skip
    draw(figure, [summarize(f"a recipe with a long name {number}", [member]) for number in range(4)], "bleu")


def projected(figure: Any) -> None:
    import numpy as np

    points = np.array([[math.cos(node), math.sin(node)] for node in range(6)], np.float32)
    draw_classes(figure, points, np.array([0, 1, 2, 0, 1, 2]), ["a", "b", "c"], [f"node {node}" for node in range(6)])


BINS = MetricTable(("confidence", "accuracy", "examples"), ((0.4, 0.5, 3), (0.7, 0.6, 12), (0.97, 0.99, 2000)))
WORDS = Strip(tuple(f"a very long word {number}" for number in range(25)), tuple((-1) ** n * n for n in range(25)))
FIGURES: dict[str, Callable[[Any], None]] = {
    "two classes": partial(draw_counts, table=square(2)),
    "17 classes": partial(draw_counts, table=square(17, "a rather long label")),
    "40 classes": partial(draw_counts, table=square(40), by_size=True),
    "calibration": partial(draw_calibration, table=BINS),
    "notes": partial(draw_notes, frames=[(60, 64, 67), (60, 65), (), (48,)] * 40, steps=4),
    "strips": partial(draw_strips, strips=[WORDS, WORDS], unit="nats"),
    "many series": many_series,
    "comparison": comparison,
    "projection": projected,
}


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("caption", [Caption("a title", "a source"), LONG], ids=["short", "long"])
def test_the_figures_of_commands(name: str, caption: Caption, browser: Any, tmp_path: Path) -> None:  # noqa: F811
    write_figure(FIGURES[name], [tmp_path / "a.svg"], caption)
    assert svg_faults(browser, (tmp_path / "a.svg").read_text()) == []


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_surfaces_of_numbers(name: str, browser: Any, tmp_path: Path) -> None:  # noqa: F811
    observation = OBSERVATIONS[name]()
    inspection = Inspection.of(observation, {"name": name, "task": "some", "checkpoint": "best"}, "an input")
    pictures = available(observation)
    assert pictures[:2] == ["influence", "input"]
    for picture in pictures:
        inspection.draw(tmp_path / "a.svg", picture)
        assert svg_faults(browser, (tmp_path / "a.svg").read_text()) == [], picture


@pytest.mark.parametrize("nodes", [1, 2, 9, 20])
def test_graphs_and_heads_of_drawn_inputs(nodes: int, browser: Any, tmp_path: Path) -> None:  # noqa: F811
    import torch

    from regard.core.observation import AttentionMap, Axis, Observation, Surface
    from regard.inspection.selection import choose_attention

    names = tuple(f"node {node}" for node in range(nodes))
    edges = tuple((node, (node * 2 + 1) % nodes) for node in range(nodes)) if nodes > 1 else ()
    weights = torch.rand(4, nodes, nodes, generator=torch.Generator().manual_seed(nodes))
    maps = tuple(AttentionMap("encoder", n, "edges", weights, Axis("node", names), Axis("to", names)) for n in range(3))
    observation = Observation((Surface("graph", names, edges=edges),), (), maps)
    chosen = choose_attention(observation)
    for drawing in (partial(draw_graph, chosen=chosen), draw_heads):
        write_figure(partial(drawing, observation=observation), [tmp_path / "a.svg"], LONG)
        assert svg_faults(browser, (tmp_path / "a.svg").read_text()) == []
