"""The layers that a network repeats: what is gathered, recomputed or moved as one where memory is short."""

from __future__ import annotations

from collections import Counter

from torch import nn

from regard.models.convolutional.decoder import ConvolutionalLayer
from regard.models.convolutional.encoder import CenteredConvolution
from regard.models.transformer.layer import TransformerLayer

LAYERS = (TransformerLayer, ConvolutionalLayer, CenteredConvolution, nn.TransformerEncoderLayer,
          nn.TransformerDecoderLayer)  # fmt: skip
CALLED = ("prepare", "start")  # methods of a layer that a stack calls beside ``forward``; they use its parameters


def repeated_layers(net: nn.Module) -> list[nn.Module]:
    """Layers of the network's stacks that share no parameter with anything else.

    Layers with T5's table of relative positions share it and are none. Of recurrent stacks there are none either:
    their cells hand out functions of their weights, which are called column by column.
    """
    holders = Counter(id(p) for part in net.modules() for p in part.parameters(recurse=False))
    places = Counter(id(part) for _, part in net.named_modules(remove_duplicate=False))
    return [
        layer for layer in net.modules()
        if isinstance(layer, LAYERS)
        and all(holders[id(p)] == 1 for p in layer.parameters())
        and all(places[id(part)] == 1 for part in layer.modules())
    ]  # fmt: skip
