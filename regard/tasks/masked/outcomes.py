"""The outcomes of a masked model: a row for each position that evaluation hides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.span import Span
from regard.core.outcomes import OutcomeRow, TargetOutcome
from regard.core.task import Indices, MetricSums
from regard.core.tensors import to_device
from regard.core.untrusted_files import shortened
from regard.data.masked_examples import MaskedBatch
from regard.data.masking import Flags, Tokens
from regard.models.masked_model import MaskedModel
from regard.tasks.masked.filler import Filler
from regard.tasks.position_outcomes import PositionOutcomes

AROUND = {"character": 20, "byte": 20}  # tokens on either side of a gap, by tokenizer
PIECES = 5  # of other tokenizers


class MaskedOutcomes(PositionOutcomes):
    """``core.outcomes.Outcomes`` of a masked model. An example is a document, whose pieces are read one by one.

    The ``input`` of a row are the tokens around the gap, with a blank for each hidden one. ``length`` is the number of
    tokens of the piece without BEGIN and END.
    """

    def __init__(self, filler: Filler, examples: Any) -> None:
        """Predict all hidden positions, as evaluation does."""
        self._filler, self._examples = filler, examples
        pieces = [examples.place(index) for index in range(len(examples))]
        numbers = {document: n for n, document in enumerate(sorted({place[:2] for place in pieces}), start=1)}
        self._document = np.array([numbers[place[:2]] for place in pieces], np.int64)  # of each piece
        self._first = [place[2] for place in pieces]
        super().__init__([*self._rows()], "documents", self._sums)

    @torch.no_grad()
    def _rows(self) -> Iterator[OutcomeRow]:
        for indices in self._examples.batches(None):
            batch: MaskedBatch = self._examples.collate(indices)
            targets, best, nll = _predicted(self._filler.model, to_device(batch, self._filler.device))
            numbers = zip(targets.tolist(), best.tolist(), nll.tolist(), strict=True)
            for row, index in enumerate(batch.index.tolist()):
                text, hidden = self._examples.text(index), batch.chosen[row].numpy()
                for place in np.flatnonzero(hidden).tolist():
                    target, prediction, (best_loss, loss) = next(numbers)
                    outcome = TargetOutcome(
                        self._name(target), self._name(prediction), float(np.exp(-best_loss)), float(np.exp(-loss))
                    )
                    yield OutcomeRow(
                        self._examples.where(index), int(self._document[index]), self._first[index] + place - 1, None,
                        self._around(text, hidden, place), len(text) - 2, outcome, loss,
                    )  # fmt: skip

    def _name(self, token: int) -> str:
        filler = self._filler
        return filler.settings.blank if token == filler.mask else filler.tokenizer.pieces([token])[0]

    def _around(self, text: Tokens, hidden: Flags, place: int) -> str:
        """Return the tokens around a position as text, with blanks for hidden ones."""
        tokenizer, blank = self._filler.tokenizer, self._filler.settings.blank
        kind = tokenizer.config.kind
        reach = AROUND.get(kind, PIECES)
        first, end = max(place - reach, 1), min(place + reach + 1, len(text) - 1)
        parts, visible = list[str](), list[int]()
        for position in range(first, end + 1):
            if position < end and not hidden[position]:
                visible.append(int(text[position]))
                continue
            if visible:
                parts.append(" ".join(tokenizer.pieces(visible)) if kind == "notes" else tokenizer.decode(visible))
            parts += [blank] * (position < end)
            visible = []
        joined = "".join(parts) if kind in AROUND else " ".join(part.strip() for part in parts)
        return shortened(("…" if first > 1 else "") + joined + ("…" if end < len(text) - 1 else ""))

    def _sums(self, rows: Sequence[OutcomeRow], names: Sequence[str]) -> MetricSums:
        """Return the number of correct predictions, and the sums of the predictor."""
        pieces: Indices = np.flatnonzero(np.isin(self._document, [*{row.example for row in rows}]))
        correct = torch.tensor(sum(row.is_right for row in rows))
        return {"correct": correct} | self._filler.measure(self._examples, pieces, names)


def _predicted(model: MaskedModel, batch: MaskedBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Return the tokens at the hidden positions, the most probable ones, and (positions, 2) −log p of these and those.

    With a wide part, the distribution is the product with that of its tables.
    """
    features, targets = model(batch.input, Span.of(batch.valid))[batch.chosen], batch.target[batch.chosen]
    log_p = model.log_probabilities(features)
    if model.gate is not None:
        log_p = model.gate(log_p, batch.tables, batch.buckets)
    best_loss, best = (-log_p.double()).min(1)
    loss = -log_p.double().gather(1, targets[:, None])[:, 0]
    return targets.cpu(), best.cpu(), torch.stack([best_loss, loss], 1).cpu()
