"""Pronouns and their antecedents: the head that attends to the antecedent, and translation without that head.

Claim: to translate *it* into a language with genders, a model must resolve its antecedent. In "the animal didn't cross
the street because it was too tired", heads of the Transformer's encoder attend from *it* to the antecedent. It changes
with the last word, tired or wide (Vaswani et al. 2017, appendix; Uszkoreit 2017). The criteria here are weaker: some
head does so, of the encoder at *it* or of the decoder before the pronoun.

Measured: English sentences of that form and their German translations, in which *it* becomes *es* (das Tier) or *sie*
(die Straße). The adjective alone determines the antecedent, whose gender is that of the pronoun. Animals are subjects
as well as objects ("the cat didn't catch the mouse because it was too fast"). The set of words therefore does not
determine the antecedent. A Transformer of two layers and one learns the sentences with four fifths of the pairs of
adjective and noun. The test sentences are those of the last fifth whose nouns differ in gender; no training sentence
has such a pair. A translation is correct if its word after *weil* is the correct pronoun, by greedy search. The head is
selected on training sentences. Among those of *it* in the encoder and of *weil* in the decoder, it has the largest
weight difference between antecedent and other noun. The words before and after a noun count as the noun, because their
states may contain it. A head that is switched off adds nothing to the output; the rest of the model does not change.

Thresholds: 90 % of the pronouns are correct; a guess reaches 50 %. In the test sentences, too, the head has more weight
on the antecedent, and without it log p of the correct pronoun is lower. Both differences are at least three standard
errors on average.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from regard.attention.contract import Attended
from regard.attention.observe import observe
from regard.core.figure import COLORS, INK
from regard.data.tokenizers.closed import WordTokenizer
from regard.models.encoder_decoder import EncoderDecoder
from regard.studies import toy_tasks
from regard.studies.sentences import PRONOUN, PronounSentence, encode_pairs, pronoun_sentences, word_tokenizer
from regard.studies.study import Cell, Findings, Report, SavedModel, at_least, format_cell
from regard.training.optim import schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS, HEADS = 32, 4
SHAPE = {
    "encoder_layers": 2, "decoder_layers": 1, "width": 64, "feed_forward": 128, "heads": HEADS, "norm": "pre",
}  # fmt: skip
SHOWN = ("tired", "wide")
# Names of the attentions in ``observe``, and their modules.
ATTENTIONS = {
    "encoder.0.self": "encoder.layers.0.mixer.attention.mechanism",
    "encoder.1.self": "encoder.layers.1.mixer.attention.mechanism",
    "decoder.0.source": "decoder.layers.0.reader.attention.mechanism",
}


class HeadSite(NamedTuple):
    """One head: the name of its attention, a key of ATTENTIONS, and its number."""

    attention: str
    number: int

    def __str__(self) -> str:
        return f"{self.attention}, head {self.number}"


ALL_HEADS = [HeadSite(attention, number) for attention in ATTENTIONS for number in range(HEADS)]


def run(*, seed: int, minimal: bool, report: Report, sentences: Sequence[PronounSentence] | None = None) -> Findings:
    """Train on the language ``sentences`` and test on its held-out part."""
    sentences = pronoun_sentences() if sentences is None else sentences
    tokenizer = word_tokenizer(sentences)
    training = [sentence for sentence in sentences if not sentence.held_out]
    tested = [sentence for sentence in sentences if sentence.held_out and sentence.genders_differ][
        :: 20 if minimal else 1
    ]
    report_training = toy_tasks.report_part(report, 0.0, 0.9)
    model = _learn(training, tokenizer, updates=30 if minimal else 400, seed=seed, report=report_training)
    share_correct = _share_correct(model, tested, tokenizer)
    training_gaps = _weight_gaps(model, [sentence for sentence in training if sentence.genders_differ][::7], tokenizer)
    selected = max(ALL_HEADS, key=lambda head: fmean(training_gaps[head]))
    gaps, whole = _weight_gaps(model, tested, tokenizer), _log_p(model, tested, tokenizer)
    decreases: dict[HeadSite, list[float]] = {}
    rows: list[tuple[Cell, ...]] = [("none", "", "", share_correct)]
    for head in ALL_HEADS:
        with switched_off(model, head):
            decreases[head] = (whole - _log_p(model, tested, tokenizer)).tolist()
            rows.append(
                (str(head), fmean(gaps[head]), fmean(decreases[head]), _share_correct(model, tested, tokenizer))
            )
        report(0.9 + 0.1 * len(decreases) / len(ALL_HEADS))
    in_encoder = max(fmean(gaps[head]) for head in ALL_HEADS if head.attention.startswith("encoder"))
    return Findings(
        columns=("switched off", "weight on antecedent − other noun", "decrease of log p(pronoun)", "correct pronouns"),
        rows=rows,
        criteria=[
            at_least(f"correct pronouns in {len(tested)} held-out sentences", share_correct, 0.9),
            at_least(f"{selected}: antecedent − other noun", fmean(gaps[selected]), 3 * _error(gaps[selected])),
            at_least(
                "decrease of log p(pronoun) without it", fmean(decreases[selected]), 3 * _error(decreases[selected])
            ),
        ],
        remarks=(
            "Weight on a noun includes its neighbors: a head may read the noun from a neighbor's state.",
            "Of the heads of the encoder at it, the largest difference between antecedent and other noun is "
            f"{format_cell(in_encoder)}.",
            "Other heads can matter as much or more: pronouns also depend on heads that connect nouns and adjectives.",
            "Weights do not explain the effect of a head; switching it off shows that it is needed here, but not why.",
        ),
        draw=lambda figure: _draw(figure, model, tokenizer, selected, decreases),
        saved_model=SavedModel(
            model=model,
            config=toy_tasks.toy_config(**SHAPE),
            tokenizer=tokenizer,
            pairs=[(sentence.source, sentence.target) for sentence in training],
        ),
    )


def _learn(
    sentences: Sequence[PronounSentence], tokenizer: WordTokenizer, *, updates: int, seed: int, report: Report
) -> EncoderDecoder:
    model = toy_tasks.toy_model(
        len(tokenizer) - toy_tasks.FIRST,
        **SHAPE,
    )
    draw = toy_tasks.sample_pairs(encode_pairs(sentences, tokenizer), ROWS, seed=seed)
    rate = schedule("linear", learning_rate=3e-3, warmup=50, last_step=updates)
    for done, _ in enumerate(toy_tasks.train_updates(model, draw, rate, last=updates), start=1):
        report(done / updates)
    return model.eval()


@contextmanager
def switched_off(model: EncoderDecoder, head: HeadSite) -> Iterator[None]:
    """Set the context of that head to 0 inside the block."""

    def zero_head(module: Any, positional: Any, attended: Attended) -> Attended:
        heads = torch.arange(attended.context.shape[1])[:, None, None]
        return attended._replace(context=attended.context.masked_fill(heads == head.number, 0))

    handle = model.get_submodule(ATTENTIONS[head.attention]).register_forward_hook(zero_head)
    try:
        yield
    finally:
        handle.remove()


def _share_correct(model: EncoderDecoder, sentences: Sequence[PronounSentence], tokenizer: WordTokenizer) -> float:
    """Return the share of translations with the correct word after *weil*."""
    outputs = toy_tasks.translate_greedily(model, encode_pairs(sentences, tokenizer).sources)
    texts = [tokenizer.decode(ids).split() for ids in outputs]
    expected = [sentence.target.split()[PRONOUN] for sentence in sentences]
    pairs = zip(texts, expected, strict=True)
    return fmean("weil" in text[:-1] and text[text.index("weil") + 1] == word for text, word in pairs)


def _log_p(model: EncoderDecoder, sentences: Sequence[PronounSentence], tokenizer: WordTokenizer) -> Tensor:
    """Return log p of the correct pronoun, given the correct previous words, (sentences,)."""
    batch = toy_tasks.make_batch(encode_pairs(sentences, tokenizer))
    with torch.no_grad():
        features = toy_tasks.target_features(model, batch)[:, PRONOUN]
        log_p = torch.log_softmax((features @ model.head.weight.T).double(), 1)
    return log_p.gather(1, batch.target_output[:, PRONOUN, None])[:, 0]


def _weights(
    model: EncoderDecoder, sentences: Sequence[PronounSentence], tokenizer: WordTokenizer
) -> dict[HeadSite, Tensor]:
    """Return the weights (sentences, source) of each head: of *it* in the encoder and of *weil* in the decoder."""
    with torch.no_grad(), observe(model) as observed:
        toy_tasks.target_features(model, toy_tasks.make_batch(encode_pairs(sentences, tokenizer)))
    return {head: observed[head.attention][:, head.number, PRONOUN] for head in ALL_HEADS}


def _weight_gaps(
    model: EncoderDecoder, sentences: Sequence[PronounSentence], tokenizer: WordTokenizer
) -> dict[HeadSite, list[float]]:
    """Return the weight on antecedent and neighbors minus that on the other noun, by head and sentence."""
    offsets = torch.tensor([-1, 0, 1])
    antecedent, other_noun = (
        torch.tensor([getattr(sentence, noun) for sentence in sentences]) for noun in ("antecedent", "other_noun")
    )
    return {
        head: (weights.gather(1, antecedent[:, None] + offsets) - weights.gather(1, other_noun[:, None] + offsets))
        .sum(1)
        .tolist()
        for head, weights in _weights(model, sentences, tokenizer).items()
    }


def _error(values: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    return stdev(values) / math.sqrt(len(values))


def _draw(
    figure: Figure,
    model: EncoderDecoder,
    tokenizer: WordTokenizer,
    selected: HeadSite,
    decreases: Mapping[HeadSite, Sequence[float]],
) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    examples = [
        sentence
        for sentence in pronoun_sentences()
        if "animal did not cross the street" in sentence.source and sentence.source.endswith(SHOWN)
    ]
    for sentence, marker, weights in zip(examples, "os", _weights(model, examples, tokenizer)[selected], strict=True):
        words = [*sentence.source.split()[:-1], "tired / wide", "end"]
        left.plot(
            range(len(words)), weights[: len(words)].tolist(), f"{marker}-", label="… " + sentence.source.split()[-1]
        )
    for noun in ("animal", "street"):
        left.axvline(words.index(noun), color=INK, linewidth=0.8, linestyle=":")
    left.set_xticks(range(len(words)), words, rotation=90)
    left.set(title=f"{selected}, before es or sie", ylabel="weight", ylim=(0, None))
    left.set_xlabel("source word (dotted: the two nouns; a noun's score includes its neighbors)", fontsize=7)
    left.legend()
    names = [str(head).replace(", head", "") for head in decreases]
    colors = [COLORS[1] if head == selected else COLORS[0] for head in decreases]
    right.barh(names, [fmean(decrease) for decrease in decreases.values()], color=colors)
    right.set(title="effect of a head", xlabel="decrease of log p(pronoun) without it, nats", ylabel="head")
    right.invert_yaxis()
