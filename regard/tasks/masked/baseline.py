"""The baseline of a masked model, measured like its network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch

from regard.baselines.chords import ChordBaseline
from regard.baselines.gaps import Flags, GapBaseline, HiddenTokens
from regard.baselines.neighbors import MAX_TYPES, NeighborBaseline
from regard.core.baseline import FOLDER, Floats, open_saved_baseline, save_baseline
from regard.core.task import Data, Indices, MetricSums, RunFiles
from regard.data.masked_examples import MaskedExamples
from regard.data.masking import Tokens
from regard.data.tokenizers.tokenizer import END

MAX_TOKENS = 1_000_000  # that are counted, in the random order of the first epoch
HELD_OUT = 0.05  # share of the texts by which the exponents are chosen
MAX_HELD_OUT = 2000  # texts
FEW_GAPS = 1000  # if that share has fewer gaps, the exponents are chosen by those of all texts, in folds
AT_ONCE = 1 << 16  # tokens that are read together


class MaskedBaseline:
    """``core.task.TaskBaseline`` of the masked tokens that evaluation predicts."""

    def __init__(self, model: GapBaseline) -> None:
        self.model = model

    @property
    def description(self) -> str:
        return self.model.description

    def sums(self, examples: Any, indices: Indices, names: Sequence[str]) -> MetricSums:
        """See ``TaskBaseline``. Pseudo-perplexity has sums only if the model predicts all tokens of a text at once."""
        total = np.zeros(3)
        pseudo = np.zeros(2)
        for part in _parts(examples, indices[indices >= 0]):
            texts = [examples.text(index) for index in part]
            total += self._sums(HiddenTokens.of(texts, [examples.chosen(index) for index in part]))
            if self.model.alone and "pseudo_perplexity" in names:
                tokens = np.concatenate(texts)
                pseudo += self._sums(HiddenTokens(tokens, tokens > END, tokens))[:2]
        sums = dict(zip(("nll", "tokens", "correct"), total, strict=True))
        sums |= {"pseudo_nll": pseudo[0], "pseudo_tokens": pseudo[1]} if pseudo[1] else {}
        return {name: torch.tensor(value, dtype=torch.float64) for name, value in sums.items()}

    def _sums(self, tokens: HiddenTokens) -> np.ndarray:
        """Return −log P, the number of chosen tokens, and the number of right ones."""
        logs, best = self.model.predict(tokens)
        return np.array([-logs.sum(), len(logs), (best == tokens.tokens[tokens.chosen]).sum()])

    def save(self, run: RunFiles, figures: Mapping[str, float]) -> None:
        save_baseline(run.path / FOLDER, self.model, figures)


def _parts(examples: MaskedExamples, indices: Indices) -> list[list[int]]:
    """Return the examples in parts of about ``AT_ONCE`` tokens."""
    parts, size = list[list[int]](), AT_ONCE
    for index in indices.tolist():
        if size >= AT_ONCE:
            parts.append([])
            size = 0
        parts[-1].append(index)
        size += len(examples.text(index))
    return parts


def make_tables(run: RunFiles) -> GapBaseline:
    """Return the model without tables: chords for music, else neighbors."""
    return ChordBaseline() if run.config.data.tokenizer.kind == "notes" else NeighborBaseline()


def fit_masked_baseline(run: RunFiles, data: Data) -> MaskedBaseline | None:
    """Fit the baseline on the texts of the training data, unless it is the wide part, which is fitted already.

    Returns None for a vocabulary of more than ``MAX_TYPES``.
    """
    if data.codecs.wide is not None:
        return MaskedBaseline(data.codecs.wide)
    types = data.spec["types"]
    if types > MAX_TYPES:
        return None
    return MaskedBaseline(fit_tables(cast("MaskedExamples", data.train), make_tables(run), types))


def fit_tables(
    examples: MaskedExamples, model: GapBaseline, types: int, *, chosen: Flags | None = None,
    exponents: Floats | None = None,
) -> GapBaseline:  # fmt: skip
    """Fit tables on about ``MAX_TOKENS`` tokens of the training data, in the random order of the first epoch.

    Args:
        examples: training data.
        model: tables to fit, which are returned.
        types: size of the vocabulary.
        chosen: (examples,) whether an example is read; None: all are.
        exponents: see ``GapBaseline.learn``.
    """
    texts, indices, number = list[Tokens](), list[int](), 0
    for batch in examples.batches(0):
        for index in batch.index.tolist() if chosen is None else batch.index[chosen[batch.index]].tolist():
            indices.append(index)
            texts.append(examples.text(index))
            number += len(texts[-1])
        if number >= MAX_TOKENS:
            break
    hidden = [] if exponents is not None else _hidden(examples, indices)
    model.learn(texts, hidden, types, exponents=exponents)
    return model


def _hidden(examples: MaskedExamples, indices: Sequence[int]) -> list[Flags]:
    """Return the hidden positions of the first texts, or of all if these have few."""
    tried = min(int(len(indices) * HELD_OUT), MAX_HELD_OUT)
    hidden = [examples.chosen(index) for index in indices[:tried]]
    few = sum(int(chosen.sum()) for chosen in hidden) < FEW_GAPS
    return hidden + [examples.chosen(index) for index in indices[tried:]] if few else hidden


def open_masked_baseline(run: RunFiles, codecs: Any) -> MaskedBaseline | None:
    """Open the saved baseline of a run; None if the run has no baseline. Raises ModelError if it is damaged."""
    model = codecs.wide or open_tables(run, len(codecs.tokenizer))
    return None if model is None else MaskedBaseline(model)


def open_tables(run: RunFiles, types: int) -> GapBaseline | None:
    """Open the saved tables of a run; None without them. Raises ModelError if they are damaged."""

    def check(model: GapBaseline) -> None:
        if model.types != types:
            raise ValueError("the vocabulary of the baseline differs from that of the run")

    return open_saved_baseline(run.path / FOLDER, make_tables(run), check)
