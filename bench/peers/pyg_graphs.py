"""Graph layers of PyG as in its examples, trained on a .npz of bench/graphs.py: accuracy on test nodes, processor time.

    python bench/peers/pyg_graphs.py data/planetoid/cora.npz gat 1 200

The models and settings are those of PyG's examples gat.py and gcn.py: dense features whose rows have the sum 1, dropout
by torch, one update and one evaluation of all nodes an epoch; accuracy is that of the epoch with the best validation.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout, elu
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv


class Gat(nn.Module):
    def __init__(self, layer: type[nn.Module], features: int, classes: int) -> None:
        super().__init__()
        self.one = layer(features, 8, 8, dropout=0.6)
        self.two = layer(64, classes, heads=1, concat=False, dropout=0.6)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        x = elu(self.one(dropout(x, 0.6, self.training), edges))
        return self.two(dropout(x, 0.6, self.training), edges)


class Gcn(nn.Module):
    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.one, self.two = GCNConv(features, 16, cached=True), GCNConv(16, classes, cached=True)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        x = self.one(dropout(x, 0.5, self.training), edges).relu()
        return self.two(dropout(x, 0.5, self.training), edges)


def main(path: str, kind: str, seed: int, epochs: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    with np.load(path, allow_pickle=False) as found:
        arrays = {name: found[name] for name in found.files}
    nodes, features = arrays["x_shape"].tolist()
    x = torch.zeros(nodes, features)
    row = np.repeat(np.arange(nodes), np.diff(arrays["x_indptr"]))
    column = torch.from_numpy(arrays["x_indices"].astype(np.int64))
    x[torch.from_numpy(row), column] = torch.from_numpy(arrays["x_data"])
    x /= x.sum(1, keepdim=True).clamp_min(1e-9)
    edges = torch.from_numpy(arrays["edges"].astype(np.int64)).T
    edges = torch.cat([edges, edges.flip(0)], 1)
    y = torch.from_numpy(arrays["y"])
    train, valid, test = (torch.from_numpy(arrays[f"{name}_mask"]) for name in ("train", "val", "test"))
    classes = int(y.max()) + 1
    net = Gcn(features, classes) if kind == "gcn" else Gat(GATConv if kind == "gat" else GATv2Conv, features, classes)
    if isinstance(net, Gcn):
        first, second = dict(params=net.one.parameters(), weight_decay=5e-4), dict(params=net.two.parameters())
        optimizer = torch.optim.Adam([first, second], lr=0.01)
    else:
        optimizer = torch.optim.Adam(net.parameters(), lr=0.005, weight_decay=5e-4)
    began, best, told = time.process_time(), -1.0, 0.0
    for _ in range(epochs):
        net.train()
        optimizer.zero_grad()
        cross_entropy(net(x, edges)[train], y[train]).backward()
        optimizer.step()
        net.eval()
        with torch.no_grad():
            right = net(x, edges).argmax(-1) == y
        if (accuracy := float(right[valid].float().mean())) > best:
            best, told = accuracy, float(right[test].float().mean())
    print(told, time.process_time() - began)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
