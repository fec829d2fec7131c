"""Interface of a predictor: HTTP requests, probabilities of given outputs, and checks of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from pydantic import BaseModel


class PredictionInterrupted(Exception):
    """The prediction was interrupted because its client has gone."""


MAX_CHOICES = 1000  # names that a form offers for completion


class InputForm(NamedTuple):
    """The fields in which a user writes an input; their values make one line for ``predictor.read``.

    Attributes:
        kind: ``text``: one or more texts, joined by tabs; ``gaps``: a text with gaps; ``items`` and ``nodes``: names,
            joined by spaces or as a JSON list; ``json``: a JSON value; ``audio``, ``image`` and ``table``: the contents
            of a file, as the JSON object {"audio": BASE64}, {"image": BASE64} or {"table": TEXT}.
        boxes: the label of each text or node; of ``gaps``, the mark of a gap.
        choices: names to choose from, at most ``MAX_CHOICES``.
    """

    kind: Literal["text", "gaps", "items", "nodes", "json", "audio", "image", "table"] = "text"
    boxes: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()


class PredictorInterface(NamedTuple):
    """Descriptions of a predictor's inputs and outputs, and how a server calls it.

    Attributes:
        takes: the input, as a noun with its article.
        gives: the output, as a noun.
        settings: the run's own values of the fields that a request may set, all of which may be None; a field
            ``length`` counts tokens of an output, which servers limit. None: a request has no settings.
        predict: (input, settings, interrupted) → output; a long prediction raises PredictionInterrupted soon after
            ``interrupted()`` is true.
        purpose: a sentence about the use of the model, for readers; empty if unknown.
        classes: the names of the classes of its answers; () for other answers.
        form: the fields of an input.
    """

    takes: str
    gives: str
    settings: BaseModel | None
    predict: Callable[[Any, Any, Callable[[], bool]], Any]
    purpose: str = ""
    classes: tuple[str, ...] = ()
    form: InputForm = InputForm()


@runtime_checkable
class ReadsFiles(Protocol):
    """A predictor whose inputs may be the contents of files, such as sounds, images or tables.

    Neither ``read`` nor ``read_file`` opens a path: the name only selects the format and appears in messages. Commands
    read the files of their user, and a server takes contents from the body of a request.
    """

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The endings of file names that it can read, such as ``.wav``; () if its inputs are not files."""

    def read_file(self, contents: bytes, name: str) -> Any:
        """Return the input in a file. Raises DataError, with the name, if it cannot be read."""


def interface_of(predictor: Any) -> PredictorInterface:
    """Return the predictor's ``interface``, or one that calls it with a list of one input."""
    own = getattr(predictor, "interface", None)
    if isinstance(own, PredictorInterface):
        return own
    return PredictorInterface(
        "an input", "its output", None,
        lambda input, settings, interrupted: predictor([input])[0],
    )  # fmt: skip


def read_input(predictor: Any, line: str, *, embedding: bool = False) -> Any:
    """Return the input of a line, as the predictor parses it. Raises DataError if its format is wrong.

    Args:
        predictor: the predictor.
        line: the line.
        embedding: whether the input is for ``Predictor.embed``.
    """
    read = getattr(predictor, "read_for_embedding", predictor.read) if embedding else predictor.read
    try:
        return read(line)
    except ValueError as error:  # of a user-defined task
        raise DataError("cannot parse the input", why=str(error)) from error


def reads_json(predictor: Any) -> bool:
    """Return whether ``predictor.read`` parses JSON; for any other model a list is a text with brackets."""
    return bool(getattr(predictor, "reads_json", False))


def input_cost(predictor: Any, input: Any) -> int:
    """Return the number of values that one layer of a predictor holds for an input, in addition to its weights.

    This is ``predictor.cost(input)``: for a sequence the square of its length, for a graph its edges or the square of
    its nodes. 0 for a predictor without this method.
    """
    cost = getattr(predictor, "cost", None)
    return int(cost(input)) if cost is not None else 0


class ScoresPairs(Protocol):
    """Predictor of a task with ``scores = "pairs"``."""

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, where: Callable[[int], str] = ...
    ) -> list[list[float]]:
        """Return log P of each token of each target. Raises DataError at ``where(index)`` for too long a pair."""

    def scored_pieces(self, target: str) -> list[str]:
        """Return the tokens of a target, one for each number of ``score``."""


class ScoresTexts(Protocol):
    """Predictor of a task with ``scores = "texts"``."""

    context: int  # number of tokens that a prediction depends on

    def read(self, line: str) -> str:
        """Return the prompt of a line. Raises RegardError if the vocabulary cannot encode it."""

    def score(self, text: str, *, prompt: str | None = None, stride: int | None = None) -> Any:
        """Return ``pieces``, ``piece_log_probabilities``, ``nll``, ``tokens``, ``bytes`` and ``bits_per_byte``."""


def require_count(name: str, value: object) -> None:
    """Raise ConfigError unless a setting is a whole number ≥ 1."""
    if type(value) is not int or value < 1:
        raise ConfigError(f"{name} cannot be {value!r}", where=name, why="it must be a whole number ≥ 1")
