"""Predictor of a masked model: text for gaps, and the probability of each token given all others."""

from __future__ import annotations

import json as jsonlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.attention.observe import attention_maps, observe_calls, shared_copy
from regard.attention.span import Span
from regard.baselines.gaps import GapBaseline, HiddenTokens
from regard.config.prediction_settings import GapSettings
from regard.config.setting_models import request_model
from regard.core.observation import (
    Alternative,
    Axis,
    Influence,
    Observation,
    Prediction,
    Site,
    Surface,
    with_attributes,
)
from regard.core.predictor import Predictor, input_number, require_texts
from regard.core.predictor_interface import InputForm, PredictorInterface, require_count
from regard.core.task import Indices, MetricSums, not_interrupted
from regard.core.wording import pluralize
from regard.data.masked_examples import MaskedExamples
from regard.data.masking import Tokens
from regard.data.tokenizers.tokenizer import BEGIN, END, SPECIALS, Tokenizer
from regard.errors import DataError
from regard.inference.states import cut_after, grouped, pooled, sequence_states
from regard.models.masked_model import MaskedModel
from regard.tasks.masked.config import FillConfig
from regard.tasks.masked.influence import gap_influences, text_pieces
from regard.tasks.piano_roll import piano_roll

if TYPE_CHECKING:
    FillRequest = GapSettings
else:
    FillRequest = request_model(GapSettings)

BY_CHARACTER = ("character", "byte")  # tokenizers without words
ROWS = 64  # copies of a text per batch, each with a different masked token
SHOWN = 10  # candidates per gap in an inspection
MAX_CANDIDATES = 10_000  # of all gaps of a text, in the response to a request


class GapCandidate(NamedTuple):
    """A candidate for a gap.

    Attributes:
        text: a word or piece.
        probability: 0 to 1, among all tokens of the vocabulary without special ones.
    """

    text: str
    probability: float


class Filled(NamedTuple):
    """A filled text.

    Attributes:
        text: the text with the most probable candidate in each gap.
        gaps: the candidates of each gap, best first.
    """

    text: str
    gaps: tuple[tuple[GapCandidate, ...], ...]


