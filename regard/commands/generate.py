"""``regard generate``: continue prompts with a language model."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands.bulk import Bulk, Folder, run_bulk, takes_bulk
from regard.commands.incoming_lines import chunks, open_inputs, reader_left
from regard.commands.options import (
    AsJson,
    CheckpointName,
    DeviceName,
    EngineName,
    Ensemble,
    Run,
    Threads,
    epilog,
    open_predictor,
)
from regard.commands.output import open_output
from regard.commands.setting_options import takes_settings
from regard.config.search_settings import GenerationSettings
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.tasks.language_model.config import GenerateConfig
    from regard.tasks.language_model.generator import Generator

CHUNK = 64  # maximum number of prompts generated together
EXAMPLES = epilog(
    'regard generate runs/book --prompt "It was" --length 200 --temperature 0.8 --seed 1',
    'regard generate runs/book --prompt "Q: Who?" --stop "Q:" --min-p 0.1 --samples 5 --json',
    "regard generate runs/book --length 40 < prompts.txt > texts.txt",
    'regard generate runs/assistant --chat --prompt "Who are you?"',
)

File = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE",
        help="Prompts, one per line, plain or .gz; - is standard input; several files run in bulk.",
        show_default="standard input if it is a pipe or a file",
    ),
]
Prompt = Annotated[
    str | None,
    typer.Option(help="Continue this text.", show_default="the beginning of a text", rich_help_panel="Input"),
]
Chat = Annotated[
    bool,
    typer.Option(
        "--chat",
        help="Read each prompt as a message of the user, or as a JSON list of messages, and print the reply.",
        rich_help_panel="Input",
    ),
]
Samples = Annotated[
    int, typer.Option(min=1, metavar="N", help="Generate N texts per prompt.", rich_help_panel="Output")
]


def register(app: typer.Typer) -> None:
    """Add ``regard generate`` to the command line."""
    app.command("generate", epilog=EXAMPLES)(generate)


@takes_bulk
@takes_settings("requested", GenerationSettings)
def generate(
    run: Run,
    files: File = None,
    *,
    prompt: Prompt = None,
    chat: Chat = False,
    output: Folder = None,
    requested: dict[str, Any],
    samples: Samples = 1,
    as_json: AsJson = False,
    bulk: Bulk = Bulk(),
    engine: EngineName = None,
    ensemble: Ensemble = None,
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
) -> None:
    """Continue a prompt and print the text while it is generated.

    Prompts from a file or from standard input, one per line, give one line each (or --samples lines), in order, with
    line breaks as spaces. Standard input is read as a stream: results are flushed when no more input is waiting. --json
    prints an object per text with its log probability, its tokens and why it ended (end, stop or length).

    A text depends only on its prompt, the seed and the number of the sample. With --beam above 1, beam search finds the
    most probable texts instead of sampling.

    With -o OUT/, files are processed in bulk: in blocks, by --workers processes. After an interruption, run the same
    command again to resume.
    """
    _require_prompts(run, prompt, files, chat=chat)
    chosen = {name: value for name, value in requested.items() if value is not None and name != "seed"}
    opening: dict[str, Any] = {"checkpoint": checkpoint, "device": device, "threads": threads, "engine": engine}
    opening |= {"ensemble": [str(other.resolve()) for other in ensemble]} if ensemble else {}
    request: dict[str, Any] = {"samples": samples, "seed": requested["seed"], "as_json": as_json}
    if (bulk := bulk.with_files(files, output, folder=True)).requested:
        _generate_in_bulk(bulk, run, chosen, opening, **request, chat=chat)
        return
    model: Generator = open_predictor(run, **opening)
    settings = _settings(model, chosen, samples)
    if request["seed"] is None:  # one seed for the whole command: equal prompts give equal texts in any chunk
        request["seed"] = secrets.randbits(63)
    if prompt is None and (files or _is_piped()):
        _continue_lines(model, run, bulk, settings, **request, chat=chat)
    else:
        _continue_prompt(model, prompt or "", settings, **request, chat=chat)


def _require_prompts(run: Path, prompt: str | None, files: list[Path] | None, *, chat: bool) -> None:
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task

    if prompt is not None and files:
        raise ConfigError("--prompt and a file of prompts cannot be combined", help="use only one of them")
    if chat and prompt is None and not files and not _is_piped():
        raise ConfigError("a conversation requires a message", where="--chat", help='--chat --prompt "Hello"')
    require_task(RunFolder.open(run), "language-model")


def _generate_in_bulk(
    bulk: Bulk, run: Path, chosen: dict[str, Any], opening: dict[str, Any], *, samples: int, seed: int | None,
    as_json: bool, chat: bool,
) -> None:  # fmt: skip
    if chat:
        help = "read the conversations from one file or from standard input: … --chat < FILE"
        raise ConfigError("--chat cannot be used in bulk", where="--chat", help=help)
    if samples > 1:
        help = "run one command per sample, each with its own --seed and output folder"
        raise ConfigError("--samples above 1 cannot be used in bulk", where="--samples", help=help)
    spec = {"verb": "generate", "settings": chosen, "json": as_json, "seed": seed}
    run_bulk(bulk, run, spec | opening, doing="generating")


def _settings(model: Generator, chosen: dict[str, Any], samples: int) -> GenerateConfig:
    try:
        settings = model.adjusted(chosen)
    except ConfigError as error:
        where = error.where and error.where.partition(".")[0]  # a key such as stop.0 names one of several strings
        error.where = None if where is None else "--" + where.replace("_", "-")
        raise
    if settings.temperature == 0 and settings.beam == 1 and samples > 1:
        why = "temperature 0 always selects the most probable token"
        raise ConfigError(f"all {samples} samples would be equal", where="--samples", why=why)
    if settings.beam > 1 and samples > settings.beam:
        why = f"a beam of width {settings.beam} finds at most {settings.beam} texts"
        raise ConfigError(f"cannot return {samples} texts per prompt", where="--samples", why=why)
    return settings


def _is_piped() -> bool:
    """Return whether standard input is a pipe, a socket or a file, and not a terminal or closed."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, AttributeError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _continue_prompt(
    model: Generator, prompt: str, settings: GenerateConfig, *, samples: int, seed: int | None, as_json: bool,
    chat: bool,
) -> None:  # fmt: skip
    """Print one text while it is generated; several texts, or JSON, when they are complete."""
    input: Any = model.read_messages(prompt, settings) if chat else prompt
    if as_json or samples > 1:
        _print_texts(model, [input], settings, samples=samples, seed=seed, as_json=as_json, chat=chat)
        return
    parts = (model.stream_chat if chat else model.stream)(input, settings, seed=seed)
    # The prompt is printed after the first part succeeded: an error message must not follow it on the same line.
    print(("" if chat else prompt) + next(parts).text, end="", flush=True)
    for part in parts:
        print(part.text, end="", flush=True)
    print()


