"""MLflow: parameters and metrics of a training in a local store, and a query of them."""

import os

os.environ.setdefault("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")

import mlflow

import regard
from regard.training.trackers import MLflowReporter

TINY = {"steps": 5, "validate_every": 5, "threads": 1, "workers": 1}

texts, labels = ["a fine film", "a dull film"] * 40, ["good", "bad"] * 40
run = regard.train(
    texts, labels, valid=(texts[:8], labels[:8]), task="classification", name="reviews", train=TINY,
    reporter=MLflowReporter("reviews"),  # or train={"report": ["mlflow"]}
)  # fmt: skip
runs = mlflow.search_runs(experiment_names=["reviews"])
print(runs[["status", "metrics.validation/loss"]])
assert list(runs["status"]) == ["FINISHED"]
