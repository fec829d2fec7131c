"""Measures of rankings, from sums that add up: of two classes, and of one relevant item among many."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.task import Metric, MetricSums, MetricTable

BINS = 10_000  # of the probability: scores within a bin are ties
BEST = 10  # first places of a ranking of items that count
RANKINGS = {"": "this model", "follower_": "after the last item", "popular_": "most popular"}
NEXT_ITEM_METRICS = {
    f"{prefix}{name}": Metric(lower_is_better=False, baseline=None if prefix else f"popular_{name}")
    for prefix in RANKINGS
    for name in ("hit_rate_10", "ndcg_10")
}


def ranking_sums(probability: Tensor, positive: Tensor) -> Tensor:
    """(2, bins): how many of the others, and of the positive ones, have each probability."""
    place = (probability.double() * BINS).long().clamp(0, BINS - 1)
    return torch.bincount(positive.long() * BINS + place, minlength=2 * BINS).view(2, BINS).double()


def area_under_curve(counts: Tensor) -> float:
    """Chance that a positive one is above another one, ties counting half: the area under the ROC curve."""
    negative, positive = counts
    below = negative.cumsum(0) - negative
    return float((positive * (below + negative / 2)).sum() / (positive.sum() * negative.sum()).clamp_min(1e-12))


def average_precision(counts: Tensor) -> float:
    """Σ (R_n − R_(n−1)) P_n over thresholds from the highest, R the recall and P the precision at each."""
    negative, positive = counts.flip(1)
    hits = positive.cumsum(0)
    precision = hits / (hits + negative.cumsum(0)).clamp_min(1e-12)
    return float((positive * precision).sum() / positive.sum().clamp_min(1e-12))


def ranks(scores: Tensor, target: Tensor) -> Tensor:
    """Return the rank (rows,) of each target among all items, 0 the first.

    Args:
        scores: (rows, items); equal ones rank in the order of the items.
        target: (rows,) the relevant item; a negative one ranks after all.
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
    """Return the sums of the ranks (rows,) of next items by the model and by two baselines."""
    rankings = {"model": model, "popular": popular, "follower": follower}
    return {
        "asked": gain_sums(model).new_tensor(float(len(model))),
        **{name: gain_sums(rank) for name, rank in rankings.items()},
    }


def next_item_metrics(sums: MetricSums) -> dict[str, float]:
    """``hit_rate_10``: share of next items among the ten likeliest. ``ndcg_10``: the same, each by 1 / log₂(place + 1).

    The baselines are always the ten most popular items (``popular_…``), and the ten that followed the last item most
    often in training (``follower_…``). ``asked``: the number of next items; without any there is the loss alone.
    """
    metrics = {"loss": float(sums["nll"]) / max(float(sums["items"]), 1.0)}
    asked = float(sums.get("asked", 0.0))
    if asked:
        for prefix in RANKINGS:
            hits, gains = (sums[prefix.removesuffix("_") or "model"] / asked).tolist()
            metrics |= {f"{prefix}hit_rate_10": hits, f"{prefix}ndcg_10": gains}
    return metrics


def next_item_tables(sums: MetricSums) -> dict[str, MetricTable]:
    """Return the figures of the model next to those of the baselines."""
    metrics = next_item_metrics(sums)
    if "hit_rate_10" not in metrics:
        return {}
    rows = [(name, metrics[f"{prefix}hit_rate_10"], metrics[f"{prefix}ndcg_10"]) for prefix, name in RANKINGS.items()]
    return {"baselines": MetricTable(("ten items", "hit rate", "NDCG"), tuple(rows))}
