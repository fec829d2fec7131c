"""Next items as a task: the record that training, validation and serving go by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.attention.mask import Span
from regard.core.contents import PreparedParts
from regard.core.state import State
from regard.core.task import (
    Advance,
    Card,
    Data,
    LossTerms,
    Metric,
    MetricSums,
    MetricTable,
    Objective,
    Report,
    RunFiles,
    Task,
)  # fmt: skip
from regard.core.wording import counted
from regard.data.tokenizers.tokenizer import SPECIALS
from regard.models.head import Head
from regard.models.input import TokenInput, embedding_matrix
from regard.models.language_model import LanguageModel
from regard.models.transformer.build import language_model
from regard.tasks.held_out_samples import validated_on
from regard.tasks.next_item.codecs import BEST, ItemCodec, make_codec, open_codec, open_run
from regard.tasks.next_item.config import NextItemConfig
from regard.tasks.next_item.examples import SessionBatch, SessionExamples
from regard.tasks.next_item.recommender import Recommender
from regard.tasks.next_item.sessions import read_items, read_sessions

__all__ = ["TASK"]


def _prepare(run: RunFiles, say: Report, progress: Advance | None = None) -> Data:
    config: NextItemConfig = run.config
    codec = make_codec(run, say) if run.makes_codecs else open_codec(run)
    parts = PreparedParts(run.contents, say)

    def examples(name: str) -> SessionExamples:
        found = SessionExamples(name, config, codec)
        further = len(found) - found.sessions
        cut = f", {counted(further, 'more part')} of those of over {config.data.context} items" if further else ""
        report = f"{name}: {counted(found.sessions, 'session')}{cut}"
        parts.add(name, found.digest(), report, what="sessions", where=found.where(0))
        return found

    valid = examples("valid") if config.data.valid else None
    train = examples("train")
    return Data(train, valid, codec, codec.spec, parts.contents, config.data.context)


def _build(config: NextItemConfig, spec: Mapping[str, int]) -> LanguageModel:
    layers, types = config.model.decoder, spec["types"]
    embedding = projection = embedding_matrix(types, layers.width, std=layers.init_std)
    if config.model.share == "none":
        projection = embedding_matrix(types, layers.width, std=layers.init_std)
    bias = nn.Parameter(torch.zeros(types)) if config.model.output_bias else None
    return language_model(layers, TokenInput(embedding), Head(projection, bias))


def _objective(config: NextItemConfig) -> Objective:
    """Cross-entropy of each next item, in nats; where nothing is learnt, also its place among all items."""
    smoothing = config.train.label_smoothing

    def loss(net: nn.Module, batch: SessionBatch, carry: State = ()) -> LossTerms:
        model = cast(LanguageModel, net)
        features, _, losses = model(batch.input, Span.of(batch.valid))
        found = model.head.loss(features[batch.counted], batch.target[batch.counted], smoothing=smoothing)
        sums = {"nll": found.nll.detach(), "items": batch.counted.sum()}
        if not torch.is_grad_enabled():
            asked = batch.asked
            place = _places(model.head(features[asked]), batch.target[asked])
            sums |= {"asked": asked.sum(), "model": _gains(place)}
            sums |= {"popular": _gains(batch.popular[asked]), "follower": _gains(batch.follower[asked])}
        return LossTerms(sum(losses.values(), found.smoothed), sums)

    return loss


def _places(logits: Tensor, target: Tensor) -> Tensor:
    """Rank each target among all items, 0 the first; equal logits rank in the order of the items.

    An item that training did not have ranks behind all.
    """
    items, number = logits.float()[:, len(SPECIALS) :], (target - len(SPECIALS))[:, None]
    own = items.gather(1, number.clamp_min(0))
    earlier = torch.arange(items.shape[1], device=items.device) < number
    above = (items > own) | ((items == own) & earlier)
    return torch.where(number[:, 0] < 0, items.shape[1], above.sum(1))


def _gains(place: Tensor) -> Tensor:
    """(2,): how many places are among the first ten, and the sum of their gains 1 / log₂(place + 2)."""
    best = place[place < BEST].double()
    return torch.stack([best.new_tensor(float(len(best))), (1 / torch.log2(best + 2)).sum()])


def _compute_metrics(sums: MetricSums) -> dict[str, float]:
    """``hit_rate_10``: share of next items among the ten likeliest; ``ndcg_10``: the same, each by 1/log₂(place + 1).

    Of every item of a session but its first; one that training did not have is a miss. Beside them the two figures of
    always the ten most popular items (``popular_…``), and of the ten that followed the last item most often in training
    (``follower_…``).
    """
    found = {"loss": float(sums["nll"]) / max(float(sums["items"]), 1.0)}
    asked = float(sums.get("asked", 0.0))
    if asked:
        for name, prefix in (("model", ""), ("popular", "popular_"), ("follower", "follower_")):
            hits, gains = (sums[name] / asked).tolist()
            found |= {f"{prefix}hit_rate_10": hits, f"{prefix}ndcg_10": gains}
    return found


def _tables(sums: MetricSums, codec: ItemCodec) -> dict[str, MetricTable]:
    found = _compute_metrics(sums)
    if "hit_rate_10" not in found:
        return {}
    names = {"": "this model", "follower_": "after the last item", "popular_": "most popular"}
    rows = [(told, found[f"{prefix}hit_rate_10"], found[f"{prefix}ndcg_10"]) for prefix, told in names.items()]
    return {"baselines": MetricTable(("ten items", "hit rate", "NDCG"), tuple(rows))}


def _predictor(net: Any, codecs: ItemCodec, config: NextItemConfig, *, engine: Any = None) -> Recommender:
    return Recommender(net, codecs, config)


def _sample(folder: Path) -> dict[str, Any]:
    """Walks around a ring of items, some of which turn back."""
    walks = [[f"i{(start + step * at) % 6}" for at in range(2 + start)] for start in range(6) for step in (1, 5)]
    (folder / "sample.txt").write_text("".join(" ".join(walk) + "\n" for walk in walks), encoding="utf-8")
    corpus = {"source": str(folder / "sample.txt")}
    return {
        "data": {"train": [corpus], "valid": [corpus], "context": 6},
        "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2, "dropout": 0.1},
        "train": {"batch_tokens": 24},
    }


def _held_out_samples(folder: Path, sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    return validated_on(sample, folder, "valid.txt", ("i0 i1 i2\n", "i5 i7 i3 i3\ni9 i4\n"))


_FIGURES = [f"{prefix}{name}" for prefix in ("", "follower_", "popular_") for name in ("hit_rate_10", "ndcg_10")]


def _lint_rows(data: Any, corpora: Sequence[Any]) -> Iterator[tuple[str, str | None, str]]:
    """Yield items and places: see ``core.task.Task.lint_rows``."""
    for each in read_sessions(corpora, data):
        yield " ".join(each.items), None, each.where


TASK = Task(
    name="next-item",
    unit="items",
    open=open_run,
    prepare=_prepare,
    build=_build,
    small_spec={"types": 8},
    objective=_objective,
    predictor=_predictor,
    compute_metrics=_compute_metrics,
    metrics={
        name: Metric(lower_is_better=False, baseline=f"popular_{name}" if f"popular_{name}" in _FIGURES else None)
        for name in _FIGURES
    },
    sample=_sample,
    held_out_samples=_held_out_samples,
    row_inputs=read_items,
    lint_rows=_lint_rows,
    lint_unit="item",
    sample_lines=("i0 i1", "i3", '["i2", "i1"]', ""),
    tables=_tables,
    card=Card("other", 'print(model(["…"])[0].items)', "recommend {run} < sessions.txt"),
)
