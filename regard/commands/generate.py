"""``regard generate``: text that goes on from prompts, by a language model."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands.bulk import Bulk, Folder, run_bulk, takes_bulk
from regard.commands.incoming_lines import chunks, open_inputs, reader_left
from regard.commands.options import AsJson, CheckpointName, DeviceName, EngineName, Run, Threads, epilog, open_predictor
from regard.commands.output import open_output
from regard.commands.setting_options import takes_settings
from regard.config.search_settings import GenerationSettings
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.tasks.language_model.config import GenerateConfig
    from regard.tasks.language_model.generator import Generator

CHUNK = 64  # prompts generated together at most
EXAMPLES = epilog(
    'regard generate runs/book --prompt "It was" --length 200 --temperature 0.8 --seed 1',
    'regard generate runs/book --prompt "Q: Who?" --stop "Q:" --min-p 0.1 --samples 5 --json',
    "regard generate runs/book --length 40 < prompts.txt > texts.txt",
)

File = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE",
        help="Prompts, one a line, plain or .gz; - is standard input; several for bulk.",
        show_default="standard input if it is a pipe or a file",
    ),
]
Prompt = Annotated[
    str | None,
    typer.Option(help="Text to go on from.", show_default="the beginning of a text", rich_help_panel="Input"),
]
Samples = Annotated[int, typer.Option(min=1, metavar="N", help="Texts for each prompt.", rich_help_panel="Output")]


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
    output: Folder = None,
    requested: dict[str, Any],
    samples: Samples = 1,
    as_json: AsJson = False,
    bulk: Bulk = Bulk(),
    engine: EngineName = None,
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
) -> None:
    """Print a prompt and text that goes on from it, as it is generated.

    Prompts of a file or of standard input, one a line, give a line each (or --samples lines), in order, line breaks as
    spaces; a pipe is answered when its writer pauses. With --json an object each: text, log probability, tokens, and
    why it ended (end, stop or length). Each text is a function of its prompt, the seed and the number of the sample;
    with --beam above 1 the most probable texts are searched instead of drawn.
    With -o OUT/ files of prompts are work in bulk: in blocks, by --workers that may die, and the same command goes on.
    """
    _require_prompts(run, prompt, files)
    chosen = {name: value for name, value in requested.items() if value is not None and name != "seed"}
    opened: dict[str, Any] = {"checkpoint": checkpoint, "device": device, "threads": threads, "engine": engine}
    request: dict[str, Any] = {"samples": samples, "seed": requested["seed"], "as_json": as_json}
    if (bulk := bulk.of(files, output, folder=True)).wanted:
        _generate_in_bulk(bulk, run, chosen, opened, **request)
        return
    model: Generator = open_predictor(run, **opened)
    settings = _settings(model, chosen, samples)
    if request["seed"] is None:  # one of the whole command: equal prompts have equal texts, in whatever chunks they are
        request["seed"] = secrets.randbits(63)
    if prompt is None and (files or _is_piped()):
        _answer_lines(model, run, bulk, settings, **request)
    else:
        _answer_prompt(model, prompt or "", settings, **request)


def _require_prompts(run: Path, prompt: str | None, files: list[Path] | None) -> None:
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task

    if prompt is not None and files:
        raise ConfigError("--prompt and a file of prompts cannot be combined", help="give one of them")
    require_task(RunFolder.open(run), "language-model")


def _generate_in_bulk(
    bulk: Bulk, run: Path, chosen: dict[str, Any], opened: dict[str, Any], *, samples: int, seed: int | None,
    as_json: bool,
) -> None:  # fmt: skip
    if samples > 1:
        help = "another output folder with another --seed for each"
        raise ConfigError("in bulk a prompt has one text", where="--samples", help=help)
    spec = {"verb": "generate", "settings": chosen, "json": as_json, "seed": seed}
    run_bulk(bulk, run, spec | opened, doing="generating")


def _settings(model: Generator, given: dict[str, Any], samples: int) -> GenerateConfig:
    try:
        settings = model.adjusted(given)
    except ConfigError as error:
        where = error.where and error.where.partition(".")[0]  # of several stop strings, one
        error.where = None if where is None else "--" + where.replace("_", "-")
        raise
    if settings.temperature == 0 and settings.beam == 1 and samples > 1:
        why = "at temperature 0 always the likeliest token is taken"
        raise ConfigError(f"{samples} samples would be the same text", where="--samples", why=why)
    if settings.beam > 1 and samples > settings.beam:
        why = f"a beam of {settings.beam} has no more texts"
        raise ConfigError(f"cannot give {samples} texts of a prompt", where="--samples", why=why)
    return settings


def _is_piped() -> bool:
    """Return whether standard input is a pipe or a file, not a terminal, nothing, or closed."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, AttributeError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _answer_prompt(
    model: Generator, prompt: str, settings: GenerateConfig, *, samples: int, seed: int | None, as_json: bool
) -> None:
    """Print one text as it comes, or several, or objects."""
    if as_json or samples > 1:
        _answer(model, [prompt], settings, samples=samples, seed=seed, as_json=as_json)
        return
    parts = model.stream(prompt, settings, seed=seed)
    # Together, so that no failure of the first is glued to a prompt.
    print(prompt + next(parts).text, end="", flush=True)
    for part in parts:
        print(part.text, end="", flush=True)
    print()


def _answer_lines(
    model: Generator, run: Path, named: Bulk, settings: GenerateConfig, *, samples: int, seed: int | None,
    as_json: bool,
) -> None:  # fmt: skip
    from regard.tasks.prediction import read_inputs

    source = named.source
    with open_inputs(run, source, named.columns, watched=True) as (lines, ready, places):
        number = 1
        for chunk in chunks(lines, 1 if source is None and sys.stdin.isatty() else CHUNK, first=1, ready=ready):
            where = None if places is None else list(places)[-len(chunk) :]
            name = str(source or "standard input")
            prompts, error = read_inputs(model, chunk, name=name, first=number, places=where)
            _answer(model, prompts, settings, samples=samples, seed=seed, as_json=as_json)
            if error is not None:
                raise error
            number += len(chunk)


def _answer(
    model: Generator, prompts: list[str], settings: GenerateConfig, *, samples: int, seed: int | None, as_json: bool
) -> None:
    """Print the texts of the prompts, a line each, in order, each as soon as it is there."""
    with open_output(None, None, job={}, resume=False) as lines:
        for found in model.generate(prompts, settings, samples=samples, seed=seed):
            reader_left()
            lines.write(model.write(found, json=as_json))
