"""Ranking metrics, computed from sums over examples: for binary scores, and for one relevant item among many."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.task import Metric, MetricSums, MetricTable

BINS = 10_000  # bins of probability: scores in one bin are ties
BEST = 10  # number of top ranks that count as hits
RANKINGS = {"": "this model", "follower_": "after the last item", "popular_": "most popular"}
NEXT_ITEM_METRICS = {
    f"{prefix}{name}": Metric(lower_is_better=False, baseline=None if prefix else f"popular_{name}")
    for prefix in RANKINGS
    for name in ("hit_rate_10", "ndcg_10")
}


def ranking_sums(probability: Tensor, positive: Tensor) -> Tensor:
    """Return (2, bins): the number of negative and of positive examples, by probability."""
    bin_index = (probability.double() * BINS).long().clamp(0, BINS - 1)
    return torch.bincount(positive.long() * BINS + bin_index, minlength=2 * BINS).view(2, BINS).double()


def area_under_curve(counts: Tensor) -> float:
    """Return the area under the ROC curve: the probability that a positive ranks above a negative; ties count half."""
    negative, positive = counts
    below = negative.cumsum(0) - negative
    return float((positive * (below + negative / 2)).sum() / (positive.sum() * negative.sum()).clamp_min(1e-12))


def average_precision(counts: Tensor) -> float:
    """Return Σ (R_n − R_(n−1)) P_n over descending thresholds; R is the recall and P the precision at each."""
    negative, positive = counts.flip(1)
    hits = positive.cumsum(0)
    precision = hits / (hits + negative.cumsum(0)).clamp_min(1e-12)
    return float((positive * precision).sum() / positive.sum().clamp_min(1e-12))


def ranks(scores: Tensor, target: Tensor) -> Tensor:
    """Return the rank (rows,) of each target among all items, from 0.

    Args:
        scores: (rows, items); equal scores rank in the order of the items.
        target: (rows,) the relevant item; a negative one ranks last.
    """
    number = target[:, None]
    own = scores.gather(1, number.clamp_min(0))
    earlier = torch.arange(scores.shape[1], device=scores.device) < number
    above = (scores > own) | ((scores == own) & earlier)
    return torch.where(target < 0, scores.shape[1], above.sum(1))


def gain_sums(rank: Tensor) -> Tensor:
    """Return (2,): the number of ranks below ``BEST``, and the sum of their gains 1 / log₂(rank + 2)."""
    best = rank[rank < BEST].double()
    return torch.stack([best.new_tensor(float(len(best))), (1 / torch.log2(best + 2)).sum()])


def next_item_sums(model: Tensor, popular: Tensor, follower: Tensor) -> MetricSums:
    """Return the sums for the ranks (rows,) of next items by the model and by two baselines."""
    rankings = {"model": model, "popular": popular, "follower": follower}
    return {
        "asked": gain_sums(model).new_tensor(float(len(model))),
        **{name: gain_sums(rank) for name, rank in rankings.items()},
    }


def next_item_metrics(sums: MetricSums) -> dict[str, float]:
    """Compute ``hit_rate_10``, the share of next items among the ten most likely, and ``ndcg_10``, discounted by rank.

    A hit at place p counts 1 / log₂(p + 1) in ``ndcg_10``. Baselines: the ten most popular items (``popular_…``), and
    the ten most frequent successors of the last item in training (``follower_…``). ``asked``: the number of next items;
    if it is 0, only the loss is returned.
    """
    metrics = {"loss": float(sums["nll"]) / max(float(sums["items"]), 1.0)}
    count = float(sums.get("asked", 0.0))
    if count:
        for prefix in RANKINGS:
            hits, gains = (sums[prefix.removesuffix("_") or "model"] / count).tolist()
            metrics |= {f"{prefix}hit_rate_10": hits, f"{prefix}ndcg_10": gains}
    return metrics


def next_item_tables(sums: MetricSums) -> dict[str, MetricTable]:
    """Return the figures of the model and of the baselines."""
    metrics = next_item_metrics(sums)
    if "hit_rate_10" not in metrics:
        return {}
    rows = [(name, metrics[f"{prefix}hit_rate_10"], metrics[f"{prefix}ndcg_10"]) for prefix, name in RANKINGS.items()]
    return {"baselines": MetricTable(("ten items", "hit rate", "NDCG"), tuple(rows))}
