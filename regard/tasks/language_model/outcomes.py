"""The outcomes of a language model: a row for each token that counts in the loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.baselines.ngrams import ContextTokens
from regard.core.outcomes import OutcomeRow, TargetOutcome
from regard.core.task import Indices, MetricSums
from regard.core.tensors import to_device
from regard.core.untrusted_files import shortened
from regard.data.document_stream import DocumentStream
from regard.data.stream import Stream
from regard.data.tokenizers.notes import FRAME_END
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.windows import TokenBatch
from regard.tasks.language_model.generator import Generator
from regard.tasks.language_model.objective import CountedTargets, counted_targets
from regard.tasks.language_model.wide import tokens_of_batch
from regard.tasks.position_outcomes import PositionOutcomes
from regard.training.carry import continued, detach_carry

BLOCK = 256  # tokens of a text that is not divided into documents
LETTERS, PIECES = 40, 10  # shown characters or pieces before a target
LOGITS = 1 << 22  # at once

Floats = npt.NDArray[np.float64]


class _Predicted(NamedTuple):
    """Predictions of targets, shape (targets,) each.

    Attributes:
        loss: −log p of the target, in nats.
        best: the most probable token.
        best_loss: −log p of this token.
    """

    loss: Floats
    best: Indices
    best_loss: Floats


class _Targets(NamedTuple):
    """Targets with their predictions, shape (targets,) each.

    Attributes:
        text: the number of the text.
        position: the position in the tokens of the text.
        length: the number of tokens that the model has read before it.
        predicted: the predictions.
    """

    text: Indices
    position: Indices
    length: Indices
    predicted: _Predicted


class TextOutcomes(PositionOutcomes):
    """``core.outcomes.Outcomes`` of a language model.

    An example is a document or, of a text without documents, a block of ``BLOCK`` tokens. The ``input`` of a row is the
    end of the text before the target. ``length`` is the number of tokens that the model has read of it.
    """

    def __init__(self, generator: Generator, examples: Any) -> None:
        """Predict all targets, as evaluation does: in its batches, with the carried state."""
        self._texts: list[Stream | DocumentStream] = list(examples.streams)
        self._tokenizer = generator.tokenizer
        sizes = [text.documents if isinstance(text, DocumentStream) else _blocks(text) for text in self._texts]
        self._first = np.cumsum([0, *sizes])  # number of the first example of each text
        rows = [row for targets in _targets(generator, examples) for row in self._rows(targets)]
        self._rows_of_text = Counter(self._text_of(row) for row in rows)
        self._sizes_known = not any(text.unknown() for text in self._texts)
        divided = {isinstance(text, DocumentStream) for text in self._texts}
        units = [name for name, kind in (("documents", True), (f"blocks of {BLOCK} tokens", False)) if kind in divided]
        super().__init__(rows, " and ".join(units), self._sums)

    def _rows(self, targets: _Targets) -> Iterator[OutcomeRow]:
        predicted = targets.predicted
        probability, target_probability = np.exp(-predicted.best_loss), np.exp(-predicted.loss)
        numbers = zip(
            targets.text.tolist(), targets.position.tolist(), targets.length.tolist(), predicted.best.tolist(),
            predicted.loss.tolist(), probability.tolist(), target_probability.tolist(), strict=True,
        )  # fmt: skip
        for number, position, length, best, loss, p, target_p in numbers:
            text = self._texts[number]
            where, example, start = text.name, position // BLOCK, 0
            if isinstance(text, DocumentStream):
                example = int(np.searchsorted(text.offsets, position, side="right")) - 1
                where, start = f"{text.name}: document {example + 1:,}", int(text.offsets[example])
            target, prediction = self._tokenizer.pieces([int(text.tokens[position]), best])
            context = _context(self._tokenizer, text.tokens[start:position])
            yield OutcomeRow(
                where, int(self._first[number]) + example + 1, position - start, None, context, length,
                TargetOutcome(target, prediction, p, target_p), loss,
            )  # fmt: skip

    def _text_of(self, row: OutcomeRow) -> int:
        return int(np.searchsorted(self._first, row.example - 1, side="right")) - 1

    def _sums(self, rows: Sequence[OutcomeRow], names: Sequence[str]) -> MetricSums:
        """Return the sizes of the texts, each divided among its tokens, and for music the number of frames.

        The sizes of texts with unknown tokens are omitted: the probability of these does not determine that of bytes.
        """
        sums: MetricSums = {}
        if self._tokenizer.config.kind == "notes":
            (end,) = self._tokenizer.pieces([FRAME_END])
            sums["frames"] = torch.tensor(sum(row.outcome.target == end for row in rows))
        counts = Counter(self._text_of(row) for row in rows)
        for unit in ("bytes", "characters") if self._sizes_known else ():
            if f"bits_per_{unit[:-1]}" in names:
                sizes = [getattr(self._texts[text], unit) * n / self._rows_of_text[text] for text, n in counts.items()]
                sums[unit] = torch.tensor(sum(sizes), dtype=torch.float64)
        return sums


def _blocks(text: Stream) -> int:
    """Return the number of blocks of a text; its last token has the position length − 1."""
    return (len(text) - 1) // BLOCK + 1


def _context(tokenizer: Tokenizer, before: npt.NDArray[Any]) -> str:
    """Return the last of these tokens as text."""
    limit = LETTERS if tokenizer.config.kind in ("character", "byte") else PIECES
    text = tokenizer.decode(before[-limit:].tolist())
    return shortened(("…" if len(before) > limit else "") + text)


@torch.no_grad()
def _targets(generator: Generator, examples: Any) -> Iterator[_Targets]:
    """Yield the targets of each batch of an evaluation."""
    carry: tuple[Tensor, ...] = ()
    for indices in examples.batches(None):
        batch: TokenBatch = examples.collate(indices)
        rows = len(batch.index)
        counted = counted_targets(generator.model, to_device(batch, generator.device), continued(carry, rows))
        carry = detach_carry(counted.carry, rows) if counted.carry else ()
        tokens, mask = tokens_of_batch(batch)
        runs = [run for index in indices.index.tolist() for run in examples.target_positions(index)]
        text = np.concatenate([np.full(len(positions), number) for number, positions in runs])[mask]
        position = np.concatenate([positions for _, positions in runs])[mask]
        length = tokens.depth[mask] + 1
        if isinstance(batch.fresh, Tensor):  # the state remembers the whole document
            length = position - _starts(examples.streams, text, position)
        yield _Targets(text, position, length, _predicted(generator, counted, tokens, np.flatnonzero(mask)))


def _starts(texts: Sequence[Stream | DocumentStream], text: Indices, position: Indices) -> Indices:
    """Return the position of the first token of the document of each target."""
    starts = np.zeros(len(text), np.int64)
    for number, stream in enumerate(texts):
        if isinstance(stream, DocumentStream):
            own = text == number
            starts[own] = stream.offsets[np.searchsorted(stream.offsets, position[own], side="right") - 1]
    return starts


def _predicted(
    generator: Generator, counted: CountedTargets, tokens: ContextTokens, counted_rows: Indices
) -> _Predicted:
    """Return the predictions of counted targets under the model, or its mixture with n-grams.

    Args:
        generator: the model and its n-grams.
        counted: the counted targets.
        tokens: all valid targets with their contexts.
        counted_rows: the counted ones among them.
    """
    model, parts = generator.model, list[tuple[Floats, ...]]()
    for rows in torch.arange(len(counted_rows)).split(max(LOGITS // len(generator.tokenizer), 1)):
        log_p = model.head.log_probabilities(counted.features[rows])
        if generator.ngrams is not None and model.gate is not None:
            recent = _recent(tokens, counted_rows[rows.numpy()], generator.ngrams.longest)
            probabilities, buckets = generator.ngrams.next_probabilities(recent)
            ngrams, bucket = (torch.from_numpy(values).to(log_p.device) for values in (np.log(probabilities), buckets))
            log_p = model.gate(log_p, ngrams.to(log_p.dtype), bucket)
        nll = -log_p.double()
        best_loss, best = nll.min(1)
        loss = nll.gather(1, counted.tokens[rows, None])[:, 0]
        parts.append(tuple(values.cpu().numpy() for values in (loss, best, best_loss)))
    return _Predicted(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def _recent(tokens: ContextTokens, counted_rows: Indices, longest: int) -> Indices:
    """Return (counted_rows, longest) the inputs before each target, the last one first; −1 before the sequence."""
    back = np.arange(longest)
    recent = tokens.inputs[np.maximum(counted_rows[:, None] - back, 0)]
    return np.where(back <= tokens.depth[counted_rows][:, None], recent, -1)
