"""Effect of sentence length on models with and without attention.

Claim: an encoder-decoder without attention, whose source is one vector of fixed size, gets worse as sentences get
longer; with attention it does not (Bahdanau et al. 2015, §5.1 and Fig. 2; Cho et al. 2014).

Measured: copying. Sentences of 5 to 40 words, none of them twice in one, out of 64. A GRU from both sides and a GRU
decoder, all 64 wide: one reads the source with Luong's general score, the other has the encoder's last states at every
step. Both see the same 700 batches of 32 sentences. Right is a word of greedy search that is the right one at its
place, in fresh sentences of each length.

Thresholds: 40 words say 40 times as much as one, and a vector that holds no more of them than it held at 5 leaves 5/40
of them right. Without attention at most half as many words are right at 40 as at 5, with attention at least nine tenths
as many, and at no length fewer than without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from regard.models.encoder_decoder import EncoderDecoder
from regard.studies import toy_tasks
from regard.studies.study import Findings, Report, at_least, at_most
from regard.training.optim import schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TYPES, WIDTH, ROWS = 64, 64, 32
LENGTHS = (5, 10, 15, 20, 25, 30, 35, 40)
SHORTEST, LONGEST = LENGTHS[0], LENGTHS[-1]
TESTED = 64  # sentences of each length
READS: dict[str, Any] = {
    "decoder": {"order": "luong", "input_feeding": False, "cell": "gru"},
    "cross_attention": "general",
}
ONE_VECTOR: dict[str, Any] = {"decoder": {"order": "none", "cell": "gru"}}


def run(
    *,
    seed: int,
    minimal: bool,
    report: Report,
    without: Mapping[str, Any] = ONE_VECTOR,
    attending: Mapping[str, Any] = READS,
) -> Findings:
    """Compare two models; ``without`` and ``attending`` are the parts of the config in which they differ."""
    updates = 10 if minimal else 700
    found: dict[str, list[float]] = {}
    for name, config in {"one vector": without, "attention": attending}.items():
        torch.manual_seed(seed)
        part = toy_tasks.report_part(report, len(found) / 2, (len(found) + 1) / 2)
        found[name] = _shares(config, updates, seed, part)
    vector, reading = found["one vector"], found["attention"]
    return Findings(
        columns=("words right", *(f"{length} words" for length in LENGTHS)),
        rows=[(name, *shares) for name, shares in found.items()],
        criteria=[
            at_most(f"one vector: right at {LONGEST} words, against half of {SHORTEST}", vector[-1], vector[0] / 2),
            at_least(f"attention: right at {LONGEST} words, against 0.9 of {SHORTEST}", reading[-1], 0.9 * reading[0]),
            at_least("attention − one vector, least", min(a - b for a, b in zip(reading, vector, strict=True)), 0),
        ],
        draw=lambda figure: _draw(figure, found),
    )


def _shares(config: Mapping[str, Any], updates: int, seed: int, report: Report) -> list[float]:
    """Train, and return the share of right words by length."""
    model = toy_tasks.toy_model(TYPES, kind="recurrent", encoder=dict(cell="gru"), layers=1, width=WIDTH, **config)
    rate = schedule("linear", learning_rate=5e-3, warmup=50, last_step=updates)

    def draw(step: int) -> toy_tasks.ToyPairs:
        sentences = _sentences((seed, step), ROWS, SHORTEST, LONGEST)
        return toy_tasks.ToyPairs(sentences, sentences)

    for done, _ in enumerate(toy_tasks.train_updates(model, draw, rate, last=updates), start=1):
        report(done / updates)
    return [_in_place(model, _sentences((seed, 0, length), TESTED, length, length)) for length in LENGTHS]


def _sentences(number: Sequence[int], count: int, shortest: int, longest: int) -> list[list[int]]:
    return toy_tasks.random_sentences(number, count, shortest=shortest, longest=longest, types=TYPES, distinct=True)


def _in_place(model: EncoderDecoder, sentences: list[list[int]]) -> float:
    """Return the share of words that a copy has at the right place."""
    copies = toy_tasks.translate_greedily(model, sentences)
    right = [
        sum(one == other for one, other in zip(copy, sentence, strict=False))
        for copy, sentence in zip(copies, sentences, strict=True)
    ]
    return sum(right) / sum(map(len, sentences))


def _draw(figure: Figure, found: Mapping[str, Sequence[float]]) -> None:
    axes = figure.subplots()
    for name, shares in found.items():
        axes.plot(LENGTHS, shares, "o-", label=name)
    axes.set(xlabel="words of the sentence", ylabel="words copied to their place", ylim=(0, 1.02))
    axes.set(title="one vector for a whole sentence, and attention", xlim=(0, LONGEST + 1))
    axes.legend()
