"""Keras, computing with torch: additive attention, and the GRU that resets before its product.

In single precision only: outside TensorFlow its products are, whatever the dtype of a layer.
"""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
from torch import Tensor, nn

from .exchange import Kind, serve


def layer(kind: type[keras.layers.Layer], shape: object, **options: object) -> nn.Module:
    made = kind(**options)
    made.build(shape)
    return made


def weights(module: keras.layers.Layer) -> dict[str, Tensor]:
    return {weight.path.split("/")[-1]: weight.value for weight in module.weights}


def attention(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, valid: Tensor) -> dict[str, Tensor]:
    context, looked = module([query, value, key], mask=[None, valid], return_attention_scores=True)
    return {"context": context, "weights": looked}


def recurrent(module: nn.Module, x: Tensor, first: Tensor, valid: Tensor) -> dict[str, Tensor]:
    """Outputs are compared where they count."""
    outputs, last = module(x, initial_state=first, mask=valid)
    return {"outputs": outputs * valid[..., None], "last": last}


if __name__ == "__main__":
    serve(
        {
            "AdditiveAttention": Kind(
                lambda width: layer(keras.layers.AdditiveAttention, [(None, None, width)] * 3), attention, weights
            ),
            "GRU": Kind(
                lambda enter, **options: layer(
                    keras.layers.GRU, (None, None, enter), return_sequences=True, return_state=True, **options
                ),
                recurrent,
                weights,
            ),
        }
    )
