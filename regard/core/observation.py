"""Observation of one input by a model of any task: what was read, what was predicted where, and what attended to what.

A predictor that has ``inspect(input) -> Observation`` can be inspected. The command line, the page and the server show
what it returns, from one document (``inspection.build_document``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Bool, Float
from torch import Tensor

from regard.errors import ModelError

SurfaceKind = Literal["tokens", "letters", "items", "notes", "frames", "graph"]
PredictionKind = Literal["label", "labels", "number", "tag", "token", "item", "link"]
SiteKind = Literal["whole", "piece", "after", "gap", "node", "pair"]


class Surface(NamedTuple):
    """One sequence or graph that a model reads or writes, in the pieces that it sees.

    Attributes:
        kind: the kind of its pieces.
        pieces: the text of each.
        words: for each piece the index of its word in ``spelled``; empty where pieces are words of their own.
        spelled: the words.
        ids: the number of each piece in the vocabulary; empty where nothing is done with them.
        separator: what stands between the pieces in the text.
        edges: of a graph, the indices of both nodes.
        center: of a graph, the index of the node that the prediction is about.
    """

    kind: SurfaceKind
    pieces: tuple[str, ...]
    words: tuple[int, ...] = ()
    spelled: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()
    separator: str = ""
    edges: tuple[tuple[int, int], ...] = ()
    center: int | None = None


class Site(NamedTuple):
    """The site of a prediction on a surface.

    Attributes:
        kind: ``whole``: on all surfaces together; ``piece``, ``gap`` and ``node``: at one piece; ``pair``: between two
            nodes; ``after``: after one piece, so that it predicts the next; −1 is before the first.
        pieces: the indices of the pieces; empty for ``whole``.
        surface: the index of the surface.
    """

    kind: SiteKind
    pieces: tuple[int, ...] = ()
    surface: int = 0


WHOLE = Site("whole")


class Alternative(NamedTuple):
    """One possible prediction, its log probability in nats, and its number in a vocabulary, where it has one."""

    label: str
    log_probability: float
    id: int | None = None


class Prediction(NamedTuple):
    """One prediction of the model at one site.

    Attributes:
        at: the site.
        kind: the kind of the label.
        label: the predicted label; after a piece, the piece that follows in the surface, if one does.
        log_probability: of the label, in nats; None for a number.
        alternatives: the most probable labels, best first.
        entropy: of the whole distribution, in nats; None where it was not computed.
        rank: of the label; 0 is the most probable. None where it was not computed.
    """

    at: Site
    kind: PredictionKind
    label: str
    log_probability: float | None = None
    alternatives: tuple[Alternative, ...] = ()
    entropy: float | None = None
    rank: int | None = None

    @classmethod
    def best(cls, at: Site, kind: PredictionKind, alternatives: Sequence[Alternative]) -> Prediction:
        """Return the prediction of the first of ``alternatives``."""
        return cls(at, kind, alternatives[0].label, alternatives[0].log_probability, tuple(alternatives))


class Axis(NamedTuple):
    """Positions along one side of the weights: ``name`` says what they are (token, second, date, node)."""

    name: str
    labels: tuple[str, ...]


class AttentionMap(NamedTuple):
    """The weights of the heads of one attention.

    Attributes:
        side: the part of the network, such as ``encoder``, ``decoder`` or ``pooling``.
        layer: its layer, counted from 0; None outside the layers.
        part: what attends in the layer, such as ``self``, ``source`` or ``pooling``.
        weights: (heads, query, key); the row of a query that sees nothing is 0.
        query: what the rows are.
        key: what the columns are.
        allowed: (query, key) whether the mask lets a query see a key; None: it sees all.
    """

    side: str
    layer: int | None
    part: str
    weights: Float[Tensor, "heads query key"]
    query: Axis
    key: Axis
    allowed: Bool[Tensor, "query key"] | None = None

    @property
    def place(self) -> str:
        """The name of the attention, such as ``encoder.0.self``."""
        layer = "" if self.layer is None else str(self.layer)
        return ".".join(part for part in (self.side, layer, self.part) if part)

    @classmethod
    def at(cls, place: str, weights: Tensor, query: Axis, key: Axis, allowed: Tensor | None = None) -> AttentionMap:
        """Return the map of a place as ``attention.observe`` names it."""
        names = place.split(".")
        number = next((index for index, name in enumerate(names) if name.isdecimal()), None)
        if number is None:
            return cls(names[0], None, ".".join(names[1:]), weights, query, key, allowed)
        side, part = ".".join(names[:number]), ".".join(names[number + 1 :])
        return cls(side, int(names[number]), part, weights, query, key, allowed)


class Influence(NamedTuple):
    """The change of a prediction where a piece is hidden from the model.

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
    """All that is shown of one input. ``facts``: values of JSON by name, such as ``unknown``: the unknown pieces."""

    surfaces: tuple[Surface, ...]
    predictions: tuple[Prediction, ...] = ()
    attention: tuple[AttentionMap, ...] = ()
    influences: tuple[Influence, ...] = ()
    facts: Mapping[str, Any] = {}

    @property
    def maps(self) -> dict[str, AttentionMap]:
        """The attention by place, such as ``encoder.0.self``."""
        return {attention.place: attention for attention in self.attention}


