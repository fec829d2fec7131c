"""A model that says in capitals what it reads, letter by letter: its outputs are known whatever else runs with them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from json import dumps
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.config.search_requests import SearchRequest
from regard.config.settings import ChoiceConfig, SearchConfig, override_search
from regard.core.predictor_interface import PredictorInterface
from regard.inference.results import Candidate, Translation
from regard.inference.run_search import inputs_of
from regard.inference.search_model import SearchInput
from regard.search.beam import start_beam
from regard.search.constrained import start_constrained_beam
from regard.search.contract import Hypothesis, Reduce, StatePair, Symbols
from regard.search.rows import start_rows
from regard.server.batching.jobs import Limits
from regard.server.batching.served import ServedModel

BEGIN, END, FIRST, TYPES = 0, 1, 2, 1024
SEARCH = SearchConfig(beam=1, length_penalty=0.0)
LIMIT = 200  # letters of a part


class Reading(NamedTuple):
    """The letters of each row's source, and how many it has said."""

    letters: Tensor
    said: Tensor


class Copying:
    """``regard.inference.decoding.Decoding``, of this model. ``pause`` seconds a step; ``broken``: it fails.

    ``threads`` are those that it computed in.
    """

    def __init__(self) -> None:
        self.pause, self.broken, self.steps, self.constrained = 0.0, False, 0, 0
        self.threads: set[int] = set()

    def open(
        self,
        numbers: Sequence[int],
        inputs: Sequence[SearchInput],
        settings: ChoiceConfig,
        watch: Any = None,
    ) -> StatePair:
        sources = [input.tokens for input in inputs]
        longest = max(map(len, sources))
        letters = torch.tensor([[*source, *[END] * (LIMIT + 1 - len(source))] for source in sources])
        state = Reading(letters, torch.zeros(len(sources), dtype=torch.int64))
        limit = torch.full((len(sources),), longest + 5)
        options: dict[str, Any] = {"width": settings.beam, "nbest": settings.nbest, "length_penalty": 0.0}
        if any(input.constraints for input in inputs):
            self.constrained += len(sources)
            constraints = [input.constraints for input in inputs]
            wanted: Any = {"max_lengths": limit + 30, "constraints": constraints}
            return start_constrained_beam(numbers, Symbols(BEGIN, END), **wanted, **options), state
        if settings.beam == 1:
            return start_rows(numbers, Symbols(BEGIN, END), max_lengths=limit), state
        return start_beam(numbers, Symbols(BEGIN, END), max_lengths=limit, **options), state

    def step(self, tokens: Tensor, state: Any, read: Reduce) -> Any:
        if self.broken:
            raise RuntimeError("this model is broken, and the text is a secret")
        time.sleep(self.pause)
        self.steps += 1
        self.threads.add(threading.get_ident())
        width = state.letters.shape[1]
        logits = torch.zeros(len(tokens), TYPES)
        logits.scatter_(1, state.letters.gather(1, state.said.clamp_max(width - 1)[:, None]), 20.0)
        return read(torch.log_softmax(logits, -1), slice(0, len(tokens))), Reading(state.letters, state.said + 1)


class Capitals:
    """What the server needs of a ``Translator``. ``says``: what it says of a line."""

    def __init__(self, says: Callable[[str], str]) -> None:
        self.decoding, self.says, self.without_memory = Copying(), says, self
        self.source: Any = SimpleNamespace(
            reads_language_marks=False,
            decode=lambda pieces: "".join(chr(piece - FIRST) for piece in pieces),
            encode=lambda text: [FIRST + ord(letter) % 1000 for letter in says(text)],
        )  # a tokenizer
        self.target, self.max_length, self.reads_unfinished = self.source, LIMIT, True

    def try_encode(self, phrase: str) -> list[int] | None:
        """It has no letters beyond Latin ones."""
        return [FIRST + ord(letter) for letter in phrase] if max(map(ord, phrase)) < 1000 else None

    def parts(self, line: str) -> list[list[int]]:
        pieces = [FIRST + ord(letter) % 1000 for letter in self.says(line)]
        return [pieces[at : at + LIMIT] for at in range(0, len(pieces), LIMIT)]

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[list[float]]:
        """All outputs are as probable."""
        self.decoding.threads.add(threading.get_ident())
        return [[-1.0] for _ in targets]

    def with_text(self, found: Translation, text: str, search: SearchConfig, *, scored: bool) -> Translation:
        best = found.candidates[0]._replace(text=text, pieces=list(text), piece_log_probabilities=[-0.1] * len(text))
        return Translation(found.source, [best, *found.candidates[1:]], dict, pieces=list(found.source))

    def read(self, line: str) -> str:
        return line

    def write(self, output: Translation, *, json: bool) -> str:
        text = output.candidates[0].text
        return dumps({"text": text}) if json else text

    @property
    def interface(self) -> PredictorInterface:
        return PredictorInterface(
            "a text", "capitals", SearchRequest.of(SEARCH), lambda line, settings, interrupted: None
        )

    def requested(self, request: SearchRequest) -> SearchConfig:
        return override_search(SEARCH, **request.model_dump(exclude_unset=True))

    def search_inputs(self, line: str, settings: SearchConfig) -> list[SearchInput]:
        return inputs_of(self.parts(line), settings)

    def inputs(self, parts: list[list[int]], settings: SearchConfig) -> list[SearchInput]:
        return inputs_of(parts, settings)

    def output(
        self, line: str, parts: list[SearchInput], found: list[list[Hypothesis]], settings: SearchConfig
    ) -> Translation:
        return self.assemble(line, [list(part.tokens) for part in parts], found, search=settings)

    def assemble(
        self, line: str, parts: list[list[int]], found: list[list[Hypothesis]], *, search: SearchConfig
    ) -> Translation:
        texts = ["".join(chr(piece - FIRST) for piece in part[0].tokens) for part in found]
        best = Candidate("".join(texts), -0.5, -0.5, list("".join(texts)), [-0.1], True)
        others = [Candidate(best.text.swapcase(), -1.0, -1.0, [], [], True)] if found and len(found[0]) > 1 else []
        weights = {"decoder.0.source": torch.full((2, 3, 4), 0.25)}
        return Translation(line, [best, *others], lambda: weights, pieces=list(line))


def capitals(
    name: str = "capitals", source: str | None = "en", target: str | None = "de",
    read: Callable[[str], str] = str.upper, **limits: Any,
) -> tuple[ServedModel, Copying]:  # fmt: skip
    translator: Any = Capitals(read)
    model = ServedModel(
        name, task="translation", serves={"translate"}, load_predictor=lambda: translator, settings=SEARCH,
        source=source, target=target, limits=Limits(**limits),
    )  # fmt: skip
    return model, translator.decoding
