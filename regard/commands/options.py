"""What several verbs have in common: their options, and a trained model from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.commands import completion
from regard.core.wording import describe_failure
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.config.settings import SearchConfig
    from regard.tasks.translation.translator import Engine, Translator

__all__ = [
    "AsJson",
    "Beam",
    "CheckpointName",
    "CoveragePenalty",
    "DeviceName",
    "EngineName",
    "LengthPenalty",
    "Run",
    "Threads",
    "checkpoint_name",
    "open_model",
    "search_settings",
    "set_threads",
]

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, as runs/m30k.", autocompletion=completion.runs)]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
CheckpointName = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="WHICH",
        help="average, best, last or a step; the first that exists unless given.",
        autocompletion=completion.checkpoints,
    ),
]
DeviceName = Annotated[
    str | None, typer.Option("--device", metavar="NAME", help="cpu, cuda, cuda:1 …; cuda if there is one, else cpu.")
]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, metavar="N", help="CPU threads; all cores unless given.")
]
EngineName = Annotated[
    Literal["reference", "float32", "bfloat16", "int8"] | None,
    typer.Option(
        "--engine", help="What decodes: float32 unless given, with the outputs of reference; the others: fewer bits."
    ),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(
        "--length-penalty",
        metavar="A",
        help="Beam: log P / ((k + length) / (k + 1))^A, k 5 unless the run says another; 0: log P.",
    ),
]
CoveragePenalty = Annotated[
    float | None,
    typer.Option(
        "--coverage-penalty",
        metavar="B",
        help="Beam: add B times the log of how much each source piece was looked at, summed; 0.2 in GNMT.",
    ),
]
Beam = Annotated[int | None, typer.Option("--beam", min=1, metavar="N", help="Beam width; 1 is greedy.")]


def set_threads(threads: int | None) -> None:
    """Before the first computation."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def open_model(
    run: Path, *, checkpoint: str | None, device: str | None, threads: int | None, engine: Engine | None = None
) -> Translator:
    """The trained model of a run. ConfigError for a device that is not there, ModelError for a broken run."""
    from regard.tasks.translation.translator import load

    set_threads(threads)
    if device is not None:
        _try(device)
    model = load(run, checkpoint=checkpoint, device=device, engine=engine)
    if engine == "bfloat16" and model.device.type == "cpu":
        _say_if_emulated()
    return model


def _say_if_emulated() -> None:
    from regard.engine.processor import bfloat16_in_hardware

    if not bfloat16_in_hardware():
        typer.echo("note: this processor emulates bfloat16, which is slower on it than float32, the default", err=True)


def _try(device: str) -> None:
    """What torch says of a device that is not there must not look like a defect."""
    import torch

    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:  # by kind of device and build of torch
        why = str(error).strip().splitlines()[0]
        raise ConfigError(f"there is no device {device}", where="--device", why=why, help="regard doctor") from error


def checkpoint_name(run: Path, given: str | None) -> str:
    """Which checkpoint ``given`` means, for a reader: its name and the steps it is made of."""
    from regard.runs.run_folder import RunFolder

    return str(RunFolder.open(run).weights_path(given))


def search_settings(base: SearchConfig, **given: Any) -> SearchConfig:
    """``base`` with what was given on the command line; ConfigError where it does not fit together."""
    from pydantic import ValidationError

    from regard.config.settings import override_search

    try:
        return override_search(base, **given)
    except ValidationError as error:
        first = error.errors()[0]
        where = "--" + str(first["loc"][0]).replace("_", "-") if first["loc"] else None
        raise ConfigError("these options cannot be used", where=where, why=describe_failure(first)) from error
