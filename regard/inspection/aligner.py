"""Choice of the attention head that aligns source and target pieces best, by agreement with counted word links.

Links are counted in parallel text by IBM Model 1 with a diagonal preference, without attention.
"""

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
from regard.data.corpus import Corpus
from regard.data.tokenizers.tokenizer import UNKNOWN
from regard.errors import DataError, StorageError
from regard.runs.run_folder import RunFolder
from regard.tasks.translation.translator import Translator

COUNTED, MEASURED = 5000, 300  # sentence pairs over which links are counted, and on which attentions are measured
CELLS = 2_000_000  # limit of piece pairs in the counted sentence pairs; each takes about 100 bytes
LONGEST = 60  # limit of pieces on a side of a counted pair
BATCH = 25  # sentence pairs passed through the model at a time
Links = dict[int, int]  # target position → source position
ROUNDS = 5  # of EM
TENSION = 4.0  # λ of the diagonal preference
Numbers = npt.NDArray[np.int64]
Pieces = Sequence[Numbers]


class Aligner(NamedTuple):
    """One head, or the mean of all heads of a layer, by which target pieces are aligned to source pieces."""

    attention: str  # name, such as decoder.3.source
    head: int | None  # None: the mean of all heads
    shift: int  # piece t is aligned by query t + shift; 0 predicts it, 1 reads it ("Shift-Att", Chen et al. 2020)
    agreement: float | None  # share of the counted links that it has; None: not measured
    links: int  # counted links

    @property
    def why(self) -> str:
        """The reason for the choice, as a sentence."""
        if self.agreement is None and self.head is not None:
            return "The only head; not measured."
        if self.agreement is None:
            return "The mean of the layer before the last, which usually aligns best; not measured."
        row = " read one step late," if self.shift else ""
        return (
            f"Of all heads and layer means,{row} this one agrees most with word links counted in the training "
            f"data: {100 * self.agreement:.0f} % of {self.links:,}."
        )

    def fits(self, heads: dict[str, int]) -> bool:
        """Return whether a model with these numbers of heads by attention has this head."""
        return self.attention in heads and (self.head is None or self.head < heads[self.attention])

    def weights(self, attention: dict[str, Tensor]) -> Tensor:
        """Return the weights (target, source) that align target pieces; with ``shift`` 1 the last row is 0."""
        heads = attention[self.attention]
        chosen = heads.mean(0) if self.head is None else heads[self.head]
        return torch.cat([chosen[self.shift :], chosen.new_zeros(self.shift, chosen.shape[1])])


class _SavedAligner(BaseModel):
    """The content of ``alignment.json``: an aligner, and the checkpoint that was measured."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    checkpoint: str
    attention: str
    head: Annotated[int, Field(ge=0)] | None
    shift: Literal[0, 1]
    agreement: Annotated[float, Field(ge=0, le=1)]
    links: Annotated[int, Field(ge=0)]


def find_aligner(run: RunFolder, translator: Translator, *, checkpoint: str | None = None) -> Aligner | None:
    """Return the aligner of a run's checkpoint, measured once and saved in the run; None without cross-attention.

    It is measured again if the weights have changed, for example after more training.
    """
    path, weights = run.path / "alignment.json", str(run.weights_path(checkpoint))
    types = len(translator.source), len(translator.target)
    heads = _heads(translator)
    try:
        saved = _SavedAligner.model_validate_json(read_bytes(path, SMALL))
        known = Aligner(**saved.model_dump(exclude={"checkpoint"}))
        if saved.checkpoint == weights and known.fits(heads):
            return known
    except (OSError, ValueError):
        pass  # not measured yet, or a damaged file
    aligner = choose_aligner(translator, *_pairs(run, *types))
    if aligner is not None and aligner.agreement is not None:
        try:
            write_json(path, aligner._asdict() | {"checkpoint": weights})
        except StorageError:
            pass  # a read-only run is measured each time
    return aligner


def _heads(translator: Translator) -> dict[str, int]:
    """Return the number of heads of each cross-attention."""
    attention = translator.attention([UNKNOWN], [UNKNOWN])
    return {name: len(weights) for name, weights in attention.items() if name.endswith("source")}


def _pairs(
    run: RunFolder, source_types: int, target_types: int
) -> tuple[list[npt.NDArray[np.int64]], list[npt.NDArray[np.int64]]]:
    """Return training pairs spread over the first corpus; none if its arrays are missing or have other vocabularies."""
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
    """Return the head, or mean of heads, whose largest weights agree most with the links counted in these pairs.

    Without pairs it is the mean of the layer before the last, which usually aligns best (Garg et al. 2019, §3).
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
    for name, weights, counted in _weights(translator, measured, names):
        for shift in (0, 1):
            rows, columns = (torch.tensor([*side], dtype=torch.int64) for side in (counted.keys(), counted.values()))
            matches = (weights[:, rows + shift].argmax(-1) == columns).sum(-1).tolist()
            for head, count in zip([*range(len(matches) - 1), None], matches, strict=True):
                hits[name, head, shift] = hits.get((name, head, shift), 0) + count
    total = sum(map(len, links))
    if not total:
        return unmeasured
    (name, head, shift), best = max(hits.items(), key=lambda item: item[1])
    return Aligner(name, head, shift, best / total, total)


