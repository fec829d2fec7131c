"""One sentence, decoded and passed through the model's reference path with every attention observed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.observe import observe_calls
from regard.attention.weight_terms import AttentionCall
from regard.config.settings import SearchConfig
from regard.data.sentence_split import split_sentences, whole_text
from regard.data.tokenizers.tokenizer import END
from regard.errors import ConfigError
from regard.inference.decoding import SYMBOLS
from regard.inference.search_model import SearchInput
from regard.search.batch_search import search
from regard.search.beam import BeamStep
from regard.search.contract import Hypothesis
from regard.tasks.translation.translator import Translator

LONGEST = 128  # pieces of a side; a head's weights are source length × target length


class ObservedSentence(NamedTuple):
    """A source with its outputs, and the attention and probabilities of one of them, teacher-forced."""

    source: list[int]  # ids of its pieces, without the end symbol
    hypotheses: list[Hypothesis]  # best first
    best: Hypothesis  # the output that is inspected
    whole_looks: dict[
        str, AttentionCall
    ]  # by attention; with one query more than ``outputs`` where the output did not end
    looks: dict[str, AttentionCall]  # the same, cut to ``outputs``
    log_p: Tensor  # (target, types): log-probability of every type at every position

    @property
    def outputs(self) -> list[int]:
        """Ids of the inspected output, with the end symbol if it ended."""
        return _outputs(self.best)


def beam_settings(settings: SearchConfig) -> SearchConfig:
    """Return the settings with beam search instead of sampling: repeated inspections are equal."""
    drawn = {"temperature": None, "top_k": None, "top_p": None, "nbest": min(settings.nbest, settings.beam)}
    return settings.model_copy(update=drawn)


def sentences_of(text: str, language: str | None, *, whole: bool = False) -> list[str]:
    """Return the sentences of a text as a server splits them. Raises ConfigError for a blank text."""
    split = whole_text(text) if whole else split_sentences(text, language)
    sentences = split.sentences or ([text.strip()] if text.strip() else [])
    if not sentences:
        raise ConfigError("there is no text to inspect")
    return sentences


def observe_sentence(
    translator: Translator,
    sentences: Sequence[str],
    index: int,
    *,
    settings: SearchConfig,
    force: Sequence[int],
    candidate: int,
    watch: Callable[[int, BeamStep], None],
) -> ObservedSentence:
    """Decode sentence ``index``, then pass it with output ``candidate`` through the reference path.

    Args:
        translator: the model.
        sentences: the sentences of a text.
        index: the sentence to decode.
        settings: the beam search.
        force: ids of the pieces that the output must begin with.
        candidate: index of the output to observe, 0 the best.
        watch: called with the id 0 and each step of the search.
    """
    if not 0 <= index < len(sentences):
        why = f"the text has {len(sentences)}, counted from 0"
        raise ConfigError(f"sentence {index} does not exist", why=why)
    source = _source(translator, sentences[index])
    _require_pieces(translator, force)
    hypotheses = _decode(translator, source, settings, force, watch)
    if not 0 <= candidate < len(hypotheses):
        why = f"the search found {len(hypotheses)}, counted from 0"
        raise ConfigError(f"candidate {candidate} does not exist", why=why, help="use a wider beam")
    best = hypotheses[candidate]
    whole, log_p = _observe(translator, source, best)
    looks = {name: _cut(look, name, len(_outputs(best))) for name, look in whole.items()}
    return ObservedSentence(source, hypotheses, best, whole, looks, log_p)


def _source(translator: Translator, text: str) -> list[int]:
    parts = translator.parts(text)
    if not parts:
        raise ConfigError("there is no text to inspect")
    longest = min(LONGEST, translator.max_length)
    if len(parts) > 1 or len(parts[0]) > longest:
        count = sum(map(len, parts))
        raise ConfigError(
            f"a text of {count} pieces is too long to inspect", help=f"the limit is {longest} pieces: a sentence"
        )
    return parts[0]


def _require_pieces(translator: Translator, force: Sequence[int]) -> None:
    if len(force) > LONGEST or any(
        piece in SYMBOLS.suppressed or not 0 <= piece < len(translator.target) for piece in force
    ):
        raise ConfigError("the forced beginning is impossible", why="the model cannot produce one of its pieces")


def _decode(
    translator: Translator,
    source: list[int],
    settings: SearchConfig,
    force: Sequence[int],
    watch: Callable[[int, BeamStep], None],
) -> list[Hypothesis]:
    decoding = translator.decoding
    started = decoding.open([0], [SearchInput(source, list(force))], settings, watch)
    with torch.no_grad():
        ((_, hypotheses),) = search(decoding.step, started)
    return translator.ranked(source, hypotheses, settings)


def _observe(translator: Translator, source: list[int], best: Hypothesis) -> tuple[dict[str, AttentionCall], Tensor]:
    """Return every attention call, and log p of every type at every position, plus one if the output did not end."""
    with translator.observed() as model, observe_calls(model) as seen:
        log_p = translator.log_probabilities([source], [best.tokens], model=model)[0].cpu()
    return dict(seen), log_p


def _cut(look: AttentionCall, name: str, rows: int) -> AttentionCall:
    """Return the call without the query of the end symbol, if the output did not end."""
    if name.startswith("encoder"):
        return look
    if name.endswith("source"):
        return look._replace(query=look.query[:, :, :rows], weights=look.weights[:, :, :rows])
    cut = {part: getattr(look, part)[:, :, :rows] for part in ("query", "key", "value")}
    return look._replace(weights=look.weights[:, :, :rows, :rows], **cut)


def _outputs(best: Hypothesis) -> list[int]:
    return [*best.tokens, *([END] if best.finished else [])]
