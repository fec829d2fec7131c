"""Vectors in a plane: neighbors stay neighbors, the same seed draws the same; and ``regard nodes --draw``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

import regard
from regard.cli import build_app
from regard.commands.nodes import _draw
from regard.errors import ConfigError
from regard.inspection.projection import MOST, can_project, chosen_places, draw_classes, project
from regard.tasks.graph_batch import graph_tensors
from regard.tasks.nodes.task import sample_graph

needs_sklearn = pytest.mark.skipif(not can_project(), reason="scikit-learn is not installed (the extra projection)")


def groups() -> tuple[np.ndarray, np.ndarray]:
    """Three clouds far apart in ten dimensions."""
    draw, label = np.random.default_rng(1), np.arange(60) % 3
    return 20 * np.eye(3, 10)[label] + draw.standard_normal((60, 10)), label


@needs_sklearn
def test_neighbors_stay_neighbors_and_a_seed_draws_the_same() -> None:
    vectors, label = groups()
    points = project(vectors)
    apart = np.square(points[:, None] - points[None]).sum(-1) + np.diag(np.full(60, np.inf))
    assert (label[apart.argmin(1)] == label).all()
    assert np.array_equal(points, project(vectors)) and project(vectors[:4, :1]).shape == (4, 2)


def test_too_few_vectors_are_refused() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (the extra projection)")
    with pytest.raises(ValueError, match="needs 4 vectors, not 3"):
        project(np.ones((3, 2)))


def test_of_many_so_many_are_chosen() -> None:
    assert chosen_places(7).tolist() == list(range(7))
    chosen = chosen_places(3 * MOST)
    assert len({*chosen.tolist()}) == MOST and np.array_equal(chosen, chosen_places(3 * MOST))
    assert abs(chosen.mean() / (3 * MOST) - 0.5) < 0.02


@pytest.fixture(scope="module", params=[None, 5], ids=["whole", "batches"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graph")
    corpus = sample_graph(folder)
    data = {"train": [corpus], "valid": [corpus], "batch_nodes": request.param}
    train = {"epochs": 1, "threads": 1, "precision": "float32"}
    return regard.train({"task": "nodes", "data": data, "model": {"heads": 2}, "train": train}, folder / "run")


def test_hidden_vectors_are_those_of_the_layer_before_the_last(run: Path) -> None:
    model = regard.load(run)
    found = model.hidden(np.array([4, 0, 11, 7, 3, 9]))
    assert found.shape == (6, 16)
    whole = model.net.states(*graph_tensors(model.graph))[0].detach().numpy()
    np.testing.assert_allclose(found, whole[[4, 0, 11, 7, 3, 9]], atol=1e-6)


def called(*arguments: object) -> Result:
    return CliRunner().invoke(build_app(), ["nodes", *map(str, arguments)])


@needs_sklearn
def test_the_picture_has_the_classes(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (the extra projection)")
    done = called(run, "--draw", tmp_path / "made")
    assert done.exit_code == 0 and "drew 12 labeled nodes" in done.stderr
    picture = (tmp_path / "made" / "figure.svg").read_text(encoding="utf-8")
    assert "left" in picture and "right" in picture
    assert (tmp_path / "made" / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_labeled_nodes_have_their_own_labels(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, drawn = regard.load(run), []
    labels = model.graph.labels.copy()
    labels[[0, 7]] = -1
    model.graph = replace(model.graph, labels=labels)
    for name, made in {
        "regard.core.figure.can_draw": lambda: True,
        "regard.inspection.projection.can_project": lambda: True,
        "regard.inspection.projection.project": lambda vectors: vectors,
        "regard.inspection.projection.draw_classes": lambda *given: drawn.append(given),
        "regard.core.figure.save_figure": lambda draw, folder, caption: draw(None) or [],
    }.items():
        monkeypatch.setattr(name, made)
    _draw(model, tmp_path)
    ((_, points, told, _, names),) = drawn
    kept = np.array([1, 2, 3, 4, 5, 6, 8, 9, 10, 11])
    assert told.tolist() == labels[kept].tolist() and np.array_equal(points, model.hidden(kept))
    assert names == [model.graph.name(node) for node in kept]


def test_without_the_library_it_says_how_to_get_it(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.inspection.projection.find_spec", lambda name: None)
    refused = called(run, "--draw", tmp_path).exception
    assert isinstance(refused, ConfigError) and refused.why == "scikit-learn"
    assert refused.help is not None and "projection" in refused.help
    refused = called(run, "--draw", tmp_path, "--json").exception
    assert isinstance(refused, ConfigError) and "cannot be combined" in refused.what


@pytest.mark.parametrize("classes", [3, 9])
def test_each_class_has_its_color_and_a_line_of_the_legend(classes: int) -> None:
    figures = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed (the extra projection)")
    figure, label = figures.Figure(layout="constrained"), np.arange(36) % classes
    draw_classes(figure, np.random.default_rng(1).random((36, 2)).astype(np.float32), label, [*"abcdefghi"[:classes]])
    (axes,) = figure.axes
    assert [each.get_label() for each in axes.collections] == [*"abcdefghi"[:classes]]
    assert len({tuple(each.get_facecolor()[0]) for each in axes.collections}) == classes
    assert sum(len(each.get_offsets()) for each in axes.collections) == 36
