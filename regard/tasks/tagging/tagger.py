"""A trained tagger at work: tokens to tags with their probabilities."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from regard.attention.mask import Span
from regard.attention.observe import observe, twin
from regard.core.call_checks import require_list
from regard.core.observation import Alternative, AttentionWeights, Axis, Observation, ObservedStep
from regard.core.task import Indices, MetricSums, never
from regard.data.padding import padded
from regard.errors import ConfigError
from regard.inference.decoding import Engine
from regard.inference.reading import reading_form
from regard.models.tagger import TokenTagger
from regard.tasks.prediction import json_value
from regard.tasks.tagging.codecs import TagCodec
from regard.tasks.tagging.config import TaggingConfig
from regard.tasks.tagging.examples import TaggedExamples, token_rows
from regard.tasks.tagging.spans import TagSpan, best_path, spans

__all__ = ["Tagger", "Tagging"]

ROWS = 64  # tagged together
SHOWN = 256  # columns; the weights of each head are their number squared
ALTERNATIVES = 10


class Tagging(NamedTuple):
    """The tag of each token, its probability, and the spans that the tags spell where they do."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]
    spans: tuple[TagSpan, ...] = ()


class Tagger:
    """A network with its vocabulary and tags: ``regard.load("runs/tags")(["A dog runs ."])[0].tags``."""

    def __init__(self, net: TokenTagger, codec: TagCodec, config: TaggingConfig, engine: Engine | None = None) -> None:
        self.net, self.codec, self.config, self.engine = net.eval(), codec, config, engine

    @cached_property
    def _reading(self) -> nn.Module:
        """The network in the form that the engine computes, made when first asked for."""
        return reading_form(self.net, self.engine)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags in the order of the classes."""
        return self.codec.tags.names

    @cached_property
    def spells_spans(self) -> bool:
        """Return whether the tags spell spans; the predicted ones are then well formed in their scheme."""
        return self.codec.scheme is not None

    def __call__(self, inputs: Sequence[str | Sequence[str]]) -> list[Tagging]:
        """One outcome for each sentence: a list of tokens, or a text with spaces between them."""
        require_list(inputs)
        sentences = [_tokens(each) for each in inputs]
        found = []
        for tokens, log_p in zip(sentences, self._log_probabilities(sentences), strict=True):
            decoded = self.spells_spans and tokens
            numbers = best_path(log_p, self.tags, self.codec.class_scheme) if decoded else log_p.argmax(1).tolist()
            tags = self.codec.output_tags(tuple(self.tags[number] for number in numbers))
            p = tuple(np.exp(log_p[np.arange(len(numbers)), numbers]).tolist())
            found.append(Tagging(tokens, tags, p, tuple(spans(tags)) if self.spells_spans else ()))
        return found

    @torch.no_grad()
    def _log_probabilities(self, sentences: Sequence[Sequence[str]]) -> list[Any]:
        """(tokens, tags) of each sentence."""
        parts = token_rows(self.codec.tokenizer, sentences, self.config)
        rows = [(at, row) for at, found in enumerate(parts) for row in found]
        result = [np.zeros((len(sentence), len(self.tags))) for sentence in sentences]
        order = sorted(range(len(rows)), key=lambda place: len(rows[place][1].columns))
        for begin in range(0, len(order), ROWS):
            chosen = [rows[place] for place in order[begin : begin + ROWS]]
            tokens, valid = (each.to(self._device) for each in padded([row.columns for _, row in chosen]))
            log_p = self._reading(tokens, Span.of(valid)).double().log_softmax(-1).cpu().numpy()
            for number, (at, row) in enumerate(chosen):
                result[at][row.begin : row.begin + len(row.first)] = log_p[number, row.first]
        return result

    @property
    def _device(self) -> torch.device:
        return next(self.net.parameters()).device

    def read(self, line: str) -> tuple[str, ...]:
        """Return the tokens of a text, or of a JSON list of tokens."""
        found = json_value(line)
        if not isinstance(found, list):
            return tuple(line.split())
        if not all(isinstance(each, str) and each.strip() for each in found):
            raise ValueError("a sentence is a text, or a JSON list of tokens, none of them empty")
        if any(len(each.splitlines()) > 1 for each in found):
            raise ValueError("a token is in one line")
        return tuple(found)

    def cost(self, tokens: Sequence[str]) -> int:
        """Return how many numbers one layer holds at once for a sentence (``core.predictor_interface.input_cost``)."""
        pieces, longest = 2 + sum(map(len, tokens)), self.config.data.max_length + 2
        return pieces * min(pieces, longest)  # a long sentence is read in parts

    def write(self, output: Tagging, *, json: bool) -> str:
        """``token/TAG`` with spaces between, or an object with probabilities, and with spans where tags spell them."""
        if not json:
            return " ".join(f"{token}/{tag}" for token, tag in zip(output.tokens, output.tags, strict=True))
        told: dict[str, Any] = {
            "tokens": output.tokens, "tags": output.tags, "probabilities": [round(p, 6) for p in output.probabilities],
        }  # fmt: skip
        if self.spells_spans:
            told["spans"] = [
                each._asdict() | {"text": " ".join(output.tokens[each.begin : each.end])} for each in output.spans
            ]
        return jsonlib.dumps(told, ensure_ascii=False)

    def measure(
        self, examples: Any, indices: Indices, names: Sequence[str], interrupted: Callable[[], bool] = never
    ) -> MetricSums:
        """Spans that are in the file, that were told, and that are both; a sentence counts at its first part."""
        found: TaggedExamples = examples
        whole = dict.fromkeys(found.sentence[at] for at in indices.tolist() if found.rows[at].begin == 0)
        if "entity_f1" not in names or not self.spells_spans:
            return {}
        counts = np.zeros(3)
        told = self([found.sentences[at].tokens for at in whole])
        for at, output in zip(whole, told, strict=True):
            wanted = {*spans(found.tags(at))}
            counts += (len(wanted), len(output.spans), len(wanted & {*output.spans}))
        return {"spans": torch.from_numpy(counts)}

    @torch.no_grad()
    def inspect(self, sentence: str | Sequence[str]) -> Observation:
        """Attention over the pieces of a sentence, and the likeliest tags of each token. ConfigError: too long."""
        tokens = _tokens(sentence)
        parts = token_rows(self.codec.tokenizer, [tokens], self.config)[0]
        if len(parts) != 1 or len(parts[0].columns) > SHOWN:
            what = "there is no sentence to look at" if not parts else "this sentence is too long to look at"
            raise ConfigError(
                what, why=f"the model reads {self.config.data.max_length} pieces, and {SHOWN} can be shown"
            )
        (row,) = parts
        columns, valid = (each.to(self._device) for each in padded([row.columns]))
        shared = twin(self.net)  # hooks on the model itself would be seen by whoever tags meanwhile
        with observe(shared) as seen:
            log_p = shared(columns, Span.of(valid))[0].double().log_softmax(-1).cpu()
        pieces = row.columns[:, 0] if row.columns.ndim == 2 else row.columns
        labels = tuple(self.codec.tokenizer.pieces(pieces.tolist()))
        axes = Axis("token", labels), Axis("token looked at", labels)
        steps = tuple(
            self._step(" " * (place > 1) + token, log_p[place])
            for token, place in zip(tokens, row.first.tolist(), strict=True)
        )
        attention = {name: AttentionWeights(weights[0].cpu(), *axes) for name, weights in seen.items()}
        return Observation(" ".join(tokens), attention, steps)

    def _step(self, token: str, log_p: torch.Tensor) -> ObservedStep:
        value, number = log_p.topk(min(ALTERNATIVES, len(log_p)))
        best = tuple(
            Alternative(self.tags[each], one) for each, one in zip(number.tolist(), value.tolist(), strict=True)
        )
        return ObservedStep(token, best[0].log_probability, best)


def _tokens(sentence: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(sentence.split()) if isinstance(sentence, str) else tuple(sentence)