@runtime_checkable
class Observes(Protocol):
    """A predictor whose inputs can be inspected."""

    def inspect(self, input: Any) -> Observation:
        """Return the observation of one input. Raises ConfigError for one that cannot be shown, with the reason."""


@runtime_checkable
class Influenced(Protocol):
    """A predictor that can tell what its predictions owe to each piece of their input."""

    def influences(self, input: Any, observation: Observation) -> tuple[Influence, ...]:
        """Return the influence of each piece on each prediction of ``inspect(input)``; () where none can be hidden."""


def require_observation(observation: object) -> Observation:
    """Return ``observation`` if it is an Observation that agrees with itself; ModelError otherwise."""
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
            raise _invalid(f"an influence is on prediction {influence.prediction}, which does not exist")
        if not 0 <= influence.surface < len(sizes) or len(influence.values) != sizes[influence.surface]:
            raise _invalid("an influence has not one value for each piece of its surface")
        _check_numbers(influence.values)
    places = [attention.place for attention in observation.attention]
    if len(set(places)) < len(places):
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
        raise _invalid(f"the mask of {attention.place} has another shape than its weights")
    if allowed is not None and bool((weights.abs().sum(0) > 0).logical_and(~allowed).any()):
        raise _invalid(f"{attention.place} has weights where its mask forbids them")


def _check_surface(surface: Surface) -> None:
    size = len(surface.pieces)
    if surface.words and (len(surface.words) != size or max(surface.words) >= len(surface.spelled)):
        raise _invalid("the words of a surface are not those of its pieces")
    if surface.ids and len(surface.ids) != size:
        raise _invalid("a surface has not one id for each piece")
    nodes = [*(node for edge in surface.edges for node in edge), surface.center or 0]
    if size and not all(0 <= node < size for node in nodes):
        raise _invalid("a graph names a node that it does not have")


def _check_prediction(prediction: Prediction, sizes: Sequence[int]) -> None:
    kind, pieces, surface = prediction.at
    counts = {"whole": 0, "pair": 2}
    if not 0 <= surface < max(len(sizes), 1) or len(pieces) != counts.get(kind, 1):
        raise _invalid(f"a prediction stands at {kind} {pieces} of surface {surface}, which does not exist")
    first = -1 if kind == "after" else 0
    if not all(first <= piece < sizes[surface] for piece in pieces):
        raise _invalid(f"a prediction stands at {kind} {pieces} of {sizes[surface]} pieces")
    own = [] if prediction.log_probability is None else [prediction.log_probability]
    _check_numbers([*own, *(each.log_probability for each in prediction.alternatives)])


def _check_numbers(values: Iterable[float]) -> None:
    if any(math.isnan(value) or value == math.inf for value in values):
        raise _invalid("a log probability is no number")


def _invalid(why: str) -> ModelError:
    return ModelError(
        "this model's observation cannot be shown", why=why,
        help="regard.core.observation states the form: weights are (heads, query, key) and finite",
    )  # fmt: skip
