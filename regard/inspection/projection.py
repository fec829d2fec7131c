"""Hidden vectors in two dimensions, by t-SNE of scikit-learn (the extra ``projection``), colored by class."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from regard.core.figure import COLORS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PERPLEXITY = 30.0
FEWEST = 4  # vectors
FEW = 500  # vectors with larger points
MOST = 5_000  # vectors, for which t-SNE takes about a minute


def can_project() -> bool:
    """Return whether scikit-learn is installed."""
    return find_spec("sklearn") is not None


def chosen_places(number: int, *, seed: int = 0) -> npt.NDArray[np.int64]:
    """Return all indices below ``number``, or ``MOST`` of them, drawn by the seed."""
    every = np.arange(number)
    return every if number <= MOST else np.sort(np.random.default_rng(seed).permutation(every)[:MOST])


def project(vectors: npt.NDArray[np.floating[Any]], *, seed: int = 0) -> npt.NDArray[np.float32]:
    """Return points (vectors, 2) with the neighborhoods of vectors (x, features): t-SNE (van der Maaten & Hinton 2008).

    Perplexity 30, or a third of the number of vectors if that is less; initialized by PCA and ``seed``. Distances
    between groups and sizes of groups have no meaning. Raises ValueError for fewer than 4 vectors.
    """
    from sklearn.manifold import TSNE

    if len(vectors) < FEWEST:
        raise ValueError(f"t-SNE needs {FEWEST} vectors, not {len(vectors)}")
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    begin = "pca" if vectors.shape[1] > 1 else "random"
    points = TSNE(2, perplexity=perplexity, init=begin, random_state=seed).fit_transform(vectors.astype(np.float32))
    return np.asarray(points, np.float32)


def draw_classes(
    figure: Figure, points: npt.NDArray[np.float32], labels: npt.NDArray[np.int64], classes: Sequence[str],
    names: Sequence[str] = (),
) -> None:  # fmt: skip
    """Draw points in the color of their class, with their names if given.

    Axes have no numbers, because they would have no meaning.
    """
    import matplotlib

    figure.set_size_inches(7.5, 6)
    axes = figure.subplots()
    colors = COLORS if len(classes) <= len(COLORS) else tuple(matplotlib.colormaps["tab20"](range(20)))
    for number, name in enumerate(classes):
        own = points[labels == number]
        color = colors[number % len(colors)]
        axes.scatter(own[:, 0], own[:, 1], s=30 if len(points) <= FEW else 9, color=color, label=name, linewidths=0)
    for (x, y), name in zip(points, names, strict=False):
        axes.annotate(name, (float(x), float(y)), xytext=(4, 4), textcoords="offset points", fontsize=7)
    axes.set(xticks=[], yticks=[], xlabel="first t-SNE dimension, no unit", ylabel="second t-SNE dimension, no unit")
    axes.spines[:].set_visible(False)
    figure.legend(loc="outside right upper", markerscale=2)
