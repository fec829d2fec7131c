"""Fast decoding with a language model: fused projections, packed matrices, a cache updated in place."""

from __future__ import annotations

from copy import deepcopy
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding

from regard.attention.positions.absolute import NoPosition
from regard.attention.positions.distance_bias import Alibi, T5CausalBias
from regard.engine.causal_layer import FastCausalLayer, NextTokens
from regard.engine.causal_state import CausalState
from regard.engine.heads import shared_rotations
from regard.engine.obstacles import layer_obstacle, unknown_parameters
from regard.engine.packed import FastHead, rounded
from regard.engine.parts import norm, padded
from regard.models.head import Head
from regard.models.input import TokenInput
from regard.models.language_model import LanguageModel
from regard.search.contract import Reduce

KNOWN = {"embedding.weight", "embedding.position.table", "head.weight", "head.bias"}
BIASES = (Alibi, T5CausalBias)


def obstacle(model: LanguageModel) -> str | None:
    """Return the reason why this language model has no fast implementation, or None."""
    if type(model) is not LanguageModel or type(model.head) is not Head:
        return f"{type(model).__name__} is not the Transformer's language model"
    if type(model.embedding) is not TokenInput:
        return "its input is not tokens only"
    if not model.layers:
        return "it has no layers"
    reasons = (layer_obstacle(layer, None, BIASES, windows=True) for layer in model.stack)
    unknown = unknown_parameters(model, KNOWN, prefixes=("layers.", "norm.", "gate."))  # a predictor applies the gate
    return next(filter(None, (*reasons, unknown)), None)


class FastLanguageModel:
    """Language model with the ``start`` and ``step`` of LanguageModel and a CausalState as the state.

    Args:
        model: the language model, which is copied.
        dtype: the number format of the computation; default: that of the model.

    Raises:
        ValueError: the model has an ``obstacle``.
    """

    def __init__(self, model: LanguageModel, *, dtype: torch.dtype | None = None) -> None:
        if (reason := obstacle(model)) is not None:
            raise ValueError(f"no fast implementation of this language model: {reason}")
        self.dtype = dtype = dtype or model.head.weight.dtype
        self.device = model.head.weight.device
        model = deepcopy(model).eval().to(dtype)
        tokens = cast(TokenInput, model.embedding)
        self.embedding = tokens.weight.detach() * tokens.scale
        self.position = None if type(tokens.position) is NoPosition else tokens.position
        self.head, self.norm = FastHead(model.head.weight, model.head.bias, dtype), norm(model.norm)
        # Matrix units do not speed up one query against a few dozen keys: on a CPU, float32 takes half the time.
        use_float32 = dtype == torch.bfloat16 and self.device.type == "cpu"
        self.table_dtype = torch.float32 if use_float32 else dtype
        rotations = shared_rotations(model.stack, self.table_dtype)
        self.layers = [FastCausalLayer(layer, self.table_dtype, rotations) for layer in model.stack]

    @torch.no_grad()
    def start(self, rows: int) -> CausalState:
        """Return the state before the first token of each row."""
        return CausalState([layer.empty_table(rows, self.device) for layer in self.layers], [0] * rows)

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "rows length"], state: CausalState
    ) -> tuple[Float[Tensor, "rows length types"], CausalState]:
        """Return log-probabilities after each token, in float32 or wider, and the state after the last one."""
        features, state = self._features(tokens, state)
        return self.head.log_probabilities(features, tokens.numel()).unflatten(0, tokens.shape), state

    @torch.no_grad()
    def chunked_step(
        self, tokens: Int[Tensor, "rows length"], state: CausalState, reduce: Reduce
    ) -> tuple[tuple[Tensor, ...], CausalState]:
        """Compute a ``ChunkedStep`` after the last of these tokens; reduces a few rows at a time."""
        features, state = self._features(tokens, state)
        rows, length = tokens.shape
        last = features if length == 1 else features[: rows * length].unflatten(0, (rows, length))[:, -1]
        return self.head.reduce(last, rows, reduce), state

    @torch.inference_mode()
    def _features(
        self, tokens: Int[Tensor, "rows length"], state: CausalState
    ) -> tuple[Float[Tensor, "padded width"], CausalState]:
        """Return features of all tokens, row by row, with padding rows at the end."""
        length = tokens.shape[1]
        longest = max(state.time, default=0) + length
        state = CausalState([table.reserve(longest) for table in state.tables], state.time)
        next_tokens = NextTokens(state, length, self.table_dtype)
        x = embedding(tokens, self.embedding)
        if self.position is not None:
            x = self.position(x, next_tokens.position.expand(tokens.shape))
        x = x.flatten(0, 1)
        if next_tokens.count > 1:
            x = padded(x, rounded(next_tokens.count))
        embedded = x
        for layer, table in zip(self.layers, state.tables, strict=True):
            x = layer(x, embedded, table, next_tokens)
        return self.norm(x), CausalState(state.tables, [time + length for time in state.time])
