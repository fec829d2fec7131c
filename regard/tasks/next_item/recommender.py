"""A trained model of next items at work: a session in, the likeliest next items out."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field

from regard.attention.mask import Span
from regard.attention.observe import attention_maps, observe_calls, twin
from regard.core.call_checks import require_count, require_list
from regard.core.observation import Alternative, Axis, Observation, Prediction, Site, Surface
from regard.core.predictor_interface import PredictorInterface
from regard.core.task import Indices, MetricSums, never
from regard.core.untrusted_files import json_value
from regard.data.padding import padded
from regard.data.tokenizers.tokenizer import BEGIN, SPECIALS, UNKNOWN
from regard.models.language_model import LanguageModel
from regard.tasks.next_item.codecs import ItemCodec
from regard.tasks.next_item.config import NextItemConfig

__all__ = ["Recommendation", "Recommender"]

ROWS = 64  # sessions read together
ALTERNATIVES = 10
_Session = str | Sequence[str]


class Recommendation(NamedTuple):
    """The likeliest next items, best first, and the probability of each; ``unknown`` items of the session were new."""

    items: tuple[str, ...]
    probabilities: tuple[float, ...]
    unknown: tuple[str, ...] = ()


class RecommendRequest(BaseModel):
    """Settings of recommending that a request may have."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    top_k: Annotated[int, Field(ge=1, le=1000)] | None = Field(None, description="Items that are recommended.")
    new: bool | None = Field(None, description="Only items that the session has not had.")


