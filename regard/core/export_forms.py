"""Forms of networks that other toolkits know: a task declares that of its network, a format the one that it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal


@dataclass(frozen=True, kw_only=True)
class ExportForm:
    """A form of network.

    Attributes:
        texts: yields the inputs of the run's own data as lines, to compare a model and its export on.
    """

    noun: ClassVar[str]  # in messages
    texts: Callable[[], Iterator[str]]


class PairForm(ExportForm):
    """An encoder and a decoder, from the pieces of a text to those of another.

    The codecs are the tokenizers of both sides, and the predictor is a ``share.parity.PairModel``.
    """

    noun = "a model from text to text"


class CausalForm(ExportForm):
    """A Transformer that predicts the next piece. The predictor is a ``share.logit_parity.CausalModel``."""

    noun = "a language model"


@dataclass(frozen=True, kw_only=True)
class EncoderForm(ExportForm):
    """The encoder ``model.encoder`` of the config, and one linear layer of outputs.

    The codecs have a ``tokenizer``; those of a ``sequence`` or of ``tokens`` also have a ``core.answer.TaskAnswer``
    as ``answer``.

    Attributes:
        head: outputs of the first position, of each position, or of the pieces that may be at a mask.
        longest: positions that the network reads, with BEGIN and END.
        label_kind: ``class``, ``several`` or ``number`` of a sequence.
        obstacles: reasons why the network is none of this form, each with the setting that changes it; "" for none.
    """

    noun = "an encoder with a layer of outputs"
    head: Literal["sequence", "tokens", "mask"]
    longest: int
    label_kind: str | None = None
    obstacles: Mapping[str, str] = field(default_factory=dict)
