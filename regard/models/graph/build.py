"""Networks over the nodes of a graph, from their config."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

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
from regard.models.graph.isomorphism import GraphIsomorphism
from regard.models.graph.layers import (
    EVERYBODY,
    GraphAttention,
    GraphConvolution,
    LayerSizes,
    NodeFeatures,
    NodeLinear,
    node_spans,
)

Layer = GraphAttention | GraphConvolution | GraphIsomorphism
Made = dict[str, tuple[int, Callable[[int, int], Mechanism]]]
# projections of a layer, and the mechanism for so many heads of such a width
ATTENTION: Made = {
    "gat": (1, lambda heads, width: Gat(heads=heads, query_width=width, key_width=width)),
    "gatv2": (2, lambda heads, width: Gatv2(heads=heads, query_width=width, key_width=width)),
    "transformer": (3, lambda heads, width: Dot(bias=EdgeBias(heads))),
}


class GraphNet(nn.Module):
    """Layers one after the other: ReLU between convolutions, ELU between others; none after the last.

    ``skips``: for each layer what carries its input beside it, or None.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        skips: Sequence[nn.Module | None],
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.skips = nn.ModuleList([skip or nn.Module() for skip in skips])
        self._skipped = [skip is not None for skip in skips]

    def forward(
        self,
        x: Float[Tensor, "nodes features"] | NodeFeatures,
        pairs: Int[Tensor, "2 edges"],
        degree: Float[Tensor, "edges"],
        sizes: Sequence[LayerSizes] = (),
    ) -> Float[Tensor, "outputs classes"]:
        """Outputs of each node; ``degree``: weights of the edges by degree, which a convolution goes by.

        With ``sizes`` the edges of all layers stand one after the other, and outputs are of the nodes that the last
        layer asks for.
        """
        return self.states(x, pairs, degree, sizes)[-1]

    def states(
        self,
        x: Float[Tensor, "nodes features"] | NodeFeatures,
        pairs: Int[Tensor, "2 edges"],
        degree: Float[Tensor, "edges"],
        sizes: Sequence[LayerSizes] = (),
    ) -> list[Tensor]:
        """Outputs of each layer, after its rectifier."""
        nodes = x.nodes if isinstance(x, NodeFeatures) else len(x)
        found: list[Tensor] = []
        for number, (query, key, weights) in enumerate(self._looks(nodes, pairs, degree, sizes)):
            layer = self.layers[number]
            assert isinstance(layer, Layer)
            mixed: Tensor = layer(x, layer.bind(query, key), weights)
            if self._skipped[number]:
                mixed = mixed + self.skips[number](x)[: len(mixed)]
            if number + 1 < len(self.layers):
                mixed = mixed.relu() if isinstance(layer, GraphConvolution) else elu(mixed)
            found.append(mixed)
            x = mixed
        return found

    def attention(
        self,
        x: Float[Tensor, "nodes features"] | NodeFeatures,
        pairs: Int[Tensor, "2 edges"],
        degree: Float[Tensor, "edges"],
        sizes: Sequence[LayerSizes] = (),
    ) -> Iterator[tuple[int, GraphAttention, Tensor | NodeFeatures]]:
        """Yield the number of each layer of attention, the layer, and its inputs."""
        inputs = [x, *self.states(x, pairs, degree, sizes)]
        for number, layer in enumerate(self.layers):
            if isinstance(layer, GraphAttention):
                yield number, layer, inputs[number]

    def _looks(
        self, nodes: int, pairs: Tensor, degree: Tensor, sizes: Sequence[LayerSizes]
    ) -> list[tuple[Span, Span, Tensor]]:
        """For each layer the nodes that look, those that are seen, and the weights of its edges."""
        if not sizes:
            return [(*node_spans(nodes, nodes, pairs), degree)] * len(self.layers)
        counts = [each.edges for each in sizes]
        every = zip(sizes, pairs.split(counts, 1), degree.split(counts), strict=True)
        return [(*node_spans(each.queries, each.keys, part), weights) for each, part, weights in every]


def build_graph_net(config: GraphNetConfig, *, features: int, outputs: int) -> GraphNet:
    """A network of that config, initialized from torch's default generator."""
    layers: list[Layer] = []
    skips: list[nn.Module | None] = []
    for number in range(config.layers):
        last, inputs = number + 1 == config.layers, config.hidden if number else features
        width = outputs if last else config.width
        wide = width if last else config.hidden
        layers.append(_layer(config, inputs, width, last=last))
        skips.append(_skip(inputs, wide) if config.skip else None)
    return GraphNet(layers, skips)


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
        mask=EVERYBODY if config.sees == "all" else None,
    )