class Filler(Predictor[Filled]):
    """Predictor that fills gaps in texts: ``filler(["A dog ___ over the fence"])[0].gaps[0][0].text``.

    Each gap is one token. All gaps are masked during prediction. Special tokens are never candidates.

    Args:
        model: the network.
        tokenizer: the tokenizer of the texts.
        settings: the mark of a gap, and the number of candidates.
        context: the maximum number of tokens of a text, with begin and end.
        frequencies: (types,) the share of each type in the training data, for the unigram model of an evaluation; None:
            no such figures.
        tables: the wide part, by whose distribution that of the network is multiplied; None: the network alone.
    """

    def __init__(
        self, model: MaskedModel, tokenizer: Tokenizer, settings: FillConfig, *, context: int,
        frequencies: Tensor | None = None, tables: GapBaseline | None = None,
    ) -> None:  # fmt: skip
        """Initialize; ``tables``: the wide part, by whose distribution that of the network is multiplied."""
        self.tables = tables
        self.model, self.tokenizer, self.settings, self.context = model.eval(), tokenizer, settings, context
        self.mask, self._frequencies = len(tokenizer), frequencies
        self.device = model.head.weight.device

    @property
    def labels(self) -> tuple[str, ...]:
        """All pieces of the vocabulary, which are the targets of an evaluation."""
        return tuple(self.tokenizer.pieces(range(len(self.tokenizer))))

    @torch.no_grad()
    def predict(self, inputs: Sequence[str], *, top_k: int | None = None) -> list[Filled]:  # type: ignore[override]
        """Fill the gaps of texts.

        Args:
            inputs: the texts; ``___``, or the setting ``blank`` of the run, marks a gap.
            top_k: the number of candidates of each gap; None: the setting of the run.

        Raises:
            ConfigError: if ``top_k`` is below 1.
            DataError: if a text has no gap, or is longer than the context of the model.
        """
        number = self.settings.top_k if top_k is None else top_k
        require_count("top_k", number)
        outputs = []
        for place, text in enumerate(require_texts(inputs), start=1):
            with input_number(place):
                outputs.append(self._fill(text, number))
        return outputs

    def embeddings(self, inputs: Sequence[Any], layer: int | None, pooling: str) -> npt.NDArray[np.float32]:
        """See ``Predictor.embed``; a text needs no gap, and a longer one than the context is read in parts."""
        net = self.model if layer is None else cut_after(self.model, layer)
        size = self.context - 2
        texts = [self.tokenizer.encode(text) for text in require_texts(inputs)]
        parts = [[tokens[start : start + size] for start in range(0, max(len(tokens), 1), size)] for tokens in texts]
        sequences = [np.array([BEGIN, *part, END]) for parts_of_text in parts for part in parts_of_text]
        return pooled(grouped(sequence_states(net, sequences, self.device), map(len, parts)), pooling)

    def read(self, line: str) -> str:
        """Return the line as a text; DataError if it has no gap or is too long."""
        text = line.rstrip("\r\n")
        self._tokens(text)
        return text

    def read_for_embedding(self, line: str) -> str:
        """Return the line as a text, which needs no gap and may be longer than the context."""
        return line.rstrip("\r\n")

    def cost(self, text: str) -> int:
        """Return the cost of a text: the numbers per layer (``core.predictor_interface.input_cost``)."""
        blank = self.settings.blank
        tokens = len(self.tokenizer.encode(text.replace(blank, " "))) + text.count(blank) + 2
        return min(tokens, self.context) ** 2

    def write(self, output: Filled, *, json: bool) -> str:
        """Return the filled text and, after a tab, the candidates of each gap; or a JSON object."""
        if json:
            objects = [[candidate._asdict() for candidate in gap] for gap in output.gaps]
            return jsonlib.dumps({"text": output.text, "gaps": objects}, ensure_ascii=False)
        gaps = ["  ".join(f"{_visible(text)} {probability:.3f}" for text, probability in gap) for gap in output.gaps]
        return f"{_one_line(output.text)}\t{' | '.join(gaps)}"

    def measure(
        self,
        examples: MaskedExamples,
        indices: Indices,
        names: Sequence[str],
        interrupted: Callable[[], bool] = not_interrupted,
    ) -> MetricSums:
        """Return the sums of pseudo-perplexity, which masks each token in turn, and of the unigram model.

        The unigram model predicts the same masked tokens as the evaluation.
        """
        sums: dict[str, float] = {}
        if "pseudo_perplexity" in names:
            scores = [self.pseudo_log_probabilities(examples.text(int(index)), interrupted) for index in indices]
            sums |= {"pseudo_nll": -math.fsum(map(math.fsum, scores)), "pseudo_tokens": float(sum(map(len, scores)))}
        if self._frequencies is not None and {"unigram_loss", "unigram_accuracy"} & set(names):
            best, log_p = int(self._frequencies.argmax()), self._frequencies.log()
            hidden = [torch.from_numpy(examples.text(int(index))[examples.chosen(int(index))]) for index in indices]
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
        """Return the log-probability of each non-special token given all others of the text (Salazar et al. 2020)."""
        row = torch.from_numpy(tokens)
        positions = (row >= len(SPECIALS)).nonzero()[:, 0]
        scores: list[float] = []
        for part in positions.split(ROWS):
            if interrupted():
                raise KeyboardInterrupt
            read = row.repeat(len(part), 1)
            read[torch.arange(len(part)), part] = self.mask
            log_p = self.log_probabilities(read).double()
            scores += log_p[torch.arange(len(part)), row[part]].tolist()
        return scores

    @torch.no_grad()
    def inspect(self, text: str) -> Observation:
        """Return the attention of one pass over a text with gaps, and the candidates of each gap."""
        tokens = self._tokens(text)
        labels = tuple(
            self.settings.blank if token == self.mask else self.tokenizer.pieces([token])[0] for token in tokens
        )
        shared = shared_copy(self.model)  # hooks on the model itself would affect concurrent predictions
        with observe_calls(shared) as calls:
            row = torch.tensor([tokens], device=self.device)
            shared(row, Span.without_padding(row))
        maps = attention_maps(calls, Axis("token", labels), Axis("token attended to", labels))
        pieces = text_pieces(text, self.settings.blank, by_character=self.tokenizer.config.kind in BY_CHARACTER)
        gaps = [place for place, piece in enumerate(pieces) if piece == self.settings.blank]
        predictions = tuple(
            Prediction.best(
                Site("gap", (place,)), "token", list(map(Alternative, map(self._text, tokens), log_p, tokens))
            )
            for place, log_p, tokens in zip(gaps, *map(Tensor.tolist, self._best(text, SHOWN)), strict=True)
        )
        parts = text.split(self.settings.blank)
        words = [*(prediction.label for prediction in predictions), ""]
        filled = "".join(part + word for part, word in zip(parts, words, strict=True))
        unknown = dict.fromkeys(word for part in parts for word in self.tokenizer.unknown(part))
        facts = piano_roll(self.tokenizer, filled, " ".join(parts)) | {"unknown": list(unknown)}
        return Observation((Surface("tokens", pieces),), predictions, maps, facts=facts)

    @property
    def network(self) -> MaskedModel:
        """See ``core.observation.Traced``."""
        return self.model

    def with_network(self, network: Any) -> Self:
        """See ``core.observation.Traced``."""
        return with_attributes(self, model=network)

    def scores(self, text: str, observation: Observation) -> list[float]:
        """See ``core.observation.Traced``."""
        log_p = self.log_probabilities(torch.tensor([self._tokens(text)])).double()
        return [
            float(row[prediction.alternatives[0].id])
            for row, prediction in zip(log_p, observation.predictions, strict=True)
        ]

    def influences(self, text: str, observation: Observation) -> tuple[Influence, ...]:
        """See ``core.observation.Influenced``."""
        return gap_influences(observation, self.settings.blank, self._tokens, self.log_probabilities, mask=self.mask)

    @property
    def interface(self) -> PredictorInterface:
        """Settings of a request, for servers."""

        def predict(text: str, request: Any, interrupted: Callable[[], bool]) -> Filled:
            number = self.settings.top_k if request.top_k is None else request.top_k
            gaps = text.count(self.settings.blank)
            if gaps * number > MAX_CANDIDATES:
                why = f"{pluralize(gaps, 'gap')} with {number:,} each exceed the limit of {MAX_CANDIDATES:,}"
                raise DataError("the text has too many candidates", why=why, help="reduce top_k, or remove gaps")
            return self.predict([text], top_k=number)[0]

        takes = f"a text with one or more gaps, written {self.settings.blank}"
        gives, settings = "the filled text, and candidates for each gap", FillRequest(top_k=self.settings.top_k)
        of_music = self.tokenizer.config.kind == "notes"
        purpose = "Fills gaps in music." if of_music else "Fills gaps in a text."
        form = InputForm("gaps", (self.settings.blank,))
        return PredictorInterface(takes, gives, settings, predict, purpose, form=form)

    def _fill(self, text: str, number: int) -> Filled:
        value, piece = self._best(text, number)
        gaps = tuple(
            tuple(GapCandidate(self._text(token), math.exp(score)) for token, score in zip(*both, strict=True))
            for both in zip(piece.tolist(), value.tolist(), strict=True)
        )
        first, *rest = text.split(self.settings.blank)
        filled = "".join(gap[0].text + part for gap, part in zip(gaps, rest, strict=True))
        return Filled(first + filled, gaps)

    def _best(self, text: str, number: int) -> tuple[Tensor, Tensor]:
        """Return (gaps, number) the log-probabilities of the best tokens of each gap, and the tokens."""
        log_p = self.log_probabilities(torch.tensor([self._tokens(text)]))
        log_p[:, : len(SPECIALS)] = log_p[:, self.mask] = -torch.inf
        best = log_p.topk(min(number, self.mask - len(SPECIALS)))
        return best.values, best.indices

    @torch.no_grad()
    def log_probabilities(self, tokens: Tensor) -> Tensor:
        """Return (masks, types) log-probabilities at each mask of ``tokens`` (rows, length), row by row."""
        read = tokens.to(self.device)
        features: Tensor = self.model(read, Span.without_padding(read))[read == self.mask]
        log_p = self.model.log_probabilities(features)
        if self.tables is not None and self.model.gate is not None:
            evidence = self.tables.evidence(HiddenTokens.unknown([*tokens.numpy()], self.mask))
            tables, buckets = (torch.from_numpy(values).to(self.device) for values in evidence)
            log_p = self.model.gate(log_p, tables, buckets)
        return log_p.cpu()

    def _text(self, piece: int) -> str:
        """Return the text of a piece, without the leading space of a ``byte-bpe`` piece, which the text already has."""
        text = self.tokenizer.decode([piece])
        if self.tokenizer.config.kind == "byte-bpe" and len(text) > 1:
            text = text.removeprefix(" ")
        return text if text and "\ufffd" not in text else self.tokenizer.pieces([piece])[0]

    def _tokens(self, text: str) -> list[int]:
        """Return BEGIN, the pieces of the text with the mask for each gap, and END."""
        blank, kind = self.settings.blank, self.tokenizer.config.kind
        parts = text.split(blank)
        if len(parts) < 2:
            raise DataError("the text has no gap", why=f"a gap is written {blank}", help=f'"A dog {blank} fast"')
        if kind == "byte-bpe":  # the space before a word is part of its piece
            parts = [part.removesuffix(" ") for part in parts[:-1]] + parts[-1:]
        elif kind not in (*BY_CHARACTER, "notes"):
            parts = [part.strip() for part in parts]
        tokens = [BEGIN]
        for number, part in enumerate(parts):
            tokens += [self.mask] * (number > 0) + (self.tokenizer.encode(part) if part else [])
        tokens.append(END)
        if len(tokens) > self.context:
            why = f"the context of the model is {pluralize(self.context, 'token')}, with begin and end"
            raise DataError(
                f"the text is too long: {pluralize(len(tokens), 'token')}", why=why, help="shorten the text"
            )
        return tokens


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def _visible(text: str) -> str:
    """Return the text, in quotes if it is white space."""
    return repr(text) if text.isspace() else text
