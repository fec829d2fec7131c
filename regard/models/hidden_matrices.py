"""Hidden matrices of a network, which the optimizer Muon updates."""

from __future__ import annotations

from torch import nn

from regard.models.head import Head
from regard.models.input import Input

ENDS = (Input, Head, nn.Embedding)  # modules with lookup tables and output projections, not hidden matrices
HEIGHTS = {nn.Linear: "out_features", nn.RNNBase: "hidden_size", nn.RNNCellBase: "hidden_size",
           nn.MultiheadAttention: "embed_dim"}  # fmt: skip


def hidden_matrices(net: nn.Module) -> dict[str, int]:
    """Return the names of hidden matrices, each with the number of matrices stacked in it.

    They are the weights of torch's linear layers, recurrent layers and attention that no input, head or lookup table
    uses: a matrix shared with an embedding is excluded. The gates of a recurrent layer, and torch's fused query, key
    and value, are separate stacked matrices. The heads of a projection are one matrix. A matrix with a single row or
    column counts as a vector.
    """
    at_ends = {id(weight) for part in net.modules() if isinstance(part, ENDS) for weight in part.parameters()}
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
