"""The run folder: where everything of one training lives, and how it is opened again.

runs/m30k/
    config.toml         the config, resolved: nothing left to defaults
    plan.json           what was measured or counted once: number format, steps, sizes of the vocabularies
    environment.json    versions, processor, threads
    tokenizer/          joint.* or source.* and target.*
    data/               token arrays, memory-mapped; may be deleted once training is over
    metrics.jsonl       one line an update and a validation
    checkpoints/        step-000500/, best.json, average/
    lock                held by the process that trains
    README.md           the model card
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pydantic import TypeAdapter

from regard.core import VERSION, atomic_files
from regard.core.task import Task, find_task
from regard.core.untrusted_files import SMALL, parse_json, read_bytes
from regard.core.wording import describe_error, did_you_mean
from regard.errors import ConfigError, ModelError, RegardError
from regard.runs import checkpoint
from regard.runs.config import dump_config, load_config
from regard.runs.plan import Count, Plan
from regard.runs.run_config import RunConfig


class CheckpointChoice(NamedTuple):
    """One checkpoint, by the name it goes under and the steps it is made of."""

    name: str  # average, best, last or step
    path: Path
    steps: list[int]

    def __str__(self) -> str:
        numbers = ", ".join(f"{step:,}" for step in self.steps)
        if self.name == "step":
            return f"step {numbers}"
        return f"{self.name} (step{'s' if self.name == 'average' else ''} {numbers})"


class RunFolder:
    """Paths and files of one run; opening it reads nothing but the config."""

    def __init__(self, path: Path, config: RunConfig) -> None:
        self.path, self.config = path, config
        self.checkpoints = path / "checkpoints"
        self.tokenizers = path / "tokenizer"
        self.data = path / "data"

    @classmethod
    def create(cls, path: Path, config: RunConfig) -> RunFolder:
        """A new run; refuses a folder that holds anything, and one in which another process begins a run meanwhile."""
        occupied = path.exists() and (not path.is_dir() or any(path.iterdir()))
        if not occupied:
            with atomic_files.explain_os_errors(path):
                path.mkdir(parents=True, exist_ok=True)
            # The folder belongs to the process that gives the config its name, whatever others looked at before.
            occupied = not atomic_files.publish_first(path / "config.toml", [dump_config(config).encode()])
        if occupied:
            raise ConfigError(f"{path} exists already", where=str(path), help=_beside(path))
        atomic_files.write_json(path / "environment.json", environment())
        return cls(path, config)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        if not (path / "config.toml").is_file():
            raise ModelError(
                f"{path} is no run folder",
                where=str(path / "config.toml"),
                why="it holds no config.toml" if path.exists() else "there is no such folder",
                help=_runs_nearby(path),
            )
        return cls(path, load_config(path / "config.toml", saved=True))

    @property
    def task(self) -> Task:
        """The task of the config: a run folder names no other than those of the table (``load_config``)."""
        return find_task(self.config.task.kind)

    @property
    def contents(self) -> dict[str, str] | None:
        """The digest of each prepared part of the data; None before there is a plan."""
        plan = self.read_plan()
        return None if plan is None else plan.corpora

    @property
    def makes_codecs(self) -> bool:
        """Whether vocabularies are to be made of its data: none was made, and none came with another run's network."""
        return self.contents is None and self.config.origin is None

    def elsewhere(self) -> list[str]:
        """Differences between this machine and the one the run began on, in what decides the last bits of a figure."""
        try:
            began = self.read_environment()
        except (OSError, ValueError):
            return ["environment.json, which says where it began, cannot be read"]
        now = environment()
        keys = ("processor", "vector_instructions", "bfloat16_products", "accelerator", "torch")
        return [f"{key} was {began.get(key)}, is {now[key]}" for key in keys if began.get(key) != now[key]]

    def read_environment(self) -> dict[str, Any]:
        """The ``environment`` that the run began in. OSError or ValueError where it is missing or damaged."""
        return TypeAdapter(dict[str, Any]).validate_python(
            parse_json(read_bytes(self.path / "environment.json", SMALL))
        )

    def write_plan(self, plan: Plan) -> None:
        atomic_files.write_json(self.path / "plan.json", plan.model_dump())

    def read_plan(self) -> Plan | None:
        """The plan made when the run began; None where training never came so far."""
        path = self.path / "plan.json"
        if not path.exists():
            return None
        try:
            plan = Plan.model_validate_json(read_bytes(path, SMALL))
            self.config.check_sizes(plan.spec)
            return plan
        except (OSError, ValueError) as error:
            help = "copy the whole run folder again"
            why = describe_error(error)
            raise ModelError("plan.json is damaged", where=str(path), why=why, help=help) from error

    def weights(self, which: str | None = None) -> checkpoint.Checkpoint:
        """The weights of the checkpoint that ``weights_path`` finds."""
        return checkpoint.load(self.weights_path(which).path, only={"model"})

    def weights_path(self, which: str | None = None) -> CheckpointChoice:
        """The place of the checkpoint called ``which``: ``average``, ``best``, ``last`` or a step.

        Without a name, the first of these that exists. An average made before the last training does not count then:
        it would hide what was learned since.
        """
        folder = self.checkpoints
        best, steps = checkpoint.read_best(folder), checkpoint.list_steps(folder)
        best = best if best and best.step in steps else None  # the best one may have been removed by hand
        average, fresh = self._average(steps[-1] if steps else 0) if which in (None, "average") else ([], False)
        if which is None:
            which = "average" if fresh else "best" if best else "last"
        if which == "average":
            if not average and steps:
                help = f"regard average {self.path}"
                raise ModelError(f"{self.path} has no average checkpoint", where=str(folder), help=help)
            return CheckpointChoice(which, folder / "average", average)
        if which == "best" and best:
            step = best.step
        elif which == "last" and steps:
            step = steps[-1]
        elif which.isdecimal() and int(which) in steps:
            step = int(which)
        else:
            raise self._without(which, steps)
        return CheckpointChoice("step" if which.isdecimal() else which, checkpoint.step_path(folder, step), [step])

    def averaged(self) -> list[int]:
        """The steps of the average that is loaded by default; none where it is old, damaged or not there."""
        steps = checkpoint.list_steps(self.checkpoints)
        try:
            used, fresh = self._average(steps[-1] if steps else 0)
        except ModelError:
            return []
        return used if fresh else []

    def _without(self, which: str, steps: list[int]) -> ModelError:
        """The error for a checkpoint that is not there, with advice: to go on helps only where it would save one."""
        trained = bool(self.config.data.train)
        why = "training has not saved one yet" if trained else "it came without data to train on"
        help = f"regard train --resume {self.path}" if trained else None
        if steps:
            known = ["last", *(["best"] if checkpoint.read_best(self.checkpoints) else [])]
            help = f"--checkpoint {' or '.join(known)}; or a step: {', '.join(map(str, steps))}"
            meant = did_you_mean(which, ["average", "best", "last"])
            if which not in ("best", "last"):
                why = "a checkpoint is average, best, last or a step" + (f"; {meant}" if meant else "")
            elif trained and not self.config.data.valid:
                why = "this run validates on nothing, so that none is better than another"
        return ModelError(f"{self.path} has no {which} checkpoint", where=str(self.checkpoints), why=why, help=help)

    def _average(self, last: int) -> tuple[list[int], bool]:
        """The steps that were averaged, and whether none was saved after that."""
        path = self.checkpoints / "average"
        if not path.is_dir():
            return [], False
        state = checkpoint.load(path, only=()).state
        try:
            steps = TypeAdapter(list[Count]).validate_python(state.get("averaged", []), strict=True)
            newest = TypeAdapter(Count).validate_python(state.get("newest", max(steps, default=0)), strict=True)
        except ValueError as error:
            help = f"regard average {self.path} makes it anew"
            raise ModelError(
                "the average is damaged", where=str(path / "state.json"), why=str(error), help=help
            ) from error
        return steps, newest >= last

    @contextmanager
    def training(self) -> Iterator[None]:
        """Held while the run is trained; ModelError where another process does. A kill lets go of it too."""
        path = self.path / "lock"
        with ExitStack() as held:
            try:
                held.enter_context(atomic_files.locked(path))
            except BlockingIOError as error:
                raise ModelError(
                    "another process trains this run",
                    where=str(path),
                    help="wait for it, or stop it: what it has learned is saved",
                ) from error
            yield


def environment() -> dict[str, Any]:
    """The conditions of a figure: versions, processor features, threads, the time."""
    return {
        "regard": VERSION,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": platform.platform(),
        "processor": _processor(),
        "vector_instructions": torch.backends.cpu.get_cpu_capability(),
        "bfloat16_products": torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported(),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _beside(path: Path) -> str:
    """The advice for a folder that exists already: to go on, where it is a run that has data to go on with."""
    try:
        config = RunFolder.open(path).config
    except RegardError:
        return "--name OTHER"
    if not config.data.train:
        return f"it was not trained here, so it cannot go on; --name OTHER starts another beside {path}"
    return f"regard train --resume {path} goes on; --name OTHER starts another"


def _runs_nearby(path: Path) -> str | None:
    folders = dict.fromkeys(each for each in (path, path.parent, Path("runs")) if each.is_dir())
    names = sorted({str(each.parent) for folder in folders for each in folder.glob("*/config.toml")})
    return did_you_mean(path, names) or (f"runs here: {', '.join(names[:5])}" if names else None)