def _weights(
    translator: Translator, pairs: Sequence[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Links]],
    names: Sequence[str],
) -> Iterator[tuple[str, Tensor, Links]]:  # fmt: skip
    """Yield the weights (heads and their mean, target, source without its end symbol) of each pair and attention."""
    for start in range(0, len(pairs), BATCH):
        batch = pairs[start : start + BATCH]
        with translator.observed() as model, observe(model) as seen:
            sources, targets, _ = zip(*batch, strict=True)
            translator.log_probabilities(
                [source.tolist() for source in sources], [target.tolist() for target in targets], model=model
            )
        for row, (source, _, links) in enumerate(batch):
            for name in names:
                heads = seen[name][row, :, :, : len(source)].cpu()
                yield name, torch.cat([heads, heads.mean(0, keepdim=True)]), links


class _Cells(NamedTuple):
    """All (generated, conditioning) pairs of pieces of all sentence pairs, ordered by generated piece."""

    column: Numbers  # per cell: index of the generated piece, counted over all sentence pairs
    entry: Numbers  # per cell: index into the translation table
    conditioning: Numbers  # per entry of the table: its conditioning piece
    prior: npt.NDArray[np.float64]  # per cell: the diagonal preference


def lexical_links(sources: Pieces, targets: Pieces) -> list[dict[int, int]]:
    """Return for each pair: target position → source position, if both directions of the model agree.

    p(t | s) of IBM Model 1 (Brown et al. 1993) with the diagonal preference of fast_align (Dyer et al. 2013, Eq. 2,
    λ = 4, no null word), five rounds of EM in each direction. Linked pieces are each other's most probable.
    Cost: about one microsecond for each cell, seconds for 5,000 sentences of twenty pieces.
    """
    forward, backward = _best(sources, targets), _best(targets, sources)
    return [
        {target: source for target, source in enumerate(to_source.tolist()) if to_target[source] == target}
        for to_source, to_target in zip(forward, backward, strict=True)
    ]


def _best(conditioning: Pieces, generated: Pieces) -> list[Numbers]:
    """Return for each pair the position of the most probable conditioning piece of each generated piece."""
    cells = _cells(conditioning, generated)
    table = np.ones(len(cells.conditioning))
    for _ in range(ROUNDS):
        joint = table[cells.entry] * cells.prior
        share = joint / np.bincount(cells.column, joint)[cells.column]
        counts = np.bincount(cells.entry, share, minlength=len(table))
        table = counts / np.bincount(cells.conditioning, counts)[cells.conditioning]
    joint, best, start = table[cells.entry] * cells.prior, [], 0
    for pieces, conditions in zip(generated, conditioning, strict=True):
        size = len(pieces) * len(conditions)
        best.append(joint[start : start + size].reshape(len(pieces), len(conditions)).argmax(1))
        start += size
    return best


def _cells(conditioning: Pieces, generated: Pieces) -> _Cells:
    pairs = list(zip(generated, conditioning, strict=True))
    types = max(int(side.max()) for pair in pairs for side in pair) + 1
    codes = np.concatenate([(conditions * types + pieces[:, None]).ravel() for pieces, conditions in pairs])
    widths = np.concatenate([np.full(len(pieces), len(conditions)) for pieces, conditions in pairs])
    prior = np.concatenate([_diagonal(len(pieces), len(conditions)).ravel() for pieces, conditions in pairs])
    known, entry = np.unique(codes, return_inverse=True)
    return _Cells(np.repeat(np.arange(len(widths)), widths), entry, known // types, prior)


def _diagonal(generated: int, conditioning: int) -> npt.NDArray[np.float64]:
    """Return exp(−λ |i/m − j/n|) for every pair of positions."""
    rows, columns = (np.arange(1, length + 1) / length for length in (generated, conditioning))
    return np.exp(-TENSION * np.abs(rows[:, None] - columns))
