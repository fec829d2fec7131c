"""A masked model at work: gaps of a text filled, and the probability of each token given all others."""

from __future__ import annotations

import json as jsonlib
import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from regard.attention.observe import attention_maps, observe_calls, shared_copy
from regard.attention.span import Span
from regard.config.prediction_settings import GapSettings
from regard.config.setting_models import request_model
from regard.core.call_checks import require_count, require_list
from regard.core.observation import Alternative, Axis, Observation, Prediction, Site, Surface
from regard.core.predictor_interface import PredictorInterface
from regard.core.task import Indices, MetricSums, not_interrupted
from regard.core.wording import pluralize
from regard.data.masked_examples import MaskedExamples
from regard.data.masking import Tokens
from regard.data.tokenizers.tokenizer import BEGIN, END, SPECIALS, Tokenizer
from regard.errors import DataError
from regard.models.masked_model import MaskedModel
from regard.tasks.masked.config import FillConfig

if TYPE_CHECKING:
    FillRequest = GapSettings
else:
    FillRequest = request_model(GapSettings)

ROWS = 64  # copies of a text read at once, each with another token masked
SHOWN = 10  # candidates of a gap that is looked at
MAX_CANDIDATES = 10_000  # of all gaps of a text, in an answer to a request


class GapCandidate(NamedTuple):
    """A word or piece that may stand in a gap, and its probability there."""

    text: str
    probability: float


class Filled(NamedTuple):
    """A text with its gaps filled by the likeliest, and the candidates of each gap, best first."""

    text: str
    gaps: tuple[tuple[GapCandidate, ...], ...]


