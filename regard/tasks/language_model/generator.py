"""Predictor of a language model: generation of text after a prompt, and the probability of a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from json import dumps
from typing import Any, Self, overload

import numpy as np
import numpy.typing as npt
import torch

from regard.baselines.ngrams import NgramBaseline
from regard.config.chat import ChatConfig
from regard.config.search_requests import GenerateRequest
from regard.config.search_settings import GenerationSettings
from regard.config.setting import document_settings
from regard.core.observation import Alternative, Influence, Observation, with_attributes
from regard.core.predictor import require_texts
from regard.core.predictor_interface import PredictionInterrupted, PredictorInterface
from regard.core.task import Indices, MetricSums, not_interrupted
from regard.data.packs import PackExamples
from regard.data.tokenizers.tokenizer import BEGIN, Tokenizer
from regard.data.windows import WindowExamples
from regard.errors import ConfigError
from regard.inference.causal_decoding import possible_engine
from regard.inference.decoding import Engine
from regard.inference.search_model import SearchInput
from regard.inference.states import cut_after, grouped, pooled, sequence_states
from regard.models.language_model import LanguageModel
from regard.search.contract import Hypothesis
from regard.tasks.language_model.chat_sampler import ChatSampler
from regard.tasks.language_model.config import GenerateConfig
from regard.tasks.language_model.influence import token_influences
from regard.tasks.language_model.next_tokens import next_tokens
from regard.tasks.language_model.observe import observe_tokens, token_log_probabilities
from regard.tasks.language_model.scoring import (
    TextScore,
    carried_scores,
    continued_windows,
    score_windows,
    text_score,
    text_sizes,
    token_scores,
    window_scores,
)
from regard.tasks.language_model.text_listener import Generated, GeneratedPiece, TokenScore, generated, texts_in_order


class Generator(ChatSampler):
    """Predictor that continues texts, safe to call from several threads.

    Scores always use the model itself.

    Args:
        model: the network.
        tokenizer: the tokenizer of the texts.
        settings: the settings of generation of the run.
        context: the maximum number of tokens that a prediction sees, as in training.
        engine: generates; None: the fast float32 form of the model if that exists.
        carried: whether the model was trained to keep its state; it reads texts of any length in steps of ``context``
            tokens.
        ngrams: all probabilities are those of the interpolation with them (``models.ngram_gate``); None: those of the
            model.
        chat: the chat template; None: conversations are refused.
    """

    def __init__(
        self,
        model: LanguageModel,
        tokenizer: Tokenizer,
        settings: GenerateConfig,
        *,
        context: int,
        engine: Engine | None = None,
        carried: bool = False,
        ngrams: NgramBaseline | None = None,
        chat: ChatConfig | None = None,
    ) -> None:
        self.model, self.tokenizer, self.ngrams = model.eval(), tokenizer, ngrams
        self.settings, self.context, self.carried, self.chat_config = settings, context, carried, chat
        self.device = model.head.weight.device
        self.engine = possible_engine(model, engine)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """All pieces of the vocabulary, which are the targets of an evaluation."""
        return tuple(self.tokenizer.pieces(range(len(self.tokenizer))))

    @overload
    def __call__(self, inputs: str | bytes = "", **settings: Any) -> Generated: ...

    @overload
    def __call__(self, inputs: list[Any] | Iterator[Any], **settings: Any) -> list[Generated]: ...

    @overload
    def __call__(self, inputs: Any, **settings: Any) -> Any: ...

    def __call__(self, inputs: Any = "", **settings: Any) -> Any:
        """Continue a prompt, or each prompt of an iterable: see ``Predictor``. Default: a text from its beginning."""
        return super().__call__(inputs, **settings)

    @document_settings(GenerationSettings)
    def predict(
        self, inputs: Sequence[str], *, seed: int | None = None, greedy: bool = False, **options: object
    ) -> list[Generated]:
        """Continue prompts, in order: ``model("To be", length=100, temperature=0.8, seed=1)``.

        Args:
            inputs: the prompts.
            seed: of sampling. A text depends only on its prompt and the seed. None: that of the run, or a new one.
            greedy: whether to choose the most probable token.
            options: keys of the config section ``generate``, such as ``length``.

        Raises:
            ConfigError: for an invalid option, or a prompt that the vocabulary cannot encode.
            DataError: for an input that is not a text, with its number.
        """
        return list(self.generate(require_texts(inputs), self.adjusted(options), seed=seed, greedy=greedy))

    def embeddings(self, inputs: Sequence[Any], layer: int | None, pooling: str) -> npt.NDArray[np.float32]:
        """See ``Predictor.embed``; a text longer than the context is read in parts."""
        net = self.model if layer is None else cut_after(self.model, layer)
        texts = [np.array(self.tokens(text)) for text in require_texts(inputs)]
        parts = [np.split(text, range(self.context, len(text), self.context)) for text in texts]
        states = sequence_states(net, [part for text in parts for part in text], self.device)
        return pooled(grouped(states, map(len, parts)), pooling)

    def samples(
        self, prompt: str, count: int, *, seed: int | None = None, greedy: bool = False, **options: object
    ) -> list[Generated]:
        """Return several continuations of one prompt: ``model.samples("To be", 3, seed=1)``.

        Each text depends only on the prompt, the seed and its number; the first equals ``model("To be", seed=1)``.

        Args:
            prompt: the prompt.
            count: the number of texts.
            seed: see ``predict``.
            greedy: see ``predict``.
            options: see ``predict``.
        """
        return list(self.generate([prompt], self.adjusted(options), samples=count, seed=seed, greedy=greedy))

    def generate(
        self,
        prompts: Sequence[str],
        settings: GenerateConfig,
        *,
        samples: int = 1,
        seed: int | None = None,
        greedy: bool = False,
    ) -> Iterator[Generated]:
        """Generate the texts of all prompts in parallel, and yield them in order.

        Args:
            prompts: the prompts.
            settings: settings of generation: ``model.settings``, or the result of ``adjusted``.
            samples: the number of texts of each prompt.
            seed: see ``predict``.
            greedy: see ``predict``.

        Raises:
            ConfigError: the vocabulary cannot encode a prompt; raised before generation begins.
        """
        tokens = [self.tokens(prompt) for prompt in prompts]
        pieces = self.pieces_after(tokens, settings, samples=samples, seed=seed, greedy=greedy)
        return texts_in_order(prompts, samples, pieces)

    def read(self, line: str) -> str:
        """Return the line as a prompt, which may be blank; ConfigError if the vocabulary cannot encode it."""
        self._encode(line)
        return line

    def cost(self, prompt: str) -> int:
        """Return the cost of a prompt: the numbers per layer (``core.predictor_interface.input_cost``)."""
        return min(len(self._encode(prompt)) + 1, self.context) ** 2

    def write(self, output: Generated, *, json: bool) -> str:
        """Return prompt and text in one line, with spaces for line breaks, or as a JSON object, which keeps them."""
        text = output.prompt + output.text
        if not json:
            return " ".join(re.split("[\r\n]", text))
        fields = {name: getattr(output, name) for name in ("log_probability", "finished", "finish_reason", "tokens")}
        return dumps({"text": text} | fields | {"sample": output.sample, "prompt": output.prompt}, ensure_ascii=False)

    def measure(
        self,
        examples: WindowExamples | PackExamples,
        indices: Indices,
        names: Sequence[str],
        interrupted: Callable[[], bool] = not_interrupted,
    ) -> MetricSums:
        """Return the sizes of the raw texts: see ``text_sizes``."""
        return text_sizes(examples, indices, names)

    def stream(
        self, prompt: str, settings: GenerateConfig, *, seed: int | None = None, greedy: bool = False
    ) -> Iterator[Generated]:
        """Return an iterator over the pieces of a text during generation; ``log_probability`` is cumulative.

        After ``context`` tokens the model reads the last half of them again and continues from there, unless its
        memory is bounded (``inference.causal_decoding.has_bounded_context``).

        Args:
            prompt: the prompt.
            settings: see ``generate``.
            seed: see ``predict``.
            greedy: see ``predict``.

        Raises:
            ConfigError: the vocabulary cannot encode the prompt, or the seed is invalid; raised by this call.
        """
        pieces = self.pieces_after([self.tokens(prompt)], settings, samples=1, seed=seed, greedy=greedy)
        return (generated(prompt, piece, 0) for piece in pieces)

    def stream_samples(
        self, prompt: str, count: int, settings: GenerateConfig, *, seed: int | None = None, greedy: bool = False
    ) -> Iterator[GeneratedPiece]:
        """Return an iterator over the pieces of several continuations of a prompt, each with the number of its text.

        Every token yields a piece, which is empty if the token completes no text. Raises ConfigError like ``stream``.
        """
        return self.pieces_after([self.tokens(prompt)], settings, samples=count, seed=seed, greedy=greedy)

    @torch.no_grad()
    def score(
        self, text: str, *, prompt: str | None = None, stride: int | None = None,
        interrupted: Callable[[], bool] = not_interrupted,
    ) -> TextScore:  # fmt: skip
        """Return the probability of a text without its end symbol, in windows of ``context`` tokens.

        A model that keeps its state reads the text once, from its beginning.

        Args:
            text: the text.
            prompt: text before it, which is read as in generation and not scored.
            stride: offset between windows, by default the context. A token in several windows is scored in the first of
                them, where at least context − stride tokens precede it.
            interrupted: called before each window.

        Raises:
            PredictionInterrupted: ``interrupted`` returned True.
        """
        scored = self._encode(text)
        if not scored:
            raise ConfigError("there is no text to score")
        before = [BEGIN] if prompt is None else [BEGIN, *self._encode(prompt)]
        tokens = before + scored
        if self.carried and stride is None:
            scores = carried_scores(
                self._mixed(self.model), tokens, len(before), self.context, self.device, interrupted
            )
            return text_score(self.tokenizer, text, scored, scores)
        if prompt is None or stride is not None:
            windows = iter(score_windows(len(tokens) - 1, len(before) - 1, self.context, stride))
        else:
            windows = continued_windows(len(before), len(tokens), self.context)
        scores = window_scores(self._mixed(self.model), tokens, windows, self.device, interrupted)
        return text_score(self.tokenizer, text, scored, scores)

    def inspect(self, text: str) -> Observation:
        """Return the attention over a text, and the probability of each token given the tokens before it."""
        tokens = self._encode(text)
        return observe_tokens(self.model, self.tokenizer, text, tokens, context=self.context, mixed=self._mixed)

    @property
    def network(self) -> LanguageModel:
        """See ``core.observation.Traced``."""
        return self.model

    def with_network(self, network: Any) -> Self:
        """See ``core.observation.Traced``."""
        return with_attributes(self, "decoding", model=network)

    def scores(self, text: str, observation: Observation) -> list[float]:
        """See ``core.observation.Traced``."""
        return token_log_probabilities(self._mixed(self.model), observation, self.device)

    def influences(self, text: str, observation: Observation) -> tuple[Influence, ...]:
        """See ``core.observation.Influenced``."""
        return token_influences(self._mixed(self.model), observation, len(self.tokenizer), self.device)

    def requested(self, request: GenerateRequest) -> GenerateConfig:
        """Return the settings of a request (``inference.search_model.Searches``)."""
        options = request.model_dump(exclude={"greedy"}, exclude_unset=True)
        settings = self.adjusted({name: value for name, value in options.items() if value is not None})
        return settings.greedy() if request.greedy else settings

    def search_inputs(self, prompt: str, settings: GenerateConfig) -> list[SearchInput]:
        """Return the search inputs of a prompt (``inference.search_model.Searches``)."""
        return [self.text_search(settings).input(self.tokens(prompt), 0, 0)]

    def output(
        self,
        prompt: str,
        parts: Sequence[SearchInput],
        hypotheses: Sequence[list[Hypothesis]],
        settings: GenerateConfig,
    ) -> Generated:
        """Return the output of a search (``inference.search_model.Searches``)."""
        return generated(prompt, self.text_search(settings).whole(0, hypotheses[0][0]), 0)

    @property
    def interface(self) -> PredictorInterface:
        """Settings of a request and interruptible generation, for servers."""

        def predict(prompt: str, requested: GenerateRequest, interrupted: Callable[[], bool]) -> Generated:
            parts = []
            for part in self.stream(prompt, self.requested(requested)):
                if interrupted():
                    raise PredictionInterrupted
                parts.append(part)
            return parts[-1]._replace(text="".join(part.text for part in parts))

        purpose = "Continues music." if self.tokenizer.config.kind == "notes" else "Continues a text."
        settings = GenerateRequest.of(self.settings)
        return PredictorInterface("a prompt", "text that continues it", settings, predict, purpose)

    def next_tokens(self, prompt: str, request: GenerateRequest) -> tuple[Alternative, ...]:
        """Return the most probable next tokens under the settings of a request (``next_tokens``)."""
        return next_tokens(self.decoding, self.tokenizer, self.tokens(prompt), self.requested(request))

    @torch.no_grad()
    def token_scores(
        self, tokens: Sequence[int], alternatives: int = 0, interrupted: Callable[[], bool] = not_interrupted
    ) -> list[TokenScore]:
        """Return the score of each token except the first, given the tokens before it, read as in generation.

        Args:
            tokens: the tokens, such as ``model.tokens(text)``.
            alternatives: the number of most probable tokens at each position.
            interrupted: called before each window.

        Raises:
            PredictionInterrupted: ``interrupted`` returned True.
        """
        return token_scores(self.decoding, tokens, alternatives, self.device, interrupted)