class Recommender:
    """A network with its items: ``regard.load("runs/shop")(["i3 i17"])[0].items``.

    Of a session the last ``data.context`` items are read; those that training did not have are left out.
    """

    reads_json = True

    def __init__(self, net: LanguageModel, codec: ItemCodec, config: NextItemConfig) -> None:
        self.net, self.codec, self.config = net.eval(), codec, config

    @torch.no_grad()
    def __call__(
        self, inputs: Sequence[_Session], *, top_k: int | None = None, new: bool | None = None
    ) -> list[Recommendation]:
        """One outcome for each session, a list of items or a text with spaces between them.

        ``top_k`` items, with ``new`` only such as the session has not had: the run's settings unless given.
        """
        require_list(inputs)
        settings = self.config.recommend
        count, new = settings.top_k if top_k is None else top_k, settings.new if new is None else new
        require_count("top_k", count)
        sessions = [_items(each) for each in inputs]
        found: list[Recommendation] = []
        for begin in range(0, len(sessions), ROWS):
            chosen = sessions[begin : begin + ROWS]
            for items, log_p in zip(chosen, self._log_probabilities(chosen), strict=True):
                found.append(self._best(items, log_p, count, new=new))
        return found

    @property
    def interface(self) -> PredictorInterface:
        """Settings of a request: for servers."""

        def predict(session: _Session, asked: Any, interrupted: Callable[[], bool]) -> Recommendation:
            found: Recommendation = self([session], top_k=asked.top_k, new=asked.new)[0]
            return found

        own = RecommendRequest(**self.config.recommend.model_dump())
        takes = "items with spaces between them, or a JSON list of items"
        return PredictorInterface(takes, "the likeliest next items, and their probabilities", own, predict)

    def _log_probabilities(self, sessions: Sequence[Sequence[str]]) -> torch.Tensor:
        """(sessions, items): of the item after each session, among all items."""
        rows = [self._read(items) for items in sessions]
        tokens, valid = (each.to(self.net.head.weight.device) for each in padded(rows))
        features = self.net(tokens, Span.of(valid)).features
        last = features[torch.arange(len(rows)), valid.sum(1) - 1]
        return self.net.head(last).double()[:, len(SPECIALS) :].log_softmax(-1).cpu()

    def _read(self, items: Sequence[str]) -> Any:
        """BEGIN and the known items; where they are more than the context, the last ones without BEGIN."""
        known = [number for number in self.codec.numbers(items).tolist() if number != UNKNOWN]
        return np.array([BEGIN, *known][-self.config.data.context :], np.int64)

    def _best(self, items: Sequence[str], log_p: torch.Tensor, count: int, *, new: bool) -> Recommendation:
        numbers = self.codec.numbers(items).tolist()
        had = sorted({number - len(SPECIALS) for number in numbers if number != UNKNOWN}) if new else []
        scores = log_p.index_fill(0, torch.tensor(had, dtype=torch.int64), -torch.inf)
        value, place = scores.topk(min(count, len(log_p) - len(had)))
        names = self.codec.tokenizer.pieces([number + len(SPECIALS) for number in place.tolist()])
        unknown = tuple(item for item, number in zip(items, numbers, strict=True) if number == UNKNOWN)
        return Recommendation(tuple(names), tuple(value.exp().tolist()), unknown)

    def read(self, line: str) -> tuple[str, ...]:
        """Items with spaces between them, a JSON list of items, or an object with one, as training reads it."""
        found: Any = json_value(line)
        if found is None:
            return tuple(line.split())
        if isinstance(found, dict):
            found = found.get(self.config.data.items)
        known = isinstance(found, list) and all(isinstance(each, str | int) for each in found)
        if not known or not all(len(str(each).split()) == 1 for each in found):
            raise ValueError("a session is items with spaces between them, or a JSON list of items")
        return tuple(map(str, found))

    def cost(self, items: Sequence[str]) -> int:
        """Return how many numbers one layer holds at once for a session (``core.predictor_interface.input_cost``)."""
        return min(len(items) + 1, self.config.data.context) ** 2

    def write(self, output: Recommendation, *, json: bool) -> str:
        """The items with spaces between them, or an object with their probabilities."""
        if not json:
            return " ".join(output.items)
        told: dict[str, Any] = {"items": output.items, "probabilities": [round(p, 6) for p in output.probabilities]}
        return jsonlib.dumps(told | ({"unknown": output.unknown} if output.unknown else {}), ensure_ascii=False)

    def measure(
        self, examples: Any, indices: Indices, names: Sequence[str], interrupted: Callable[[], bool] = never
    ) -> MetricSums:
        """No sums: every figure comes from the objective."""
        return {}

    @torch.no_grad()
    def inspect(self, session: _Session) -> Observation:
        """Attention over the items of a session, and the likeliest next item after each of them."""
        items = _items(session)
        read = self._read(items)
        tokens = torch.from_numpy(read)[None].to(self.net.head.weight.device)
        shared = twin(self.net)  # hooks on the model itself would be seen by whoever asks meanwhile
        with observe_calls(shared) as calls:
            features = shared(tokens, Span.without_padding(tokens)).features
            log_p = shared.head(features)[0].double()[:, len(SPECIALS) :].log_softmax(-1).cpu()
        labels = tuple(self.codec.tokenizer.pieces(read.tolist()))
        maps = attention_maps(calls, Axis("item", labels), Axis("item attended to", labels), side="decoder")
        known, numbers = labels[1:], read.tolist()[1:]
        predictions = [
            Prediction(Site("after", (place,)), "item", name, float(row[number - len(SPECIALS)]), self._likely(row))
            for place, (name, number, row) in enumerate(zip(known, numbers, log_p, strict=False), start=-1)
        ]
        predictions.append(Prediction.best(Site("after", (len(known) - 1,)), "item", self._likely(log_p[-1])))
        return Observation((Surface("items", known, separator=" "),), tuple(predictions), maps)

    def _likely(self, log_p: torch.Tensor) -> tuple[Alternative, ...]:
        value, place = log_p.topk(min(ALTERNATIVES, len(log_p)))
        names = self.codec.tokenizer.pieces([each + len(SPECIALS) for each in place.tolist()])
        return tuple(Alternative(name, one) for name, one in zip(names, value.tolist(), strict=True))


def _items(session: _Session) -> tuple[str, ...]:
    return tuple(session.split()) if isinstance(session, str) else tuple(session)
