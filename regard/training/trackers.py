"""Reporters that write to experiment trackers: TensorBoard, MLflow, Weights & Biases and Trackio."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from regard.core.installation import extra_command
from regard.errors import ConfigError
from regard.training.progress import FAILED, NullReporter, Outcome, TrainingProgress, TrainingStart, Validation

FIGURES = ("loss", "nll", "rate", "norm")  # of an update
MLFLOW_BATCH = 100  # the limit of MLflow for parameters in one call


class Tracker(NullReporter):
    """Base of reporters that write named numbers to an experiment tracker.

    Args:
        every: updates between two records of training. The first update and all validations are always recorded.
    """

    def __init__(self, every: int = 10) -> None:
        self.every = every

    def updated(self, progress: TrainingProgress, steps: int | None, figures: dict[str, float]) -> None:
        if progress.step == 1 or progress.step % self.every == 0:
            self.record({f"train/{name}": figures[name] for name in FIGURES}, progress.step)

    def validated(self, progress: TrainingProgress, validation: Validation, best: bool) -> None:
        metrics = {f"validation/{name}": value for name, value in validation.metrics.items()}
        self.record({"validation/loss": validation.loss, **metrics}, progress.step)

    def record(self, figures: dict[str, float], step: int) -> None:
        """Write numbers of one step."""
        raise NotImplementedError


class TensorBoardReporter(Tracker):
    """Writes scalars and hyperparameters to the folder ``tensorboard`` of the run.

    Args:
        every: updates between two records of training.
    """

    def __init__(self, every: int = 1) -> None:
        super().__init__(every)
        self.writer_class = _library("torch.utils.tensorboard", "TensorBoard", "tensorboard").SummaryWriter

    def started(self, start: TrainingStart) -> None:
        purged = start.step + 1 if start.step else None  # steps that a killed session has written, but not saved
        self.writer = self.writer_class(str(start.folder / "tensorboard"), purge_step=purged)
        self.start, self.last = start, dict[str, float]()

    def record(self, figures: dict[str, float], step: int) -> None:
        for name, value in figures.items():
            self.writer.add_scalar(name, value, step)
        self.last |= figures

    def finished(self, outcome: Outcome) -> None:
        """Write the hyperparameters with the last value of each number, and close the file."""
        from torch.utils.tensorboard.summary import hparams

        for summary in hparams(hyperparameters(self.start), self.last):
            self.writer.file_writer.add_summary(summary)
        self.writer.close()


class MLflowReporter(Tracker):
    """Writes parameters and metrics to MLflow; a resumed training continues its MLflow run.

    Args:
        experiment: the name of the MLflow experiment.
        tracking_uri: the store; by default that of MLflow, such as ``MLFLOW_TRACKING_URI``.
        every: updates between two records of training.
    """

    def __init__(self, experiment: str = "regard", tracking_uri: str | None = None, every: int = 10) -> None:
        super().__init__(every)
        self.mlflow = _library("mlflow", "MLflow", "mlflow")
        self.experiment, self.tracking_uri = experiment, tracking_uri

    def started(self, start: TrainingStart) -> None:
        self.client = self.mlflow.MlflowClient(tracking_uri=self.tracking_uri)
        known = self.client.get_experiment_by_name(self.experiment)
        experiment = self.client.create_experiment(self.experiment) if known is None else known.experiment_id
        tag = identity(start.folder)
        if same := self.client.search_runs([experiment], f"tags.`regard.training` = '{tag}'", max_results=1):
            self.run_id = same[0].info.run_id
            self.client.update_run(self.run_id, status="RUNNING")
            return
        tags = {"regard.training": tag}
        self.run_id = self.client.create_run(experiment, tags=tags, run_name=start.folder.resolve().name).info.run_id
        parameters = [self.mlflow.entities.Param(name, str(value)) for name, value in hyperparameters(start).items()]
        for first in range(0, len(parameters), MLFLOW_BATCH):
            self.client.log_batch(self.run_id, params=parameters[first : first + MLFLOW_BATCH])

    def record(self, figures: dict[str, float], step: int) -> None:
        now = int(time.time() * 1000)
        metrics = [self.mlflow.entities.Metric(name, value, now, step) for name, value in figures.items()]
        self.client.log_batch(self.run_id, metrics=metrics)

    def finished(self, outcome: Outcome) -> None:
        status = "FINISHED" if outcome.is_complete else "FAILED" if outcome.reason == FAILED else "KILLED"
        self.client.set_tag(self.run_id, "regard.outcome", outcome.reason)
        self.client.set_terminated(self.run_id, status)


class WandbReporter(Tracker):
    """Writes the config and metrics to Weights & Biases; a resumed training continues its W&B run.

    Args:
        project: the name of the project.
        mode: ``online``, ``offline`` or ``disabled``; by default that of wandb, such as ``WANDB_MODE``.
        every: updates between two records of training.
    """

    def __init__(self, project: str = "regard", mode: str | None = None, every: int = 10) -> None:
        super().__init__(every)
        self.wandb, self.project, self.mode = _library("wandb", "Weights & Biases", "wandb"), project, mode

    def started(self, start: TrainingStart) -> None:
        self.run = self.wandb.init(
            project=self.project, id=identity(start.folder), name=start.folder.resolve().name, resume="allow",
            mode=self.mode, dir=str(start.folder), config=hyperparameters(start),
        )  # fmt: skip

    def record(self, figures: dict[str, float], step: int) -> None:
        self.run.log(figures, step=step)

    def finished(self, outcome: Outcome) -> None:
        self.run.summary["outcome"] = outcome.reason
        self.run.finish(exit_code=int(outcome.reason == FAILED))


class TrackioReporter(Tracker):
    """Writes the config and metrics to Trackio, on this machine unless its environment variables name a server.

    Args:
        project: the name of the project.
        every: updates between two records of training.
    """

    def __init__(self, project: str = "regard", every: int = 10) -> None:
        super().__init__(every)
        self.trackio, self.project = _library("trackio", "Trackio", "trackio"), project

    def started(self, start: TrainingStart) -> None:
        self.run = self.trackio.init(
            project=self.project, name=f"{start.folder.resolve().name}-{identity(start.folder)[:8]}", resume="allow",
            config=hyperparameters(start), embed=False, auto_log_gpu=False, auto_log_cpu=False,
        )  # fmt: skip

    def record(self, figures: dict[str, float], step: int) -> None:
        self.run.log(figures, step=step)

    def finished(self, outcome: Outcome) -> None:
        self.run.finish()


def hyperparameters(start: TrainingStart) -> dict[str, str | int | float | bool]:
    """Return the config as one table, such as ``train.learning_rate``, and the number of parameters."""
    return {**dict(_flat(start.config.model_dump(mode="json"))), "parameters": start.parameters}


def identity(folder: Path) -> str:
    """Return a name of the training in this run folder that is equal after it is resumed."""
    files = (folder / name for name in ("config.toml", "environment.json"))  # written once, with the time
    parts = (folder.resolve().name.encode(), *(path.read_bytes() for path in files))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str | int | float | bool]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value if isinstance(value, str | int | float | bool) else str(value)


def _library(module: str, name: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(f"{name} is not installed", help=extra_command(extra)) from error
