"""Which attention of a model aligns its pieces best, by measurement, so that nobody has to guess a head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from regard.attention.observe import observe
from regard.core.atomic_files import write_json
from regard.core.untrusted_files import SMALL, read_bytes
from regard.data.corpora import Corpus
from regard.data.tokenizers.catalogue import UNKNOWN
from regard.errors import DataError, StorageError
from regard.inspection.ibm_model1 import lexical_links
from regard.runs.run_folder import RunFolder
from regard.tasks.translation.translator import Translator

__all__ = ["Aligner", "aligner_of", "choose_aligner"]

COUNTED, MEASURED = 5000, 300  # pairs that links are counted over, and those on which attentions are measured
CELLS = 2_000_000  # pairs of pieces in these: some hundred bytes each
LONGEST = 60  # pieces of a side
TOGETHER = 25  # pairs that go through the model at a time
Links = dict[int, int]


class Aligner(NamedTuple):
    """One head, or the mean of a layer's (``head`` None), and how many of the links it found.

    A target piece t is aligned by the query at row t + ``shift``: 0 is the query that predicts it, 1 the one that has
    just been fed it (Chen et al. 2020, "Shift-Att"). ``agreement`` None: nothing was measured.
    """

    attention: str
    head: int | None
    shift: int
    agreement: float | None
    links: int

    @property
    def why(self) -> str:
        """A sentence for a reader."""
        if self.agreement is None and self.head is not None:
            return "The only head there is; nothing was measured."
        if self.agreement is None:
            return "The layer before the last, all heads: where alignment is usually found; nothing was measured."
        row = " read one step late," if self.shift else ""
        return (
            f"Of all heads and means of layers,{row} this one agrees most with word links counted in the training "
            f"data: {100 * self.agreement:.0f} % of {self.links:,}."
        )

    def fits(self, heads: dict[str, int]) -> bool:
        """Is it of a model with these heads?"""
        return self.attention in heads and (self.head is None or self.head < heads[self.attention])

    def weights(self, attention: dict[str, Tensor]) -> Tensor:
        """(target, source), by which target pieces are aligned. The end of the output is aligned with nothing late."""
        heads = attention[self.attention]
        chosen = heads.mean(0) if self.head is None else heads[self.head]
        return torch.cat([chosen[self.shift :], chosen.new_zeros(self.shift, chosen.shape[1])])


class _Kept(BaseModel):
    """What ``alignment.json`` says: which weights were measured, and what was found."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    checkpoint: str
    attention: str
    head: Annotated[int, Field(ge=0)] | None
    shift: Literal[0, 1]
    agreement: Annotated[float, Field(ge=0, le=1)]
    links: Annotated[int, Field(ge=0)]


def aligner_of(run: RunFolder, translator: Translator, *, checkpoint: str | None = None) -> Aligner | None:
    """That of a run's checkpoint, measured once and kept beside it; None for a model without encoder-decoder attention.

    Weights that are others than those measured, as after more training, are measured anew.
    """
    path, weights = run.path / "alignment.json", str(run.weights_path(checkpoint))
    types = len(translator.source), len(translator.target)
    heads = _heads(translator)
    try:
        kept = _Kept.model_validate_json(read_bytes(path, SMALL))
        aligner = Aligner(**kept.model_dump(exclude={"checkpoint"}))
        if kept.checkpoint == weights and aligner.fits(heads):
            return aligner
    except (OSError, ValueError):
        pass  # not measured yet, or damaged
    found = choose_aligner(translator, *_pairs(run, *types))
    if found is not None and found.agreement is not None:
        try:
            write_json(path, found._asdict() | {"checkpoint": weights})
        except StorageError:
            pass  # who may only read the run measures each time
    return found


def _heads(translator: Translator) -> dict[str, int]:
    """How many each encoder-decoder attention has."""
    found = translator.attention([UNKNOWN], [UNKNOWN])
    return {name: len(weights) for name, weights in found.items() if name.endswith("source")}


def _pairs(
    run: RunFolder, source_types: int, target_types: int
) -> tuple[list[npt.NDArray[np.int64]], list[npt.NDArray[np.int64]]]:
    """Training pairs from all over the first corpus; none where the arrays were deleted, or are those of another."""
    try:
        corpus = Corpus.open(run.data / "train-0")
        corpus.require_types(source_types, target_types)
    except (DataError, StorageError):
        return [], []
    longer = np.maximum(corpus.source_length, corpus.target_length)
    shorter = np.minimum(corpus.source_length, corpus.target_length)
    fitting = np.flatnonzero((longer <= LONGEST) & (shorter > 0))
    spread = fitting[np.linspace(0, len(fitting) - 1, min(len(fitting), COUNTED)).astype(np.int64)]
    cells = np.cumsum((corpus.source_length[spread] * corpus.target_length[spread]).astype(np.int64))
    chosen = spread[:: int(cells[-1] // CELLS + 1)].tolist() if len(spread) else []
    read = [(corpus.source(index).astype(np.int64), corpus.target(index).astype(np.int64)) for index in chosen]
    return [source for source, _ in read], [target for _, target in read]


def choose_aligner(
    translator: Translator, sources: Sequence[npt.NDArray[np.int64]], targets: Sequence[npt.NDArray[np.int64]]
) -> Aligner | None:
    """The head or mean whose largest weights agree most with the links counted in these pairs.

    Without pairs the mean of the layer before the last, which aligns best as a rule (Garg et al. 2019, §3).
    """
    heads = _heads(translator)
    names = list(heads)
    if not names:
        return None
    fallback = names[max(len(names) - 2, 0)]
    unmeasured = Aligner(fallback, 0 if heads == {fallback: 1} else None, 0, None, 0)
    if not sources:
        return unmeasured
    every = -(-len(sources) // MEASURED)
    links = lexical_links(sources, targets)[::every]
    measured = list(zip(sources[::every], targets[::every], links, strict=True))
    hits: dict[tuple[str, int | None, int], int] = {}
    for name, weights, its in _looked(translator, measured, names):
        for shift in (0, 1):
            rows, columns = (torch.tensor([*side], dtype=torch.int64) for side in (its.keys(), its.values()))
            found = (weights[:, rows + shift].argmax(-1) == columns).sum(-1).tolist()
            for head, count in zip([*range(len(found) - 1), None], found, strict=True):
                hits[name, head, shift] = hits.get((name, head, shift), 0) + count
    total = sum(map(len, links))
    if not total:
        return unmeasured
    (name, head, shift), best = max(hits.items(), key=lambda item: item[1])
    return Aligner(name, head, shift, best / total, total)


def _looked(
    translator: Translator, pairs: Sequence[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Links]],
    names: Sequence[str],
) -> Iterator[tuple[str, Tensor, Links]]:  # fmt: skip
    """The weights (heads and their mean, target, source) of each pair, which the end symbol has no part in."""
    for at in range(0, len(pairs), TOGETHER):
        together = pairs[at : at + TOGETHER]
        with translator.observed() as model, observe(model) as seen:
            sources, targets, _ = zip(*together, strict=True)
            translator.features([each.tolist() for each in sources], [each.tolist() for each in targets], model=model)
        for row, (source, _, links) in enumerate(together):
            for name in names:
                heads = seen[name][row, :, :, : len(source)].cpu()
                yield name, torch.cat([heads, heads.mean(0, keepdim=True)]), links
