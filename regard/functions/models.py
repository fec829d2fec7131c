"""The verbs that change or convert models, as functions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.errors import ConfigError
from regard.runs.averaging import average_run
from regard.runs.run_folder import RunFolder
from regard.share.export_run import ExportReport, export_run
from regard.share.import_folder import import_folder


def average(run: str | Path, *, last: int | None = None, steps: Sequence[int] | None = None) -> list[int]:
    """Average the weights of several checkpoints and save them as a checkpoint; return the steps.

    Args:
        run: the run folder.
        last: the number of last checkpoints. Default: 10.
        steps: the checkpoints of these steps instead.

    Raises:
        ConfigError: if both are set, or ``last`` is below 1.
        ModelError: if a checkpoint is missing or damaged.
    """
    if last is not None and steps is not None:
        raise ConfigError("last and steps cannot be combined", help="use only one of them")
    if last is not None and last < 1:
        raise ConfigError(f"last must be at least 1, not {last}", where="last")
    return average_run(RunFolder.open(Path(run)), last=10 if last is None else last, steps=steps)


def export(
    run: str | Path, folder: str | Path, *, to: str, source: str | Path | None = None, sentences: int = 200,
    checkpoint: str | None = None, quantization: str | None = None, push: str | None = None,
    pooling: str | None = None,
) -> ExportReport:  # fmt: skip
    """Convert a trained model to another toolkit's format, and compare the outputs of both.

    Args:
        run: the run folder.
        folder: the new folder for the export.
        to: the name of the format: ``transformers``, ``onnx``, ``ctranslate2``, ``marian``, ``gguf``,
            ``sentence-transformers`` or ``hub``.
        source: a file of inputs to compare. Default: the validation data.
        sentences: the maximum number of compared inputs.
        checkpoint: see ``regard.load``.
        quantization: write smaller numbers, such as ``int8``.
        push: upload the folder to this repository of a hub.
        pooling: for sentence-transformers: ``mean``, ``max``, ``first`` or ``last``. Default: ``mean``.

    Raises:
        ConfigError: if the format does not exist, or cannot represent the model.
    """
    source = None if source is None else Path(source)
    return export_run(
        Path(run), Path(folder), to, source=source, sentences=sentences, checkpoint=checkpoint,
        quantization=quantization, push=push, pooling=pooling,
    )  # fmt: skip


def import_model(folder: str | Path, run: str | Path) -> Path:
    """Create a run folder from a model trained with another library, and return it.

    Args:
        folder: the folder of the model.
        run: the new run folder.

    Raises:
        ModelError: if the model cannot be imported.
    """
    return import_folder(Path(folder), Path(run)).path
