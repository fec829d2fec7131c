"""Checks of the arguments of estimators, which raise ValueError as scikit-learn does, and names of classes in a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from regard.core.columns import is_table
from regard.core.wording import pluralize


def listed_examples(X: Any, example: str, accepts: Callable[[Any], bool]) -> list[Any]:
    """Return the examples of an argument as a list.

    Args:
        X: any iterable of examples.
        example: the noun with its article, such as ``a text``.
        accepts: whether an object is an example.

    Raises:
        ValueError: for another object, no example, or a wrong one, with its index.
    """
    if isinstance(X, str | bytes) or is_table(X) or not isinstance(X, Iterable) or getattr(X, "ndim", 1) != 1:
        shape = f" of shape {X.shape}" if hasattr(X, "shape") else ""
        raise ValueError(f"expected an iterable with {example} for each example, found {type(X).__name__}{shape}")
    to_list = getattr(X, "to_pylist", None)  # arrays of pyarrow, whose elements are no Python values
    examples = list(X) if to_list is None else list(to_list())
    if not examples:
        raise ValueError("found 0 examples; at least 1 is required")
    for index, one in enumerate(examples):
        if not accepts(one):
            raise ValueError(f"expected {example} as X[{index}], found {type(one).__name__}")
    return examples


def labels_of(y: Any, examples: int) -> npt.NDArray[Any]:
    """Return labels as an array. Raises ValueError unless there is one for each example."""
    if y is None:
        raise ValueError("this estimator requires y to be passed, but the target y is None")
    labels: npt.NDArray[Any] = column_or_1d(y, warn=True)
    require_equal_lengths(examples, len(labels))
    check_classification_targets(labels)
    return labels


def require_equal_lengths(examples: int, targets: int) -> None:
    """Raise ValueError unless X and y have equal lengths."""
    if examples != targets:
        raise ValueError(f"X has {pluralize(examples, 'example')}, and y has {targets:,}")


def require_classes(classes: npt.NDArray[Any]) -> None:
    """Raise ValueError for fewer than two classes."""
    if len(classes) < 2:
        raise ValueError(f"y has {pluralize(len(classes), 'class', 'classes')}; training needs at least 2")


def class_names(classes: npt.NDArray[Any]) -> list[str]:
    """Return the name of each class in a run: its text, or its number if the texts are no distinct names."""
    names = [str(one) for one in classes.tolist()]
    clear = all(name and name.isprintable() and name == name.strip() for name in names)
    return names if clear and len({*names}) == len(names) else [f"class-{number}" for number in range(len(names))]
