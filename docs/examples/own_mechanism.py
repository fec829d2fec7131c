"""Research: exchange one part, train it, and compare the accuracies on equal examples with a bootstrap."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import regard
from regard.attention.catalog import MECHANISMS
from regard.attention.score import SoftmaxScore
from regard.testing import check_mechanism


class Near(SoftmaxScore):
    """e(q, k) = −‖q − k‖² / (2 s²); s > 0 is learned, one per head."""

    def __init__(self, *, heads: int) -> None:
        super().__init__()
        self.log_width = torch.nn.Parameter(torch.zeros(heads))

    def energy(self, query: Tensor, key: Tensor) -> Tensor:
        squares = (query[:, :, :, None] - key[:, :, None]).square().sum(-1)
        return -squares / (2 * self.log_width.exp().square())[:, None, None]


print(check_mechanism(Near(heads=2), heads=2, query_width=4, key_width=4))
MECHANISMS["near"] = Near  # a config can name it in this process

labels = {"fine": "good", "dull": "bad"}
rows = [f"{word} film {number},{label}\n" for number in range(20) for word, label in labels.items()]
Path("reviews.csv").write_text("text,label\n" + "".join(rows))
files = {part: [{"source": "reviews.csv"}] for part in ("train", "valid")}
right = {}
for kind in ("dot", "near"):
    model = {"layers": 1, "width": 16, "heads": 2, "encoder": {"mixer": {"kind": kind}}}
    train = {"steps": 5, "threads": 1, "workers": 1, "baseline": False}
    config = {"task": "classification", "data": files, "model": model, "train": train}
    run = regard.train(config, f"runs/{kind}")
    outcomes = regard.evaluate(run, "reviews.csv", outcomes=True).outcomes
    assert outcomes is not None
    right[kind] = np.array([row.is_right for row in outcomes.rows], float)

draws = np.random.default_rng(1).integers(len(rows), size=(1000, len(rows)))
differences = (right["near"] - right["dot"])[draws].mean(1)
print({kind: float(values.mean()) for kind, values in right.items()}, np.quantile(differences, [0.025, 0.975]))
