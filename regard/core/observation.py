"""Observation of one input by a model of any task: the input, the predictions by position, and the attention weights.

A predictor that has ``inspect(input) -> Observation`` can be inspected. The command line, the page and the server
display the result, from one document (``inspection.build_document``).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.errors import ModelError

Shared = TypeVar("Shared")
SurfaceKind = Literal["tokens", "letters", "items", "notes", "frames", "series", "image", "graph"]
PredictionKind = Literal["label", "labels", "number", "tag", "token", "item", "link", "series"]
SiteKind = Literal["whole", "piece", "after", "gap", "node", "pair"]


class SurfaceNumbers(NamedTuple):
    """The numbers of a surface of frames, of time steps or of an image.

    Attributes:
        values: (pieces, channels) for ``frames`` and ``series``, NaN where a value is missing; for ``image``
            (height, width, channels) from 0 to 1.
        channels: the name of each channel; () for numbered ones.
        unit: the unit of the values, such as ``dB``; empty if unknown.
        rate: pieces per second; None if they are not at equal distances in time.
        grid: for an image, the rows and columns of its patches, which are the pieces, row by row.
    """

    values: npt.NDArray[np.float32]
    channels: tuple[str, ...] = ()
    unit: str = ""
    rate: float | None = None
    grid: tuple[int, int] | None = None


class Surface(NamedTuple):
    """One sequence or graph that a model reads or writes, as pieces.

    Attributes:
        kind: the type of its pieces.
        pieces: the text of each piece.
        words: for each piece the index of its word in ``spelled``; empty if pieces are words.
        spelled: the words.
        ids: the id of each piece in the vocabulary, or the number of each node; empty if not used.
        separator: text between the pieces.
        edges: for a graph, the indices of both nodes of each edge.
        center: for a graph, the index of the predicted node.
        numbers: the numbers of frames, a series or an image; None for other kinds.
    """

    kind: SurfaceKind
    pieces: tuple[str, ...]
    words: tuple[int, ...] = ()
    spelled: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()
    separator: str = ""
    edges: tuple[tuple[int, int], ...] = ()
    center: int | None = None
    numbers: SurfaceNumbers | None = None


class Site(NamedTuple):
    """The site of a prediction on a surface.

    Attributes:
        kind: ``whole``: on all surfaces together; ``piece``, ``gap`` and ``node``: at one piece; ``pair``: between two
            nodes; ``after``: after one piece, predicting the next; −1 is before the first.
        pieces: the indices of the pieces; empty for ``whole``.
        surface: the index of the surface.
    """

    kind: SiteKind
    pieces: tuple[int, ...] = ()
    surface: int = 0


WHOLE = Site("whole")


class Alternative(NamedTuple):
    """One possible prediction.

    Attributes:
        label: its text.
        log_probability: log-probability of the label in nats.
        id: of the label in a vocabulary; None without one.
    """

    label: str
    log_probability: float
    id: int | None = None


class Prediction(NamedTuple):
    """One prediction of the model at one site.

    Attributes:
        site: the site.
        kind: the type of the label.
        label: the predicted label; after a piece, the actual next piece of the surface, if any.
        log_probability: of the label, in nats; None for a number.
        alternatives: the most probable labels, best first.
        entropy: of the whole distribution, in nats; None if not computed.
        rank: of the label; 0 is the most probable. None if not computed.
    """

    site: Site
    kind: PredictionKind
    label: str
    log_probability: float | None = None
    alternatives: tuple[Alternative, ...] = ()
    entropy: float | None = None
    rank: int | None = None

    @classmethod
    def best(cls, site: Site, kind: PredictionKind, alternatives: Sequence[Alternative]) -> Prediction:
        """Return the prediction of the first alternative.

        Args:
            site: the site.
            kind: the type of the labels.
            alternatives: the most probable labels, best first; at least one.
        """
        return cls(site, kind, alternatives[0].label, alternatives[0].log_probability, tuple(alternatives))


class Axis(NamedTuple):
    """Positions along one side of the weights.

    Attributes:
        name: the type of the positions: token, second, date, node, …
        labels: the text of each position.
    """

    name: str
    labels: tuple[str, ...]


class AttentionMap(NamedTuple):
    """The weights of the heads of one attention.

    Attributes:
        side: the part of the network, such as ``encoder``, ``decoder`` or ``pooling``.
        layer: its layer, counted from 0; None outside the layers.
        part: the attention in the layer, such as ``self``, ``source`` or ``pooling``.
        weights: (heads, query, key); the row of a query without visible keys is 0.
        query: the axis of the rows.
        key: the axis of the columns.
        allowed: (query, key) whether a query may attend to a key; None: to all keys.
        source: the attention of the network (``attention.weight_terms.AttentionSource``); None: unknown.
    """

    side: str
    layer: int | None
    part: str
    weights: Float[Tensor, "heads query key"]
    query: Axis
    key: Axis
    allowed: Bool[Tensor, "query key"] | None = None
    source: Any = None

    @property
    def place(self) -> str:
        """The name of the attention, such as ``encoder.0.self``."""
        layer = "" if self.layer is None else str(self.layer)
        return ".".join(part for part in (self.side, layer, self.part) if part)

    @classmethod
    def at(
        cls, place: str, weights: Tensor, query: Axis, key: Axis, allowed: Tensor | None = None, source: Any = None
    ) -> AttentionMap:
        """Return the map of an attention by its name.

        Args:
            place: the name in ``attention.observe``, such as ``encoder.0.self``.
            weights: (heads, query, key).
            query: the axis of the rows.
            key: the axis of the columns.
            allowed: (query, key) whether a query may attend to a key; None: to all keys.
            source: see the attributes.
        """
        names = place.split(".")
        number = next((index for index, name in enumerate(names) if name.isdecimal()), None)
        if number is None:
            return cls(names[0], None, ".".join(names[1:]), weights, query, key, allowed, source)
        side, part = ".".join(names[:number]), ".".join(names[number + 1 :])
        return cls(side, int(names[number]), part, weights, query, key, allowed, source)


class Influence(NamedTuple):
    """The change of a prediction when a piece is hidden from the model.

    Attributes:
        prediction: the index of the prediction.
        surface: the index of the surface.
        values: for each piece log p(label) − log p(label | the piece is hidden), in nats.
        hidden: how pieces were hidden, as a sentence.
    """

    prediction: int
    surface: int
    values: tuple[float, ...]
    hidden: str


class Observation(NamedTuple):
    """All displayed data of one input.

    Attributes:
        surfaces: the sequences and graphs that the model reads and writes.
        predictions: the predictions on these surfaces.
        attention: the weights of each attention.
        influences: the influence of each piece on a prediction; () if not computed.
        facts: JSON values by name, such as ``unknown``: the unknown pieces.
    """

    surfaces: tuple[Surface, ...]
    predictions: tuple[Prediction, ...] = ()
    attention: tuple[AttentionMap, ...] = ()
    influences: tuple[Influence, ...] = ()
    facts: Mapping[str, Any] = {}

    @property
    def maps(self) -> dict[str, AttentionMap]:
        """The attention by name, such as ``encoder.0.self``."""
        return {attention.place: attention for attention in self.attention}


@runtime_checkable
class Observes(Protocol):
    """A predictor whose inputs can be inspected."""

    def inspect(self, input: Any) -> Observation:
        """Return the observation of one input. Raises ConfigError, with the reason, if it cannot be displayed."""


@runtime_checkable
class Traced(Protocol):
    """A predictor whose network can be replaced, to observe it in detail or to change it."""

    @property
    def network(self) -> nn.Module:
        """The network of ``inspect``."""

    def with_network(self, network: nn.Module) -> Self:
        """Return the same predictor with another network."""

    def scores(self, input: Any, observation: Observation) -> Sequence[float]:
        """Return the log-probability of the label of each prediction of ``inspect(input)``, in nats, or its number."""


def with_attributes(predictor: Shared, *cached: str, **changed: Any) -> Shared:
    """Return a copy of a predictor with other attributes; all others are shared.

    Args:
        predictor: the predictor.
        cached: names of attributes that the copy computes again.
        changed: the new values, by name.
    """
    other = copy.copy(predictor)
    vars(other).update(changed)
    for name in cached:
        vars(other).pop(name, None)
    return other


@runtime_checkable
class Influenced(Protocol):
    """A predictor that can compute the influence of each input piece on its predictions."""

    def influences(self, input: Any, observation: Observation) -> tuple[Influence, ...]:
        """Return the influence of each piece on each prediction of ``inspect(input)``; () if no piece can be hidden."""


@runtime_checkable
class Continues(Protocol):
    """A predictor that continues a text token by token."""

    def next_tokens(self, prompt: str, request: Any) -> tuple[Alternative, ...]:
        """Return the most probable next tokens under the sampling settings of a request, best first."""


def require_observation(observation: object) -> Observation:
    """Return ``observation`` if it is a consistent Observation; raise ModelError otherwise."""
    if not isinstance(observation, Observation):
        raise _invalid(f"inspect returned {type(observation).__name__}, not an Observation")
    for attention in observation.attention:
        _check_attention(attention)
    for surface in observation.surfaces:
        _check_surface(surface)
    sizes = [len(surface.pieces) for surface in observation.surfaces]
    for prediction in observation.predictions:
        _check_prediction(prediction, sizes)
    for influence in observation.influences:
        if not 0 <= influence.prediction < len(observation.predictions):
            raise _invalid(f"an influence refers to prediction {influence.prediction}, which does not exist")
        if not 0 <= influence.surface < len(sizes) or len(influence.values) != sizes[influence.surface]:
            raise _invalid("an influence must have one value for each piece of its surface")
        _check_numbers(influence.values)
    names = [attention.place for attention in observation.attention]
    if len(set(names)) < len(names):
        raise _invalid("two attentions have the same side, layer and part")
    return observation


def _check_attention(attention: AttentionMap) -> None:
    shape = (len(attention.query.labels), len(attention.key.labels))
    weights, allowed = attention.weights, attention.allowed
    if weights.dim() != 3 or weights.shape[1:] != shape:
        sizes = " × ".join(map(str, weights.shape))
        raise _invalid(f"{attention.place} has weights of {sizes} for {shape[0]} × {shape[1]} labels")
    if not bool(weights.isfinite().all()):
        raise _invalid(f"weights of {attention.place} are not finite")
    if allowed is not None and allowed.shape != shape:
        raise _invalid(f"the mask and the weights of {attention.place} have different shapes")
    if allowed is not None and bool((weights.abs().sum(0) > 0).logical_and(~allowed).any()):
        raise _invalid(f"{attention.place} has weights that its mask hides")


def _check_surface(surface: Surface) -> None:
    size = len(surface.pieces)
    if surface.words and (len(surface.words) != size or max(surface.words) >= len(surface.spelled)):
        raise _invalid("the words and the pieces of a surface do not match")
    if surface.ids and len(surface.ids) != size:
        raise _invalid("a surface must have one id for each piece")
    _check_surface_numbers(surface)
    nodes = [*(node for edge in surface.edges for node in edge), surface.center or 0]
    if size and not all(0 <= node < size for node in nodes):
        raise _invalid("an edge of a graph refers to a missing node")


def _check_surface_numbers(surface: Surface) -> None:
    numbers, size = surface.numbers, len(surface.pieces)
    if numbers is None:
        return
    expected = size if numbers.grid is None else numbers.grid[0] * numbers.grid[1]
    dimensions = 2 if numbers.grid is None else 3
    if numbers.values.ndim != dimensions or expected != size or (dimensions == 2 and len(numbers.values) != size):
        raise _invalid(f"numbers of shape {numbers.values.shape} do not fit {size} pieces")
    if np.isinf(numbers.values).any():
        raise _invalid("a number of a surface is infinite")


def _check_prediction(prediction: Prediction, sizes: Sequence[int]) -> None:
    kind, pieces, surface = prediction.site
    counts = {"whole": 0, "pair": 2}
    if not 0 <= surface < max(len(sizes), 1) or len(pieces) != counts.get(kind, 1):
        raise _invalid(f"a prediction is at {kind} {pieces} of surface {surface}, which does not exist")
    first = -1 if kind == "after" else 0
    if not all(first <= piece < sizes[surface] for piece in pieces):
        raise _invalid(f"a prediction is at {kind} {pieces}, outside the {sizes[surface]} pieces")
    own = [] if prediction.log_probability is None else [prediction.log_probability]
    _check_numbers([*own, *(alternative.log_probability for alternative in prediction.alternatives)])


def _check_numbers(values: Iterable[float]) -> None:
    if any(math.isnan(value) or value == math.inf for value in values):
        raise _invalid("a log-probability is not a number")


def _invalid(why: str) -> ModelError:
    return ModelError(
        "the observation of this model is invalid", why=why,
        help="see regard.core.observation: weights must be finite and have the shape (heads, query, key)",
    )  # fmt: skip
