"""Location-aware attention on sentences longer than those of the training.

Claim: attention by content alone loses its position in long inputs, because many words have similar states. If the
score also depends on the weights of the last step, attention keeps its position far beyond the trained lengths. The
softmax must then be sharpened, because it covers more positions (Chorowski et al. 2015, §2.2, §2.3 and §4: speech of
ten times the length).

Measured: copying of sentences of 5 to 15 words. The encoder is a convolution of width 3, so a state depends on a word
and its neighbors, not on its position. The decoder is an Elman cell in Bahdanau's order. Its score is additive, or
additive with the last weights through filters of 7 positions. A step is aligned if its largest weight is on the word to
copy. Each model decodes new sentences of 15 to 75 words, with the right words as its inputs. It is tested as trained,
and with energies multiplied by β = 2 after the training.

Thresholds: at the trained length, location-aware attention is aligned in 95 of 100 steps; sharpened, at five times that
length, in 90. Content-based attention is aligned in at most half as many there, sharpened or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from regard.attention.additive_score import AdditiveScore
from regard.attention.observe import observe
from regard.core.figure import INK
from regard.models.encoder_decoder import EncoderDecoder
from regard.studies import toy_tasks
from regard.studies.study import Findings, Report, at_least, at_most
from regard.training.optim import schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TYPES, WIDTH, ROWS = 8, 64, 32
SHORTEST, LONGEST, TIMES = 5, 15, (1, 2, 3, 5)  # words in training; tests have LONGEST × TIMES words
SHARP = 2.0
CONTENT: dict[str, Any] = {"kind": "additive"}
LOCATION: dict[str, Any] = {"kind": "location-aware", "reach": 3, "channels": 4, "initial": "first"}


class Tried(NamedTuple):
    """Share of aligned steps for each of TIMES, and the weights of one of the longest sentences."""

    shares: list[float]
    weights: Tensor


def run(
    *,
    seed: int,
    minimal: bool,
    report: Report,
    content: Mapping[str, Any] = CONTENT,
    location: Mapping[str, Any] = LOCATION,
) -> Findings:
    """Compare ``content`` and ``location``, two configs of encoder-decoder attention."""
    updates, tested = (4, 2) if minimal else (400, 20)
    results: dict[tuple[str, float], Tried] = {}
    for index, (name, attention) in enumerate((("by content", content), ("location-aware", location))):
        torch.manual_seed(seed)
        model = _learn(attention, updates, seed, toy_tasks.report_part(report, index / 2, index / 2 + 0.45))
        for beta in (1.0, SHARP):
            sharpen(model, beta)
            results[name, beta] = _try(model, seed, tested)
        report((index + 1) / 2)
    trained, sharpened = (results["location-aware", beta].shares for beta in (1.0, SHARP))
    content_share = max(results["by content", beta].shares[-1] for beta in (1.0, SHARP))
    return Findings(
        columns=("attention", "β", *(f"{times * LONGEST} words" for times in TIMES)),
        rows=[(name, beta, *tried.shares) for (name, beta), tried in results.items()],
        criteria=[
            at_least(f"location-aware: aligned at {LONGEST} words, as trained", trained[0], 0.95),
            at_least(f"location-aware: aligned at {TIMES[-1] * LONGEST} words, sharpened", sharpened[-1], 0.9),
            at_most(
                f"by content: aligned at {TIMES[-1] * LONGEST} words, at most half of that",
                content_share,
                sharpened[-1] / 2,
            ),
        ],
        remarks=(
            f"Location-aware attention as trained, without β = {SHARP:g}, is aligned in {trained[-1]:.2f} of steps at "
            f"{TIMES[-1] * LONGEST} words. Its softmax then spreads the weight over more positions.",
            f"Content-based attention is aligned in only {results['by content', 1.0].shares[0]:.2f} of steps even at "
            f"{LONGEST} words, because the states depend on neighboring words, not on positions.",
        ),
        draw=lambda figure: _draw(figure, results),
    )


def sharpen(model: EncoderDecoder, beta: float) -> None:
    """Set the factor of the energies to ``beta`` in every additive score."""
    for module in model.modules():
        if isinstance(module, AdditiveScore):
            module.sharpening = beta


def _learn(attention: Mapping[str, Any], updates: int, seed: int, report: Report) -> EncoderDecoder:
    model = toy_tasks.toy_model(
        TYPES,
        encoder=dict(kind="convolutional", blocks=[[WIDTH, 3, 1]]),
        decoder=dict(kind="recurrent", cell="elman", order="bahdanau"),
        decoder_layers=1,
        width=WIDTH,
        position="none",
        share="target",
        cross_attention=dict(attention),
    )
    rate = schedule("constant", learning_rate=5e-3, warmup=30)

    def draw(step: int) -> toy_tasks.ToyPairs:
        sentences = toy_tasks.random_sentences((seed, step), ROWS, shortest=SHORTEST, longest=LONGEST, types=TYPES)
        return toy_tasks.ToyPairs(sentences, sentences)

    for done, _ in enumerate(toy_tasks.train_updates(model, draw, rate, last=updates), start=1):
        report(done / updates)
    return model.eval()


def _try(model: EncoderDecoder, seed: int, tested: int) -> Tried:
    shares, weights = [], torch.zeros(0)
    for times in TIMES:
        length = times * LONGEST
        sentences = toy_tasks.random_sentences((seed, 0, times), tested, shortest=length, longest=length, types=TYPES)
        batch = toy_tasks.make_batch(toy_tasks.ToyPairs(sentences, sentences))
        with torch.no_grad(), observe(model) as observed:
            toy_tasks.target_features(model, batch)
        (attention,) = observed.values()
        weights = attention[:, 0, :length]
        shares.append(float((weights.argmax(2) == torch.arange(length)).double().mean()))
    return Tried(shares, weights[0])


def _draw(figure: Figure, results: Mapping[tuple[str, float], Tried]) -> None:
    panels = figure.subplots(1, 3)
    for (name, beta), tried in results.items():
        label = f"{name}, β = {beta:g}"
        line = "-" if beta == SHARP else "--"
        panels[0].plot([times * LONGEST for times in TIMES], tried.shares, "o" + line, label=label)
    panels[0].axvline(LONGEST, color=INK, linestyle=":", label="longest in training")
    panels[0].set(xlabel="words", ylabel="steps aligned", ylim=(0, 1.02), title="trained on up to 15 words")
    figure.set_size_inches(11.0, 3.6)
    figure.legend(loc="outside right upper")
    for axes, name in zip(panels[1:], ("by content", "location-aware"), strict=True):
        axes.imshow(results[name, SHARP].weights.tolist(), cmap="Greys", vmin=0, vmax=1, interpolation="none")
        axes.set(title=f"{name}, β = {SHARP:g}", xlabel="source word", ylabel="step")
