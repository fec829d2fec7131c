"""The next item at each position of a session, as a ranking of all items."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel
from torch import Tensor

from regard.answers.answer_base import AnswerBase
from regard.answers.followers import Followers
from regard.answers.named_labels import DECIMALS
from regard.answers.outcomes import item_outcomes
from regard.config.prediction_settings import RankingSettings
from regard.config.setting_models import request_model
from regard.core.answer import MAX_ALTERNATIVES, InputContext, LossAndSums
from regard.core.observation import Alternative, PredictionKind
from regard.core.outcomes import TargetOutcome
from regard.core.task import Metric, MetricSums, MetricTable, Report, RunFiles
from regard.data.rows import Column, Row
from regard.data.sessions import require_items
from regard.data.tokenizers.tokenizer import SPECIALS, UNKNOWN, Tokenizer
from regard.fields.vocabularies import item_numbers, learn_items, open_items
from regard.metrics.ranking import NEXT_ITEM_METRICS, next_item_metrics, next_item_sums, next_item_tables, ranks

if TYPE_CHECKING:
    NextItemSettings = RankingSettings
else:
    NextItemSettings = request_model(RankingSettings)

FIRST = len(SPECIALS)  # token of the first item


class Recommendation(NamedTuple):
    """The most likely next items of a session.

    Attributes:
        items: names of items, best first.
        probabilities: of these items among all items, 0 to 1.
        unknown: items of the input that the training data lacks; they are ignored.
    """

    items: tuple[str, ...]
    probabilities: tuple[float, ...]
    unknown: tuple[str, ...] = ()


class NextItem(AnswerBase):
    """A ``ContinuingAnswer``. A value is the items of a session; each is a target if it is in the training data."""

    per_position: ClassVar[bool] = True
    kind: ClassVar[PredictionKind] = "item"
    marker: ClassVar[str] = "items"
    settings: ClassVar[type[BaseModel]] = NextItemSettings
    metrics: ClassVar[Mapping[str, Metric]] = NEXT_ITEM_METRICS

    def __init__(self, columns: tuple[Column, ...], *, top_k: int = 10, new: bool = False) -> None:
        super().__init__(columns, NextItemSettings(top_k=top_k, new=new))
        self.tokenizer: Tokenizer
        self.followers = Followers()

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"types": len(self.tokenizer)}

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(self.tokenizer.pieces(range(FIRST, len(self.tokenizer))))

    @property
    def baseline(self) -> tuple[str, ...]:
        """The most popular items."""
        return tuple(self.tokenizer.pieces(self.followers.popular))

    def value(self, row: Row) -> tuple[str, ...]:
        return require_items(row.cells[self.columns[0]], row.where)

    def learn(self, run: RunFiles, values: Sequence[Any], locations: Sequence[str], log: Report, *, where: str) -> Self:
        self.tokenizer = learn_items(run, values)
        self.followers = Followers.learn(self.tokenizer.encode(" ".join(items)) for items in values)
        self.followers.save(run)
        return self

    def open(self, run: RunFiles) -> Self:
        self.tokenizer = open_items(run)
        self.followers = Followers.open(run, range(FIRST, len(self.tokenizer)))
        return self

    def targets(self, values: Sequence[tuple[str, ...]], locations: Sequence[str]) -> npt.NDArray[np.int64]:
        return np.concatenate([np.zeros(0, np.int64), *(item_numbers(self.tokenizer, items) for items in values)])

    def row_weights(self, targets: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.asarray(targets != UNKNOWN, np.float64)

    def baseline_targets(self, values: Sequence[tuple[str, ...]]) -> npt.NDArray[np.int64]:
        sessions = (item_numbers(self.tokenizer, items).tolist() for items in values)
        return np.array([pair for numbers in sessions for pair in self.followers.ranks(numbers)], np.int64)

    def compare(self, outputs: Tensor, targets: Tensor, baseline: Tensor) -> MetricSums:
        """Sum hits and gains of every item that has a predecessor; items not in the training data are misses."""
        follows = baseline[:, 0] >= 0
        rank = ranks(outputs[follows].float()[:, FIRST:], targets[follows] - FIRST)
        return next_item_sums(rank, *baseline[follows].unbind(1))

    def loss(
        self, outputs: Tensor, targets: Tensor, unit: Tensor, *, smoothing: float, evaluating: bool
    ) -> LossAndSums:
        log_p, known = outputs.log_softmax(-1), targets != UNKNOWN
        nll = -log_p.gather(1, targets[:, None])[:, 0]
        sums = {"nll": nll.detach()[known].double().sum(), self.marker: known.sum().double()}
        return LossAndSums((1 - smoothing) * nll - smoothing * log_p.mean(-1), sums)

    @staticmethod
    def compute_metrics(sums: MetricSums) -> dict[str, float]:
        return next_item_metrics(sums)

    def tables(self, sums: MetricSums) -> Mapping[str, MetricTable]:
        return next_item_tables(sums)

    def predict(self, outputs: Tensor, settings: NextItemSettings, context: InputContext) -> Recommendation:
        chosen: Any = self.defaults.model_copy(update=settings.model_dump(exclude_none=True))
        numbers = item_numbers(self.tokenizer, context.tokens)
        left_out = np.unique(numbers[numbers != UNKNOWN]) - FIRST if chosen.new else numbers[:0]
        log_p = self.log_probabilities(outputs[-1]).index_fill(0, torch.from_numpy(left_out), -torch.inf)
        names, best = self._best(log_p, min(chosen.top_k, len(log_p) - len(left_out)))
        unknown = [item for item, number in zip(context.tokens, numbers, strict=True) if number == UNKNOWN]
        return Recommendation(tuple(names), tuple(best.exp().tolist()), tuple(unknown))

    def write(self, output: Recommendation, *, json: bool) -> str:
        """Return the items with spaces between them, or an object with their probabilities."""
        fields = output._asdict() | {"probabilities": [round(p, DECIMALS) for p in output.probabilities]}
        present = {name: part for name, part in fields.items() if part or name != "unknown"}
        return jsonlib.dumps(present, ensure_ascii=False) if json else " ".join(output.items)

    def outcomes(self, outputs: Tensor, targets: Tensor) -> list[TargetOutcome]:
        return item_outcomes(self.tokenizer, FIRST, outputs, targets)

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        return outputs[..., FIRST:].log_softmax(-1)

    def alternatives(self, outputs: Tensor) -> tuple[Alternative, ...]:
        names, log_p = self._best(self.log_probabilities(outputs), MAX_ALTERNATIVES)
        return tuple(map(Alternative, names, log_p.tolist()))

    def _best(self, log_p: Tensor, count: int) -> tuple[list[str], Tensor]:
        """Return the names of the most likely items, best first, and their log-probabilities."""
        best = log_p.topk(min(count, len(log_p)))
        return self.tokenizer.pieces((best.indices + FIRST).tolist()), best.values

    def log_probability(self, outputs: Tensor, label: str) -> float:
        return float(self.log_probabilities(outputs)[item_numbers(self.tokenizer, (label,))[0] - FIRST])
