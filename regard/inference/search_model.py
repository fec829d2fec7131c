"""Contract between a search and a trained model, which encodes a source or continues a prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from regard.config.settings import ChoiceConfig
from regard.core.state import State
from regard.errors import ModelError
from regard.search.beam import BeamStep, start_beam
from regard.search.choice import TokenChoice
from regard.search.constrained import start_constrained_beam
from regard.search.constraint_state import Constraints
from regard.search.contract import Hypothesis, Reduce, SearchState, StatePair, Symbols
from regard.search.draws import Draws
from regard.search.rows import TokenListener, start_rows

WatchBeam = Callable[[int, BeamStep], None]


@runtime_checkable
class Searches(Protocol):
    """Capability of a predictor whose outputs are searched step by step, for many inputs at a time."""

    @property
    def decoding(self) -> SearchModel:
        """The model for the search."""

    def requested(self, request: Any) -> ChoiceConfig:
        """Return the model's settings, overridden by those of a request. ConfigError for invalid ones."""

    def search_inputs(self, input: Any, settings: ChoiceConfig) -> list[SearchInput]:
        """Return the parts of an input that are searched."""

    def output(
        self, input: Any, parts: Sequence[SearchInput], hypotheses: Sequence[list[Hypothesis]], settings: ChoiceConfig
    ) -> Any:
        """Return the output of an input from its ``parts`` and the hypotheses of each, best first."""


@dataclass(frozen=True)
class SearchInput:
    """One input of a search, and settings for its outputs.

    ``tokens``: the tokens of a source or prompt, or a source of another type (see ``decoding.Sources``). ``prefix``:
    tokens with which outputs begin. ``constraints``: sequences that outputs contain. ``draws``, ``listeners``: one per
    output; empty without sampling or receivers. ``ended``: False if more of the source may arrive.
    """

    tokens: Any
    prefix: Sequence[int] = ()
    constraints: Constraints = ()
    draws: Sequence[Draws] = ()
    listeners: Sequence[TokenListener] = field(default=())
    ended: bool = True


class SearchModel(Protocol):
    """A trained model for a search."""

    def open(
        self, ids: Sequence[int], inputs: Sequence[SearchInput], settings: ChoiceConfig, watch: WatchBeam | None = None
    ) -> StatePair:
        """Read the inputs and return a search for their outputs, before its first step.

        Inputs with constraints always use a beam. ``watch``: called with each step of a beam.
        """

    def step(self, tokens: Int[Tensor, "rows 1"], state: State, reduce: Reduce) -> tuple[tuple[Tensor, ...], State]:
        """Feed each row a token; see ``ChunkedStep``. ModelError if the model computes no probabilities."""


def choice_of(settings: ChoiceConfig) -> TokenChoice:
    """Return the choice of the next token that the settings define."""
    values = {name: getattr(settings, name) for name in TokenChoice._fields if name != "temperature"}
    return TokenChoice(temperature=settings.draw_temperature, **values)


def rows_of(settings: ChoiceConfig) -> int:
    """Return the number of rows of a running batch that an input occupies."""
    return settings.nbest if settings.draw_temperature is not None else settings.beam


def start_search(
    ids: Sequence[int],
    inputs: Sequence[SearchInput],
    settings: ChoiceConfig,
    symbols: Symbols,
    *,
    max_lengths: Int[Tensor, "sentences"],
    continues: bool = False,
    best: int | None = None,
    watch: WatchBeam | None = None,
) -> tuple[SearchState, int]:
    """Return the search that the settings define, before its first step, and the number of rows per input.

    Args:
        ids: one id per input.
        inputs: all with constraints, or none.
        settings: settings of the search.
        symbols: the special tokens.
        max_lengths: maximum number of tokens of the outputs of each input.
        continues: outputs continue their inputs, whose tokens then also count as repetitions.
        best: number of outputs of a beam, if it differs from ``settings.nbest``.
        watch: called with each step of a beam.
    """
    prefixes = [input.prefix for input in inputs] if any(input.prefix for input in inputs) else None
    choice = choice_of(settings)
    constrained = any(input.constraints for input in inputs)
    if not constrained and watch is None and (choice.draws or settings.beam == 1):
        samples = settings.nbest if choice.draws else 1
        draws = [stream for input in inputs for stream in input.draws]
        unheard: list[TokenListener | None] = [None] * samples
        listeners = [listener for input in inputs for listener in input.listeners or unheard]
        histories = [input.tokens for input in inputs] if continues else None
        rows = start_rows(
            ids, symbols, max_lengths=max_lengths, prefixes=prefixes, choice=choice, samples=samples, draws=draws,
            histories=histories, listeners=listeners,
        )  # fmt: skip
        return rows, samples
    beam = start_beam if not constrained else start_constrained_beam
    options = {"watch": watch} if not constrained else {"constraints": [input.constraints for input in inputs]}
    state = beam(
        ids, symbols, max_lengths=max_lengths, prefixes=prefixes, width=settings.beam,
        nbest=best or min(settings.nbest, settings.beam), length_penalty=settings.length_penalty,
        length_offset=settings.length_offset, no_repeat=choice.no_repeat_ngram or None, early=settings.early_stopping,
        **options,
    )  # fmt: skip
    return state, 1


def require_probabilities(reduced: tuple[Tensor, ...]) -> None:
    """Raise ModelError if values reduced from the log-probabilities are NaN: one NaN makes all later values NaN."""
    if any(
        bool((part[:, -1:] if part.dim() > 1 else part).isnan().any()) for part in reduced if part.is_floating_point()
    ):
        raise ModelError(
            "the model computes no probabilities",
            why="its outputs are NaN: the weights are not finite, as after diverged training",
            help="use --checkpoint best, or an earlier step",
        )
