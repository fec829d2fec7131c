"""Tags of tokens as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from regard.core.wording import pluralize
from regard.sklearn.checks import class_names, listed_examples, require_classes, require_equal_lengths
from regard.sklearn.run_estimator import RunEstimator


class SequenceTagger(RunEstimator):
    """A tagger of sentences as a scikit-learn estimator: ``SequenceTagger(epochs=10).fit(sentences, tags)``.

    A sentence is a list of tokens, and its target is a list with one tag for each token. Tags are of any type.

    Args:
        minutes: the time limit of training. Default: chosen by the amount of data.
        epochs: the number of epochs, as an alternative.
        preset: the size of the model, such as ``tiny`` or ``small``. Default: chosen by the amount of data.
        runs: the folder in which ``fit`` creates a run folder. Default: the run is temporary, and removed with the
            estimator.
        seed: the seed of training. Default: 1.
        settings: see ``TextClassifier``.

    Attributes:
        classes_: the tags, sorted.
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
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Train on sentences and their tags.

        Args:
            X: the sentences.
            y: the tags of each sentence.

        Raises:
            ValueError: for no sentences, other numbers of tags, or fewer than two different tags.
            DataError: for data that cannot be trained on.
        """
        sentences = sentences_of(X)
        tags = tags_of(y, sentences)
        flat = [tag for own in tags for tag in own]
        classes, numbers = np.unique(np.asarray(flat), return_inverse=True)
        require_classes(classes)
        names, following = class_names(classes), iter(numbers.tolist())
        encoded = [[names[next(following)] for _ in own] for own in tags]
        used = [number for number, sentence in enumerate(sentences) if sentence]  # an empty one teaches nothing
        self.classes_ = classes
        self._train([[list(sentences[n]) for n in used], [encoded[n] for n in used]], "tagging", {})
        return self

    def predict(self, X: Any) -> list[list[Any]]:
        """Return a list of tags for each sentence."""
        model = self._fitted_model()
        tags = dict(zip(class_names(self.classes_), self.classes_.tolist(), strict=True))
        return [[tags[name] for name in output.tags] for output in model.predict(sentences_of(X))]

    def score(self, X: Any, y: Any) -> float:
        """Return the accuracy over all tokens.

        Args:
            X: the sentences.
            y: the true tags of each sentence.
        """
        predicted, true = self.predict(X), tags_of(y, sentences_of(X))
        hits = [one == other for row, own in zip(predicted, true, strict=True)
                for one, other in zip(row, own, strict=True)]  # fmt: skip
        return float(np.mean(hits))


def sentences_of(X: Any) -> list[tuple[str, ...]]:
    """Return sentences as tuples of tokens, the inputs of a tagger. Raises ValueError for other objects."""
    sentences = listed_examples(X, "a list of tokens", lambda one: isinstance(one, list | tuple | np.ndarray))
    return [tuple(map(str, sentence)) for sentence in sentences]


def tags_of(y: Any, sentences: list[tuple[str, ...]]) -> list[list[Any]]:
    """Return the tags of each sentence. Raises ValueError unless there is one for each token."""
    if y is None:
        raise ValueError("this estimator requires y to be passed, but the target y is None")
    tags = [list(own) for own in y]
    require_equal_lengths(len(sentences), len(tags))
    for index, (sentence, own) in enumerate(zip(sentences, tags, strict=True)):
        if len(sentence) != len(own):
            raise ValueError(f"X[{index}] has {pluralize(len(sentence), 'token')}, and y[{index}] has {len(own):,}")
    return tags
