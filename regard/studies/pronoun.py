"""Pronouns and their antecedents: the head that attends to the antecedent, and translation without that head.

Claim: to translate *it* into a language with genders, a model must find what it stands for. In "the animal didn't cross
the street because it was too tired" heads of the Transformer's encoder look from *it* to the noun meant, which changes
with the last word, tired or wide (Vaswani et al. 2017, appendix; Uszkoreit 2017). What is judged here is weaker: that
some head does, of the encoder at *it* or of the decoder before the pronoun.

Measured: English sentences of that form and their German, where *it* becomes *es* (das Tier) or *sie* (die Straße). The
adjective alone tells which noun is meant, and that noun's gender is the pronoun's. Animals are subjects as well as
objects ("the cat didn't catch the mouse because it was too fast"), so words without their order do not tell either. A
Transformer of two layers and one learns the sentences with four fifths of the pairs of an adjective and its noun.
Judged are those of the last fifth whose nouns differ in gender: nothing like them was ever seen. Right is a greedy
translation whose word after *weil* is the right pronoun. The head is found in sentences of the training: among those
asked by *it* in the encoder and by *weil* in the decoder, the one that looks at the noun meant more than at the other
one by most. The words before and after a noun count as the noun, since their states may hold it. Switched off, a head
adds nothing to the output; all else stays.

Thresholds: 90 % right, where guessing gives 50. In sentences held out, too, the head looks more at the noun meant, and
without it log p of the right pronoun is lower, both in the mean by at least three standard errors.
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
from regard.data.tokenizers.closed import WordTokenizer
from regard.models.encoder_decoder import EncoderDecoder
from regard.studies import toy_tasks
from regard.studies.sentences import PRONOUN, Meant, encode_pairs, pronoun_sentences, word_tokenizer
from regard.studies.study import Cell, Findings, Report, SavedModel, at_least, format_cell
from regard.training.optim import schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS, HEADS = 32, 4
SHAPE = {
    "encoder_layers": 2, "decoder_layers": 1, "width": 64, "feed_forward": 128, "heads": HEADS, "norm": "pre",
}  # fmt: skip
SHOWN = ("tired", "wide")
# What ``observe`` calls the attentions in question, and where they are.
ATTENTIONS = {
    "encoder.0.self": "encoder.layers.0.mixer.attention.mechanism",
    "encoder.1.self": "encoder.layers.1.mixer.attention.mechanism",
    "decoder.0.source": "decoder.layers.0.reader.attention.mechanism",
}


class HeadSite(NamedTuple):
    """One head: the name of the attention, of ATTENTIONS, and the number of the head."""

    attention: str
    number: int

    def __str__(self) -> str:
        return f"{self.attention}, head {self.number}"


ALL_HEADS = [HeadSite(attention, number) for attention in ATTENTIONS for number in range(HEADS)]


def run(*, seed: int, minimal: bool, report: Report, sentences: Sequence[Meant] | None = None) -> Findings:
    """Learn the language ``sentences`` and judge the held-out ones."""
    sentences = pronoun_sentences() if sentences is None else sentences
    tokenizer = word_tokenizer(sentences)
    seen = [each for each in sentences if not each.held_out]
    judged = [each for each in sentences if each.held_out and each.telling][:: 20 if minimal else 1]
    part = toy_tasks.report_part(report, 0.0, 0.9)
    model = _learn(seen, tokenizer, updates=30 if minimal else 400, seed=seed, report=part)
    right = _right(model, judged, tokenizer)
    found = _looks(model, [each for each in seen if each.telling][::7], tokenizer)
    reading = max(ALL_HEADS, key=lambda head: fmean(found[head]))
    looks, whole = _looks(model, judged, tokenizer), _log_p(model, judged, tokenizer)
    falls: dict[HeadSite, list[float]] = {}
    rows: list[tuple[Cell, ...]] = [("none", "", "", right)]
    for head in ALL_HEADS:
        with switched_off(model, head):
            falls[head] = (whole - _log_p(model, judged, tokenizer)).tolist()
            rows.append((str(head), fmean(looks[head]), fmean(falls[head]), _right(model, judged, tokenizer)))
        report(0.9 + 0.1 * len(falls) / len(ALL_HEADS))
    in_encoder = max(fmean(looks[head]) for head in ALL_HEADS if head.attention.startswith("encoder"))
    return Findings(
        columns=("switched off", "looks at the noun meant − the other", "fall of log p(pronoun)", "pronouns right"),
        rows=rows,
        criteria=[
            at_least(f"right pronouns in {len(judged)} held-out sentences", right, 0.9),
            at_least(f"{reading}: noun meant − other", fmean(looks[reading]), 3 * _error(looks[reading])),
            at_least("fall of log p(pronoun) without it", fmean(falls[reading]), 3 * _error(falls[reading])),
        ],
        remarks=(
            "Weight on a noun includes that on the words beside it: a head may read the noun from a neighbor's state.",
            "Of the heads of the encoder, asked by it, none looks at the noun meant by more than "
            f"{format_cell(in_encoder)} more than at the other.",
            "Other heads can cost as much or more: a pronoun also hangs on those that tell nouns what is said of them.",
            "What a head looks at is not yet what it does; switching it off shows that it is needed here, not why.",
        ),
        draw=lambda figure: _draw(figure, model, tokenizer, reading, falls),
        saved_model=SavedModel(
            model=model,
            config=toy_tasks.toy_config(**SHAPE),
            tokenizer=tokenizer,
            pairs=[(each.source, each.target) for each in seen],
        ),
    )


def _learn(
    sentences: Sequence[Meant], tokenizer: WordTokenizer, *, updates: int, seed: int, report: Report
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

    def silence(module: Any, positional: Any, attended: Attended) -> Attended:
        heads = torch.arange(attended.context.shape[1])[:, None, None]
        return attended._replace(context=attended.context.masked_fill(heads == head.number, 0))

    handle = model.get_submodule(ATTENTIONS[head.attention]).register_forward_hook(silence)
    try:
        yield
    finally:
        handle.remove()


def _right(model: EncoderDecoder, sentences: Sequence[Meant], tokenizer: WordTokenizer) -> float:
    """Return the share of translations with the right word after *weil*."""
    outputs = toy_tasks.translate_greedily(model, encode_pairs(sentences, tokenizer).sources)
    texts = [tokenizer.decode(ids).split() for ids in outputs]
    due = [each.target.split()[PRONOUN] for each in sentences]
    pairs = zip(texts, due, strict=True)
    return fmean("weil" in text[:-1] and text[text.index("weil") + 1] == word for text, word in pairs)


def _log_p(model: EncoderDecoder, sentences: Sequence[Meant], tokenizer: WordTokenizer) -> Tensor:
    """Return log p of the right pronoun after the right words before it, (sentences,)."""
    given = toy_tasks.make_batch(encode_pairs(sentences, tokenizer))
    with torch.no_grad():
        features = toy_tasks.target_features(model, given)[:, PRONOUN]
        log_p = torch.log_softmax((features @ model.head.weight.T).double(), 1)
    return log_p.gather(1, given.target_output[:, PRONOUN, None])[:, 0]


def _weights(model: EncoderDecoder, sentences: Sequence[Meant], tokenizer: WordTokenizer) -> dict[HeadSite, Tensor]:
    """Return the weights (sentences, source) of each head: of *it* in the encoder and of *weil* in the decoder."""
    with torch.no_grad(), observe(model) as seen:
        toy_tasks.target_features(model, toy_tasks.make_batch(encode_pairs(sentences, tokenizer)))
    return {head: seen[head.attention][:, head.number, PRONOUN] for head in ALL_HEADS}


def _looks(model: EncoderDecoder, sentences: Sequence[Meant], tokenizer: WordTokenizer) -> dict[HeadSite, list[float]]:
    """Return, by head and sentence, the weight on the noun meant and its neighbors minus that on the other noun."""
    beside = torch.tensor([-1, 0, 1])
    meant, other = (torch.tensor([getattr(each, side) for each in sentences]) for side in ("meant", "other"))
    return {
        head: (looks.gather(1, meant[:, None] + beside) - looks.gather(1, other[:, None] + beside)).sum(1).tolist()
        for head, looks in _weights(model, sentences, tokenizer).items()
    }


def _error(values: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    return stdev(values) / math.sqrt(len(values))


def _draw(
    figure: Figure,
    model: EncoderDecoder,
    tokenizer: WordTokenizer,
    reading: HeadSite,
    falls: Mapping[HeadSite, Sequence[float]],
) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    classic = [
        each
        for each in pronoun_sentences()
        if "animal did not cross the street" in each.source and each.source.endswith(SHOWN)
    ]
    for each, marker, looks in zip(classic, "os", _weights(model, classic, tokenizer)[reading], strict=True):
        words = [*each.source.split()[:-1], "tired / wide", "end"]
        left.plot(range(len(words)), looks[: len(words)].tolist(), f"{marker}-", label="… " + each.source.split()[-1])
    left.set_xticks(range(len(words)), words, rotation=60)
    left.set(title=f"{reading}, before es or sie", ylabel="weight", ylim=(0, None))
    left.legend()
    names = [str(head).replace(", head", "") for head in falls]
    colors = ["#d55e00" if head == reading else "#0072b2" for head in falls]
    right.barh(names, [fmean(fall) for fall in falls.values()], color=colors)
    right.set(title="without this head log p(pronoun) falls by", xlabel="nats")
    right.invert_yaxis()
