"""Regard trains, inspects and serves attention-based sequence models.

    import regard

    model = regard.load("runs/m30k")
    model("A dog runs.")
    regard.inspect("runs/m30k", "A dog runs.").show()

Importing this package is cheap and has no side effects: no torch, threads, loggers, signal handlers or seeds.
Names that need torch are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from regard.core import VERSION
from regard.errors import ConfigError, DataError, ModelError, RegardError, StorageError, TrainingError

if TYPE_CHECKING:
    from regard.answers.forecast_table import Forecast
    from regard.answers.label_set import LabelSet
    from regard.answers.next_item import Recommendation
    from regard.answers.number import NumberPrediction
    from regard.answers.one_class import Classification
    from regard.answers.plain_class import ClassPrediction
    from regard.answers.tagged_tokens import Tagging
    from regard.core.predictor import Predictor
    from regard.functions.files import predict_files
    from regard.functions.models import average, export, import_model
    from regard.functions.prediction import (
        classify,
        embed,
        fill,
        generate,
        harmonize,
        predict,
        recognize,
        recommend,
        tag,
        translate,
    )
    from regard.functions.scoring import score
    from regard.functions.series_and_graphs import anomalies, forecast, graphs, links, nodes
    from regard.functions.studies import compare, study
    from regard.functions.training import cross_validate, train
    from regard.inference.results import Translation
    from regard.inspection.inspector import inspect
    from regard.tasks.check import CheckReport, check
    from regard.tasks.cross_validation import CrossValidation
    from regard.tasks.evaluate import evaluate
    from regard.tasks.evaluation import Evaluation
    from regard.tasks.forecasting.predictor import ForecastPredictor
    from regard.tasks.graphs.task import GraphPredictor
    from regard.tasks.language_model.generator import Generator
    from regard.tasks.language_model.text_listener import Generated
    from regard.tasks.links.linker import BestLinks, Link, Linker
    from regard.tasks.load import load
    from regard.tasks.masked.filler import Filled, Filler
    from regard.tasks.nodes.classifier import NodeClass, NodeClassifier
    from regard.tasks.recognition.recognizer import Recognizer
    from regard.tasks.recognition.transcript import Transcript
    from regard.tasks.supervised_predictor import SupervisedPredictor
    from regard.tasks.translation.translator import Translator

# The module of each name, which is imported on first use.
_MODULES = {
    "BestLinks": "regard.tasks.links.linker",
    "CheckReport": "regard.tasks.check",
    "ClassPrediction": "regard.answers.plain_class",
    "Classification": "regard.answers.one_class",
    "CrossValidation": "regard.tasks.cross_validation",
    "Evaluation": "regard.tasks.evaluation",
    "Filled": "regard.tasks.masked.filler",
    "Filler": "regard.tasks.masked.filler",
    "Forecast": "regard.answers.forecast_table",
    "ForecastPredictor": "regard.tasks.forecasting.predictor",
    "Generated": "regard.tasks.language_model.text_listener",
    "Generator": "regard.tasks.language_model.generator",
    "GraphPredictor": "regard.tasks.graphs.task",
    "LabelSet": "regard.answers.label_set",
    "Link": "regard.tasks.links.linker",
    "Linker": "regard.tasks.links.linker",
    "NodeClass": "regard.tasks.nodes.classifier",
    "NodeClassifier": "regard.tasks.nodes.classifier",
    "NumberPrediction": "regard.answers.number",
    "Predictor": "regard.core.predictor",
    "Recognizer": "regard.tasks.recognition.recognizer",
    "Recommendation": "regard.answers.next_item",
    "SupervisedPredictor": "regard.tasks.supervised_predictor",
    "Tagging": "regard.answers.tagged_tokens",
    "Transcript": "regard.tasks.recognition.transcript",
    "Translation": "regard.inference.results",
    "Translator": "regard.tasks.translation.translator",
    "anomalies": "regard.functions.series_and_graphs",
    "average": "regard.functions.models",
    "check": "regard.tasks.check",
    "classify": "regard.functions.prediction",
    "compare": "regard.functions.studies",
    "cross_validate": "regard.functions.training",
    "embed": "regard.functions.prediction",
    "evaluate": "regard.tasks.evaluate",
    "export": "regard.functions.models",
    "fill": "regard.functions.prediction",
    "forecast": "regard.functions.series_and_graphs",
    "generate": "regard.functions.prediction",
    "graphs": "regard.functions.series_and_graphs",
    "harmonize": "regard.functions.prediction",
    "import_model": "regard.functions.models",
    "inspect": "regard.inspection.inspector",
    "links": "regard.functions.series_and_graphs",
    "load": "regard.tasks.load",
    "nodes": "regard.functions.series_and_graphs",
    "predict": "regard.functions.prediction",
    "predict_files": "regard.functions.files",
    "recognize": "regard.functions.prediction",
    "recommend": "regard.functions.prediction",
    "score": "regard.functions.scoring",
    "study": "regard.functions.studies",
    "tag": "regard.functions.prediction",
    "train": "regard.functions.training",
    "translate": "regard.functions.prediction",
}

__all__ = [
    "BestLinks",
    "CheckReport",
    "ClassPrediction",
    "Classification",
    "ConfigError",
    "CrossValidation",
    "DataError",
    "Evaluation",
    "Filled",
    "Filler",
    "Forecast",
    "ForecastPredictor",
    "Generated",
    "Generator",
    "GraphPredictor",
    "LabelSet",
    "Link",
    "Linker",
    "ModelError",
    "NodeClass",
    "NodeClassifier",
    "NumberPrediction",
    "Predictor",
    "Recognizer",
    "Recommendation",
    "RegardError",
    "StorageError",
    "SupervisedPredictor",
    "Tagging",
    "TrainingError",
    "Transcript",
    "Translation",
    "Translator",
    "anomalies",
    "average",
    "check",
    "classify",
    "compare",
    "cross_validate",
    "embed",
    "evaluate",
    "export",
    "fill",
    "forecast",
    "generate",
    "graphs",
    "harmonize",
    "import_model",
    "inspect",
    "links",
    "load",
    "nodes",
    "predict",
    "predict_files",
    "recognize",
    "recommend",
    "score",
    "study",
    "tag",
    "train",
    "translate",
]

__version__ = VERSION


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
