"""Word senses in embeddings and in encoder states.

Claim: a word has one embedding for all of its senses. The states that an encoder gives it in sentences differ by sense,
and a linear classifier can read the sense from them (Peters et al. 2018, §5.3; Tang et al. 2018 for encoders of
translation).

Measured: *bank* next to a word of money ("the man saw the bank and the loan": die Bank) or of rivers ("the man saw the
boat and the bank": das Ufer), equally often. The encoder of a Transformer with two layers learns to translate such
sentences word by word, from the state at each word. This is possible because English and German have the same number of
words. Linear probes are fitted to the vectors at *bank* in some sentences and tested on others. They use least squares
with a ridge of 0.1 on standardized features. The tests are sentences about other people, and sentences with each
quarter of the words next to *bank* in turn. A probe for the neighbor cannot solve the latter. The vectors are the
embedding, and the states after each layer, before and after training.

Thresholds: the embedding allows only a guess, exactly 1/2. A probe on the states after the last layer classifies 95 %
of the senses, with other people and with other words next to *bank*. With other words, it classifies more after
training than before, as a mean over those words. The difference is at least a tenth and at least three standard errors.
Otherwise the probe would detect only neighbors, which any encoder mixes into its states.
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
from regard.core.figure import INK
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

ROWS = 32  # pairs per update
RIDGE, QUARTERS = 0.1, 4
TEST_PEOPLE = ("child", "teacher")  # people of the sentences that test the probes


def run(*, seed: int, minimal: bool, report: Report, sentences: Sequence[Sense] | None = None) -> Findings:
    """Train on the language ``sentences`` and probe the states for the sense of *bank*."""
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
    before = _vectors_at_bank(model, sentences, tokenizer)
    _learn(model, encode_pairs(sentences, tokenizer), updates, seed, toy_tasks.report_part(report, 0.0, 0.95))
    after = _vectors_at_bank(model, sentences, tokenizer)
    accuracies = {
        (name, when): ProbeAccuracy.of(columns[name], sentences)
        for name in after
        for when, columns in (("before training", before), ("after", after))
    }
    report(1.0)
    static, *_, last = after
    gains = [
        b - a
        for a, b in zip(accuracies[last, "before training"].by_word, accuracies[last, "after"].by_word, strict=True)
    ]
    return Findings(
        columns=("vectors at bank", "", "other people", "other neighbors"),
        rows=[(name, when, accuracy.people, fmean(accuracy.by_word)) for (name, when), accuracy in accuracies.items()],
        criteria=[
            at_most(
                f"{static}: accuracy",
                max(accuracies[static, "after"].people, fmean(accuracies[static, "after"].by_word)),
                0.5,
            ),
            at_least(f"{last}: accuracy, other people", accuracies[last, "after"].people, 0.95),
            at_least(f"{last}: accuracy, other neighbors", fmean(accuracies[last, "after"].by_word), 0.95),
            at_least(f"{last}: gain by training, other neighbors", fmean(gains), max(3 * _error(gains), 0.1)),
        ],
        draw=lambda figure: _draw(figure, accuracies, after, sentences),
    )


def _learn(model: EncoderDecoder, pairs: toy_tasks.ToyPairs, updates: int, seed: int, report: Report) -> None:
    """Train the encoder to predict from each state the German word at the same position."""
    optimizer, draw = Optimizer(model.train()), toy_tasks.sample_pairs(pairs, ROWS, seed=seed)
    rate = schedule("linear", learning_rate=3e-3, warmup=50, last_step=updates)
    for step in range(1, updates + 1):
        batch = toy_tasks.make_batch(draw(step))
        states = model.encoder(batch.source, Span.of(batch.source_valid)).states
        logits = linear(states[batch.source_valid], model.head.weight)
        cross_entropy(logits, batch.target_output[batch.target_valid]).backward()
        optimizer.step(rate(step))
        report(step / updates)


def _error(values: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    return stdev(values) / math.sqrt(len(values))


class ProbeAccuracy(NamedTuple):
    """Accuracies of a probe: in sentences about other ``people``, and with each neighbor that it has not read."""

    people: float
    by_word: list[float]

    @classmethod
    def of(cls, vectors: Tensor, sentences: Sequence[Sense]) -> ProbeAccuracy:
        right = _probe(vectors, sentences, [sentence.source.split()[1] in TEST_PEOPLE for sentence in sentences])
        by_word: dict[tuple[int, int], list[bool]] = {}
        for quarter in range(QUARTERS):
            in_test = [sentence.neighbor % QUARTERS == quarter for sentence in sentences]
            tested = [sentence for sentence, chosen in zip(sentences, in_test, strict=True) if chosen]
            for sentence, is_correct in zip(tested, _probe(vectors, sentences, in_test), strict=True):
                by_word.setdefault((sentence.sense, sentence.neighbor), []).append(is_correct)
        return cls(fmean(right), [fmean(by_word[word]) for word in sorted(by_word)])


def _vectors_at_bank(model: EncoderDecoder, sentences: Sequence[Sense], tokenizer: WordTokenizer) -> dict[str, Tensor]:
    """Return the vectors at *bank*, (sentences, width): the embedding, and the states after each layer."""
    batch = toy_tasks.make_batch(encode_pairs(sentences, tokenizer))
    positions = torch.tensor([sentence.position for sentence in sentences])
    encoder = cast(TransformerEncoder, model.eval().encoder)
    states: list[Tensor] = []
    handles = [
        layer.register_forward_hook(lambda *arguments: states.append(arguments[2][0])) for layer in encoder.layers
    ]
    with torch.no_grad():
        last = encoder(batch.source, Span.of(batch.source_valid)).states
    for handle in handles:
        handle.remove()
    rows = torch.arange(len(sentences))
    words = cast(TokenInput, encoder.embedding)
    vectors = {"embedding": words.weight.detach()[batch.source[rows, positions]]}
    for number, state in enumerate([*states[:-1], last], start=1):
        vectors[f"states after layer {number}"] = state[rows, positions]
    return vectors


def _probe(vectors: Tensor, sentences: Sequence[Sense], in_test: Sequence[bool]) -> list[bool]:
    """Fit a probe to the sentences that are not ``in_test``; return for each of the others whether it is correct."""
    tested = torch.tensor(in_test)
    sense = torch.tensor([float(sentence.sense) for sentence in sentences], dtype=torch.float64)
    x = vectors.double()
    x = (x - x[~tested].mean(0)) / x[~tested].std(0).clamp_min(1e-9)
    covariance = x[~tested].T @ x[~tested] / len(x) + RIDGE * torch.eye(x.shape[1], dtype=torch.float64)
    probe = torch.linalg.solve(covariance, x[~tested].T @ sense[~tested] / len(x))
    correct: list[bool] = ((x[tested] @ probe >= 0) == (sense[tested] > 0)).tolist()
    return correct


def _draw(
    figure: Figure,
    accuracies: Mapping[tuple[str, str], ProbeAccuracy],
    vectors: Mapping[str, Tensor],
    sentences: Sequence[Sense],
) -> None:
    left, right = figure.subplots(1, 2)
    names = list(vectors)
    for offset, when in ((-0.2, "before training"), (0.2, "after")):
        shares = [fmean(accuracies[name, when].by_word) for name in names]
        left.bar([n + offset for n in range(len(names))], shares, 0.4, label=when)
    left.axhline(0.5, color=INK, linestyle=":", label="guessing")
    left.set(title="other neighbors of bank", xlabel="input of the probe", ylabel="accuracy", ylim=(0, 1.02))
    left.set_xticks(range(len(names)), [name.replace(" after ", "\nafter ") for name in names])
    left.legend(loc="upper left")
    states = list(vectors.values())[-1]
    centered = states - states.mean(0)
    x, y = (centered @ torch.linalg.svd(centered, full_matrices=False).Vh[:2].T).T
    for sense, label in ((-1, "next to a word of money"), (1, "next to a word of rivers")):
        indices = [n for n, sentence in enumerate(sentences) if sentence.sense == sense][::4]
        right.plot(x[indices].tolist(), y[indices].tolist(), "o", label=label, alpha=0.5)
    right.set(title="states at bank, two main directions", xticks=[], yticks=[])
    right.set(xlabel="first direction", ylabel="second direction")
    right.legend()
