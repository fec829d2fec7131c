"""Sampling of texts from a language model after the tokens of prompts."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import torch
from pydantic import ValidationError

from regard.baselines.ngrams import NgramBaseline
from regard.config.chat import ChatConfig
from regard.config.explain import explain
from regard.core.predictor import Predictor
from regard.core.untrusted_files import shortened
from regard.data.tokenizers.tokenizer import BEGIN, UNKNOWN, Tokenizer
from regard.errors import ConfigError
from regard.inference.causal_decoding import causal_decoder, has_bounded_context
from regard.inference.chat import NO_MORE, ReplyEnd
from regard.inference.decoding import Engine
from regard.inference.interpolated_model import InterpolatedModel
from regard.inference.prompt_decoding import DecodedModel, PromptDecoding
from regard.inference.run_search import require_seed
from regard.models.language_model import LanguageModel
from regard.tasks.language_model.config import GenerateConfig
from regard.tasks.language_model.text_listener import Generated, GeneratedPiece
from regard.tasks.language_model.text_search import TextSearch


class TextSampler(Predictor[Generated]):
    """Base of a generator: the tokens of its texts, and the search for their continuations; see ``Generator``."""

    model: LanguageModel
    tokenizer: Tokenizer
    settings: GenerateConfig
    context: int
    engine: Engine
    carried: bool
    ngrams: NgramBaseline | None
    chat_config: ChatConfig | None
    device: torch.device

    @cached_property
    def decoding(self) -> PromptDecoding:
        """Model in the layout of the engine, built on first use."""
        model, endless = causal_decoder(self.model, self.engine), self.carried or has_bounded_context(self.model)
        context = None if endless else self.context
        return PromptDecoding(self._mixed(model), context=context, types=len(self.tokenizer), device=self.device)

    def _mixed(self, model: DecodedModel) -> DecodedModel:
        """Return a form of the model interpolated with the n-grams, if there are any."""
        gate = self.model.gate
        return model if self.ngrams is None or gate is None else InterpolatedModel(model, self.ngrams, gate)

    def adjusted(self, options: Mapping[str, object]) -> GenerateConfig:
        """Return the settings of the model with these overrides; ConfigError for invalid values."""
        try:
            return GenerateConfig.model_validate({**self.settings.model_dump(), **options})
        except ValidationError as error:
            raise explain(error, GenerateConfig, (), ()) from error

    def tokens(self, prompt: str) -> list[int]:
        """Return BEGIN and the tokens of a prompt; ConfigError if the vocabulary cannot encode it."""
        return [BEGIN, *self._encode(prompt)]

    def pieces_after(
        self, prompts: Sequence[list[int]], settings: GenerateConfig, *, samples: int, seed: int | None, greedy: bool,
        end: ReplyEnd = NO_MORE,
    ) -> Iterator[GeneratedPiece]:  # fmt: skip
        """Return an iterator over the pieces of the texts that continue tokens, ``samples`` for each prompt.

        Args:
            prompts: tokens of the prompts.
            settings: settings of generation.
            samples: number of texts for each prompt.
            seed: see ``text_search``.
            greedy: whether to choose the most probable token.
            end: see ``TextSearch``.

        Raises:
            ConfigError: for an invalid argument.
        """
        if not isinstance(greedy, bool):
            raise ConfigError(f"invalid greedy {shortened(repr(greedy))}", where="greedy", why="expected true or false")
        if not isinstance(samples, int) or isinstance(samples, bool) or samples < 1:
            raise ConfigError(f"invalid samples {shortened(repr(samples))}", where="samples", why="the minimum is 1")
        settings = settings.greedy() if greedy else settings
        search = self.text_search(settings, seed, end)
        return search.beams(prompts, samples) if settings.beam > 1 else search.rows(prompts, samples)

    def text_search(self, settings: GenerateConfig, seed: int | None = None, end: ReplyEnd = NO_MORE) -> TextSearch:
        """Return a text search with this seed, by default the seed of the settings, or a random one without it."""
        seed = settings.seed if seed is None else require_seed(seed)
        return TextSearch(self.decoding, self.tokenizer, settings, secrets.randbits(63) if seed is None else seed, end)

    def _encode(self, text: str, encode: Callable[[str], list[int]] | None = None) -> list[int]:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            why = f"U+{ord(text[error.start]):04X} is half of a surrogate pair, which is not valid Unicode"
            raise ConfigError("the model cannot encode the prompt", why=why) from error
        tokens = (encode or self.tokenizer.encode)(text)
        if UNKNOWN in tokens:
            unknown = ", ".join(map(repr, dict.fromkeys(self.tokenizer.unknown(text)))) or "a special piece as text"
            why = f"its vocabulary has no piece for {unknown}"
            raise ConfigError("the model cannot encode the prompt", why=why, help="remove these characters")
        return tokens
