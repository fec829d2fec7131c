"""A trained language model at work: text that goes on from a prompt, and the probability of given text."""

from __future__ import annotations

import math
import re
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from json import dumps
from typing import NamedTuple, overload

import torch
from pydantic import ValidationError

from regard.config.explain import explain
from regard.config.search_requests import GenerateRequest
from regard.config.search_settings import GenerationSettings
from regard.config.setting import document_settings
from regard.core.observation import Observation
from regard.core.predictor_interface import PredictionInterrupted, PredictorInterface
from regard.core.task import Indices, MetricSums, not_interrupted
from regard.core.untrusted_files import shortened
from regard.core.wording import pluralize
from regard.data.document_stream import DocumentStream
from regard.data.packs import PackExamples
from regard.data.stream import Stream
from regard.data.tokenizers.tokenizer import BEGIN, UNKNOWN, Tokenizer
from regard.data.windows import WindowExamples
from regard.errors import ConfigError, DataError
from regard.inference.causal_decoding import causal_decoder, has_bounded_context, possible_engine
from regard.inference.decoding import Engine
from regard.inference.prompt_decoding import PromptDecoding
from regard.inference.run_search import require_seed
from regard.inference.search_model import SearchInput
from regard.models.language_model import LanguageModel
from regard.search.contract import Hypothesis
from regard.search.rows import most_probable
from regard.tasks.language_model.config import GenerateConfig
from regard.tasks.language_model.observe import observe_tokens
from regard.tasks.language_model.score_windows import score_windows
from regard.tasks.language_model.scoring import TextScore, carried_scores, continued_windows, window_scores
from regard.tasks.language_model.text_listener import FinishReason, GeneratedPiece, TokenScore
from regard.tasks.language_model.text_search import TextSearch

ROWS = 64  # texts generated side by side at most


class Generated(NamedTuple):
    """``text`` goes on from the prompt, which it does not repeat; ``finished``: it ended before its length did.

    ``finish_reason``: see ``GeneratedPiece``; None for a part of a text that goes on.
    """

    prompt: str
    text: str
    log_probability: float  # nats, of the generated tokens
    finished: bool
    finish_reason: FinishReason | None = None
    tokens: int = 0  # generated, those of a stop string and the end included
    sample: int = 0


