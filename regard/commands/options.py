"""Options shared by several verbs, and the functions that apply them."""

from __future__ import annotations

from collections.abc import Sequence
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
    Path, typer.Argument(metavar="RUN", help="Run folder, such as runs/m30k.", autocompletion=completion.runs)
]
PairTarget = Annotated[
    Path | None, typer.Argument(metavar="TARGET", help="Target sentences, aligned with SOURCE line by line.")
]
Port = Annotated[
    int, typer.Option("--port", min=0, max=65535, metavar="N", help="Listen on this port; 0 chooses a free one.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.", rich_help_panel="Output")]
CheckpointName = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="WHICH",
        help="Load this checkpoint: average, best, last or a step; for translation also baseline, without the network.",
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
        help="Run on this device: cpu, cuda, cuda:1, …",
        show_default="cuda if available, otherwise cpu",
        rich_help_panel="Model",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        metavar="N",
        help="Use N CPU threads.",
        show_default="all cores",
        rich_help_panel="Model",
    ),
]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option(
        "--ensemble",
        metavar="RUN",
        help="At each step, average the probabilities with those of this run, which has equal vocabularies; may be "
        "repeated.",
        autocompletion=completion.runs,
        rich_help_panel="Model",
    ),
]
EngineName = Annotated[
    Literal["auto", "reference", "float32", "torch", "bfloat16", "int8"] | None,
    typer.Option(
        "--engine",
        help="Decode with this engine. float32: same outputs as reference, but faster; int8: 8-bit products in C "
        "kernels; bfloat16: 16-bit products in torch; torch: float32 without C kernels; auto: the fastest engine that "
        "is accurate enough, chosen by a short trial and saved in the run folder.",
        show_default="float32",
        rich_help_panel="Model",
    ),
]
EncoderEngine = Annotated[
    Literal["reference", "float32", "torch", "int8"] | None,
    typer.Option(
        "--engine",
        help="Encode with this engine. float32: C kernels if they support the model; int8: 8-bit products in C "
        "kernels; torch, reference: without C kernels.",
        show_default="float32",
        rich_help_panel="Model",
    ),
]


def epilog(*examples: str, notes: str = "") -> str:
    """Return the end of a help page: notes, then example commands, one per line."""
    return "\n\n".join([*([notes] if notes else []), "Examples:" if len(examples) > 1 else "Example:", *examples])


def set_threads(threads: int | None) -> None:
    """Set the number of CPU threads unless None; call it before the first computation."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def open_model(
    run: Path, *, checkpoint: str | None, device: str | None, threads: int | None,
    engine: RequestedEngine | None = None, mapped: bool = False, ensemble: Sequence[Path] | None = None,
) -> Translator:  # fmt: skip
    """Load the trained translation model of a run.

    Args:
        run: the run folder.
        checkpoint: average, best, last or a step; None for the default.
        device: the name of the device; None for the default.
        threads: the number of CPU threads; None for the default.
        engine: the decoding engine; None for the default.
        mapped: whether weights are memory-mapped and shared between processes.
        ensemble: further runs; see ``regard.load``.

    Raises:
        ConfigError: if the device does not exist.
        ModelError: if the run is damaged.
    """
    from regard.tasks.translation.translator import load

    set_up(device, threads)
    model = load(
        run, checkpoint=checkpoint, device=device, engine=engine, mapped=mapped, ensemble=ensemble or (), log=_log
    )
    _warn_if_emulated(engine, model.device.type)
    return model


def open_predictor(
    run: Path, *, checkpoint: str | None, device: str | None, threads: int | None,
    engine: RequestedEngine | None = None, mapped: bool = False, **options: Any,
) -> Any:  # fmt: skip
    """Load the trained model of a run of any task; see ``open_model``. ``engine`` only for tasks with engines."""
    from regard.tasks.load import load

    set_up(device, threads)
    options |= {} if engine is None else {"engine": engine}
    model = load(run, checkpoint=checkpoint, device=device, mapped=mapped, log=_log, **options)
    if engine is not None:
        _warn_if_emulated(engine, model.device.type)
    return model


def set_up(device: str | None, threads: int | None) -> None:
    """Set the number of threads, and raise ConfigError if the device does not exist."""
    from regard.core.tensors import require_device

    set_threads(threads)
    if device is not None:
        require_device(device, "--device")


def _log(line: str) -> None:
    typer.echo(line, err=True)


def _warn_if_emulated(engine: RequestedEngine | None, device: str) -> None:
    from regard.core.processor import bfloat16_in_hardware

    if engine == "bfloat16" and device == "cpu" and not bfloat16_in_hardware():
        typer.echo("note: this processor emulates bfloat16, which is slower than float32 (the default)", err=True)


def checkpoint_name(run: Path, checkpoint: str | None) -> str:
    """Return the name and the step of a checkpoint, such as ``best (step 3,271)``."""
    from regard.runs.run_folder import RunFolder

    return str(RunFolder.open(run).selected(checkpoint))


def search_settings(base: SearchConfig, **options: Any) -> SearchConfig:
    """Return ``base`` with the options that are not None; raise ConfigError if they contradict each other."""
    from pydantic import ValidationError

    from regard.config.settings import override_search

    try:
        return override_search(base, **options)
    except ValidationError as error:
        first = error.errors()[0]
        where = "--" + str(first["loc"][0]).replace("_", "-") if first["loc"] else None
        raise ConfigError("invalid search options", where=where, why=describe_failure(first)) from error
