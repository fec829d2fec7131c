"""Parity of an exported encoder: logits of the same tokens, and pieces of the same texts."""

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

TOLERANCE = 1e-4  # maximum difference of a logit, relative to the largest logit if that exceeds 1
ROWS, MAX_TOKENS = 8, 256  # rows of random tokens; tokens per row


class EncoderParity(NamedTuple):
    """Result of a comparison."""

    rows: int
    difference: float  # maximum over all logits
    largest: float  # size of the largest logit
    texts: int  # that fit into the network
    pieces: int  # number of texts with equal pieces

    @property
    def same(self) -> bool:
        """Return whether all differences are within rounding."""
        return self.difference <= TOLERANCE * max(self.largest, 1.0) and self.pieces == self.texts

    def __str__(self) -> str:
        warning = "" if self.same else "warning: the export differs: "
        return (
            f"{warning}logits of {pluralize(self.rows, 'row')} differ by at most {self.difference:.1e}; "
            f"equal pieces for {self.pieces:,} of {pluralize(self.texts, 'text')}"
        )

    def write(self, folder: Path, to: str) -> None:
        """Write ``parity.json`` into the folder of the export."""
        record: dict[str, Any] = {"format": "regard-parity", "version": 1, "to": to, "search": "float32"}
        atomic_files.write_json(folder / "parity.json", record | self._asdict() | {"environment": environment()})


@torch.no_grad()
def compare_encoders(
    form: EncoderForm, net: nn.Module, codecs: Any, exported: nn.Module, reader: Any, texts: Sequence[str]
) -> EncoderParity:
    """Compare a model with its export on random rows, two of them padded, and on texts.

    Args:
        form: the form of the network.
        net: the network.
        codecs: the codecs of the task.
        exported: the model of transformers.
        reader: the tokenizer of transformers.
        texts: lines to encode with both tokenizers; lines that exceed the network's length are skipped.
    """
    head, length = HEADS[form.head], min(form.longest, MAX_TOKENS)
    factor, shift = head.scale(codecs)
    random_rows = torch.randint(4, len(codecs.tokenizer), (ROWS, length), generator=torch.Generator().manual_seed(0))
    random_rows[:, 0] = BEGIN
    valid = torch.ones_like(random_rows, dtype=torch.bool)
    valid[:2, -(length // 2) or length :] = False
    batches = [(torch.where(valid, random_rows, 0), valid)]
    encoded = [head.pieces(codecs.tokenizer, text) for text in texts]
    fitting = [(text, row) for text, row in zip(texts, encoded, strict=True) if len(row) <= form.longest]
    batches += [(row := torch.tensor([ids]), torch.ones_like(row, dtype=torch.bool)) for _, ids in fitting]
    difference = largest = 0.0
    for tokens, mask in batches:
        logits = head.logits(net, net(tokens, Span.of(mask)))
        other = exported(tokens, attention_mask=mask.long()).logits
        logits = logits * factor + shift
        if logits.dim() == 3:  # only at valid positions
            logits, other = logits[mask], other[mask]
        difference = max(difference, float((logits - other).abs().max()))
        largest = max(largest, float(logits.abs().max()))
    pieces = sum(list(head.read(reader, text)) == row for text, row in fitting)
    return EncoderParity(sum(len(tokens) for tokens, _ in batches), difference, largest, len(fitting), pieces)
