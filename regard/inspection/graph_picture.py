"""A drawing of a graph: the width of a link is the attention weight between its nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from regard.core.figure import COLORS
from regard.core.observation import Observation, Surface
from regard.errors import ConfigError
from regard.inspection.selection import ChosenAttention, influence_strips, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points = npt.NDArray[np.float64]
MAX_NODES = 64
STEPS = 200
MAX_SIDE = 18.0  # inches
WIDEST = 6.0  # points of a link with the largest weight
LABEL = 16  # letters


def layout(nodes: int, edges: Sequence[tuple[int, int]], center: int | None = None) -> Points:
    """Return the points (nodes, 2) of a graph: linked nodes attract and all nodes repel each other.

    The forces are those of Fruchterman and Reingold (1991): attraction d²/k, repulsion k²/d. The first points are on a
    circle, with ``center`` in the middle, so equal graphs have equal pictures.
    """
    angles = 2 * math.pi * np.arange(nodes) / max(nodes, 1)
    points = np.stack([np.cos(angles), np.sin(angles)], 1) * (1 + 0.01 * np.arange(nodes))[:, None]
    if center is not None:
        points[center] = 0.0
    length = 1.5 / math.sqrt(max(nodes, 1))
    linked = np.zeros((nodes, nodes), bool)
    for first, second in edges:
        linked[first, second] = linked[second, first] = first != second
    for step in range(STEPS):
        difference = points[:, None] - points[None]
        distance = np.maximum(np.linalg.norm(difference, axis=-1), 1e-6)
        force = length**2 / distance - np.where(linked, distance**2 / length, 0.0)
        np.fill_diagonal(force, 0.0)
        move = (difference / distance[..., None] * force[..., None]).sum(1)
        size = np.maximum(np.linalg.norm(move, axis=-1, keepdims=True), 1e-9)
        points = points + move / size * np.minimum(size, 0.1 * (1 - step / STEPS))
    return points - points.mean(0)


def draw_graph(figure: Figure, observation: Observation, chosen: ChosenAttention | None) -> None:
    """Draw a graph. The width of a link is its attention weight; the ring of a node is its influence.

    Raises:
        ConfigError: if the graph has more than ``MAX_NODES`` nodes.
    """
    surface = next(surface for surface in observation.surfaces if surface.kind == "graph")
    count = len(surface.pieces)
    if count > MAX_NODES:
        why = f"the limit is {MAX_NODES} nodes"
        raise ConfigError(f"a graph of {count:,} nodes cannot be drawn", where="--show", why=why)
    weights = _edge_weights(surface, chosen)
    points, largest = layout(count, surface.edges, surface.center), max(weights.values(), default=0.0)
    side = min(2.0 * math.sqrt(count) + 3.0, MAX_SIDE)
    figure.set_size_inches(side + 1.0, side)
    axes = figure.subplots()
    for first, second in dict.fromkeys(tuple(sorted(edge)) for edge in surface.edges):
        width = 1.0 if not largest else 0.5 + WIDEST * weights.get((first, second), 0.0) / largest
        axes.plot(*points[[first, second]].T, "-", color=COLORS[4], linewidth=width, zorder=1)
    values = [strip.values for strip in influence_strips(observation) if len(strip.values) == count]
    strongest = max((abs(value or 0.0) for value in values[0]), default=0.0) if values else 0.0
    for node, (x, y) in enumerate(points.tolist()):
        color = COLORS[1] if node == surface.center else COLORS[0]
        ring = 4 * abs((values[0][node] or 0.0) / strongest) if strongest else 0.0
        axes.scatter([x], [y], s=90, color=color, edgecolors=COLORS[5], linewidths=ring, zorder=2)
        dx, dy = _away(points, surface.edges, node)
        axes.annotate(
            _label(surface.pieces[node]), (x, y), xytext=(11 * dx, 11 * dy), textcoords="offset points", zorder=3,
            ha="left" if dx > 0.4 else "right" if dx < -0.4 else "center", va="center",
        )  # fmt: skip
    axes.margins(0.12)
    axes.set(xticks=[], yticks=[], xlabel=_scale(largest, strongest), aspect="equal")
    for spine in axes.spines.values():
        spine.set_visible(False)


def _away(points: Points, edges: Sequence[tuple[int, int]], node: int) -> tuple[float, float]:
    """Return the unit vector that points to the middle of the widest gap between the links of a node."""
    linked = {second if first == node else first for first, second in edges if node in (first, second)} - {node}
    if not linked:
        return 0.0, 1.0
    angles = sorted(math.atan2(*(points[neighbor] - points[node])[::-1]) for neighbor in linked)
    gaps = [(after - before, before) for before, after in pairwise([*angles, angles[0] + 2 * math.pi])]
    gap, before = max(gaps)
    return math.cos(before + gap / 2), math.sin(before + gap / 2)


def _label(piece: str) -> str:
    text = visible(piece)
    return text if len(text) <= LABEL else text[: LABEL - 1] + "…"


def _scale(largest: float, strongest: float) -> str:
    parts = ["positions have no meaning"]
    if largest:
        parts.insert(0, f"widest link: attention weight {largest:.2g}")
    if strongest:
        parts.insert(1, f"thickest ring: influence of {strongest:.2g} nats")
    return " · ".join(parts)


def _edge_weights(surface: Surface, chosen: ChosenAttention | None) -> dict[tuple[int, int], float]:
    """Return the larger weight of both directions of each link, by the indices of its nodes in ascending order."""
    if chosen is None:
        return {}
    numbers = {piece: number for number, piece in enumerate(surface.pieces)}
    weights: dict[tuple[int, int], float] = {}
    for query, row in zip(chosen.attention.query.labels, chosen.weights.tolist(), strict=True):
        for key, weight in zip(chosen.attention.key.labels, row, strict=True):
            if query in numbers and key in numbers:
                first, second = sorted((numbers[query], numbers[key]))
                weights[first, second] = max(weights.get((first, second), 0.0), weight)
    return {edge: weight for edge, weight in weights.items() if edge[0] != edge[1]}
