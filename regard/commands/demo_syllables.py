"""The classification demo: predict the number of syllables of an English word from its letters."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.core.wording import pluralize

if TYPE_CHECKING:
    from regard.tasks.supervised_predictor import SupervisedPredictor

NEW_WORDS = ("transducer", "blorptastic", "gradienting", "wordpiece", "antattention", "queueing")
DRAWN = "acknowledgeable"
BAR = 24  # width of the longest bar, in characters


def syllable_demo(minutes: float, runs: Path) -> None:
    """Train, compare with two baselines, predict new words, and show the attention of each letter."""
    from regard.commands.train import open_display
    from regard.data.public.cmudict import find_syllables, write_corpora
    from regard.runs.config import load_config
    from regard.runs.run_folder import RunFolder
    from regard.runs.run_names import new_folder
    from regard.tasks.load import load
    from regard.training.start import train_new

    short = bool(os.environ.get("REGARD_QUICK"))
    dictionary = find_syllables()
    if short:
        dictionary = dictionary._replace(entries=dictionary.entries[::50])
    paths = write_corpora(dictionary, Path("data") / "cmudict-syllables")
    typer.echo(f"CMUdict: {pluralize(len(dictionary.words), 'word')}; classes: 1 to 5 syllables, 6 or more")
    overrides = ["train.minutes=", "train.steps=3"] if short else [f"train.minutes={minutes}"]
    overrides += [f'data.{part}.0.source="{paths[part]}"' for part in ("train", "valid")]
    run = RunFolder.create(new_folder(runs, "demo-syllables"), load_config("demo-syllables", overrides))
    typer.echo(f"training for {minutes:g} minutes; Ctrl-C saves and stops")
    code = train_new(run, open_display)
    if code:
        raise typer.Exit(code)
    model: Any = load(run.path)
    _measure(model, paths["test"])
    _predict_new_words(model, dictionary.words)
    typer.echo(
        f"\nThe run is in {run.path}. Next:\n"
        f"  echo attention | regard classify {run.path} --json\n"
        f"  regard evaluate {run.path} {paths['test']}\n"
        f"  regard inspect {run.path} attention"
    )


def _measure(model: SupervisedPredictor, test: Path) -> None:
    from collections import Counter

    from regard.data.text_files import read_lines

    rows = [line.split("\t") for line in read_lines(test)]
    labels = [label for _, label in rows]
    majority = Counter(labels).most_common(1)[0][0]
    predictions = {
        "accuracy": [prediction.label for prediction in model([word for word, _ in rows])],
        f"always {majority}": [majority] * len(rows),
        "counting groups of vowels": [vowel_groups(word) for word, _ in rows],
    }
    accuracy, *baselines = (
        f"{100 * sum(map(str.__eq__, predicted, labels)) / len(rows):.1f} % {name}"
        for name, predicted in predictions.items()
    )
    typer.echo(f"\n{pluralize(len(rows), 'held-out word')}: {accuracy} (baselines: {', '.join(baselines)})")


def vowel_groups(word: str) -> str:
    """Return the label of the baseline rule: one syllable per group of vowels, without a silent e at the end."""
    from regard.data.public.cmudict import syllable_label

    groups = len(re.findall(r"[aeiouy]+", word))
    return syllable_label(max(groups - (word.endswith("e") and not word.endswith("le") and groups > 1), 1))


def _predict_new_words(model: SupervisedPredictor, known: set[str]) -> None:
    typer.echo("\nwords that are not in the dictionary:")
    for word, answer in zip(NEW_WORDS, model(NEW_WORDS), strict=True):
        if word not in known:
            typer.echo(f"  {word:<14} {answer.label}  ({answer.probability:.0%})")
    (answer,) = model([DRAWN])
    largest = max(weight for _, weight in answer.weights)
    typer.echo(f"\nattention to the letters of {DRAWN!r} ({answer.label}):\n")
    for piece, weight in answer.weights:
        typer.echo(f"  {piece:<4} {weight:6.1%} {'█' * round(BAR * weight / largest)}")
