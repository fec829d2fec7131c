"""Estimators with the interface of scikit-learn: ``TextClassifier().fit(texts, labels).predict(texts)``."""

from __future__ import annotations

from regard.sklearn.classifiers import GraphClassifier, TextClassifier
from regard.sklearn.forecasts import Forecaster
from regard.sklearn.tagger import SequenceTagger

__all__ = ["Forecaster", "GraphClassifier", "SequenceTagger", "TextClassifier"]
