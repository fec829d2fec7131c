"""Fast decoding with a language model: fused projections, packed matrices, a cache written in place."""

from __future__ import annotations

from copy import deepcopy
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding

from regard.attention.positions.absolute import NoPosition
from regard.attention.positions.distance_bias import Alibi, T5CausalBias
from regard.engine.causal_layer import FastCausalLayer, NextColumns
from regard.engine.causal_state import CausalState
from regard.engine.heads import shared_turns
from regard.engine.obstacles import layer_obstacle, unknown_parameters
from regard.engine.output import FastHead
from regard.engine.packed import rounded
from regard.engine.parts import norm, padded
from regard.models.head import Head
from regard.models.input import TokenInput
from regard.models.language_model import LanguageModel
from regard.search.contract import Reduce

KNOWN = {"embedding.weight", "embedding.position.table", "head.weight", "head.bias"}
BIASES = (Alibi, T5CausalBias)


def obstacle(model: LanguageModel) -> str | None:
    """The reason why this language model has no fast form; None if it has one."""
    if type(model) is not LanguageModel or type(model.head) is not Head:
        return f"a {type(model).__name__} is not the Transformer's language model"
    if type(model.embedding) is not TokenInput:
        return "its input is something else than tokens"
    if not model.layers:
        return "it has no layers"
    reasons = (layer_obstacle(layer, None, BIASES, windows=True) for layer in model.stack)
    unknown = unknown_parameters(model, KNOWN, prefixes=("layers.", "norm."))
    return next(filter(None, (*reasons, unknown)), None)


class FastLanguageModel:
    """``start`` and ``step`` like LanguageModel's, with a CausalState as the state.

    ValueError where there is an ``obstacle``.

    Args:
        model: the language model, which is copied.
        dtype: the number format to compute in; that of the model unless given.
    """

    def __init__(self, model: LanguageModel, *, dtype: torch.dtype | None = None) -> None:
        if (reason := obstacle(model)) is not None:
            raise ValueError(f"there is no fast form of this language model: {reason}")
        self.dtype = dtype = dtype or model.head.weight.dtype
        self.device = model.head.weight.device
        model = deepcopy(model).eval().to(dtype)
        tokens = cast(TokenInput, model.embedding)
        self.embedding = tokens.weight.detach() * tokens.scale
        self.place = None if type(tokens.position) is NoPosition else tokens.position
        self.head, self.norm = FastHead(model.head.weight, model.head.bias, dtype), norm(model.norm)
        # One query against a few dozen keys gains nothing from matrix units: on a CPU float32 takes half the time.
        quicker = dtype == torch.bfloat16 and self.device.type == "cpu"
        self.table_dtype = torch.float32 if quicker else dtype
        turns = shared_turns(model.stack, self.table_dtype)
        self.layers = [FastCausalLayer(layer, self.table_dtype, turns) for layer in model.stack]

    @torch.no_grad()
    def start(self, rows: int) -> CausalState:
        """The state before the first token of each row."""
        return CausalState([layer.empty_table(rows, self.device) for layer in self.layers], [0] * rows)

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "rows length"], state: CausalState
    ) -> tuple[Float[Tensor, "rows length types"], CausalState]:
        """Log-probabilities after each token, in float32 or wider, and the state after all."""
        features, state = self._features(tokens, state)
        return self.head.log_probabilities(features, tokens.numel()).unflatten(0, tokens.shape), state

    @torch.no_grad()
    def chunked_step(
        self, tokens: Int[Tensor, "rows length"], state: CausalState, reduce: Reduce
    ) -> tuple[tuple[Tensor, ...], CausalState]:
        """A ``ChunkedStep``, which reduces few rows at a time, after the last of these tokens."""
        features, state = self._features(tokens, state)
        rows, length = tokens.shape
        last = features if length == 1 else features[: rows * length].unflatten(0, (rows, length))[:, -1]
        return self.head.reduce(last, rows, reduce), state

    @torch.inference_mode()
    def _features(
        self, tokens: Int[Tensor, "rows length"], state: CausalState
    ) -> tuple[Float[Tensor, "padded width"], CausalState]:
        """Features of all columns, row by row, with rows of padding at the end."""
        length = tokens.shape[1]
        longest = max(state.time, default=0) + length
        state = CausalState([table.with_room(longest) for table in state.tables], state.time)
        columns = NextColumns(state, length, self.table_dtype)
        x = embedding(tokens, self.embedding)
        if self.place is not None:
            x = self.place(x, columns.position.expand(tokens.shape))
        x = x.flatten(0, 1)
        if columns.count > 1:
            x = padded(x, rounded(columns.count))
        embedded = x
        for layer, table in zip(self.layers, state.tables, strict=True):
            x = layer(x, embedded, table, columns)
        return self.norm(x), CausalState(state.tables, [time + length for time in state.time])
