"""The demo of a second kind: a classifier that tells the number of syllables of an English word from its letters."""

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
BAR = 24  # columns of the longest bar


def syllable_demo(minutes: float, runs: Path) -> None:
    """Train, measure beside two baselines, tell words that are new, and show which letters decided."""
    from regard.commands.train import new_folder, open_display
    from regard.data.public.cmudict import find_syllables, write_corpora
    from regard.runs.config import load_config
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import load
    from regard.training.start import train_new

    quick = bool(os.environ.get("REGARD_QUICK"))
    dictionary = find_syllables()
    if quick:
        dictionary = dictionary._replace(entries=dictionary.entries[::50])
    paths = write_corpora(dictionary, Path("data") / "cmudict-syllables")
    typer.echo(f"CMUdict: {pluralize(len(dictionary.words), 'word')} with 1 to 5 syllables, or 6 and more")
    overrides = ["train.minutes=", "train.steps=3"] if quick else [f"train.minutes={minutes}"]
    overrides += [f'data.{part}.0.source="{paths[part]}"' for part in ("train", "valid")]
    run = RunFolder.create(new_folder(runs, "demo-syllables"), load_config("demo-syllables", overrides))
    typer.echo(f"training for {minutes:g} minutes; Ctrl-C saves and stops")
    code = train_new(run, open_display)
    if code:
        raise typer.Exit(code)
    model: Any = load(run.path)
    _measure(model, paths["test"])
    _tell(model, dictionary.words)
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
    told = [each.label for each in model([word for word, _ in rows])]
    usual = Counter(label for _, label in rows).most_common(1)[0][0]
    right = {
        "right": told,
        f"always {usual}": [usual] * len(rows),
        "groups of vowels in a row": [vowel_groups(word) for word, _ in rows],
    }
    first, *others = (
        f"{100 * sum(one == label for one, (_, label) in zip(answers, rows, strict=True)) / len(rows):.1f} % {name}"
        for name, answers in right.items()
    )
    typer.echo(f"\n{pluralize(len(rows), 'word')} held out: {first}; {', '.join(others)}")


def vowel_groups(word: str) -> str:
    """The usual rule: a syllable a group of vowels, a silent e at the end left out."""
    from regard.data.public.cmudict import syllable_label

    found = len(re.findall(r"[aeiouy]+", word))
    return syllable_label(max(found - (word.endswith("e") and not word.endswith("le") and found > 1), 1))


def _tell(model: SupervisedPredictor, known: set[str]) -> None:
    typer.echo("\nwords that are not in the dictionary:")
    for word, answer in zip(NEW_WORDS, model(NEW_WORDS), strict=True):
        if word not in known:
            typer.echo(f"  {word:<14} {answer.label}  ({answer.probability:.0%})")
    (answer,) = model([DRAWN])
    most = max(weight for _, weight in answer.weights)
    typer.echo(f"\nwhich letters of {DRAWN!r} decided ({answer.label}):\n")
    for piece, weight in answer.weights:
        typer.echo(f"  {piece:<4} {weight:6.1%} {'█' * round(BAR * weight / most)}")
