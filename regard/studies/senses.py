"""Word senses in embeddings and in encoder states.

Claim: a word's embedding is one vector for all of its senses; the states that an encoder gives it in its sentence tell
them apart, so that a linear classifier reads the sense off them (Peters et al. 2018, §5.3; Tang et al. 2018 for
encoders of translation).

Measured: *bank* beside a word of money ("the man saw the bank and the loan": die Bank) or of rivers ("the man saw the
boat and the bank": das Ufer), equally often. A Transformer's encoder with two layers learns to translate such sentences
word by word, from the state at each word, for English and German have the same number of them. Linear probes (least
squares with a ridge of 0.1 on standardized features) are fitted to what stands at *bank* in some sentences and judged
on others: those about other people, and, by turns, those with another quarter of the words beside *bank*, so that it is
the sense that must be there and not the neighbor. What stands there is the embedding, or the state after each layer,
before any training and after it.

Thresholds: the embedding can only guess, 1/2, exactly. States after the last layer tell 95 % of senses, where other
people stand in the sentence and where other words stand beside it; the latter more often after training than before, by
a tenth and by three standard errors of the difference, a mean over those words: else the probe would only find
neighbors again, which any encoder mixes in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear

from regard.attention.span import Span
from regard.data.tokenizers.closed import WordTokenizer
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.input import TokenInput
from regard.models.transformer.transformer import TransformerEncoder
from regard.studies import toy_tasks
from regard.studies.sentences import Sense, encode_pairs, sense_sentences, word_tokenizer
from regard.studies.study import Findings, Report, at_least, at_most
from regard.training.optim import Optimizer, schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS = 32  # pairs an update
RIDGE, QUARTERS = 0.1, 4
OTHERS = ("child", "teacher")  # people of the sentences that probes are judged on


def run(*, seed: int, minimal: bool, report: Report, sentences: Sequence[Sense] | None = None) -> Findings:
    """Learn the language ``sentences`` and probe the states for the sense of *bank*."""
    sentences = sense_sentences() if sentences is None else sentences
    updates = 20 if minimal else 300
    tokenizer = word_tokenizer(sentences)
    model = toy_tasks.toy_model(
        len(tokenizer) - toy_tasks.FIRST,
        encoder_layers=2,
        decoder_layers=1,
        width=64,
        feed_forward=128,
        heads=4,
        norm="pre",
        dropout=0.1,
    )
    before = _columns(model, sentences, tokenizer)
    _learn(model, encode_pairs(sentences, tokenizer), updates, seed, toy_tasks.report_part(report, 0.0, 0.95))
    after = _columns(model, sentences, tokenizer)
    told = {
        (name, when): Told.of(columns[name], sentences)
        for name in after
        for when, columns in (("before training", before), ("after", after))
    }
    report(1.0)
    static, *_, last = after
    gains = [b - a for a, b in zip(told[last, "before training"].by_word, told[last, "after"].by_word, strict=True)]
    return Findings(
        columns=("what stands at bank", "", "other people", "other words beside it"),
        rows=[(name, when, each.people, fmean(each.by_word)) for (name, when), each in told.items()],
        criteria=[
            at_most(
                f"{static}: sense told", max(told[static, "after"].people, fmean(told[static, "after"].by_word)), 0.5
            ),
            at_least(f"{last}: sense told, other people", told[last, "after"].people, 0.95),
            at_least(f"{last}: sense told, other words", fmean(told[last, "after"].by_word), 0.95),
            at_least(f"{last}: gain by training, other words", fmean(gains), max(3 * _error(gains), 0.1)),
        ],
        draw=lambda figure: _draw(figure, told, after, sentences),
    )


def _learn(model: EncoderDecoder, pairs: toy_tasks.ToyPairs, updates: int, seed: int, report: Report) -> None:
    """Train the encoder to read off each state the German word at the same place."""
    optimizer, draw = Optimizer(model.train()), toy_tasks.sample_pairs(pairs, ROWS, seed=seed)
    rate = schedule("linear", learning_rate=3e-3, warmup=50, last_step=updates)
    for step in range(1, updates + 1):
        given = toy_tasks.make_batch(draw(step))
        states = model.encoder(given.source, Span.of(given.source_valid)).states
        logits = linear(states[given.source_valid], model.head.weight)
        cross_entropy(logits, given.target_output[given.target_valid]).backward()
        optimizer.step(rate(step))
        report(step / updates)


def _error(values: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    return stdev(values) / math.sqrt(len(values))


class Told(NamedTuple):
    """Shares of senses that a probe told: in sentences about other ``people``, and with each word unseen by turns."""

    people: float
    by_word: list[float]

    @classmethod
    def of(cls, columns: Tensor, sentences: Sequence[Sense]) -> Told:
        right = _right(columns, sentences, [each.source.split()[1] in OTHERS for each in sentences])
        by_word: dict[tuple[int, int], list[bool]] = {}
        for quarter in range(QUARTERS):
            judged = [each.beside % QUARTERS == quarter for each in sentences]
            tested = [each for each, chosen in zip(sentences, judged, strict=True) if chosen]
            for each, told in zip(tested, _right(columns, sentences, judged), strict=True):
                by_word.setdefault((each.sense, each.beside), []).append(told)
        return cls(fmean(right), [fmean(by_word[word]) for word in sorted(by_word)])


def _columns(model: EncoderDecoder, sentences: Sequence[Sense], tokenizer: WordTokenizer) -> dict[str, Tensor]:
    """Return the vectors at *bank*, (sentences, width) each: the embedding, and the states after each layer."""
    given = toy_tasks.make_batch(encode_pairs(sentences, tokenizer))
    places = torch.tensor([each.place for each in sentences])
    encoder = cast(TransformerEncoder, model.eval().encoder)
    states: list[Tensor] = []
    handles = [layer.register_forward_hook(lambda *passed: states.append(passed[2][0])) for layer in encoder.layers]
    with torch.no_grad():
        last = encoder(given.source, Span.of(given.source_valid)).states
    for handle in handles:
        handle.remove()
    rows = torch.arange(len(sentences))
    words = cast(TokenInput, encoder.embedding)
    columns = {"embedding": words.weight.detach()[given.source[rows, places]]}
    for number, state in enumerate([*states[:-1], last], start=1):
        columns[f"states after layer {number}"] = state[rows, places]
    return columns


def _right(columns: Tensor, sentences: Sequence[Sense], judged: Sequence[bool]) -> list[bool]:
    """Return which of the judged sentences' senses a probe tells that was fitted to the others."""
    tested = torch.tensor(judged)
    sense = torch.tensor([float(each.sense) for each in sentences], dtype=torch.float64)
    x = columns.double()
    x = (x - x[~tested].mean(0)) / x[~tested].std(0).clamp_min(1e-9)
    covariance = x[~tested].T @ x[~tested] / len(x) + RIDGE * torch.eye(x.shape[1], dtype=torch.float64)
    probe = torch.linalg.solve(covariance, x[~tested].T @ sense[~tested] / len(x))
    told: list[bool] = ((x[tested] @ probe >= 0) == (sense[tested] > 0)).tolist()
    return told


