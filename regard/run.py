"""The run folder: where everything of one training lives, and how it is opened again.

runs/m30k/
    config.toml         the config, resolved: nothing left to defaults
    plan.json           what was measured or counted once: number format, steps, sizes of the vocabularies
    environment.json    versions, processor, threads
    tokenizer/          joint.* or source.* and target.*
    data/               token arrays, memory-mapped; may be deleted once training is over
    metrics.jsonl       one line an update and a validation
    checkpoints/        step-000500/, best.json, average/
    README.md           the model card
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict

import regard
from regard import checkpoint, storage
from regard.config import Config, dump_config, load_config
from regard.data.text import Tokenizer, load_tokenizer
from regard.errors import ConfigError, ModelError

__all__ = ["Metrics", "Plan", "RunFolder", "environment"]


class Plan(BaseModel):
    """What was measured or counted when a run began, and holds for all of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    precision: Literal["float32", "bfloat16"]
    steps: int | None  # updates, where their number is known
    threads: int  # sums depend on how they are split
    seconds_per_update: dict[str, float]  # by number format; 0 where nothing was measured
    source_types: int
    target_types: int
    corpora: dict[str, str] = {}  # the content of each, by its folder under data/; nothing in older runs


class RunFolder:
    """Paths and files of one run; opening it reads nothing but the config."""

    def __init__(self, path: Path, config: Config) -> None:
        self.path, self.config = path, config
        self.checkpoints = path / "checkpoints"
        self.tokenizers = path / "tokenizer"
        self.data = path / "data"

    @classmethod
    def create(cls, path: Path, config: Config) -> RunFolder:
        """A new run; refuses a folder that holds anything."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            resume = (path / "config.toml").is_file()
            help = f"regard train --resume {path} goes on; --name OTHER starts another" if resume else "--name OTHER"
            raise ConfigError(f"{path} exists already", where=str(path), help=help)
        with storage.storing(path):
            path.mkdir(parents=True, exist_ok=True)
        storage.write_bytes_atomically(path / "config.toml", dump_config(config).encode())
        storage.write_json(path / "environment.json", environment())
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
        return cls(path, load_config(path / "config.toml"))

    def save_tokenizers(self, source: Tokenizer, target: Tokenizer) -> None:
        if self.config.data.joint:
            source.save(self.tokenizers, "joint")
        else:
            source.save(self.tokenizers, "source")
            target.save(self.tokenizers, "target")

    def load_tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        if self.config.data.joint:
            joint = load_tokenizer(self.tokenizers, "joint")
            return joint, joint
        return load_tokenizer(self.tokenizers, "source"), load_tokenizer(self.tokenizers, "target")

    def elsewhere(self) -> list[str]:
        """How this machine differs from the one the run began on, in what decides the last bits of a figure."""
        try:
            began = json.loads((self.path / "environment.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return ["environment.json, which says where it began, cannot be read"]
        now = environment()
        keys = ("processor", "vector_instructions", "bfloat16_products", "accelerator", "torch")
        return [f"{key} was {began.get(key)}, is {now[key]}" for key in keys if began.get(key) != now[key]]

    def write_plan(self, plan: Plan) -> None:
        storage.write_json(self.path / "plan.json", plan.model_dump())

    def read_plan(self) -> Plan | None:
        """What was decided when the run began; None where it never came so far."""
        path = self.path / "plan.json"
        if not path.exists():
            return None
        try:
            return Plan.model_validate_json(path.read_bytes())
        except ValueError as error:
            help = "copy the whole run folder again"
            raise ModelError("plan.json is damaged", where=str(path), why=str(error), help=help) from error

    def weights(self, which: str | None = None) -> checkpoint.Checkpoint:
        """The named checkpoint's weights: ``average``, ``best``, ``last`` or a step; without a name, the first

        of these that exists.
        """
        folder = self.checkpoints
        best = checkpoint.read_best(folder)
        steps = checkpoint.list_steps(folder)
        if which is None:
            which = "average" if (folder / "average").is_dir() else "best" if best else "last"
        if which == "average":
            path = folder / "average"
        elif which == "best" and best:
            path = checkpoint.step_path(folder, best.step)
        elif which == "last" and steps:
            path = checkpoint.step_path(folder, steps[-1])
        elif which.isdigit():
            path = checkpoint.step_path(folder, int(which))
        else:
            raise ModelError(
                f"{self.path} has no {which} checkpoint",
                where=str(folder),
                why="training has not saved one yet",
                help=f"regard train --resume {self.path}",
            )
        return checkpoint.load(path, only={"model"})


class Metrics:
    """``metrics.jsonl``: a line a record, appended; cut back to a checkpoint's size on resume."""

    def __init__(self, path: Path, *, size: int = 0) -> None:
        self.path = path
        with storage.storing(path):
            if path.exists() and path.stat().st_size > size:
                os.truncate(path, size)
            self.size = path.stat().st_size if path.exists() else 0  # less where somebody cut or removed it

    def write(self, record: Mapping[str, Any]) -> None:
        line = (json.dumps(record) + "\n").encode()
        with storage.storing(self.path), self.path.open("ab") as file:
            file.write(line)
        self.size += len(line)
        storage.at("metrics")

    def sync(self) -> int:
        """Bring all lines to the disk, so that a checkpoint may count on them; returns their bytes."""
        if self.size:
            with storage.storing(self.path), self.path.open("rb") as file:
                os.fsync(file.fileno())
        return self.size


def environment() -> dict[str, Any]:
    """What a figure depends on: versions, processor features, threads, the time."""
    return {
        "regard": regard.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": platform.platform(),
        "processor": _processor(),
        "vector_instructions": torch.backends.cpu.get_cpu_capability(),
        "bfloat16_products": torch.ops.mkldnn._is_mkldnn_bf16_supported(),
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


def _runs_nearby(path: Path) -> str | None:
    parent = path.parent if path.parent.is_dir() else Path("runs")
    names = sorted(str(each.parent) for each in parent.glob("*/config.toml"))[:5] if parent.is_dir() else []
    return f"runs here: {', '.join(names)}" if names else None
