"""Forms of networks that other toolkits support: tasks declare that of their network, formats the one they write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal


@dataclass(frozen=True, kw_only=True)
class ExportForm:
    """A form of network.

    Attributes:
        texts: yields the inputs of the run's own data as lines, to compare a model with its export.
    """

    noun: ClassVar[str]  # in messages
    texts: Callable[[], Iterator[str]]


class PairForm(ExportForm):
    """An encoder and a decoder, from the tokens of a text to those of another.

    The codecs are the tokenizers of both sides, and the predictor is a ``share.parity.PairModel``.
    """

    noun = "a model from text to text"


class CausalForm(ExportForm):
    """A Transformer that predicts the next token. The predictor is a ``share.logit_parity.CausalModel``."""

    noun = "a language model"


@dataclass(frozen=True, kw_only=True)
class ForwardForm(ExportForm):
    """A network whose outputs are a fixed function of one input: no search, and no state.

    Attributes:
        read: yields the inputs in a file as lines; None: each line of a file is an input.
        input: the rows of one field; a graph, whose nodes have outputs; or a graph and the ends of pairs of its nodes.
            The codecs of a graph have a ``graph`` and a ``temperature``.
    """

    noun = "a network with a fixed forward pass"
    read: Callable[[Path], Iterator[str]] | None = None
    input: Literal["field", "graph", "ends"] = "field"


@dataclass(frozen=True, kw_only=True)
class EncoderForm(ForwardForm):
    """The encoder ``model.encoder`` of the config, and one linear output layer.

    The codecs have a ``tokenizer``; those of a ``sequence`` or of ``tokens`` also have a ``core.answer.TaskAnswer`` as
    ``answer``.

    Attributes:
        head: outputs of the first position, of each position, or of the vocabulary at a mask.
        longest: maximum number of positions of the network, including BEGIN and END.
        label_kind: ``class``, ``several`` or ``number`` of a sequence.
        obstacles: reasons why the network does not have this form, each with the setting that changes it, or "".
    """

    noun = "an encoder with an output layer"
    head: Literal["sequence", "tokens", "mask"]
    longest: int
    label_kind: str | None = None
    obstacles: Mapping[str, str] = field(default_factory=dict)