class Generator:
    """Text in, more text out. ``context``: the most tokens that a prediction sees, as in training.

    ``carried``: the model was trained to remember what it read before: it reads on without end, ``context`` at a time.

    ``engine`` says what generates: the fast form of the model in float32 where there is one, unless given; scores are
    the model's own.
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
    ) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self.settings, self.context, self.carried = settings, context, carried
        self.device = model.head.weight.device
        self.engine = possible_engine(model, engine)

    @cached_property
    def decoding(self) -> PromptDecoding:
        """The model in the layout of its engine, made when first used."""
        model, endless = causal_decoder(self.model, self.engine), self.carried or has_bounded_context(self.model)
        context = None if endless else self.context
        return PromptDecoding(model, context=context, types=len(self.tokenizer), device=self.device)

    @overload
    def __call__(
        self, prompt: str = "", *, seed: int | None = None, greedy: bool = False, **options: object
    ) -> Generated: ...

    @overload
    def __call__(
        self, prompt: list[str] | tuple[str, ...], *, seed: int | None = None, greedy: bool = False, **options: object
    ) -> list[Generated]: ...

    @document_settings(GenerationSettings)
    def __call__(
        self,
        prompt: str | list[str] | tuple[str, ...] = "",
        *,
        seed: int | None = None,
        greedy: bool = False,
        **options: object,
    ) -> Generated | list[Generated]:
        """``model("To be", length=100, temperature=0.8, seed=1)``; of several prompts a list, in order.

        ``options`` are settings of generation, see below. Each text is a function of its prompt and the seed.
        """
        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        if wrong := [each for each in prompts if not isinstance(each, str)]:
            what = f"{type(wrong[0]).__name__} is no prompt"
            raise ConfigError(what, help='model("To be"), or a list of prompts: model(["To be"])')
        found = list(self.generate(prompts, self.adjusted(options), seed=seed, greedy=greedy))
        return found[0] if isinstance(prompt, str) else found

    def samples(
        self, prompt: str, count: int, *, seed: int | None = None, greedy: bool = False, **options: object
    ) -> list[Generated]:
        """Several texts that go on from one prompt: ``model.samples("To be", 3, seed=1)``.

        Each is a function of the prompt, the seed and its number; the first is that of ``model("To be", seed=1)``.
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
        """The ``samples`` texts of each prompt, in order, generated side by side; each as soon as those before it are.

        ConfigError, before anything is generated, for a prompt that the vocabulary cannot spell.
        """
        pieces = self._pieces(prompts, settings, samples=samples, seed=seed, greedy=greedy)
        return self._in_order(prompts, samples, pieces)

    def _in_order(self, prompts: Sequence[str], samples: int, pieces: Iterator[GeneratedPiece]) -> Iterator[Generated]:
        texts: defaultdict[int, str] = defaultdict(str)
        ended: dict[int, GeneratedPiece] = {}
        following = 0
        for piece in pieces:
            texts[piece.number] += piece.text
            if piece.finish_reason is not None:
                ended[piece.number] = piece
            while (last := ended.pop(following, None)) is not None:
                number, sample = divmod(following, samples)
                yield _generated(prompts[number], last, sample)._replace(text=texts.pop(following))
                following += 1

    def read(self, line: str) -> str:
        """The line is a prompt; a blank one too. ConfigError where the vocabulary cannot spell it."""
        self._encode(line)
        return line

    def cost(self, prompt: str) -> int:
        """Return how many numbers one layer holds at once for a prompt (``core.predictor_interface.input_cost``)."""
        return min(len(self._encode(prompt)) + 1, self.context) ** 2

    def write(self, output: Generated, *, json: bool) -> str:
        """The prompt and what goes on from it, line breaks as spaces; or an object, which keeps them."""
        text = output.prompt + output.text
        if not json:
            return " ".join(re.split("[\r\n]", text))
        found = {name: getattr(output, name) for name in ("log_probability", "finished", "finish_reason", "tokens")}
        return dumps({"text": text} | found | {"sample": output.sample, "prompt": output.prompt}, ensure_ascii=False)

    def measure(
        self,
        examples: WindowExamples | PackExamples,
        indices: Indices,
        names: Sequence[str],
        interrupted: Callable[[], bool] = not_interrupted,
    ) -> MetricSums:
        """See ``core.task.Predictor``: the sizes of the raw texts, for the figures by byte and by character.

        A text is counted with its first window. DataError where a token of it is unknown: the probability of that says
        nothing of the bytes it stands for.
        """
        texts: list[Stream | DocumentStream] = [*examples.texts_started(indices)]
        for text in texts:
            if number := text.unknown():
                raise DataError(
                    "bits per byte cannot be told of this text", where=text.name,
                    why=f"the model's vocabulary lacks {number:,} of its {pluralize(len(text) - 2, 'token')}",
                    help="--metric loss,perplexity, which are then of the text with <unk> in these places",
                )  # fmt: skip
        sizes = {"bytes": sum(text.bytes for text in texts), "characters": sum(text.characters for text in texts)}
        chosen = {unit: size for unit, size in sizes.items() if f"bits_per_{unit[:-1]}" in names}
        return {unit: torch.tensor(size, dtype=torch.float64) for unit, size in chosen.items()}

    def stream(
        self, prompt: str, settings: GenerateConfig, *, seed: int | None = None, greedy: bool = False
    ) -> Iterator[Generated]:
        """Pieces of text as they are generated; ``log_probability`` is the sum so far.

        Beyond ``context`` tokens the model reads the last half of them anew and goes on, unless its own context is
        bounded (``inference.causal_decoding.has_bounded_context``). ConfigError, before the first
        piece is asked for, for a prompt that the vocabulary cannot spell, and for what is no seed.
        """
        pieces = self._pieces([prompt], settings, samples=1, seed=seed, greedy=greedy)
        return (_generated(prompt, piece, 0) for piece in pieces)

    def stream_samples(
        self, prompt: str, count: int, settings: GenerateConfig, *, seed: int | None = None, greedy: bool = False
    ) -> Iterator[GeneratedPiece]:
        """Pieces of several texts that go on from one prompt, in turn, each with the number of its text.

        A piece comes with each token, empty where nothing is certain yet. ConfigError as of ``stream``.
        """
        return self._pieces([prompt], settings, samples=count, seed=seed, greedy=greedy)

    def _pieces(
        self, prompts: Sequence[str], settings: GenerateConfig, *, samples: int, seed: int | None, greedy: bool
    ) -> Iterator[GeneratedPiece]:
        if not isinstance(greedy, bool):
            raise ConfigError(f"greedy cannot be {shortened(repr(greedy))}", where="greedy", why="it is true or false")
        if not isinstance(samples, int) or isinstance(samples, bool) or samples < 1:
            raise ConfigError(f"samples cannot be {shortened(repr(samples))}", where="samples", why="it is 1 or more")
        settings = settings.greedy() if greedy else settings
        tokens = [self.tokens(prompt) for prompt in prompts]
        search = self.text_search(settings, seed)
        return search.beams(tokens, samples) if settings.beam > 1 else search.rows(tokens, samples)

    @torch.no_grad()
    def score(
        self, text: str, *, prompt: str | None = None, stride: int | None = None,
        interrupted: Callable[[], bool] = not_interrupted,
    ) -> TextScore:  # fmt: skip
        """The probability of a whole text, its end symbol left out, in windows of ``context`` tokens.

        A model that carries what it remembers reads the text once, from its beginning. With a prompt, the probability
        that the text goes on from it, read as in generation. With a ``stride`` windows
        begin so far apart, the context unless given: of a token that is in several windows the first counts, which has
        at least context − stride tokens before it. ``interrupted`` is asked before each window: where it says so,
        PredictionInterrupted is raised.
        """
        scored = self._encode(text)
        if not scored:
            raise ConfigError("there is no text to score")
        before = [BEGIN] if prompt is None else [BEGIN, *self._encode(prompt)]
        tokens = before + scored
        if self.carried and stride is None:
            found = carried_scores(self.model, tokens, len(before), self.context, interrupted)
            return _text_score(self.tokenizer, text, scored, found)
        if prompt is None or stride is not None:
            windows = iter(score_windows(len(tokens) - 1, len(before) - 1, self.context, stride))
        else:
            windows = continued_windows(len(before), len(tokens), self.context)
        return _text_score(self.tokenizer, text, scored, window_scores(self.model, tokens, windows, interrupted))

    def inspect(self, text: str) -> Observation:
        """Attention over a text, and the probability of each of its tokens given those before it."""
        return observe_tokens(self.model, self.tokenizer, text, self._encode(text), context=self.context)

    def requested(self, request: GenerateRequest) -> GenerateConfig:
        """See ``inference.search_model.Searches``."""
        options = request.model_dump(exclude={"greedy"}, exclude_unset=True)
        settings = self.adjusted({name: value for name, value in options.items() if value is not None})
        return settings.greedy() if request.greedy else settings

    def search_inputs(self, prompt: str, settings: GenerateConfig) -> list[SearchInput]:
        """See ``inference.search_model.Searches``."""
        return [self.text_search(settings).input(self.tokens(prompt), 0, 0)]

    def output(
        self,
        prompt: str,
        parts: Sequence[SearchInput],
        hypotheses: Sequence[list[Hypothesis]],
        settings: GenerateConfig,
    ) -> Generated:
        """See ``inference.search_model.Searches``."""
        return _generated(prompt, self.text_search(settings).whole(0, hypotheses[0][0]), 0)

    def text_search(self, settings: GenerateConfig, seed: int | None = None) -> TextSearch:
        """Return a search for texts; with the seed of the settings unless given, or else one that is drawn."""
        seed = settings.seed if seed is None else require_seed(seed)
        return TextSearch(self.decoding, self.tokenizer, settings, secrets.randbits(63) if seed is None else seed)

    @property
    def interface(self) -> PredictorInterface:
        """Settings of a request, and generation that can be interrupted: for servers."""

        def predict(prompt: str, requested: GenerateRequest, interrupted: Callable[[], bool]) -> Generated:
            parts = []
            for part in self.stream(prompt, self.requested(requested)):
                if interrupted():
                    raise PredictionInterrupted
                parts.append(part)
            return parts[-1]._replace(text="".join(part.text for part in parts))

        return PredictorInterface("a prompt", "text that continues it", GenerateRequest.of(self.settings), predict)

    def tokens(self, prompt: str) -> list[int]:
        """The tokens of a prompt after the one that begins a text. ConfigError where the vocabulary cannot spell it."""
        return [BEGIN, *self._encode(prompt)]

    @torch.no_grad()
    def token_scores(
        self, tokens: Sequence[int], alternatives: int = 0, interrupted: Callable[[], bool] = not_interrupted
    ) -> list[TokenScore]:
        """Return the score of each token but the first, given those before it, read as in generation.

        Raises PredictionInterrupted where ``interrupted``, called before each window, returns True.
        """
        scores: list[TokenScore] = []
        decoding = self.decoding
        for begin, at, end in continued_windows(1, len(tokens), decoding.context):
            if interrupted():
                raise PredictionInterrupted
            window = torch.tensor([tokens[begin:end]], device=self.device)
            log_p = decoding.model.step(window[:, :-1], decoding.model.start(1))[0][0]
            for place in range(at, end):
                row, token = log_p[place - begin - 1], tokens[place]
                scores.append(TokenScore(token, float(row[token]), most_probable(row, alternatives)))
        return scores

    def adjusted(self, options: Mapping[str, object]) -> GenerateConfig:
        """The model's settings with these instead. ConfigError for what they cannot be."""
        try:
            return GenerateConfig.model_validate({**self.settings.model_dump(), **options})
        except ValidationError as error:
            raise explain(error, GenerateConfig, (), ()) from error

    def _encode(self, text: str) -> list[int]:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            why = f"it is not Unicode: U+{ord(text[error.start]):04X} is half of a surrogate pair"
            raise ConfigError("this model cannot read the prompt", why=why) from error
        tokens = self.tokenizer.encode(text)
        if UNKNOWN in tokens:
            unknown = ", ".join(map(repr, dict.fromkeys(self.tokenizer.unknown(text))))
            why = f"its vocabulary has no piece for {unknown}"
            raise ConfigError("this model cannot read the prompt", why=why, help="leave that out of the prompt")
        return tokens


def _generated(prompt: str, piece: GeneratedPiece, sample: int) -> Generated:
    reason = piece.finish_reason
    finished = reason is not None and reason != "length"
    return Generated(prompt, piece.text, piece.log_probability, finished, reason, piece.tokens, sample)


def _text_score(tokenizer: Tokenizer, text: str, scored: list[int], found: list[float]) -> TextScore:
    pieces = tokenizer.pieces(scored)
    return TextScore(-math.fsum(found), len(scored), len(text.encode()), len(text), pieces, found)
