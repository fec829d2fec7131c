"""Search for the outputs of many inputs, several at a time."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from torch import Tensor

from regard.config.settings import ChoiceConfig
from regard.core.state import State
from regard.core.task import not_interrupted
from regard.core.untrusted_files import shortened
from regard.errors import ConfigError
from regard.inference.search_model import SearchInput, SearchModel
from regard.search.batch_search import search_steps
from regard.search.contract import Finished, Reduce, StatePair
from regard.search.draws import Draws
from regard.search.rows import TokenListener


def inputs_of(
    tokens: Sequence[Sequence[int]],
    settings: ChoiceConfig,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    listener: Callable[[], TokenListener] | None = None,
) -> list[SearchInput]:
    """Return the inputs of a search; their random draws depend only on their tokens and the seed of the settings.

    Args:
        tokens: tokens of each input.
        settings: settings of the search.
        prefixes: tokens with which the outputs of each input begin.
        listener: makes a receiver for the tokens of one output.
    """
    draws, outputs = settings.draw_temperature is not None, 1 if settings.draw_temperature is None else settings.nbest
    seed = secrets.randbits(64) if settings.seed is None else settings.seed
    return [
        SearchInput(
            input,
            () if prefixes is None else prefixes[number],
            draws=[Draws(seed, sample, input) for sample in range(outputs)] if draws else (),
            listeners=() if listener is None else [listener() for _ in range(outputs)],
        )
        for number, input in enumerate(tokens)
    ]


def run_search(
    model: SearchModel,
    inputs: Iterable[tuple[int, SearchInput]],
    settings: ChoiceConfig,
    *,
    rows: int,
    interrupted: Callable[[], bool] = not_interrupted,
) -> Iterator[list[Finished]]:
    """Yield finished inputs with their numbers after each step; waiting inputs take their rows.

    Args:
        model: the model.
        inputs: numbers and inputs, in the order in which they begin.
        settings: settings of the search.
        rows: maximum number of inputs that are searched at a time.
        interrupted: called before each step; KeyboardInterrupt is raised once it returns True.
    """
    waiting = iter(inputs)

    def refill(free: int) -> StatePair | None:
        new = list(islice(waiting, free))
        return model.open([number for number, _ in new], [input for _, input in new], settings) if new else None

    def step(tokens: Tensor, state: State, reduce: Reduce) -> tuple[tuple[Tensor, ...], State]:
        if interrupted():
            raise KeyboardInterrupt
        return model.step(tokens, state, reduce)

    if (first := refill(rows)) is not None:
        yield from search_steps(step, first, refill, capacity=rows)


def require_seed(seed: object) -> int:
    """Return the seed. ConfigError if it is not an integer of at most 64 bits."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not -(2**63) <= seed < 2**64:
        why = "it must be an integer of at most 64 bits"
        raise ConfigError(f"seed cannot be {shortened(repr(seed))}", where="seed", why=why)
    return seed
