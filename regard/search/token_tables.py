"""Tables of the tokens of hypotheses, [sentences, hypotheses, positions], in which sentences have own lengths."""

from __future__ import annotations

import torch
from jaxtyping import Int, Shaped
from torch import Tensor
from torch.nn.functional import pad


def append_columns(
    table: Shaped[Tensor, "sentences before length"],
    parent: Int[Tensor, "sentences width"],
    columns: Shaped[Tensor, "sentences width added"],
    position: Int[Tensor, "sentences"],
) -> Shaped[Tensor, "sentences width grown"]:
    """Return the rows of ``table`` reordered by parent, with ``columns`` written from each sentence's position on."""
    table, added = table.gather(1, parent[..., None].expand(-1, -1, table.shape[2])), columns.shape[2]
    needed = int(position.max()) + added if len(position) else 0
    if needed > table.shape[2]:
        table = pad(table, (0, needed - table.shape[2]))
    index = position[:, None, None] + torch.arange(added, device=position.device)
    return table.scatter(2, index.expand(columns.shape), columns)


def stack(
    one: Shaped[Tensor, "sentences width length"], other: Shaped[Tensor, "others width longer"]
) -> Shaped[Tensor, "all width longest"]:
    """Return both tables one below the other; the shorter one is padded with 0."""
    longest = max(one.shape[2], other.shape[2])
    return torch.cat([pad(table, (0, longest - table.shape[2])) for table in (one, other)])
