"""The run folder: all files of one training, and how it is opened.

Files of ``runs/m30k/``:

    config.toml         the resolved config, with all values
    plan.json           values measured or counted once: number format, steps, vocabulary sizes
    environment.json    versions, processor, threads
    inputs/             rows that a Python program passed to regard.train, as files
    tokenizer/          joint.* or source.* and target.*
    data/               token arrays, memory-mapped, and examples.json; may be deleted after training
    metrics.jsonl       one line per update and validation
    checkpoints/        step-000500/, best.json, average/
    choice.json         figures of the choice between the network and the baseline alone, if it was made
    comparison.json     the network compared with its baseline on the validation data, with standard errors
    lock                held by the training process
    README.md           the model card
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pydantic import TypeAdapter

from regard.core import VERSION, atomic_files
from regard.core.baseline import FOLDER
from regard.core.task import Task, find_task
from regard.core.untrusted_files import SMALL, parse_json, read_bytes
from regard.core.wording import describe_error, did_you_mean
from regard.errors import ConfigError, ModelError, RegardError
from regard.runs import checkpoint
from regard.runs.baseline_choice import BASELINE, read_choice
from regard.runs.config import dump_config, load_config
from regard.runs.foreign_folders import foreign_help
from regard.runs.plan import Count, Plan
from regard.runs.plugins import recorded, require_plugins
from regard.runs.run_config import RunConfig

INPUTS = "inputs"  # folder of data that a program held in memory


class CheckpointChoice(NamedTuple):
    """One checkpoint: the name by which it was selected, and the steps that it consists of.

    Attributes:
        name: average, best, last, step or baseline.
        path: its folder.
        steps: the steps that it consists of: several for an average.
        memory: whether the baseline's outputs are used for near inputs.
    """

    name: str
    path: Path
    steps: list[int]
    memory: bool = False

    def __str__(self) -> str:
        if self.name == BASELINE:
            return self.name
        numbers, memory = ", ".join(f"{step:,}" for step in self.steps), " with memory" if self.memory else ""
        if self.name == "step":
            return f"step {numbers}{memory}"
        return f"{self.name} (step{'s' if self.name == 'average' else ''} {numbers}){memory}"


class RunFolder:
    """Paths and files of one run; opening it reads only the config.

    Args:
        path: the folder.
        config: its config.
    """

    def __init__(self, path: Path, config: RunConfig) -> None:
        self.path, self.config = path, config
        self.checkpoints = path / "checkpoints"
        self.tokenizers = path / "tokenizer"
        self.data = path / "data"

    @classmethod
    def create(cls, path: Path, config: RunConfig) -> RunFolder:
        """Create a new run, and write its config.

        Args:
            path: the folder, which must be missing, or empty except for ``INPUTS``.
            config: the config.

        Raises:
            ConfigError: for a folder with files, or one in which another process creates a run.
        """
        occupied = path.exists() and (not path.is_dir() or any(child.name != INPUTS for child in path.iterdir()))
        if not occupied:
            with atomic_files.explain_os_errors(path):
                path.mkdir(parents=True, exist_ok=True)
            # The folder belongs to the process that first publishes the config, even if others found it empty before.
            occupied = not atomic_files.publish_first(path / "config.toml", [dump_config(config).encode()])
        if occupied:
            raise ConfigError(f"{path} already exists", where=str(path), help=_help_for_existing(path))
        plugins = recorded(config.model_dump(mode="json", exclude_none=True))
        atomic_files.write_json(path / "environment.json", environment() | ({"plugins": plugins} if plugins else {}))
        return cls(path, config)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a run. Raises ModelError if the folder is not a run."""
        if not (path / "config.toml").is_file():
            raise ModelError(
                f"{path} is not a run folder",
                where=str(path / "config.toml"),
                why="it has no config.toml" if path.exists() else "the folder does not exist",
                help=foreign_help(path) or _runs_nearby(path),
            )
        with suppress(OSError, ValueError):  # old runs, and damaged files that nothing else needs
            require_plugins(read_environment(path).get("plugins"), str(path))
        return cls(path, load_config(path / "config.toml", saved=True))

    @property
    def task(self) -> Task:
        """The task of the config, which is always in the table of tasks (``load_config``)."""
        return find_task(self.config.task.kind)

    @property
    def contents(self) -> dict[str, str] | None:
        """The digest of each prepared part of the data; None before the plan exists."""
        plan = self.read_plan()
        return None if plan is None else plan.corpora

    @property
    def makes_codecs(self) -> bool:
        """True if vocabularies must be created from the data: the run neither made nor inherited one."""
        return self.contents is None and self.config.origin is None

    def environment_changes(self) -> list[str]:
        """Return differences from the environment in which the run began that affect the last bits of results."""
        try:
            began = self.read_environment()
        except (OSError, ValueError):
            return ["environment.json, the environment in which the run began, is unreadable"]
        now = environment()
        keys = ("processor", "vector_instructions", "bfloat16_products", "accelerator", "torch")
        return [f"{key} was {began.get(key)}, is {now[key]}" for key in keys if began.get(key) != now[key]]

    def read_environment(self) -> dict[str, Any]:
        """Return the ``environment`` in which the run began. OSError or ValueError if it is missing or damaged."""
        return read_environment(self.path)

    def write_plan(self, plan: Plan) -> None:
        atomic_files.write_json(self.path / "plan.json", plan.model_dump(by_alias=True))

    def read_plan(self) -> Plan | None:
        """Return the plan from the start of the run; None if training did not get this far."""
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
        """Load the weights of the checkpoint that ``weights_path`` selects."""
        return checkpoint.load(self.weights_path(which).path, only={"model"})

    def is_baseline(self, which: str | None = None) -> bool:
        """Return whether ``which`` is the baseline alone: by its name, or by default if the run chose it."""
        if which is not None:
            return which == BASELINE
        choice = read_choice(self.path)
        return choice is not None and choice.is_baseline

    def uses_memory(self) -> bool:
        """Return whether the default model uses the saved baseline for near inputs (``BaselineChoice.memory``)."""
        choice = read_choice(self.path)
        return choice is not None and choice.uses_memory and (self.path / FOLDER).is_dir()

    def selected(self, which: str | None = None) -> CheckpointChoice:
        """Return the checkpoint called ``which``, as ``network_path`` does, or the folder of the baseline alone."""
        if not self.is_baseline(which):
            return self.network_path(which)._replace(memory=which is None and self.uses_memory())
        folder = self.path / FOLDER
        if not folder.is_dir():
            help = "copy the whole run folder again, or use the network: --checkpoint best"
            raise ModelError("the baseline of the run is missing", where=str(folder), help=help)
        return CheckpointChoice(BASELINE, folder, [])

    def weights_path(self, which: str | None = None) -> CheckpointChoice:
        """Return the checkpoint called ``which``; ConfigError if it is the baseline alone, which has no network."""
        if self.is_baseline(which):
            raise self.without_network(which)
        return self.network_path(which)

    def without_network(self, which: str | None = None) -> ConfigError:
        """Return the error for the use of the network where the baseline alone is selected."""
        what = f"this requires a network, and the model of {self.path} is a simple baseline"
        choice = read_choice(self.path) if which is None else None
        by = "named as its checkpoint" if choice is None else f"chosen by {choice.figures}"
        why = f"the model is a simple baseline, {by}"
        return ConfigError(what, where=str(self.path), why=why, help="use the network: --checkpoint best")

    def network_path(self, which: str | None = None) -> CheckpointChoice:
        """Return the checkpoint of the network called ``which``: ``average``, ``best``, ``last`` or a step.

        By default, this is the first of these that exists. An average older than the last checkpoint is then ignored,
        as it lacks the latest updates.
        """
        folder = self.checkpoints
        best, steps = checkpoint.read_best(folder), checkpoint.list_steps(folder)
        best = best if best and best.step in steps else None  # the best checkpoint may have been removed manually
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
        """Return the steps of the average that is loaded by default; [] if it is outdated, damaged or missing."""
        steps = checkpoint.list_steps(self.checkpoints)
        try:
            used, fresh = self._average(steps[-1] if steps else 0)
        except ModelError:
            return []
        return used if fresh else []

    def _without(self, which: str, steps: list[int]) -> ModelError:
        """Return the error for a missing checkpoint, with advice: resuming is advised only if it would save one."""
        trained = bool(self.config.data.train)
        why = "training has not saved a checkpoint yet" if trained else "the model came without training data"
        help = f"regard train --resume {self.path}" if trained else None
        if steps:
            known = ["last", *(["best"] if checkpoint.read_best(self.checkpoints) else [])]
            help = f"--checkpoint {' or '.join(known)}; or a step: {', '.join(map(str, steps))}"
            meant = did_you_mean(which, ["average", "best", "last"])
            if which not in ("best", "last"):
                why = "a checkpoint is average, best, last or a step" + (f"; {meant}" if meant else "")
            elif trained and not self.config.data.valid:
                why = "this run has no validation data, so checkpoints are not compared"
        return ModelError(f"{self.path} has no {which} checkpoint", where=str(self.checkpoints), why=why, help=help)

    def _average(self, last: int) -> tuple[list[int], bool]:
        """Return the averaged steps, and whether no checkpoint is newer than the average."""
        path = self.checkpoints / "average"
        if not path.is_dir():
            return [], False
        state = checkpoint.load(path, only=()).state
        try:
            steps = TypeAdapter(list[Count]).validate_python(state.get("averaged", []), strict=True)
            newest = TypeAdapter(Count).validate_python(state.get("newest", max(steps, default=0)), strict=True)
        except ValueError as error:
            help = f"average again: regard average {self.path}"
            raise ModelError(
                "the average is damaged", where=str(path / "state.json"), why=str(error), help=help
            ) from error
        return steps, newest >= last

    @contextmanager
    def training(self) -> Iterator[None]:
        """Hold the lock of training; ModelError if another process holds it. The lock is released even by a kill."""
        path = self.path / "lock"
        with ExitStack() as stack:
            try:
                stack.enter_context(atomic_files.locked(path))
            except BlockingIOError as error:
                raise ModelError(
                    "another process is training this run",
                    where=str(path),
                    help="wait for it, or stop it; its progress is saved",
                ) from error
            yield


def read_environment(path: Path) -> dict[str, Any]:
    """Return the ``environment`` in a run folder. OSError or ValueError if it is missing or damaged."""
    return TypeAdapter(dict[str, Any]).validate_python(parse_json(read_bytes(path / "environment.json", SMALL)))


def environment() -> dict[str, Any]:
    """Return the conditions of a measurement: versions, processor features, threads, time."""
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


def _help_for_existing(path: Path) -> str:
    """Return the advice for an existing folder: resume it if it is a run with training data, or choose another name."""
    try:
        config = RunFolder.open(path).config
    except RegardError:
        return "choose another name: --name OTHER"
    if not config.data.train:
        return f"{path} has no training data and cannot be resumed; start another run: --name OTHER"
    return f"resume it: regard train --resume {path}; or start another run: --name OTHER"


def _runs_nearby(path: Path) -> str | None:
    folders = dict.fromkeys(folder for folder in (path, path.parent, Path("runs")) if folder.is_dir())
    names = sorted({str(config.parent) for folder in folders for config in folder.glob("*/config.toml")})
    return did_you_mean(path, names) or (f"nearby runs: {', '.join(names[:5])}" if names else None)
