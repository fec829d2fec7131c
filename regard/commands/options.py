"""Options that several verbs share, and the helpers that apply them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.commands import completion
from regard.core.wording import describe_failure
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.config.settings import SearchConfig
    from regard.inference.decoding import RequestedEngine
    from regard.tasks.translation.translator import Translator

Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run folder, for example runs/m30k.", autocompletion=completion.runs)
]
PairTarget = Annotated[
    Path | None, typer.Argument(metavar="TARGET", help="Target sentences, line by line those of SOURCE.")
]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 picks a free one.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.", rich_help_panel="Output")]
CheckpointName = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="WHICH",
        help="Checkpoint to load: average, best, last or a step.",
        show_default="the first of average, best, last that exists",
        autocompletion=completion.checkpoints,
        rich_help_panel="Model",
    ),
]
DeviceName = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME",
        help="Device to compute on: cpu, cuda, cuda:1 …",
        show_default="cuda if present, else cpu",
        rich_help_panel="Model",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        metavar="N",
        help="Number of CPU threads.",
        show_default="all cores",
        rich_help_panel="Model",
    ),
]
EngineName = Annotated[
    Literal["auto", "reference", "float32", "torch", "bfloat16", "int8"] | None,
    typer.Option(
        "--engine",
        help="Decoding engine: float32 (the outputs of reference, but faster), int8 (fewer bits, by kernels in C), "
        "bfloat16 (fewer bits, by torch), torch (float32 without kernels), reference, or auto (the fastest that is "
        "exact enough here, by a trial of seconds that is remembered in the run folder).",
        show_default="float32",
        rich_help_panel="Model",
    ),
]
ReadingEngine = Annotated[
    Literal["reference", "float32", "torch", "int8"] | None,
    typer.Option(
        "--engine",
        help="What reads: float32 (by kernels in C where they know the model), int8 (fewer bits, by the kernels), "
        "torch or reference (without kernels).",
        show_default="float32",
        rich_help_panel="Model",
    ),
]


def epilog(*examples: str, notes: str = "") -> str:
    """Return the end of a help page: notes, then example commands, one a line."""
    return "\n\n".join([*([notes] if notes else []), "Examples:" if len(examples) > 1 else "Example:", *examples])


def set_threads(threads: int | None) -> None:
    """Set the number of CPU threads, if given; to be called before the first computation."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def open_model(
    run: Path, *, checkpoint: str | None, device: str | None, threads: int | None,
    engine: RequestedEngine | None = None, mapped: bool = False,
) -> Translator:  # fmt: skip
    """Load the trained model of a run; raises ConfigError for an absent device and ModelError for a damaged run."""
    from regard.tasks.translation.translator import load

    set_up(device, threads)
    model = load(run, checkpoint=checkpoint, device=device, engine=engine, mapped=mapped, say=_tell)
    _warn_if_emulated(engine, model.device.type)
    return model


def open_predictor(
    run: Path, *, checkpoint: str | None, device: str | None, threads: int | None,
    engine: RequestedEngine | None = None, mapped: bool = False,
) -> Any:  # fmt: skip
    """Load the trained model of a run of any task, in the same way; ``engine`` for one that has engines."""
    from regard.tasks.load import load

    set_up(device, threads)
    options = {} if engine is None else {"engine": engine}
    model = load(run, checkpoint=checkpoint, device=device, mapped=mapped, say=_tell, **options)
    if engine is not None:
        _warn_if_emulated(engine, model.device.type)
    return model


def set_up(device: str | None, threads: int | None) -> None:
    """Set the number of threads, and raise ConfigError for an absent device."""
    set_threads(threads)
    if device is not None:
        _require_device(device)


def _tell(line: str) -> None:
    typer.echo(line, err=True)


def _warn_if_emulated(engine: RequestedEngine | None, device: str) -> None:
    from regard.core.processor import bfloat16_in_hardware

    if engine == "bfloat16" and device == "cpu" and not bfloat16_in_hardware():
        typer.echo("note: this processor emulates bfloat16, which is slower on it than float32, the default", err=True)


def _require_device(device: str) -> None:
    """Raise ConfigError if torch cannot use the device."""
    import torch

    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:  # by kind of device and build of torch
        why = str(error).strip().splitlines()[0]
        raise ConfigError(f"there is no device {device}", where="--device", why=why, help="regard doctor") from error


def checkpoint_name(run: Path, given: str | None) -> str:
    """Describe the checkpoint that ``given`` means: name and steps, such as ``best (step 3,271)``."""
    from regard.runs.run_folder import RunFolder

    return str(RunFolder.open(run).weights_path(given))


def search_settings(base: SearchConfig, **given: Any) -> SearchConfig:
    """Return ``base`` with the options that were given; raises ConfigError if they contradict each other."""
    from pydantic import ValidationError

    from regard.config.settings import override_search

    try:
        return override_search(base, **given)
    except ValidationError as error:
        first = error.errors()[0]
        where = "--" + str(first["loc"][0]).replace("_", "-") if first["loc"] else None
        raise ConfigError("these options cannot be used", where=where, why=describe_failure(first)) from error
