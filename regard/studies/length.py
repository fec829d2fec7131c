"""Effect of sentence length on models with and without attention.

Claim: an encoder-decoder without attention, whose source is one vector of fixed size, gets worse as sentences get
longer; with attention it does not (Bahdanau et al. 2015, §5.1 and Fig. 2; Cho et al. 2014).

Measured: copying of sentences of 5 to 40 different words out of 64. The models have a bidirectional GRU and a GRU
decoder, both 64 wide. One attends to the source with Luong's general score; the other gets the encoder's last states at
every step. Both learn from the same 700 batches of 32 sentences. The measure is the share of words that greedy search
puts at the correct position, in new sentences of each length.

Thresholds: the information of a sentence is proportional to its length. A vector that holds no more than 5 words
reproduces 5/40 of 40 words. Without attention the share at 40 words is at most half of that at 5. With attention it is
at least nine tenths, and at no length smaller than without.
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
    """Compare a model ``without`` attention and one ``attending``: the keys of the config in which they differ."""
    updates = 10 if minimal else 700
    shares_by_model: dict[str, list[float]] = {}
    for name, config in {"one vector": without, "attention": attending}.items():
        torch.manual_seed(seed)
        report_model = toy_tasks.report_part(report, len(shares_by_model) / 2, (len(shares_by_model) + 1) / 2)
        shares_by_model[name] = _shares(config, updates, seed, report_model)
    vector, attentive = shares_by_model["one vector"], shares_by_model["attention"]
    return Findings(
        columns=("share of correct words", *(f"{length} words" for length in LENGTHS)),
        rows=[(name, *shares) for name, shares in shares_by_model.items()],
        criteria=[
            at_most(f"one vector: correct at {LONGEST} words, against half of {SHORTEST}", vector[-1], vector[0] / 2),
            at_least(
                f"attention: correct at {LONGEST} words, against 0.9 of {SHORTEST}", attentive[-1], 0.9 * attentive[0]
            ),
            at_least("attention − one vector, minimum", min(a - b for a, b in zip(attentive, vector, strict=True)), 0),
        ],
        draw=lambda figure: _draw(figure, shares_by_model),
    )


def _shares(config: Mapping[str, Any], updates: int, seed: int, report: Report) -> list[float]:
    """Train a model and return its share of correct words by length."""
    model = toy_tasks.toy_model(TYPES, kind="recurrent", encoder=dict(cell="gru"), layers=1, width=WIDTH, **config)
    rate = schedule("linear", learning_rate=5e-3, warmup=50, last_step=updates)

    def draw(step: int) -> toy_tasks.ToyPairs:
        sentences = _sentences((seed, step), ROWS, SHORTEST, LONGEST)
        return toy_tasks.ToyPairs(sentences, sentences)

    for done, _ in enumerate(toy_tasks.train_updates(model, draw, rate, last=updates), start=1):
        report(done / updates)
    return [_in_place(model, _sentences((seed, 0, length), TESTED, length, length)) for length in LENGTHS]


def _sentences(seeds: Sequence[int], count: int, shortest: int, longest: int) -> list[list[int]]:
    return toy_tasks.random_sentences(seeds, count, shortest=shortest, longest=longest, types=TYPES, distinct=True)


def _in_place(model: EncoderDecoder, sentences: list[list[int]]) -> float:
    """Return the share of words that a copy has at the correct position."""
    copies = toy_tasks.translate_greedily(model, sentences)
    correct = [
        sum(copied == word for copied, word in zip(copy, sentence, strict=False))
        for copy, sentence in zip(copies, sentences, strict=True)
    ]
    return sum(correct) / sum(map(len, sentences))


def _draw(figure: Figure, shares_by_model: Mapping[str, Sequence[float]]) -> None:
    axes = figure.subplots()
    for name, shares in shares_by_model.items():
        axes.plot(LENGTHS, shares, "o-", label=name)
    axes.set(xlabel="words of the sentence", ylabel="words at their position", ylim=(0, 1.02))
    axes.set(title="one vector per sentence, and attention", xlim=(0, LONGEST + 1))
    axes.legend()
