"""Words in the middle of a line, told from both sides, from the left and from the right.

Claim: the words after a place tell what stands there as the words before it do, and both together tell more than either
(Taylor 1953's cloze test; Devlin et al. 2019, §1, for networks).

Measured: lines of a text of five words or more, every tenth of the distinct ones held out. Of the words those that occur
twice or more in training count; the others are one word, which is never asked for. Three networks of one size, 4 layers of
128: one reads a line with 15 % of its words masked and predicts these (both sides), one predicts each word from the words
before it, one from the words after it. 2,000 updates of 96 lines each, AdamW at 2e-3 falling to zero, dropout 0.1; three
seeds. Figures: how often the likeliest word is the one in the middle of a held-out line. The baseline is always the most
frequent word.

Thresholds: both sides tell at least 5 of 100 words more than the better single side, and each single side at least 5 more
than frequency alone: differences that are several times the spread of seeds.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.data.padding import padded
from regard.data.reading import read_lines
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, SPECIALS, UNKNOWN
from regard.errors import ConfigError, DataError
from regard.models.causal_config import CausalStackConfig
from regard.models.head import Head
from regard.models.masked_config import MaskedModelConfig
from regard.models.masked_model import build_masked_model
from regard.models.transformer.build import language_model
from regard.studies.study import Findings, Report, at_least

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SIDES", "Lines", "read_words", "run"]

WORD = re.compile(r"\w+(?:'\w+)*|[^\w\s]")
SHORTEST, LONGEST = 5, 40  # words of a line
MASKED, MARGIN = 0.3, 5.0
SIDES = ("both sides", "the left", "the right")


class Size(NamedTuple):
    """Updates, lines of each, seeds, and sizes of the networks."""

    updates: int = 2_000
    lines: int = 96
    seeds: int = 3
    layers: int = 4
    width: int = 128


QUICK = Size(3, 4, 1, 1, 8)


class Lines(NamedTuple):
    """Lines as numbers of words, to train on and held out; the number of types, and that of the most frequent word."""

    train: list[list[int]]
    held: list[list[int]]
    types: int
    frequent: int


def run(
    *, seed: int, quick: bool, report: Report, text: Path | None = None, folder: Path | None = None,
    sides: Mapping[str, str] | None = None,
) -> Findings:  # fmt: skip
    """Train and judge; ``sides`` says what each network reads instead of what its name says, for tests."""
    size = QUICK if quick else Size()
    if text is None and not quick:
        help = "regard study middle-word --text FILE"
        raise ConfigError("this study needs a text", why="none is part of Regard", help=help)
    lines = read_words(_generated() if text is None else read_lines(text))
    found: dict[str, list[float]] = {side: [] for side in SIDES}
    jobs = [(side, seed + number) for number in range(size.seeds) for side in SIDES]
    for done, (side, each) in enumerate(jobs):
        read = (sides or {}).get(side, side)
        found[side].append(_accuracy(lines, read, size, each, lambda part, at=done: report((at + part) / len(jobs))))
    frequent = 100 * fmean(_middle(line) == lines.frequent for line in lines.held)
    return _findings(found, frequent, lines, "generated lines" if text is None else text.name)


def read_words(text: Iterable[str]) -> Lines:
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
    return Lines(numbered[0], asked, len(SPECIALS) + len(known), len(SPECIALS))


def _middle(line: Sequence[int]) -> int:
    return line[len(line) // 2]


def _accuracy(lines: Lines, side: str, size: Size, seed: int, report: Callable[[float], None]) -> float:
    """Per cent of the middle words of held-out lines that a newly trained network says."""
    torch.manual_seed(seed)
    network = (_Both if side == "both sides" else _OneSide)(lines.types, size)
    turned = (lambda line: line[::-1]) if side == "the right" else (lambda line: line)
    optimizer = torch.optim.AdamW(network.parameters(), 2e-3, betas=(0.9, 0.98), weight_decay=0.1)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 100, (size.updates - step) / size.updates)
    )
    draw = random.Random(seed)
    for step in range(size.updates):
        loss = network.loss([turned(line) for line in draw.choices(lines.train, k=size.lines)])
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
            said = network.say([turned(line) for line in part], places)
            right += int((said == torch.tensor([_middle(line) for line in part])).sum())
    return 100 * right / len(lines.held)


class _Both(nn.Module):
    """A masked model: places are predicted from all words around them."""

    def __init__(self, types: int, size: Size) -> None:
        super().__init__()
        config = MaskedModelConfig.model_validate({
            "layers": size.layers, "width": size.width, "feed_forward": 4 * size.width, "heads": 4, "dropout": 0.1,
        })  # fmt: skip
        self.model, self.mask = build_masked_model(config, types), types

    def loss(self, lines: list[list[int]]) -> Tensor:
        tokens, valid = padded([[BEGIN, *line, END] for line in lines])
        words = valid & (tokens != BEGIN) & (tokens != END) & (tokens != UNKNOWN)
        chosen = words & (torch.rand(tokens.shape) < MASKED)
        features = self.model(tokens.masked_fill(chosen, self.mask), valid)[chosen]
        return cross_entropy(self.model.head(features), tokens[chosen], reduction="sum") / max(int(chosen.sum()), 1)

    def say(self, lines: list[list[int]], places: list[int]) -> Tensor:
        tokens, valid = padded([[BEGIN, *line, END] for line in lines])
        rows, column = torch.arange(len(lines)), torch.tensor(places) + 1
        tokens[rows, column] = self.mask
        return _likeliest(self.model.head(self.model(tokens, valid)[rows, column])[:, : self.mask])


class _OneSide(nn.Module):
    """A language model: each word is predicted from those that come before it in the line as it is given."""

    def __init__(self, types: int, size: Size) -> None:
        super().__init__()
        config = CausalStackConfig(
            layers=size.layers, width=size.width, feed_forward=4 * size.width, heads=4, dropout=0.1
        )
        embedding = nn.Parameter(torch.empty(types, size.width).normal_(std=0.02))
        self.model = language_model(config, embedding, Head(embedding))

    def loss(self, lines: list[list[int]]) -> Tensor:
        tokens, valid = padded([[BEGIN, *line] for line in lines])
        features, _ = self.model(tokens[:, :-1], valid=valid[:, :-1])
        wanted = tokens[:, 1:]
        counted = valid[:, 1:] & (wanted != UNKNOWN) & (wanted != PAD)
        return cross_entropy(self.model.head(features[counted]), wanted[counted])

    def say(self, lines: list[list[int]], places: list[int]) -> Tensor:
        tokens, valid = padded([[BEGIN, *line] for line in lines])
        features, _ = self.model(tokens, valid=valid)
        return _likeliest(self.model.head(features[torch.arange(len(lines)), torch.tensor(places)]))


def _likeliest(logits: Tensor) -> Tensor:
    return logits[:, len(SPECIALS) :].argmax(1) + len(SPECIALS)


def _findings(found: Mapping[str, Sequence[float]], frequent: float, lines: Lines, text: str) -> Findings:
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
            f"{lines.types - len(SPECIALS):,} words. A masked model learns from 15 of 100 words of a line, the others "
            "from all of them.",
        ),
        draw=lambda figure: _draw(figure, found, frequent),
    )


def _draw(figure: Figure, found: Mapping[str, Sequence[float]], frequent: float) -> None:
    axes = figure.subplots()
    for place, (side, each) in enumerate(found.items()):
        axes.barh(place, fmean(each), height=0.6, color=f"C{place}")
        axes.plot(each, [place] * len(each), "k.", markersize=4)
        axes.text(1, place, side, va="center", color="white")
    axes.axvline(frequent, color="black", linewidth=0.8, linestyle="--")
    axes.set(xlabel="middle words told, % (dashed: the most frequent word)", yticks=[])
    axes.invert_yaxis()


def _generated() -> list[str]:
    """Lines whose middle word is told by its neighbours on both sides together."""
    draw = random.Random(0)
    return [
        f"so {one} the {'high' if one == other else 'deep'} {other} sea ."
        for one, other in (draw.choices(("red", "blue", "green"), k=2) for _ in range(60))
    ] + [f"line {number} of many words here" for number in range(40)]
