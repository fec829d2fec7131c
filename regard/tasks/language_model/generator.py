"""A trained language model at work: text that goes on from a prompt, and the probability of given text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from json import dumps
from typing import NamedTuple, overload

import torch
from pydantic import ValidationError
from torch import Tensor

from regard.config.explain import explain
from regard.core.observation import Observation
from regard.core.predictor_interface import PredictorInterface
from regard.core.task import Indices, MetricSums, never
from regard.core.untrusted_files import shortened
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, UNKNOWN, Tokenizer
from regard.data.windows import WindowExamples
from regard.errors import ConfigError, DataError, ModelError
from regard.models.language_model import LanguageModel, LanguageModelState
from regard.search.sampling import bounded, limit_scores
from regard.tasks.language_model.config import GenerateConfig
from regard.tasks.language_model.interface import generator_interface
from regard.tasks.language_model.observe import observe_tokens

__all__ = ["Generated", "Generator", "TextScore"]


class Generated(NamedTuple):
    """``text`` goes on from the prompt, which it does not repeat; ``finished``: the model ended it by itself."""

    prompt: str
    text: str
    log_probability: float  # nats, of the generated tokens
    finished: bool


class TextScore(NamedTuple):
    """The probability of a text: ``nll`` in nats over ``tokens``, with ``bytes`` and ``characters`` of the raw text."""

    nll: float
    tokens: int
    bytes: int
    characters: int
    pieces: Sequence[str] = ()
    piece_log_probabilities: Sequence[float] = ()  # of each token, given those before

    @property
    def perplexity(self) -> float:
        return math.exp(self.nll / self.tokens)

    @property
    def bits_per_byte(self) -> float:
        return self.nll / math.log(2) / self.bytes

    @property
    def bits_per_character(self) -> float:
        return self.nll / math.log(2) / self.characters


class Generator:
    """Text in, more text out. ``context``: the most tokens that a prediction sees, as in training."""

    def __init__(self, model: LanguageModel, tokenizer: Tokenizer, settings: GenerateConfig, *, context: int) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self.settings, self.context = settings, context
        self.device = model.head.weight.device

    @overload
    def __call__(
        self, prompt: str = "", *, seed: int | None = None, greedy: bool = False, **options: object
    ) -> Generated: ...

    @overload
    def __call__(
        self, prompt: list[str] | tuple[str, ...], *, seed: int | None = None, greedy: bool = False, **options: object
    ) -> list[Generated]: ...

    def __call__(
        self,
        prompt: str | list[str] | tuple[str, ...] = "",
        *,
        seed: int | None = None,
        greedy: bool = False,
        **options: object,
    ) -> Generated | list[Generated]:
        """``model("To be", length=100, temperature=0.8, seed=1)``; of several prompts a list, in order.

        ``options`` are fields of GenerateConfig. Each text is a function of its prompt and the seed.
        """
        settings = self.adjusted(options)
        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        if wrong := [each for each in prompts if not isinstance(each, str)]:
            what = f"{type(wrong[0]).__name__} is no prompt"
            raise ConfigError(what, help='model("To be"), or a list of prompts: model(["To be"])')
        found = []
        for each in prompts:
            parts = list(self.stream(each, settings, seed=seed, greedy=greedy))
            last, text = parts[-1], "".join(part.text for part in parts)
            found.append(Generated(each, text, last.log_probability, last.finished))
        return found[0] if isinstance(prompt, str) else found

    def read(self, line: str) -> str:
        """The line is a prompt; a blank one too. ConfigError where the vocabulary cannot spell it."""
        self._encode(line)
        return line

    def write(self, output: Generated, *, json: bool) -> str:
        """The prompt and what goes on from it, line breaks as spaces; or an object, which keeps them."""
        text = output.prompt + output.text
        if not json:
            return " ".join(re.split("[\r\n]", text))
        found = {"text": text, "log_probability": output.log_probability, "finished": output.finished}
        return dumps(found | {"prompt": output.prompt}, ensure_ascii=False)

    def measure(
        self, examples: WindowExamples, indices: Indices, names: Sequence[str], interrupted: Callable[[], bool] = never
    ) -> MetricSums:
        """See ``core.task.Predictor``: the sizes of the raw texts, for the figures by byte and by character.

        A text is counted with its first window. DataError where a token of it is unknown: the probability of that says
        nothing of the bytes it stands for.
        """
        texts = examples.texts_begun(indices)
        for text in texts:
            if number := int((text.tokens == UNKNOWN).sum()):
                raise DataError(
                    "bits per byte cannot be told of this text", where=text.name,
                    why=f"the model's vocabulary lacks {number:,} of its {len(text) - 2:,} tokens",
                    help="--metric loss,perplexity, which are then of the text with <unk> in these places",
                )  # fmt: skip
        sizes = {"bytes": sum(text.bytes for text in texts), "characters": sum(text.characters for text in texts)}
        chosen = {unit: size for unit, size in sizes.items() if f"bits_per_{unit[:-1]}" in names}
        return {unit: torch.tensor(size, dtype=torch.float64) for unit, size in chosen.items()}

    def stream(
        self, prompt: str, settings: GenerateConfig, *, seed: int | None = None, greedy: bool = False
    ) -> Iterator[Generated]:
        """Pieces of text as they are generated; ``log_probability`` is the sum so far.

        Beyond ``context`` tokens the model reads the last half of them anew and goes on. ConfigError, before the first
        piece is asked for, for a prompt that the vocabulary cannot spell, and for what is no seed.
        """
        if not isinstance(greedy, bool):
            raise ConfigError(f"greedy cannot be {shortened(repr(greedy))}", where="greedy", why="it is true or false")
        generator = torch.Generator(self.device)
        generator.seed() if seed is None else generator.manual_seed(_require_seed(seed))
        return self._stream(prompt, [BEGIN, *self._encode(prompt)], settings, generator, greedy=greedy)

    @torch.no_grad()
    def _stream(
        self, prompt: str, tokens: list[int], settings: GenerateConfig, generator: torch.Generator, *, greedy: bool
    ) -> Iterator[Generated]:
        shown, start, total = "", len(tokens), 0.0
        log_p, state = self._read(tokens)
        for _ in range(settings.length):
            token = self._choose(log_p, settings, generator, greedy=greedy)
            total += float(log_p[token])
            finished = token == END
            tokens.append(token)
            whole = self.tokenizer.decode(tokens[start:])
            # Half a character of several bytes is held back until it is whole.
            text = "" if whole.endswith("\ufffd") and not finished else whole[len(shown) :]
            shown += text
            yield Generated(prompt, text, total, finished)
            if finished:
                return
            if int(state.length[0]) >= self.context:
                log_p, state = self._read(tokens)
            else:
                log_p, state = self._step([token], state)

    @torch.no_grad()
    def score(self, text: str) -> TextScore:
        """The probability of a whole text, its end symbol left out, in windows of ``context`` tokens."""
        tokens = [BEGIN, *self._encode(text)]
        if len(tokens) == 1:
            raise ConfigError("there is no text to score")
        found: list[float] = []
        for at in range(0, len(tokens) - 1, self.context):
            window = torch.tensor([tokens[at : at + self.context + 1]], device=self.device)
            log_p, _ = self.model.step(window[:, :-1], self.model.start(1))
            found += log_p.gather(-1, window[:, 1:, None])[0, :, 0].tolist()
        pieces = self.tokenizer.pieces(tokens[1:])
        return TextScore(-math.fsum(found), len(tokens) - 1, len(text.encode()), len(text), pieces, found)

    def inspect(self, text: str) -> Observation:
        """Attention over a text, and the probability of each of its tokens given those before it."""
        return observe_tokens(self.model, self.tokenizer, text, self._encode(text), context=self.context)

    @property
    def interface(self) -> PredictorInterface:
        """Settings of a request, and generation that can be interrupted: for servers."""
        return generator_interface(self)

    def adjusted(self, options: Mapping[str, object]) -> GenerateConfig:
        """The model's settings with these instead. ConfigError for what they cannot be."""
        try:
            return GenerateConfig.model_validate({**self.settings.model_dump(), **options})
        except ValidationError as error:
            raise explain(error, GenerateConfig, (), ()) from error

    def _encode(self, text: str) -> list[int]:
        tokens = self.tokenizer.encode(text)
        if UNKNOWN in tokens:
            unknown = ", ".join(map(repr, dict.fromkeys(self.tokenizer.unknown(text))))
            raise ConfigError("this model cannot read the prompt", why=f"its vocabulary has no piece for {unknown}")
        return tokens

    def _read(self, tokens: list[int]) -> tuple[Tensor, LanguageModelState]:
        """Read the last tokens anew: all of them, or half a context where there are more."""
        kept = tokens if len(tokens) < self.context else tokens[-max(self.context // 2, 1) :]
        return self._step(kept, self.model.start(1))

    def _step(self, tokens: list[int], state: LanguageModelState) -> tuple[Tensor, LanguageModelState]:
        log_p, after = self.model.step(torch.tensor([tokens], device=self.device), state)
        found = log_p[0, -1]
        if bool(found[:1].isnan().any()):
            raise ModelError("this model computes no probabilities", why="its weights are not finite")
        return found, after

    def _choose(self, log_p: Tensor, settings: GenerateConfig, generator: torch.Generator, *, greedy: bool) -> int:
        allowed = log_p.clone()
        allowed[[PAD, BEGIN, UNKNOWN]] = -torch.inf
        if greedy:
            return int(allowed.argmax())
        scores = limit_scores((allowed / bounded(settings.temperature or 1.0))[None], settings.top_k, settings.top_p)
        return int(torch.multinomial(scores.softmax(-1), 1, generator=generator))


def _require_seed(seed: object) -> int:
    """The seed, or ConfigError for what torch cannot be seeded with."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not -(2**63) <= seed < 2**64:
        why = "it should be a whole number of at most 64 bits"
        raise ConfigError(f"seed cannot be {shortened(repr(seed))}", where="seed", why=why)
    return seed