def _draw(
    figure: Figure,
    told: Mapping[tuple[str, str], Told],
    columns: Mapping[str, Tensor],
    sentences: Sequence[Sense],
) -> None:
    left, right = figure.subplots(1, 2)
    names = list(columns)
    for offset, when in ((-0.2, "before training"), (0.2, "after")):
        shares = [fmean(told[name, when].by_word) for name in names]
        left.bar([n + offset for n in range(len(names))], shares, 0.4, label=when)
    left.axhline(0.5, color="black", linestyle=":", label="guessing")
    left.set(title="sense told, other words beside bank", ylabel="share", ylim=(0, 1.02))
    left.set_xticks(range(len(names)), [name.replace(" after ", "\nafter ") for name in names])
    left.legend(loc="upper left")
    states = list(columns.values())[-1]
    centered = states - states.mean(0)
    x, y = (centered @ torch.linalg.svd(centered, full_matrices=False).Vh[:2].T).T
    for sense, label in ((-1, "beside a word of money"), (1, "beside a word of rivers")):
        shown = [n for n, each in enumerate(sentences) if each.sense == sense][::4]
        right.plot(x[shown].tolist(), y[shown].tolist(), "o", label=label, alpha=0.5)
    right.set(title="states at bank, two main directions", xticks=[], yticks=[])
    right.legend()
