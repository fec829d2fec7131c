"""Hidden matrices of a network, as the optimizer Muon takes them."""

from __future__ import annotations

from torch import nn

from regard.models.head import Head
from regard.models.input import Input

ENDS = (Input, Head, nn.Embedding)  # what is looked up or compared with each type, not multiplied through
HEIGHTS = {nn.Linear: "out_features", nn.RNNBase: "hidden_size", nn.RNNCellBase: "hidden_size",
           nn.MultiheadAttention: "embed_dim"}  # fmt: skip


def hidden_matrices(net: nn.Module) -> dict[str, int]:
    """Names of the matrices that take hidden features to hidden features, each with how many are stacked in it.

    They are the weights of torch's linear layers, recurrent layers and attention, as far as no input, head or lookup
    table has them too: a matrix that is shared with an embedding is an embedding's. The gates of a recurrent layer,
    and torch's fused query, key and value, are matrices of their own, stacked; the heads of a projection are one
    matrix. A matrix of a single row or column is a vector.
    """
    at_ends = {id(each) for part in net.modules() if isinstance(part, ENDS) for each in part.parameters()}
    stacked: dict[int, int] = {}
    for part in net.modules():
        for kind, height in HEIGHTS.items():
            if isinstance(part, kind):
                stacked |= {
                    id(weight): max(len(weight) // getattr(part, height), 1)
                    for weight in part.parameters(recurse=False)
                    if weight.ndim == 2 and id(weight) not in at_ends
                }
    return {
        name: stacked[id(weight)]
        for name, weight in net.named_parameters()
        if id(weight) in stacked and min(len(weight) // stacked[id(weight)], weight.shape[1]) > 1
    }
