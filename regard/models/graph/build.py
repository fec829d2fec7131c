"""Networks over the nodes of a graph, from their config."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import elu

from regard.attention.contract import Mechanism
from regard.attention.mechanisms.dot import Dot
from regard.attention.mechanisms.gat import Gat
from regard.attention.mechanisms.gatv2 import Gatv2
from regard.attention.positions.edge_bias import EdgeBias
from regard.attention.span import Span
from regard.models.dropout import Dropout
from regard.models.graph.config import GraphNetConfig
from regard.models.graph.layers import (
    ALL_NODES,
    GraphAttention,
    GraphConvolution,
    GraphIsomorphism,
    LayerSizes,
    NodeFeatures,
    NodeLinear,
    node_spans,
)

Layer = GraphAttention | GraphConvolution | GraphIsomorphism
AttentionTable = dict[str, tuple[int, Callable[[int, int], Mechanism]]]
# number of projections of a layer, and a function (heads, width) → mechanism
ATTENTION: AttentionTable = {
    "gat": (1, lambda heads, width: Gat(heads=heads, query_width=width, key_width=width)),
    "gatv2": (2, lambda heads, width: Gatv2(heads=heads, query_width=width, key_width=width)),
    "transformer": (3, lambda heads, width: Dot(bias=EdgeBias(heads))),
}


class GraphNet(nn.Module):
    """Layers in sequence: ReLU between convolutions, ELU between others, no activation after the last.

    ``skips``: the residual connection of each layer, or None. ``gated``: outputs are multiplied by a trained number
    that starts at 0, because a wide part is added to them.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        skips: Sequence[nn.Module | None],
        *,
        gated: bool = False,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.skips = nn.ModuleList([skip or nn.Module() for skip in skips])
        self.gain = nn.Parameter(torch.zeros(1)) if gated else None
        self._skipped = [skip is not None for skip in skips]

    def forward(
        self,
        x: Float[Tensor, "nodes features"] | NodeFeatures,
        pairs: Int[Tensor, "2 edges"],
        degree: Float[Tensor, "edges"],
        sizes: Sequence[LayerSizes] = (),
    ) -> Float[Tensor, "outputs classes"]:
        """Return the outputs of each node; ``degree``: weights of the edges by degree, for convolutions.

        With ``sizes``, the edges of all layers are concatenated, and outputs are those of the queries of the last
        layer.
        """
        outputs = self.states(x, pairs, degree, sizes)[-1]
        return outputs if self.gain is None else outputs * self.gain

    def states(
        self,
        x: Float[Tensor, "nodes features"] | NodeFeatures,
        pairs: Int[Tensor, "2 edges"],
        degree: Float[Tensor, "edges"],
        sizes: Sequence[LayerSizes] = (),
    ) -> list[Tensor]:
        """Return the outputs of each layer, after its activation."""
        nodes = x.nodes if isinstance(x, NodeFeatures) else len(x)
        outputs: list[Tensor] = []
        for number, (query, key, weights) in enumerate(self._layer_spans(nodes, pairs, degree, sizes)):
            layer = self.layers[number]
            assert isinstance(layer, Layer)
            mixed: Tensor = layer(x, layer.bind(query, key), weights)
            if self._skipped[number]:
                mixed = mixed + self.skips[number](x)[: len(mixed)]
            if number + 1 < len(self.layers):
                mixed = mixed.relu() if isinstance(layer, GraphConvolution) else elu(mixed)
            outputs.append(mixed)
            x = mixed
        return outputs

    def attention(
        self,
        x: Float[Tensor, "nodes features"] | NodeFeatures,
        pairs: Int[Tensor, "2 edges"],
        degree: Float[Tensor, "edges"],
        sizes: Sequence[LayerSizes] = (),
    ) -> Iterator[tuple[int, GraphAttention, Tensor | NodeFeatures]]:
        """Yield the index of each attention layer, the layer, and its inputs."""
        inputs = [x, *self.states(x, pairs, degree, sizes)]
        for number, layer in enumerate(self.layers):
            if isinstance(layer, GraphAttention):
                yield number, layer, inputs[number]

    def _layer_spans(
        self, nodes: int, pairs: Tensor, degree: Tensor, sizes: Sequence[LayerSizes]
    ) -> list[tuple[Span, Span, Tensor]]:
        """Return for each layer the spans of queries and keys, and the weights of its edges."""
        if not sizes:
            return [(*node_spans(nodes, nodes, pairs), degree)] * len(self.layers)
        counts = [size.edges for size in sizes]
        parts = zip(sizes, pairs.split(counts, 1), degree.split(counts), strict=True)
        return [(*node_spans(size.queries, size.keys, layer_pairs), weights) for size, layer_pairs, weights in parts]


def build_graph_net(config: GraphNetConfig, *, features: int, outputs: int, gated: bool = False) -> GraphNet:
    """Build a network of that config, initialized from torch's default generator; ``gated``: see ``GraphNet``."""
    layers: list[Layer] = []
    skips: list[nn.Module | None] = []
    for number in range(config.layers):
        last, inputs = number + 1 == config.layers, config.hidden if number else features
        width = outputs if last else config.width
        wide = width if last else config.hidden
        layers.append(_layer(config, inputs, width, last=last))
        skips.append(_skip(inputs, wide) if config.skip else None)
    return GraphNet(layers, skips, gated=gated)


def _skip(inputs: int, outputs: int) -> nn.Module:
    return nn.Identity() if inputs == outputs else NodeLinear(inputs, outputs)


def _layer(config: GraphNetConfig, inputs: int, width: int, *, last: bool) -> Layer:
    if config.kind == "gcn":
        return GraphConvolution(inputs, width, dropout=config.dropout)
    if config.kind == "gin":
        return GraphIsomorphism(inputs, width, hidden=config.hidden, dropout=config.dropout)
    heads = config.output_heads if last else config.heads
    projections, make = ATTENTION[config.kind]
    mechanism = make(heads, width)
    mechanism.drop_weights(Dropout(config.attention_dropout))
    return GraphAttention(
        inputs,
        width,
        heads=heads,
        mechanism=mechanism,
        projections=projections,
        mean=last,
        dropout=config.dropout,
        dropout_by_head=config.dropout_by_head,
        value_dropout=config.value_dropout,
        mask=ALL_NODES if config.sees == "all" else None,
    )
