"""``regard export``: a trained model in the format of others, with a report of what was compared."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.commands.options import CheckpointName, Run, open_model
from regard.core.installation import add_extra
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.runs.run_folder import RunFolder
    from regard.share.parity import Decode
    from regard.tasks.translation.translator import Translator

__all__ = ["register"]

EPILOG = "Example:  regard export runs/m30k exported --to ctranslate2 --source test.en"

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the export goes; it must not exist.")]
To = Annotated[
    Literal["ctranslate2", "marian", "onnx", "hub"],
    typer.Option("--to", help="The format; marian is that of transformers, hub a folder of ours to be given away."),
]
Source = Annotated[
    Path | None, typer.Option("--source", metavar="FILE", help="Sentences to compare; validation data unless given.")
]
Sentences = Annotated[int, typer.Option("--sentences", min=1, metavar="N", help="How many are compared at most.")]


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
    """Write a trained model for others, and compare what both say; refused where the format cannot say it."""
    from regard.core import atomic_files
    from regard.runs.run_folder import RunFolder
    from regard.share import hub
    from regard.share.parity import compare

    opened = RunFolder.open(run)
    if folder.exists() or folder.is_symlink():
        raise ConfigError(f"{folder} exists", where=str(folder), help="name a new folder, or remove that one")
    if (reason := _obstacle(opened, to)) is not None:
        raise ConfigError(f"this model cannot be said in the format of {to}", where=str(run), why=reason)
    _require_libraries(to)
    uncompared = _uncompared(to)
    lines = [] if uncompared else _lines(opened, source, sentences)
    translator = open_model(run, checkpoint=checkpoint, device="cpu", threads=None)
    positions = _positions(translator, to)
    longest = min(translator.max_length, positions - 1)
    encoded = [] if uncompared else _encoded(translator, lines, longest)
    said = f"not compared: {uncompared}"
    with atomic_files.publishing(folder) as workshop:
        with atomic_files.storing(workshop):
            _write(opened, translator, checkpoint, workshop, to)
        if uncompared is None:
            left_out = len(lines) - len(encoded)
            parity = compare(_ours(translator), _theirs(translator, workshop, to), encoded, positions)
            parity._replace(left_out=left_out).write(workshop, to)
            said = str(parity) + (f"; {left_out:,} longer than {longest:,} pieces left out" if left_out else "")
        if to == "hub":
            hub.sums(workshop)
    print(f"{folder}: {said}")


def _obstacle(run: RunFolder, to: str) -> str | None:
    from regard.share import ctranslate2, marian
    from regard.tasks.translation.codecs import open_codecs
    from regard.tasks.translation.config import translation_config

    if to == "marian":
        return marian.obstacle(translation_config(run).model, *open_codecs(run))
    return ctranslate2.obstacle(translation_config(run).model) if to == "ctranslate2" else None


def _write(run: RunFolder, translator: Translator, checkpoint: str | None, folder: Path, to: str) -> None:
    from regard.share import ctranslate2, hub, marian, onnx
    from regard.tasks.translation.config import translation_config

    config = translation_config(run)
    model, tokenizers = translator.model, (translator.source, translator.target)
    if to == "hub":
        hub.write(run, checkpoint, folder)
    elif to == "marian":
        marian.write(model, config, *tokenizers, folder)
    elif to == "onnx":
        onnx.write(model, *tokenizers, folder)
    else:
        ctranslate2.write(model, config.model, *tokenizers, folder)
    if to in ("ctranslate2", "onnx"):
        shutil.copytree(run.tokenizers, folder / "tokenizer")


def _theirs(translator: Translator, folder: Path, to: str) -> Decode:
    from regard.share import ctranslate2, marian, onnx
    from regard.tasks.translation.translator import load

    if to == "hub":
        return _ours(load(folder, device="cpu"))
    if to == "ctranslate2":
        return ctranslate2.decoder(folder, translator.source, translator.target)
    return marian.decoder(folder) if to == "marian" else onnx.decoder(folder)


def _require_libraries(to: str) -> None:
    """ConfigError where what writes this format is not installed."""
    for name in {"ctranslate2": ["ctranslate2"], "onnx": ["onnx", "onnxscript"]}.get(to, []):
        try:
            import_module(name)
        except ImportError as error:
            raise ConfigError(f"{name} is not installed", why=str(error), help=add_extra(to)) from error


def _uncompared(to: str) -> str | None:
    """Why what is written cannot be compared here; None if it can."""
    from regard.share import marian, onnx

    return {"marian": marian.absent_library, "onnx": onnx.absent_library}.get(to, lambda: None)()


def _lines(run: RunFolder, source: Path | None, most: int) -> list[str]:
    from regard.data.corpora import read_lines, read_pairs

    corpus = (run.config.data.valid or run.config.data.train)[:1]
    lines = read_lines(source) if source else (pair[1] for each in corpus for pair in read_pairs(each))
    found = list(islice((line for line in lines if line.strip()), most))
    if not found:
        raise ConfigError("there is no sentence to compare", where=str(source or run.path), help="--source FILE")
    return found


def _positions(translator: Translator, to: str) -> int:
    """How many a source, its end counted, and an output may have, here and in the format."""
    from regard.attention.positions.absolute import LearnedPosition
    from regard.share import ctranslate2, marian

    ours = [len(part.table) for part in translator.model.modules() if isinstance(part, LearnedPosition)]
    theirs = {"ctranslate2": ctranslate2.POSITIONS, "marian": marian.POSITIONS}.get(to, sys.maxsize)
    return min([*ours, theirs])


def _encoded(translator: Translator, lines: Sequence[str], longest: int) -> list[list[int]]:
    """The lines of at most ``longest`` pieces; ConfigError where there is none."""
    encoded = [translator.source.encode(line) for line in lines]
    found = [pieces for pieces in encoded if len(pieces) <= longest]
    if not found:
        raise ConfigError(f"no sentence to compare has {longest:,} pieces or fewer", help="--source FILE")
    return found


def _ours(translator: Translator) -> Decode:
    """Greedy outputs of piece numbers."""
    from regard.config.settings import SearchConfig
    from regard.search.batch_search import in_order, search

    def decode(sources: Sequence[Sequence[int]], longest: int) -> list[list[int]]:
        decoding = translator.decoding
        settings = SearchConfig(beam=1, max_extra=longest, max_length=longest)
        found = search(decoding.step, decoding.open(range(len(sources)), sources, settings))
        return [best[0].tokens[: longest - 1] for best in in_order(found, len(sources))]

    return decode
