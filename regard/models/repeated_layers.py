"""The layers that a network repeats: units of gathering, recomputing and moving weights."""

from __future__ import annotations

from collections import Counter

from torch import nn

from regard.models.convolutional.decoder import ConvolutionalLayer
from regard.models.convolutional.encoder import CenteredConvolution
from regard.models.transformer.layer import TransformerLayer

LAYERS = (TransformerLayer, ConvolutionalLayer, CenteredConvolution, nn.TransformerEncoderLayer,
          nn.TransformerDecoderLayer)  # fmt: skip
CALLED = (
    "prepare",
    "start",
)  # methods of a layer, other than ``forward``, that a stack calls and that use its parameters


def repeated_layers(net: nn.Module) -> list[nn.Module]:
    """Return the layers of the network's stacks that share no parameter with any other module.

    Layers with T5's table of relative positions share it and are excluded. Recurrent stacks are excluded too: their
    cells return functions of their weights, which are called step by step.
    """
    holders = Counter(id(p) for part in net.modules() for p in part.parameters(recurse=False))
    occurrences = Counter(id(part) for _, part in net.named_modules(remove_duplicate=False))
    return [
        layer for layer in net.modules()
        if isinstance(layer, LAYERS)
        and all(holders[id(p)] == 1 for p in layer.parameters())
        and all(occurrences[id(part)] == 1 for part in layer.modules())
    ]  # fmt: skip
