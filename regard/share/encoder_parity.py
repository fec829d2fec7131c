"""Parity of an exported encoder: logits on the same tokens, and pieces of the same texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from regard.attention.span import Span
from regard.core import atomic_files
from regard.core.export_forms import EncoderForm
from regard.core.wording import pluralize
from regard.data.tokenizers.tokenizer import BEGIN
from regard.runs.run_folder import environment
from regard.share.encoder_head import HEADS

CLOSE = 1e-4  # most difference of a logit, times the largest of them where that is more than 1
ROWS, LONGEST = 8, 256  # rows of drawn tokens; tokens of a row at most


class EncoderParity(NamedTuple):
    """The result of a comparison."""

    rows: int
    difference: float  # the most of any logit
    largest: float  # logit
    texts: int  # of those that are read whole
    pieces: int  # texts that both tokenizers cut alike

    @property
    def same(self) -> bool:
        """Return whether nothing differs beyond rounding."""
        return self.difference <= CLOSE * max(self.largest, 1.0) and self.pieces == self.texts

    def __str__(self) -> str:
        warning = "" if self.same else "warning: not the same: "
        return (
            f"{warning}logits of {pluralize(self.rows, 'row')} differ by at most {self.difference:.1e}; "
            f"of {pluralize(self.texts, 'text')} "
            f"{self.pieces:,} have the same pieces"
        )

    def write(self, folder: Path, to: str) -> None:
        """Write ``parity.json`` beside the export."""
        record: dict[str, Any] = {"format": "regard-parity", "version": 1, "to": to, "search": "float32"}
        atomic_files.write_json(folder / "parity.json", record | self._asdict() | {"environment": environment()})


@torch.no_grad()
def compare_encoders(
    form: EncoderForm, net: nn.Module, codecs: Any, theirs: nn.Module, reader: Any, texts: Sequence[str]
) -> EncoderParity:
    """Compare both on drawn rows, two of them padded, and on texts; ``reader``: the tokenizer of transformers."""
    head, length = HEADS[form.head], min(form.longest, LONGEST)
    factor, shift = head.scale(codecs)
    drawn = torch.randint(4, len(codecs.tokenizer), (ROWS, length), generator=torch.Generator().manual_seed(0))
    drawn[:, 0] = BEGIN
    valid = torch.ones_like(drawn, dtype=torch.bool)
    valid[:2, -(length // 2) or length :] = False
    tables = [(torch.where(valid, drawn, 0), valid)]
    own = [head.pieces(codecs.tokenizer, text) for text in texts]
    read = [(text, row) for text, row in zip(texts, own, strict=True) if len(row) <= form.longest]
    tables += [(row := torch.tensor([each]), torch.ones_like(row, dtype=torch.bool)) for _, each in read]
    difference = largest = 0.0
    for tokens, there in tables:
        ours = head.logits(net, net(tokens, Span.of(there)))
        other = theirs(tokens, attention_mask=there.long()).logits
        ours = ours * factor + shift
        if ours.dim() == 3:  # of columns that are there
            ours, other = ours[there], other[there]
        difference = max(difference, float((ours - other).abs().max()))
        largest = max(largest, float(ours.abs().max()))
    pieces = sum(list(head.read(reader, text)) == row for text, row in read)
    return EncoderParity(sum(len(tokens) for tokens, _ in tables), difference, largest, len(read), pieces)
