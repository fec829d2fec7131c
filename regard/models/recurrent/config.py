"""Configs of recurrent cells, encoders and decoders. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from regard.config.explain import InvalidCombination
from regard.models.attention_config import AttentionSizes, MechanismConfig, Named, unprojected
from regard.models.origin_config import EncoderStart
from regard.models.stack_config import LARGEST, StackConfig

LAYERS = 2  # default; recurrent stacks are usually lower than stacks of attention
STATES = 512  # default features of a state, both directions together


class CellConfig(Named):
    """Recurrent cell and its initialization: ``"lstm"``, or ``{kind = "gru", reset = "before"}``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["elman", "lstm", "gru"] = "lstm"
    reset: Literal["after", "before"] = Field(
        "after", description="GRU only: r ∘ (U h) as in torch, or U (r ∘ h) as in Cho et al. 2014"
    )
    update: Literal["keeps", "renews"] = Field(
        "keeps", description="GRU only: effect of z = 1 on the old state (Bahdanau et al. 2015: renews)"
    )
    orthogonal: bool = Field(False, description="initialize recurrent matrices as orthogonal")
    forget_bias: float = Field(
        0.0, allow_inf_nan=False, description="value added to the bias of the gate that keeps the old state"
    )

    @model_validator(mode="after")
    def _check_gates(self) -> CellConfig:
        if self.kind != "gru" and (self.reset, self.update) != ("after", "keeps"):
            raise ValueError(f"reset and update apply to a GRU only, and the cell is {self.kind}")
        if self.kind == "elman" and self.forget_bias:
            raise ValueError("forget_bias requires a cell with gates, which an Elman cell lacks")
        return self


class RecurrentStackConfig(StackConfig):
    """Recurrent cells over token embeddings."""

    kind: Literal["recurrent"] = "recurrent"
    layers: int = Field(LAYERS, ge=1, le=1000, description="number of layers")
    cell: CellConfig = Field(CellConfig(), description="kind of cell")
    embedding: int | None = Field(None, ge=1, le=LARGEST, description="width of embeddings; default: that of states")
    scale_embedding: bool = Field(True, description="multiply embeddings by √width, as a Transformer does")

    @property
    def embedding_width(self) -> int:
        return self.embedding or self.width


class RecurrentEncoderConfig(EncoderStart, RecurrentStackConfig):
    """Recurrent cells over the source, in one direction or both."""

    width: int = Field(
        STATES // 2,
        ge=1,
        le=LARGEST,
        description="width of one direction; `model.width` is that of states, both directions together",
    )
    bidirectional: bool = Field(True, description="concatenate the states of both directions")
    reversed: bool = Field(
        False, description="read from the last token to the first (Sutskever 2014, Luong 2015); requires one direction"
    )

    @property
    def embedding_width(self) -> int:
        return self.embedding or self.features

    @property
    def features(self) -> int:
        return (2 if self.bidirectional else 1) * self.width

    @classmethod
    def with_shared(cls, shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        table = super().with_shared(shared, own)
        states = shared.get("width", STATES)
        if not isinstance(states, int):
            return table
        if "width" not in own:
            directions = 2 if table.get("bidirectional", True) else 1
            if states % directions:
                raise InvalidCombination(
                    "model.width",
                    "model.encoder.bidirectional",
                    why=f"a width of {states} cannot be divided between two directions",
                    help="set an even model.width, or --set model.encoder.width=N for each direction",
                )
            table["width"] = states // directions
        if "width" in shared:
            table.setdefault("embedding", states)
        return table

    @model_validator(mode="after")
    def _check_direction(self) -> RecurrentEncoderConfig:
        if self.reversed and self.bidirectional:
            raise ValueError("reversed requires an encoder with one direction: set bidirectional = false")
        return self


class RecurrentDecoderConfig(AttentionSizes, RecurrentStackConfig):
    """Recurrent cells that attend to the source at every step, or read a summary of it."""

    order: Literal["luong", "bahdanau", "none"] = Field(
        "luong", description="attention after the cells (Luong 2015), before them (Bahdanau 2015), or none"
    )
    start: Literal["learned", "copied"] = Field(
        "learned", description="first state: tanh(W · summary), or a copy of the encoder's last states (Luong 2015)"
    )
    input_feeding: bool = Field(True, description="`luong`: the previous output vector is an input of the first cell")
    readout: int | None = Field(
        None, ge=1, le=LARGEST, description="`bahdanau`: number of maxout units l; default: `width`"
    )
    cross_attention: Annotated[MechanismConfig, BeforeValidator(unprojected)] = Field(
        MechanismConfig(heads=1, project=()),
        description="attention to the source; default: one head, no projections, unless it sets `heads` or `project`",
    )

    @property
    def features(self) -> int:
        return (self.readout or self.width) if self.order == "bahdanau" else self.width

    @model_validator(mode="after")
    def _check_heads(self) -> RecurrentDecoderConfig:
        if self.cross_attention.heads is None:
            self._require_whole_heads(self.width)
        return self
