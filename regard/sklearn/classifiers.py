"""Classifiers of texts and of graphs as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin

from regard.sklearn.checks import class_names, labels_of, listed_examples, require_classes
from regard.sklearn.run_estimator import RunEstimator

LABEL_KEYS = ("label", "y")  # of graphs: the label is an argument of its own


class ClassEstimator(ClassifierMixin, RunEstimator):
    """A classifier whose predictor returns the probabilities of all classes by name.

    Attributes:
        classes_: the classes, sorted.
    """

    classes_: npt.NDArray[Any]

    def _inputs(self, X: Any) -> list[Any]:
        """Return the inputs of the predictor. Raises ValueError for other objects."""
        raise NotImplementedError

    def _encode(self, y: Any, examples: int) -> list[str]:
        """Set the classes, and return the name of the class of each example."""
        classes, numbers = np.unique(labels_of(y, examples), return_inverse=True)
        require_classes(classes)
        self.classes_, names = classes, class_names(classes)
        return [names[number] for number in numbers]

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the probability of each class, (examples, classes), in the order of ``classes_``."""
        model, names = self._fitted_model(), class_names(self.classes_)
        outputs = model.predict(self._inputs(X))
        p = np.array([[output.probabilities[name] for name in names] for output in outputs], np.float64)
        return np.asarray(p / p.sum(1, keepdims=True))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most likely class of each example."""
        best = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[best])


class TextClassifier(ClassEstimator):
    """A classifier of texts as a scikit-learn estimator: ``TextClassifier(minutes=5).fit(texts, labels)``.

    The texts are any iterable of ``str``, and the labels are of any type. A tenth of the texts, selected by a hash,
    is the validation data.

    Args:
        minutes: the time limit of training. Default: chosen by the amount of data.
        epochs: the number of epochs, as an alternative.
        preset: the size of the model, such as ``tiny`` or ``small``. Default: chosen by the amount of data.
        runs: the folder in which ``fit`` creates a run folder. Default: the run is temporary, and removed with the
            estimator.
        seed: the seed of training. Default: 1.
        settings: sections and keys of the config, nested or dotted: ``{"train": {"threads": 1}}``,
            ``{"train.threads": 1}``. The other parameters take precedence.

    Attributes:
        classes_: the labels, sorted.
        run_: the run folder.
        model_: the predictor that ``regard.load`` returns for it.
    """

    classes_: npt.NDArray[Any]
    run_: Path
    model_: Any

    def __init__(
        self,
        *,
        minutes: float | None = None,
        epochs: int | None = None,
        preset: str | None = None,
        runs: str | Path | None = None,
        seed: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.minutes = minutes
        self.epochs = epochs
        self.preset = preset
        self.runs = runs
        self.seed = seed
        self.settings = settings

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Train on texts and their labels.

        Args:
            X: the texts.
            y: a label for each text.

        Raises:
            ValueError: for no texts, another number of labels, or fewer than two classes.
            DataError: for data that cannot be trained on.
        """
        texts = self._inputs(X)
        self._train([texts, self._encode(y, len(texts))], "classification", {"data.label_kind": "class"})
        return self

    def _inputs(self, X: Any) -> list[Any]:
        return [str(text) for text in listed_examples(X, "a text", lambda text: isinstance(text, str))]


class GraphClassifier(ClassEstimator):
    """A classifier of whole graphs as a scikit-learn estimator: ``GraphClassifier(epochs=100).fit(graphs, labels)``.

    A graph is a dict, as in a line of a file of graphs: ``{"edges": [[0, 1], [1, 2]]}``, with ``nodes`` or
    ``features``. Its keys ``label`` and ``y`` are not read.

    Args:
        minutes: the time limit of training. Default: chosen by the amount of data.
        epochs: the number of epochs, as an alternative.
        runs: the folder in which ``fit`` creates a run folder. Default: the run is temporary, and removed with the
            estimator.
        seed: the seed of training. Default: 1.
        settings: see ``TextClassifier``.

    Attributes:
        classes_: the labels, sorted.
        run_: the run folder.
        model_: the predictor that ``regard.load`` returns for it.
    """

    classes_: npt.NDArray[Any]
    run_: Path
    model_: Any

    def __init__(
        self,
        *,
        minutes: float | None = None,
        epochs: int | None = None,
        runs: str | Path | None = None,
        seed: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.minutes = minutes
        self.epochs = epochs
        self.runs = runs
        self.seed = seed
        self.settings = settings

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.dict = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Train on graphs and their labels.

        Args:
            X: the graphs.
            y: a label for each graph.

        Raises:
            ValueError: for no graphs, another number of labels, or fewer than two classes.
            DataError: for data that cannot be trained on.
        """
        graphs = self._inputs(X)
        labels = self._encode(y, len(graphs))
        rows = [{**graph, "label": label} for graph, label in zip(graphs, labels, strict=True)]
        self._train([rows], "graphs", {"data.label_kind": "class"})
        return self

    def _inputs(self, X: Any) -> list[Any]:
        graphs = listed_examples(X, "a graph", lambda graph: isinstance(graph, Mapping))
        return [{key: _plain(graph[key]) for key in graph if key not in LABEL_KEYS} for graph in graphs]


def _plain(value: Any) -> Any:
    """Return an array as lists, which a line of JSON can hold."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