def _continue_lines(
    model: Generator, run: Path, bulk: Bulk, settings: GenerateConfig, *, samples: int, seed: int | None,
    as_json: bool, chat: bool,
) -> None:  # fmt: skip
    from regard.tasks.prediction import read_inputs

    read = partial(model.read_messages, settings=settings) if chat else None
    source = bulk.source
    with open_inputs(run, source, bulk.columns, watched=True) as (lines, ready, row_names):
        number = 1
        for chunk in chunks(lines, 1 if source is None and sys.stdin.isatty() else CHUNK, first=1, ready=ready):
            where = None if row_names is None else list(row_names)[-len(chunk) :]
            name = str(source or "standard input")
            prompts, error = read_inputs(model, chunk, name=name, first=number, row_names=where, read=read)
            _print_texts(model, prompts, settings, samples=samples, seed=seed, as_json=as_json, chat=chat)
            if error is not None:
                raise error
            number += len(chunk)


def _print_texts(
    model: Generator, prompts: list[Any], settings: GenerateConfig, *, samples: int, seed: int | None, as_json: bool,
    chat: bool,
) -> None:  # fmt: skip
    """Print the texts of the prompts, one per line and in order, each as soon as it is complete."""
    with open_output(None, None, job={}, resume=False) as lines:
        texts = (model.replies if chat else model.generate)(prompts, settings, samples=samples, seed=seed)
        for text in texts:
            reader_left()
            lines.write(model.write(text, json=as_json))
