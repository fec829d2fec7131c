"""Prediction of the word in the middle of a line from both sides, from the left and from the right.

Claim: the words after a position predict its word as well as those before it, and both together predict better than
either (Taylor 1953's cloze test; Melamud et al. 2016).

Measured: lines of a text with five words or more; every tenth of the distinct lines is held out. Words that occur at
least twice in training are known; all others are one unknown word, which is never the word to predict. Three networks
are compared. One predicts each word from the words before it, one from the words after it. Each of the two is a causal
Transformer of 4 layers of width 128. The third uses both, by two stacks of half the layers, one per direction. All of
them learn from every word of a line. A masked model (the task `masked`) learns from only 15 of 100 words and needs many
times the updates. Training takes 800 updates of 96 lines, by AdamW at 2e-3 with a linear decrease to zero, dropout 0.1
and three seeds. Accuracy is the share of held-out lines whose middle word is the most probable word. The baseline
always predicts the most frequent word.

Thresholds: of 100 words, both sides predict at least 5 more than the better single side. Each single side predicts at
least 5 more than the baseline. These differences are several times the spread of the seeds.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.attention.span import Span
from regard.core.figure import COLORS, INK
from regard.data.padding import padded
from regard.data.text_files import read_lines
from regard.data.tokenizers.tokenizer import BEGIN, SPECIALS, UNKNOWN
from regard.errors import ConfigError, DataError
from regard.models.causal_config import CausalStackConfig
from regard.models.head import Head
from regard.models.input import TokenInput, embedding_matrix
from regard.models.transformer.build import language_model
from regard.studies.study import Findings, Report, at_least

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORD = re.compile(r"\w+(?:'\w+)*|[^\w\s]")
SHORTEST, LONGEST = 5, 40  # words per line
MARGIN = 5.0  # percentage points
SIDES = ("both sides", "the left", "the right")


class CourseSize(NamedTuple):
    """Updates, lines per update, seeds, and sizes of the networks."""

    updates: int = 800
    lines: int = 96
    seeds: int = 3
    layers: int = 4
    width: int = 128


MINIMAL = CourseSize(3, 4, 1, 1, 8)


class WordLines(NamedTuple):
    """Lines as word ids: those for training and those held out; the size of the vocabulary; the most frequent word."""

    train: list[list[int]]
    held: list[list[int]]
    types: int
    frequent: int


def run(
    *, seed: int, minimal: bool, report: Report, text: Path | None = None, folder: Path | None = None,
    sides: Mapping[str, str] | None = None,
) -> Findings:  # fmt: skip
    """Train the networks and compare their accuracies; tests replace the inputs of a network by ``sides``."""
    size = MINIMAL if minimal else CourseSize()
    if text is None and not minimal:
        help = "regard study middle-word --text FILE"
        raise ConfigError("the study requires a text", why="Regard contains no text", help=help)
    lines = read_words(_generated() if text is None else read_lines(text))
    accuracies: dict[str, list[float]] = {side: [] for side in SIDES}
    jobs = [(side, seed + number) for number in range(size.seeds) for side in SIDES]
    for done, (side, job_seed) in enumerate(jobs):
        report_share = partial(_report_job, report, done, len(jobs))
        accuracies[side].append(_accuracy(lines, (sides or {}).get(side, side), size, job_seed, report_share))
    report(1.0)
    frequent = 100 * fmean(_middle(line) == lines.frequent for line in lines.held)
    return _findings(accuracies, frequent, lines, "generated lines" if text is None else text.name)


def _report_job(report: Report, job: int, jobs: int, share: float) -> None:
    """Report the share of all jobs that is done, given the share of the current one."""
    report((job + share) / jobs)


def read_words(text: Iterable[str]) -> WordLines:
    """Return the lines of a text as word ids. DataError for fewer than ten distinct lines."""
    distinct = dict.fromkeys(tuple(WORD.findall(line.lower()))[:LONGEST] for line in text)
    words = [line for line in distinct if len(line) >= SHORTEST]
    train, held = (
        [line for index, line in enumerate(words) if (index % 10 == 9) == held_out] for held_out in (False, True)
    )
    if not held:
        raise DataError("the text has too few lines", why=f"at least ten distinct lines of {SHORTEST} words are needed")
    counts = Counter(word for line in train for word in line)
    known = [word for word, count in counts.most_common() if count > 1]
    ids = {word: index for index, word in enumerate(known, start=len(SPECIALS))}
    encoded = [[[ids.get(word, UNKNOWN) for word in line] for line in part] for part in (train, held)]
    tested = [line for line in encoded[1] if _middle(line) != UNKNOWN]
    return WordLines(encoded[0], tested, len(SPECIALS) + len(known), len(SPECIALS))


def _middle(line: Sequence[int]) -> int:
    return line[len(line) // 2]


def _accuracy(lines: WordLines, side: str, size: CourseSize, seed: int, report: Report) -> float:
    """Train a network and return its accuracy on the middle words of held-out lines, in percent."""
    torch.manual_seed(seed)
    network = (_BothSides if side == "both sides" else _OneSide)(lines.types, size)
    direction = -1 if side == "the right" else 1
    optimizer = torch.optim.AdamW(network.parameters(), 2e-3, betas=(0.9, 0.98), weight_decay=0.1)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 100, (size.updates - step) / size.updates)
    )
    generator = random.Random(seed)
    for step in range(size.updates):
        loss = network.loss([line[::direction] for line in generator.choices(lines.train, k=size.lines)])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        rate.step()
        report(step / size.updates)
    network.eval()
    correct = 0
    with torch.no_grad():
        for start in range(0, len(lines.held), 256):
            lines_of_batch = lines.held[start : start + 256]
            positions = [len(line) // 2 if side != "the right" else (len(line) - 1) // 2 for line in lines_of_batch]
            predicted = network.predict([line[::direction] for line in lines_of_batch], positions)
            correct += int((predicted == torch.tensor([_middle(line) for line in lines_of_batch])).sum())
    return 100 * correct / len(lines.held)


class _BothSides(nn.Module):
    """Two stacks of half the layers: one reads the words before a position, one the words after it in reverse.

    Their states together predict the word (Melamud et al. 2016, with causal Transformers instead of LSTMs). Every word
    of a line is in the loss, as for the language models.
    """

    def __init__(self, types: int, size: CourseSize) -> None:
        super().__init__()
        half = size._replace(layers=max(size.layers // 2, 1))
        self.before, self.after = _OneSide(types, half), _OneSide(types, half)
        self.after.model.embedding, self.after.model.head = self.before.model.embedding, self.before.model.head
        self.join = nn.Linear(2 * size.width, size.width)

    def loss(self, lines: list[list[int]]) -> Tensor:
        labels, valid = padded(lines)
        in_loss = valid & (labels != UNKNOWN)
        return cross_entropy(self._logits(lines)[in_loss], labels[in_loss])

    def predict(self, lines: list[list[int]], positions: list[int]) -> Tensor:
        return _most_probable(self._logits(lines)[torch.arange(len(lines)), torch.tensor(positions)])

    def _logits(self, lines: list[list[int]]) -> Tensor:
        before, after = self.before.states(lines), self.after.states([line[::-1] for line in lines])
        lengths = torch.tensor([len(line) for line in lines])
        index = (lengths[:, None] - 1 - torch.arange(before.shape[1])).clamp_min(0)  # of each word in the reversed line
        aligned = after.gather(1, index[..., None].expand_as(after))
        logits: Tensor = self.before.model.head(self.join(torch.cat([before, aligned], -1)))
        return logits


class _OneSide(nn.Module):
    """A language model: it predicts each word from the previous words of the line."""

    def __init__(self, types: int, size: CourseSize) -> None:
        super().__init__()
        config = CausalStackConfig(
            layers=size.layers, width=size.width, feed_forward=4 * size.width, heads=4, dropout=0.1
        )
        embedding = embedding_matrix(types, size.width, std=0.02)
        self.model = language_model(config, TokenInput(embedding), Head(embedding))

    def states(self, lines: list[list[int]]) -> Tensor:
        """Return the state that predicts each word, computed from the previous words."""
        tokens, valid = padded([[BEGIN, *line[:-1]] for line in lines])
        features: Tensor = self.model(tokens, Span.of(valid)).features
        return features

    def loss(self, lines: list[list[int]]) -> Tensor:
        labels, valid = padded(lines)
        in_loss = valid & (labels != UNKNOWN)
        return cross_entropy(self.model.head(self.states(lines)[in_loss]), labels[in_loss])

    def predict(self, lines: list[list[int]], positions: list[int]) -> Tensor:
        states = self.states(lines)[torch.arange(len(lines)), torch.tensor(positions)]
        return _most_probable(self.model.head(states))


def _most_probable(logits: Tensor) -> Tensor:
    return logits[:, len(SPECIALS) :].argmax(1) + len(SPECIALS)


def _findings(accuracies: Mapping[str, Sequence[float]], baseline: float, lines: WordLines, text: str) -> Findings:
    both, left, right = (fmean(accuracies[side]) for side in SIDES)
    rows: list[tuple[str, float, float]] = [
        (side, fmean(values), max(values) - min(values)) for side, values in accuracies.items()
    ]
    return Findings(
        columns=("context", "accuracy on middle words, %", "spread"),
        rows=[*rows, ("none: the most frequent word", baseline, 0.0)],
        criteria=[
            at_least("both sides − better single side, points", both - max(left, right), MARGIN),
            at_least("the left − most frequent word, points", left - baseline, MARGIN),
            at_least("the right − most frequent word, points", right - baseline, MARGIN),
        ],
        remarks=(
            f"The text is {text}: {len(lines.train):,} training lines, {len(lines.held):,} test lines, "
            f"{lines.types - len(SPECIALS):,} words. The middle word of a line of verse is usually a function word.",
        ),
        draw=lambda figure: _draw(figure, accuracies, baseline),
    )


def _draw(figure: Figure, accuracies: Mapping[str, Sequence[float]], baseline: float) -> None:
    axes = figure.subplots()
    for row, values in enumerate(accuracies.values()):
        axes.barh(row, fmean(values), height=0.6, color=COLORS[0])
        axes.plot(values, [row] * len(values), ".", color=INK, markersize=4)
    axes.axvline(baseline, color=INK, linewidth=0.8, linestyle="--")
    axes.set(
        ylabel="model",
        xlabel="accuracy on middle words, % (dashed: most frequent word)",
        yticks=range(3),
        yticklabels=list(accuracies),
    )
    axes.invert_yaxis()


def _generated() -> list[str]:
    """Return lines whose middle word depends on the words on both sides together."""
    generator = random.Random(0)
    return [
        f"so {first} the {'high' if first == last else 'deep'} {last} sea ."
        for first, last in (generator.choices(("red", "blue", "green"), k=2) for _ in range(60))
    ] + [f"line {number} of many words here" for number in range(40)]
