"""``regard export``: write a trained model in another toolkit's format and compare the outputs of both."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.commands.options import CheckpointName, Run, epilog, open_model, open_predictor
from regard.core.installation import extra_command
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.runs.run_folder import RunFolder
    from regard.share.export_format import ExportFormat, PredictorFormat
    from regard.tasks.translation.translator import Translator

__all__ = ["register"]

EPILOG = epilog(
    "regard export runs/m30k exported --to ctranslate2 --source test.en",
    "regard export runs/book exported --to transformers",
)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="New folder for the export; must not exist.")]
To = Annotated[
    Literal["ctranslate2", "marian", "onnx", "hub", "transformers"],
    typer.Option(
        "--to",
        help="Format: ctranslate2, marian (of transformers), onnx, or hub (a run folder to share); "
        "transformers, of a language model (Llama, GPT-2 or GPT-NeoX), a classifier, a tagger or a masked model.",
    ),
]
Source = Annotated[
    Path | None,
    typer.Option(
        "--source", metavar="FILE", help="Sentences to compare outputs on.", show_default="the validation data"
    ),
]
Sentences = Annotated[int, typer.Option("--sentences", min=1, metavar="N", help="Compare at most N sentences.")]


def register(app: typer.Typer) -> None:
    """Add ``regard export`` to the command line."""
    app.command("export", epilog=EPILOG)(export)


def export(
    run: Run,
    folder: Folder,
    *,
    to: To,
    source: Source = None,
    sentences: Sentences = 200,
    checkpoint: CheckpointName = None,
) -> None:
    """Write a trained model in another toolkit's format and compare the outputs of both.

    A model that the format cannot represent is refused.
    """
    from regard.runs.run_folder import RunFolder
    from regard.share.export_format import PredictorFormat, export_format

    opened = RunFolder.open(run)
    task = opened.config.task.kind
    format = export_format(to, task)
    of_any_task = to == "hub" and task != "translation"
    if not of_any_task:
        _require_task(opened, to, isinstance(format, PredictorFormat))
    if folder.exists() or folder.is_symlink():
        raise ConfigError(f"{folder} exists", where=str(folder), help="name a new folder, or remove that one")
    if of_any_task:
        print(f"{folder}: {_any_task(opened, folder, to=to, source=source, most=sentences, checkpoint=checkpoint)}")
        return
    if (reason := format.obstacle(opened)) is not None:
        raise ConfigError(f"this model cannot be exported to {to}", where=str(run), why=reason)
    if isinstance(format, PredictorFormat):
        message = _of_predictor(opened, format, folder, to=to, source=source, lines=sentences, checkpoint=checkpoint)
    else:
        message = _translation(opened, format, folder, to=to, source=source, most=sentences, checkpoint=checkpoint)
    print(f"{folder}: {message}")


def _require_task(run: RunFolder, to: str, of_predictors: bool) -> None:
    """Raise ConfigError for a format of models of another task."""
    from regard.share.export_format import ENCODER_TASKS

    formats = {"translation": "ctranslate2, marian, onnx or hub"}
    formats |= dict.fromkeys(("language-model", *ENCODER_TASKS), "transformers or hub")
    task = run.config.task.kind
    if task not in (formats.keys() - {"translation"} if of_predictors else {"translation"}):
        told = (
            f"a run of {', '.join(sorted(formats.keys() - {'translation'}))}" if of_predictors else "a translation run"
        )
        raise ConfigError(
            f"--to {to} is for {told}, and {run.path} is of {task}",
            where=str(run.path),
            help=f"--to {formats.get(task, 'hub')}",
        )


def _of_predictor(
    run: RunFolder, format: PredictorFormat, folder: Path, *, to: str, source: Path | None, lines: int,
    checkpoint: str | None,
) -> str:  # fmt: skip
    """Export what a predictor holds; returns what is said of the comparison."""
    from regard.core import atomic_files
    from regard.share.export_format import missing_library

    uncompared = missing_library(format)
    texts = [] if uncompared else format.texts(run, source, lines)
    predictor = open_predictor(run.path, checkpoint=checkpoint, device="cpu", threads=None)
    with atomic_files.publishing(folder) as workshop:
        with atomic_files.explain_os_errors(workshop):
            format.write(run, predictor, workshop)
        if uncompared is not None:
            return f"not compared: {uncompared}"
        parity = format.compare(run, predictor, texts, workshop)
        parity.write(workshop, to)
    return str(parity) if parity.same else f"warning: not the same: {parity}"


def _translation(
    opened: RunFolder, format: ExportFormat, folder: Path, *, to: str, source: Path | None, most: int,
    checkpoint: str | None,
) -> str:  # fmt: skip
    """Export a translation model; returns what is said of the comparison."""
    from regard.core import atomic_files
    from regard.share.export_format import missing_library
    from regard.share.parity import compare, greedy_decoder

    _require_libraries(to, format.libraries)
    uncompared = missing_library(format)
    lines = [] if uncompared else _lines(opened, source, most)
    translator = open_model(opened.path, checkpoint=checkpoint, device="cpu", threads=None)
    positions = min(_positions(translator), format.max_positions())
    longest = min(translator.max_length, positions - 1)
    encoded = [] if uncompared else _encoded(translator, lines, longest)
    message = f"not compared: {uncompared}"
    with atomic_files.publishing(folder) as workshop:
        with atomic_files.explain_os_errors(workshop):
            format.write(opened, translator, checkpoint, workshop)
        if uncompared is None:
            left_out = len(lines) - len(encoded)
            parity = compare(greedy_decoder(translator), format.decoder(translator, workshop), encoded, positions)
            parity._replace(left_out=left_out).write(workshop, to)
            message = str(parity) + (f"; {left_out:,} longer than {longest:,} pieces left out" if left_out else "")
        format.finish(workshop)
    return message


def _any_task(run: RunFolder, folder: Path, *, to: str, source: Path | None, most: int, checkpoint: str | None) -> str:
    """Export a run of any task as a folder to share; returns what is said of the comparison."""
    from regard.core import atomic_files
    from regard.data.reading import read_lines
    from regard.share.hub import write_checksums
    from regard.share.task_run import compare_outputs, write_task_run

    lines = list(islice(read_lines(source), most)) if source else None
    with atomic_files.publishing(folder) as workshop:
        with atomic_files.explain_os_errors(workshop):
            write_task_run(run, checkpoint, workshop)
        parity = compare_outputs(run, checkpoint, workshop, lines, str(source))
        if parity.lines:
            parity.write(workshop, to)
        write_checksums(workshop)
    return str(parity) if parity.lines else "not compared: --source FILE names lines to compare"


def _require_libraries(extra: str, libraries: Sequence[str]) -> None:
    """Raise ConfigError where a library that writes the format is not installed."""
    for name in libraries:
        try:
            import_module(name)
        except ImportError as error:
            raise ConfigError(f"{name} is not installed", why=str(error), help=extra_command(extra)) from error


def _lines(run: RunFolder, source: Path | None, most: int) -> list[str]:
    from regard.data.corpora import read_lines, read_pairs

    corpus = (run.config.data.valid or run.config.data.train)[:1]
    lines = read_lines(source) if source else (pair[1] for each in corpus for pair in read_pairs(each))
    found = list(islice((line for line in lines if line.strip()), most))
    if not found:
        raise ConfigError("there is no sentence to compare", where=str(source or run.path), help="--source FILE")
    return found


def _positions(translator: Translator) -> int:
    """Positions that a source, its end symbol included, and an output may have in the model itself."""
    return translator.decoding.positions or sys.maxsize


def _encoded(translator: Translator, lines: Sequence[str], longest: int) -> list[list[int]]:
    """Encode the lines of at most ``longest`` pieces; raises ConfigError if there is none."""
    encoded = [translator.source.encode(line) for line in lines]
    found = [pieces for pieces in encoded if len(pieces) <= longest]
    if not found:
        raise ConfigError(f"no sentence to compare has {longest:,} pieces or fewer", help="--source FILE")
    return found
