"""Served predictors of other tasks: a language model that nobody trained, and a task of one's own."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from regard.config.chat import ChatConfig
from regard.core.observation import AttentionMap, Axis, Observation, Surface
from regard.core.predictor_interface import PredictionInterrupted, PredictorInterface
from regard.errors import DataError
from regard.server.batching.jobs import Limits, SearchJob
from regard.server.batching.scheduler import Scheduler
from regard.server.batching.served import ServedModel
from regard.tasks.language_model.generator import Generator
from regard.tasks.language_model.text_listener import Generated

from ..inspection.language_models import generator


class Book(Generator):
    """A generator that reads and writes lines."""

    def read(self, line: str) -> str:
        return line

    def write(self, output: Generated, *, json: bool) -> str:
        text = output.prompt + output.text
        return dumps({"text": text, "prompt": output.prompt}) if json else text


def dumps(found: Any) -> str:
    return json.dumps(found)


def book(name: str = "book", *, waiting: int = 256, rows: int = 8, chats: bool = True, **model: Any) -> ServedModel:
    """Of the letters a to g and the newline, with 12 tokens of context; 30 tokens of length unless asked.

    ``chats``: its conversations have a line for each message.
    """
    made = generator(**model)
    chat = ChatConfig(user="{text}\n", assistant="{text}\n") if chats else None
    found = Book(made.model, made.tokenizer, made.settings, context=made.context, chat=chat)
    return ServedModel(
        name, task="language-model", serves={"generate"}, load_predictor=lambda: found, settings=found.settings,
        limits=Limits(rows=rows, waiting=waiting, patience=0, shares=True), threads=1,
        inspector=Inspecting(name, "language-model", lambda: found),  # type: ignore[arg-type]
    )  # fmt: skip


class Mean:
    """The mean of a line of numbers. ``gate``: each prediction waits for it, or until it is interrupted."""

    reads_json = True

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.done: list[str] = []
        self.stopped = 0
        self.threads: set[int] = set()
        self.interface = PredictorInterface("numbers", "their mean", None, self._predict)

    def read(self, line: str) -> list[float]:
        return [float(word) for word in line.strip("[]").replace(",", " ").split()]

    def write(self, output: float, *, json: bool) -> str:
        return str(output) if not json else dumps({"mean": output})

    def _predict(self, row: list[float], settings: None, interrupted: Callable[[], bool]) -> float:
        self.threads.add(threading.get_ident())
        while not self.gate.wait(0.01):
            if interrupted():
                self.stopped += 1
                raise PredictionInterrupted
        if row == [13.0]:
            raise RuntimeError("this model is broken, and the text is a secret")
        self.done.append(" ".join(map(str, row)))
        return sum(row) / len(row) if row else float("nan")

    def inspect(self, row: list[float]) -> Observation:
        labels = tuple(map(str, row))
        weights = torch.full((1, 1, len(row)), 1 / max(len(row), 1))
        attention = AttentionMap.at("attention", weights, Axis("mean", ("mean",)), Axis("number", labels))
        return Observation((Surface("items", labels, separator=" "),), attention=(attention,))


def mean(name: str = "mean", *, waiting: int = 256) -> tuple[ServedModel, Mean]:
    found = Mean()
    inspector: Any = Inspecting(name, "own:TASK", lambda: found)
    limits = Limits(waiting=waiting)
    return ServedModel(
        name, task="own:TASK", load_predictor=lambda: found, limits=limits, inspector=inspector
    ), found  # fmt: skip


class Following(Mean):
    """A forecaster that repeats the number of rows of its table; a table without a comma is wrong."""

    def read(self, line: str) -> list[float]:
        table = json.loads(line)["table"]
        if "," not in table:
            raise DataError("the table has no column of dates", where="the table")
        return [float(len(table.splitlines()))]

    def write(self, output: float, *, json: bool) -> str:
        return dumps({"date": ["2020-01-03"], "load": [output]})


def following(gate: threading.Event, name: str = "series") -> ServedModel:
    """Return a served forecaster whose predictions wait for a gate."""
    predictor = Following()
    predictor.gate = gate
    inspector: Any = Inspecting(name, "own:TASK", lambda: predictor)
    return ServedModel(
        name, task="own:TASK", serves={"forecast"}, load_predictor=lambda: predictor, limits=Limits(),
        inspector=inspector,
    )  # fmt: skip


class Inspecting:
    """What the server needs of a ``Inspector``, without a run folder."""

    def __init__(self, name: str, task: str, open: Callable[[], Any]) -> None:
        from types import SimpleNamespace

        from regard.inspection.inspector import Inspector

        config = SimpleNamespace(task=SimpleNamespace(kind=task), languages=(None, None))
        task_facts = SimpleNamespace(serves=frozenset())
        run: Any = SimpleNamespace(config=config, task=task_facts, is_baseline=lambda which=None: False)
        self._inner = Inspector(run, name=name, open=lambda which: open())
        self._inner.__dict__["checkpoint"] = "best"
        self.inspect = self._inner.inspect

    def checkpoints(self) -> list[str]:
        return ["best"]

    def details(self, interface: Any = None) -> dict[str, Any]:
        kind = self._inner.run.config.task.kind
        whole = {"name": self._inner.name, "task": kind, "source": None, "target": None, "examples": []}
        return whole | {"checkpoints": ["best"], "checkpoint": "best", "weights": {}, "parts": [], "curves": []}


class Halting(Scheduler):
    """A scheduler that stands still once its first text has ``allowed`` tokens; it admits none if that is negative."""

    allowed = 0

    def _admit(self) -> None:
        if self.allowed >= 0:
            super()._admit()
        else:
            time.sleep(0.002)

    def _advance(self) -> None:
        first = next(iter(self._running.values()), None)
        if isinstance(first, SearchJob) and first.input.listeners[0].count >= self.allowed:  # type: ignore[attr-defined]
            time.sleep(0.002)
        else:
            super()._advance()


def halting(name: str = "book", **options: int) -> tuple[ServedModel, Halting]:
    """A language model, of which a test says how far it goes."""
    served = book(name, **options)
    generator = served._load_predictor()
    scheduler = Halting(generator.decoding, served.limits)
    served._open = lambda: (generator, scheduler)  # type: ignore[method-assign]
    return served, scheduler