class Filler:
    """Fills the gaps of texts: ``filler(["A dog ___ over the fence"])[0].gaps[0][0].text``.

    Each gap is one token, predicted with all gaps unknown. Special tokens are never offered.
    """

    def __init__(
        self, model: MaskedModel, tokenizer: Tokenizer, settings: FillConfig, *, context: int,
        frequencies: Tensor | None = None,
    ) -> None:  # fmt: skip
        self.model, self.tokenizer, self.settings, self.context = model.eval(), tokenizer, settings, context
        self.mask, self._frequencies = len(tokenizer), frequencies
        self.device = model.head.weight.device

    @torch.no_grad()
    def __call__(self, inputs: Sequence[str], *, top_k: int | None = None) -> list[Filled]:
        """The texts with their gaps filled, ``top_k`` candidates for each: the run's setting unless given."""
        require_list(inputs)
        number = self.settings.top_k if top_k is None else top_k
        require_count("top_k", number)
        return [self._fill(text, number) for text in inputs]

    def read(self, line: str) -> str:
        """The line itself. DataError where it has no gap or is too long."""
        text = line.rstrip("\r\n")
        self._tokens(text)
        return text

    def cost(self, text: str) -> int:
        """Return how many numbers one layer holds at once for a text (``core.predictor_interface.input_cost``)."""
        return len(self._tokens(text)) ** 2

    def write(self, output: Filled, *, json: bool) -> str:
        """The filled text and, after a tab, the candidates of each gap; or all of it as an object."""
        if json:
            found = [[each._asdict() for each in gap] for gap in output.gaps]
            return jsonlib.dumps({"text": output.text, "gaps": found}, ensure_ascii=False)
        gaps = ["  ".join(f"{_visible(each.text)} {each.probability:.3f}" for each in gap) for gap in output.gaps]
        return f"{_one_line(output.text)}\t{' | '.join(gaps)}"

    def measure(
        self,
        examples: MaskedExamples,
        indices: Indices,
        names: Sequence[str],
        interrupted: Callable[[], bool] = not_interrupted,
    ) -> MetricSums:
        """Sums of pseudo-perplexity, each token masked in turn, and of the unigram model at evaluation's places."""
        sums: dict[str, float] = {}
        if "pseudo_perplexity" in names:
            found = [self.pseudo_log_probabilities(examples.text(int(each)), interrupted) for each in indices]
            sums |= {"pseudo_nll": -math.fsum(map(math.fsum, found)), "pseudo_tokens": float(sum(map(len, found)))}
        if self._frequencies is not None and {"unigram_loss", "unigram_accuracy"} & set(names):
            best, log_p = int(self._frequencies.argmax()), self._frequencies.log()
            hidden = [torch.from_numpy(examples.text(int(each))[examples.chosen(int(each))]) for each in indices]
            tokens = torch.cat(hidden) if hidden else torch.zeros(0, dtype=torch.int64)
            sums |= {
                "unigram_nll": -float(log_p[tokens].sum()), "unigram_correct": float((tokens == best).sum()),
                "unigram_tokens": float(len(tokens)),
            }  # fmt: skip
        return {name: torch.tensor(value, dtype=torch.float64) for name, value in sums.items()}

    @torch.no_grad()
    def pseudo_log_probabilities(
        self, tokens: Tokens, interrupted: Callable[[], bool] = not_interrupted
    ) -> list[float]:
        """Log-probability of each token that is not special, given all others of the text (Salazar et al. 2020)."""
        row = torch.from_numpy(tokens)
        places = (row >= len(SPECIALS)).nonzero()[:, 0]
        found: list[float] = []
        for part in places.split(ROWS):
            if interrupted():
                raise KeyboardInterrupt
            number = torch.arange(len(part))
            read = row.repeat(len(part), 1)
            read[number, part] = self.mask
            features = self._features(read)[number.to(self.device), part.to(self.device)]
            log_p = self.model.log_probabilities(features).double().cpu()
            found += log_p[number, row[part]].tolist()
        return found

    @torch.no_grad()
    def inspect(self, text: str) -> Observation:
        """Attention over a text with gaps, in one pass, and what may stand in each; what is read is certain."""
        tokens = self._tokens(text)
        labels = tuple(
            self.settings.blank if token == self.mask else self.tokenizer.pieces([token])[0] for token in tokens
        )
        shared = shared_copy(self.model)  # hooks on the model itself would be seen by whoever fills meanwhile
        with observe_calls(shared) as calls:
            row = torch.tensor([tokens], device=self.device)
            shared(row, Span.without_padding(row))
        maps = attention_maps(calls, Axis("token", labels), Axis("token attended to", labels))
        pieces = [piece for piece in re.split(f"({re.escape(self.settings.blank)})", text) if piece]
        gaps = [place for place, piece in enumerate(pieces) if piece == self.settings.blank]
        predictions = tuple(
            Prediction.best(
                Site("gap", (place,)), "token",
                [Alternative(each.text, math.log(each.probability or 1e-300)) for each in candidates],
            )
            for place, candidates in zip(gaps, self._fill(text, SHOWN).gaps, strict=True)
        )  # fmt: skip
        return Observation((Surface("tokens", tuple(pieces)),), predictions, maps)

    @property
    def interface(self) -> PredictorInterface:
        """Settings of a request: for servers."""

        def predict(text: str, asked: Any, interrupted: Callable[[], bool]) -> Filled:
            number = self.settings.top_k if asked.top_k is None else asked.top_k
            gaps = text.count(self.settings.blank)
            if gaps * number > MAX_CANDIDATES:
                why = f"{pluralize(gaps, 'gap')} of {number:,} make more than {MAX_CANDIDATES:,}"
                raise DataError("the text has too many candidates", why=why, help="a smaller top_k, or fewer gaps")
            return self([text], top_k=number)[0]

        takes = f"a text with one or more gaps, written {self.settings.blank}"
        return PredictorInterface(takes, "the text filled, and candidates for each gap",
                                  FillRequest(top_k=self.settings.top_k), predict)  # fmt: skip

    def _fill(self, text: str, number: int) -> Filled:
        tokens = torch.tensor(self._tokens(text))
        places = (tokens == self.mask).nonzero()[:, 0]
        features = self._features(tokens[None])[0, places.to(self.device)]
        log_p = self.model.log_probabilities(features).cpu()
        log_p[:, : len(SPECIALS)] = log_p[:, self.mask] = -torch.inf
        value, piece = log_p.topk(min(number, self.mask - len(SPECIALS)))
        gaps = tuple(
            tuple(GapCandidate(self._text(each), math.exp(one)) for each, one in zip(*both, strict=True))
            for both in zip(piece.tolist(), value.tolist(), strict=True)
        )
        first, *rest = text.split(self.settings.blank)
        filled = "".join(gap[0].text + part for gap, part in zip(gaps, rest, strict=True))
        return Filled(first + filled, gaps)

    def _features(self, tokens: Tensor) -> Tensor:
        tokens = tokens.to(self.device)
        features: Tensor = self.model(tokens, Span.without_padding(tokens))
        return features

    def _text(self, piece: int) -> str:
        """The text of a piece; one of ``byte-bpe`` has its space before it, which stands there already."""
        text = self.tokenizer.decode([piece])
        if self.tokenizer.config.kind == "byte-bpe" and len(text) > 1:
            text = text.removeprefix(" ")
        return text if text and "\ufffd" not in text else self.tokenizer.pieces([piece])[0]

    def _tokens(self, text: str) -> list[int]:
        """BEGIN, the pieces of the text with the mask at each gap, END."""
        blank, kind = self.settings.blank, self.tokenizer.config.kind
        parts = text.split(blank)
        if len(parts) < 2:
            raise DataError("there is no gap to fill", why=f"a gap is written {blank}", help=f'"A dog {blank} fast"')
        if kind == "byte-bpe":  # a word's space is part of the word
            parts = [part.removesuffix(" ") for part in parts[:-1]] + parts[-1:]
        elif kind not in ("character", "byte", "notes"):
            parts = [part.strip() for part in parts]
        tokens = [BEGIN]
        for number, part in enumerate(parts):
            tokens += [self.mask] * (number > 0) + (self.tokenizer.encode(part) if part else [])
        tokens.append(END)
        if len(tokens) > self.context:
            why = f"the model reads {pluralize(self.context, 'token')} at once, with those that begin and end a text"
            raise DataError(f"a text of {len(tokens):,} tokens is too long", why=why, help="leave some of it out")
        return tokens


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def _visible(text: str) -> str:
    """The text, in quotes where it is white space."""
    return repr(text) if text.isspace() else text
