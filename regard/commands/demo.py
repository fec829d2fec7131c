"""``regard demo``: train, evaluate and use a model in a few minutes, on data of an installed package."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.commands.options import epilog
from regard.core.wording import pluralize

if TYPE_CHECKING:
    from regard.data.public.cmudict import Dictionary
    from regard.tasks.translation.translator import Translator

NEW_WORDS = (
    "bahdanau",
    "transducer",
    "tokenizer",
    "blorptastic",
    "gradienting",
    "vaswanian",
    "wordpiece",
    "antattention",
)
DRAWN = "phonograph"
QUICK = 50  # with REGARD_QUICK, one word in 50 is used: a short run of all stages


def register(app: typer.Typer) -> None:
    """Add ``regard demo`` to the command line."""
    app.command("demo", epilog=epilog("regard demo --minutes 2", "regard demo --task classification"))(demo)


def demo(
    task: Annotated[
        Literal["translation", "classification"],
        typer.Option(help="Learn letters to sounds (translation) or the number of syllables (classification)."),
    ] = "translation",
    minutes: Annotated[
        float | None,
        typer.Option(min=0.05, help="Train for this time, in minutes.", show_default="4, and 1 for classification"),
    ] = None,
    runs: Annotated[Path, typer.Option(help="Create the run folder in this folder.")] = Path("runs"),
) -> None:
    """Learn to pronounce English words from CMUdict: check the data, train, evaluate, translate, show attention.

    With --task classification: learn to count the syllables of a word, compare with two baselines, and show the
    attention of each letter.
    """
    default_minutes, run = DEMOS[task]
    run(default_minutes if minutes is None else minutes, runs)


def _syllable_demo(minutes: float, runs: Path) -> None:
    from regard.commands.demo_syllables import syllable_demo

    syllable_demo(minutes, runs)


def _pronunciation_demo(minutes: float, runs: Path) -> None:
    from regard.commands.train import open_display
    from regard.data.public.cmudict import Dictionary, find_dictionary, write_corpora
    from regard.runs.config import load_config
    from regard.runs.run_folder import RunFolder
    from regard.runs.run_names import new_folder
    from regard.tasks.translation.translator import load
    from regard.training.start import train_new

    short = bool(os.environ.get("REGARD_QUICK"))
    dictionary = find_dictionary()
    if short:
        dictionary = Dictionary(dictionary.entries[::QUICK])
    paths = write_corpora(dictionary, Path("data") / "cmudict-demo")
    typer.echo(
        f"CMUdict: {pluralize(len(dictionary.words), 'word')}, {pluralize(len(dictionary.entries), 'pronunciation')}"
    )
    _check(paths)
    overrides = ["train.minutes=", "train.steps=3"] if short else [f"train.minutes={minutes}"]
    overrides += [f'data.{part}.0.source="{paths[part]}"' for part in ("train", "valid")]
    run = RunFolder.create(new_folder(runs, "demo"), load_config("demo", overrides))
    typer.echo(f"training for {minutes:g} minutes; Ctrl-C saves and stops")
    code = train_new(run, open_display)
    if code:
        raise typer.Exit(code)
    model = load(run.path)
    _measure(model, paths["test"])
    _pronounce(model, dictionary)
    _draw(model)
    typer.echo(
        f"\nThe run is in {run.path}. Next:\n"
        f"  echo attention | regard translate {run.path} --nbest 3\n"
        f"  regard inspect {run.path} attention\n"
        f"  regard info {run.path}\n"
        f"  regard evaluate {run.path} {paths['test']} --metric wer,per"
    )


# By the value of --task: minutes of training, and the function.
DEMOS = {"translation": (4.0, _pronunciation_demo), "classification": (1.0, _syllable_demo)}


def _check(paths: dict[str, Path]) -> None:
    from regard.data.lint.check import lint
    from regard.data.reading import FileCorpus

    report = lint(FileCorpus(source=paths["train"]), held_out=[FileCorpus(source=paths["test"])])
    counts = ", ".join(f"{kind} {count:,}" for kind, count in report.counts.items() if count)
    typer.echo(
        f"check: {pluralize(report.lines, 'pair')} to train on; {f'findings: {counts}' if counts else 'no findings'}"
    )


def _measure(model: Translator, test: Path) -> None:
    from regard.commands.progress import progress
    from regard.data.tokenizers.tokenizer import TokenizerConfig
    from regard.metrics.text import evaluate, read_examples

    examples = read_examples(test, tokenizer=TokenizerConfig(kind="word")).by_source()
    sources, references = examples.sources, examples.references
    with progress("pronouncing", len(sources), unit="words") as done:
        outputs = [translation.text for translation in model.translate(sources, done=done)]
    wer, per = (evaluate(metric, outputs, references) for metric in ("wer", "per"))
    typer.echo(
        f"\n{pluralize(len(sources), 'held-out word')}: {wer.value:.1f} % WER, {per.value:.1f} % PER "
        "(without stress, nearest reference)\n"
        "published: 20.6 % WER by a Transformer of the CMUSphinx project (not comparable: other split, full training)"
    )


def _pronounce(model: Translator, dictionary: Dictionary) -> None:
    words = [word for word in NEW_WORDS if word not in dictionary.words][:6]
    typer.echo("\nwords that are not in the dictionary:")
    for word, answer in zip(words, model.translate(words), strict=True):
        typer.echo(f"  {word:<14} {answer.text}")


def _draw(model: Translator) -> None:
    """Print the mean attention of the layer with the sharpest weights, which is the easiest to read."""
    from regard.inspection.terminal_heat_map import draw_attention

    answer = model(DRAWN)
    weights: dict[str, Any] = {name: w for name, w in answer.attention.items() if name.endswith(".source")}
    name = max(weights, key=lambda layer: float(weights[layer].mean(0).amax(-1).mean()))
    typer.echo(f"\nattention of each phoneme to the letters of {DRAWN!r} ({name}, mean of the heads):\n")
    typer.echo(draw_attention(weights[name].mean(0), [*DRAWN, "·"], [*answer.candidates[0].pieces, "·"]))
