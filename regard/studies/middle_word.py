"""Words in the middle of a line, told from both sides, from the left and from the right.

Claim: the words after a place tell what stands there as the words before it do, and both together tell more than either
(Taylor 1953's cloze test; Melamud et al. 2016).

Measured: lines of a text of five words or more, every tenth of the distinct ones held out. Of the words those that
occur twice or more in training count; the others are one word, which is never asked for. Three networks: one predicts
each word from the words before it, one from those after it, each by a causal Transformer of 4 layers of 128; and one
from both, by two of half the layers, read from either end. All of them learn from every word of a line, unlike a masked
model, which learns from 15 of 100 (the task `masked` is one; it needs many times the updates). 800 updates of 96 lines,
AdamW at 2e-3 falling to zero, dropout 0.1; three seeds. Figures: how often the likeliest word is the one in the middle
of a held-out line. The baseline is always the most frequent word.

Thresholds: both sides tell at least 5 of 100 words more than the better single side, and each single side at least 5
more than frequency alone: differences that are several times the spread of seeds.
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
SHORTEST, LONGEST = 5, 40  # words of a line
MARGIN = 5.0  # of 100 words
SIDES = ("both sides", "the left", "the right")


class CourseSize(NamedTuple):
    """Updates, lines of each, seeds, and sizes of the networks."""

    updates: int = 800
    lines: int = 96
    seeds: int = 3
    layers: int = 4
    width: int = 128


MINIMAL = CourseSize(3, 4, 1, 1, 8)


class WordLines(NamedTuple):
    """Lines as numbers of words, to learn from and held out; how many types there are; the most frequent word."""

    train: list[list[int]]
    held: list[list[int]]
    types: int
    frequent: int


def run(
    *, seed: int, minimal: bool, report: Report, text: Path | None = None, folder: Path | None = None,
    sides: Mapping[str, str] | None = None,
) -> Findings:  # fmt: skip
    """Train and judge; ``sides`` says what each network reads instead of what its name says, for tests."""
    size = MINIMAL if minimal else CourseSize()
    if text is None and not minimal:
        help = "regard study middle-word --text FILE"
        raise ConfigError("this study needs a text", why="none is part of Regard", help=help)
    lines = read_words(_generated() if text is None else read_lines(text))
    found: dict[str, list[float]] = {side: [] for side in SIDES}
    jobs = [(side, seed + number) for number in range(size.seeds) for side in SIDES]
    for done, (side, each) in enumerate(jobs):
        part = partial(_tell, report, done, len(jobs))
        found[side].append(_accuracy(lines, (sides or {}).get(side, side), size, each, part))
    report(1.0)
    frequent = 100 * fmean(_middle(line) == lines.frequent for line in lines.held)
    return _findings(found, frequent, lines, "generated lines" if text is None else text.name)


def _tell(report: Report, job: int, jobs: int, share: float) -> None:
    """Report the share of all jobs that is done, from that of one."""
    report((job + share) / jobs)


def read_words(text: Iterable[str]) -> WordLines:
    """The lines of a text that can be asked about. DataError where they are fewer than ten."""
    distinct = dict.fromkeys(tuple(WORD.findall(line.lower()))[:LONGEST] for line in text)
    words = [line for line in distinct if len(line) >= SHORTEST]
    train, held = ([line for at, line in enumerate(words) if (at % 10 == 9) == last] for last in (False, True))
    if not held:
        raise DataError("there are too few lines", why=f"ten different ones of {SHORTEST} words are needed")
    counts = Counter(word for line in train for word in line)
    known = [word for word, count in counts.most_common() if count > 1]
    number = {word: at for at, word in enumerate(known, start=len(SPECIALS))}
    numbered = [[[number.get(word, UNKNOWN) for word in line] for line in part] for part in (train, held)]
    asked = [line for line in numbered[1] if _middle(line) != UNKNOWN]
    return WordLines(numbered[0], asked, len(SPECIALS) + len(known), len(SPECIALS))


def _middle(line: Sequence[int]) -> int:
    return line[len(line) // 2]


def _accuracy(lines: WordLines, side: str, size: CourseSize, seed: int, report: Report) -> float:
    """Per cent of the middle words of held-out lines that a newly trained network says."""
    torch.manual_seed(seed)
    network = (_BothSides if side == "both sides" else _OneSide)(lines.types, size)
    backwards = -1 if side == "the right" else 1
    optimizer = torch.optim.AdamW(network.parameters(), 2e-3, betas=(0.9, 0.98), weight_decay=0.1)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 100, (size.updates - step) / size.updates)
    )
    draw = random.Random(seed)
    for step in range(size.updates):
        loss = network.loss([line[::backwards] for line in draw.choices(lines.train, k=size.lines)])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        rate.step()
        report(step / size.updates)
    network.eval()
    right = 0
    with torch.no_grad():
        for at in range(0, len(lines.held), 256):
            part = lines.held[at : at + 256]
            places = [len(line) // 2 if side != "the right" else (len(line) - 1) // 2 for line in part]
            said = network.say([line[::backwards] for line in part], places)
            right += int((said == torch.tensor([_middle(line) for line in part])).sum())
    return 100 * right / len(lines.held)


class _BothSides(nn.Module):
    """Two stacks of half the layers, one over the words before a place and one, backwards, over those after it.

    Both states together predict the word (Melamud et al. 2016, with causal Transformers in place of LSTMs), so that a
    line teaches as many words as it teaches the language models.
    """

    def __init__(self, types: int, size: CourseSize) -> None:
        super().__init__()
        half = size._replace(layers=max(size.layers // 2, 1))
        self.before, self.after = _OneSide(types, half), _OneSide(types, half)
        self.after.model.embedding, self.after.model.head = self.before.model.embedding, self.before.model.head
        self.join = nn.Linear(2 * size.width, size.width)

    def loss(self, lines: list[list[int]]) -> Tensor:
        wanted, valid = padded(lines)
        counted = valid & (wanted != UNKNOWN)
        return cross_entropy(self._logits(lines)[counted], wanted[counted])

    def say(self, lines: list[list[int]], places: list[int]) -> Tensor:
        return _likeliest(self._logits(lines)[torch.arange(len(lines)), torch.tensor(places)])

    def _logits(self, lines: list[list[int]]) -> Tensor:
        before, after = self.before.states(lines), self.after.states([line[::-1] for line in lines])
        lengths = torch.tensor([len(line) for line in lines])
        place = (lengths[:, None] - 1 - torch.arange(before.shape[1])).clamp_min(0)  # of each word, read backwards
        turned = after.gather(1, place[..., None].expand_as(after))
        found: Tensor = self.before.model.head(self.join(torch.cat([before, turned], -1)))
        return found


class _OneSide(nn.Module):
    """A language model: each word is predicted from those that come before it in the line as it is given."""

    def __init__(self, types: int, size: CourseSize) -> None:
        super().__init__()
        config = CausalStackConfig(
            layers=size.layers, width=size.width, feed_forward=4 * size.width, heads=4, dropout=0.1
        )
        embedding = embedding_matrix(types, size.width, std=0.02)
        self.model = language_model(config, TokenInput(embedding), Head(embedding))

    def states(self, lines: list[list[int]]) -> Tensor:
        """States before each word of the lines, of the words before it."""
        tokens, valid = padded([[BEGIN, *line[:-1]] for line in lines])
        found: Tensor = self.model(tokens, Span.of(valid)).features
        return found

    def loss(self, lines: list[list[int]]) -> Tensor:
        wanted, valid = padded(lines)
        counted = valid & (wanted != UNKNOWN)
        return cross_entropy(self.model.head(self.states(lines)[counted]), wanted[counted])

    def say(self, lines: list[list[int]], places: list[int]) -> Tensor:
        states = self.states(lines)[torch.arange(len(lines)), torch.tensor(places)]
        return _likeliest(self.model.head(states))


def _likeliest(logits: Tensor) -> Tensor:
    return logits[:, len(SPECIALS) :].argmax(1) + len(SPECIALS)


def _findings(found: Mapping[str, Sequence[float]], frequent: float, lines: WordLines, text: str) -> Findings:
    both, left, right = (fmean(found[side]) for side in SIDES)
    rows: list[tuple[str, float, float]] = [(side, fmean(each), max(each) - min(each)) for side, each in found.items()]
    return Findings(
        columns=("words read", "middle words told, %", "spread"),
        rows=[*rows, ("none: the most frequent word", frequent, 0.0)],
        criteria=[
            at_least("words more of 100 by both sides than by the better one", both - max(left, right), MARGIN),
            at_least("words more by the left than by frequency", left - frequent, MARGIN),
            at_least("words more by the right than by frequency", right - frequent, MARGIN),
        ],
        remarks=(
            f"The text is {text}: {len(lines.train):,} lines to learn from, {len(lines.held):,} that are asked, "
            f"{lines.types - len(SPECIALS):,} words. The middle of a line of verse is most often a function word.",
        ),
        draw=lambda figure: _draw(figure, found, frequent),
    )


def _draw(figure: Figure, found: Mapping[str, Sequence[float]], frequent: float) -> None:
    axes = figure.subplots()
    for place, each in enumerate(found.values()):
        axes.barh(place, fmean(each), height=0.6, color=f"C{place}")
        axes.plot(each, [place] * len(each), "k.", markersize=4)
    axes.axvline(frequent, color="black", linewidth=0.8, linestyle="--")
    axes.set(xlabel="middle words told, % (dashed: the most frequent word)", yticks=range(3), yticklabels=list(found))
    axes.invert_yaxis()


def _generated() -> list[str]:
    """WordLines whose middle word is told by its neighbors on both sides together."""
    draw = random.Random(0)
    return [
        f"so {one} the {'high' if one == other else 'deep'} {other} sea ."
        for one, other in (draw.choices(("red", "blue", "green"), k=2) for _ in range(60))
    ] + [f"line {number} of many words here" for number in range(40)]
