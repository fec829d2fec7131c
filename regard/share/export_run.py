"""Export of a run: checks before anything is written, the new folder, and a comparison of the outputs of both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from regard.core import atomic_files
from regard.errors import ConfigError
from regard.runs.run_folder import RunFolder
from regard.share.export_format import ExportFormat, export_format, missing_library, require_libraries
from regard.share.hub_upload import require_repository, upload


class ExportReport(NamedTuple):
    """The result of an export.

    Attributes:
        message: the comparison of the outputs of both, or the reason why they were not compared.
        address: the address of the uploaded folder; None without an upload.
    """

    message: str
    address: str | None


def export_run(
    run: Path, folder: Path, to: str, *, source: Path | None = None, sentences: int = 200,
    checkpoint: str | None = None, quantization: str | None = None, push: str | None = None,
    pooling: str | None = None,
) -> ExportReport:  # fmt: skip
    """Convert a trained model to another toolkit's format, and compare the outputs of both.

    Args:
        run: the run folder.
        folder: the new folder.
        to: the name of the format.
        source: a file of inputs to compare; None for the validation data.
        sentences: the maximum number of compared inputs.
        checkpoint: the checkpoint; None for the default.
        quantization: the format of smaller numbers; None for float32.
        push: the name of a repository on a hub, for an upload.
        pooling: the pooling of vectors over the positions of a text; None for the default.

    Raises:
        ConfigError: if the format does not exist, or cannot represent the model.
    """
    opened = RunFolder.open(run)
    format = export_format(to, opened.config, str(run))
    _check_options(format, to, quantization, pooling, push)
    opened.weights_path(checkpoint)  # raises the error of a run that is its baseline alone
    if folder.exists() or folder.is_symlink():
        raise ConfigError(f"{folder} already exists", where=str(folder), help="choose a new folder, or remove this one")
    training = f"a new training can choose such settings: regard train … --for {to}"
    if reasons := [*format.obstacles(opened.config), *format.codec_obstacles(opened)]:
        what, why = f"this model cannot be exported to {to}", "; ".join(reasons)
        raise ConfigError(what, where=str(run), why=why, help=training)
    require_libraries(to, format)
    missing = missing_library(format)
    model: Any = format.open(opened, checkpoint)
    model = model if quantization is None else replace(model, quantization=quantization)
    model = model if pooling is None else replace(model, pooling=pooling)
    inputs = [] if missing else model.inputs(source, sentences)
    message = f"outputs not compared: {missing or 'use --source FILE to name lines to compare'}"
    with atomic_files.publishing(folder) as workshop:
        with atomic_files.explain_os_errors(workshop):
            model.write(workshop)
        if missing is None and (parity := model.compare(inputs, workshop)) is not None:
            parity.write(workshop, to)
            message = str(parity)
        format.finish(workshop)
    return ExportReport(message, None if push is None else upload(folder, push))


def _check_options(
    format: ExportFormat, to: str, quantization: str | None, pooling: str | None, push: str | None
) -> None:  # fmt: skip
    """Raise ConfigError for an option that does not apply to the format."""
    if quantization is not None and quantization not in format.quantizations:
        names = ", ".join(format.quantizations)
        why = f"--to {to} writes {names or 'float32 only'}"
        raise ConfigError(f"{quantization} is not available", where="--quantization", why=why)
    if pooling is not None and pooling not in format.poolings:
        why = f"--to {to} writes {', '.join(format.poolings) or 'no vectors'}"
        raise ConfigError(f"{pooling} is not available", where="--pooling", why=why)
    if push is not None and to != "hub":
        why = f"--to {to} has no model card and no checksums"
        raise ConfigError("--push needs --to hub", where="--push", why=why)
    if push is not None:
        require_repository(push)
