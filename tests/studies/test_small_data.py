"""The law of small data: with 100 examples, the automatic choice is not below the baseline by 2 standard errors.

One size of three tasks of ``bench/few_examples.py``, on generated data with noise. The standard error is that of paired
differences over seeds, as in the table. Updates are limited by number, so the outcome does not depend on the clock.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from regard.studies.curve_corpora import draw_session
from regard.studies.learning_curves import LineProblem, paired_difference, train_and_measure

EXAMPLES, TESTED, UPDATES, SEEDS = 100, 100, 10, (1, 2, 3)
OPINIONS = {"good": ("fine", "great", "lovely", "grand"), "bad": ("poor", "dull", "awful", "stale")}
SUBJECTS = ("film", "book", "song", "play", "plot")


def sentiment(draw: random.Random) -> str:
    label = draw.choice(sorted(OPINIONS))
    words = OPINIONS[label] if draw.random() < 0.8 else sum(OPINIONS.values(), ())
    return f"the {draw.choice(SUBJECTS)} of {draw.choice(SUBJECTS)} is {draw.choice(words)}\t{label}\n"


def tags(draw: random.Random) -> str:
    """A word ends like its tag in four of five cases; otherwise the tag follows from the preceding one."""
    names = [draw.choice("NV")]
    while len(names) < 6:
        names.append("N" if names[-1] == "D" else draw.choice("NVD"))
    endings = {"N": "on", "V": "ate", "D": "e"}
    tokens = [draw.choice("bcdfgl") + draw.choice("aiou") + (endings[name] if draw.random() < 0.8 else "x")
              for name in names]  # fmt: skip
    return json.dumps({"tokens": tokens, "tags": names}) + "\n"


def items(draw: random.Random) -> str:
    return json.dumps({"items": [f"i{item % 40}" for item in draw_session(draw)]}) + "\n"


@pytest.mark.parametrize(
    "example, file, task, metric",
    [
        (sentiment, "data.tsv", "classification", "accuracy"),
        (tags, "data.jsonl", "tagging", "accuracy"),
        (items, "data.jsonl", "next-item", "hit_rate_10"),
    ],
)
def test_the_automatic_choice_is_not_below_its_baseline(
    example: Callable[[random.Random], str], file: str, task: str, metric: str
) -> None:
    models, baselines = [], []
    for seed in SEEDS:
        draw = random.Random(seed)
        lines = [example(draw) for _ in range(EXAMPLES + TESTED)]
        problem = LineProblem(lines[:EXAMPLES], lines[EXAMPLES:], file, metric, keys=(f"task={task}",))
        keys = [f"train.steps={UPDATES}", "train.threads=1"]
        point = train_and_measure(problem, EXAMPLES, seed, keys)
        assert point.baseline is not None and point.wide
        assert 0.1 < point.baseline < 1, "neither chance nor perfect"
        models.append(point.model)
        baselines.append(point.baseline)
    difference = paired_difference(models, baselines)
    assert difference.mean >= -2 * difference.error, (models, baselines)
