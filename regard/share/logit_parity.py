"""Parity of an exported language model: logits on the same tokens, pieces of the same texts, greedy continuations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from regard.attention.span import Span
from regard.core import atomic_files
from regard.core.wording import pluralize
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, UNKNOWN, Tokenizer
from regard.models.language_model import LanguageModel
from regard.runs.run_folder import environment

CLOSE = 1e-4  # most difference of a logit, times the largest of them where that is more than 1
ROWS, LONGEST = 8, 256  # rows of drawn tokens; tokens of a row at most
CONTINUED = 32  # tokens


class CausalModel(Protocol):
    """The predictor of a task whose network is a ``core.export_forms.CausalForm``."""

    model: LanguageModel
    tokenizer: Tokenizer
    context: int  # tokens that a prediction depends on


class LogitParity(NamedTuple):
    """The result of a comparison."""

    logits: int  # compared positions
    difference: float  # the most of any logit
    largest: float  # logit
    texts: int
    pieces: int  # texts that both tokenizers cut alike, and join again to what they were
    continued: int  # of these, texts that both continue alike, greedily

    @property
    def same(self) -> bool:
        """Return whether nothing differs beyond rounding."""
        return self.difference <= CLOSE * max(self.largest, 1.0) and self.pieces == self.continued == self.texts

    def __str__(self) -> str:
        warning = "" if self.same else "warning: not the same: "
        return (
            f"{warning}logits of {pluralize(self.logits, 'token')} differ by at most {self.difference:.1e}; "
            f"of {pluralize(self.texts, 'text')} "
            f"{self.pieces:,} have the same pieces, {self.continued:,} the same greedy continuation"
        )

    def write(self, folder: Path, to: str) -> None:
        """Write ``parity.json`` beside the export."""
        record: dict[str, Any] = {"format": "regard-parity", "version": 1, "to": to, "search": "greedy, float32"}
        record |= self._asdict() | {"environment": environment()}
        atomic_files.write_bytes_atomically(folder / "parity.json", (json.dumps(record, indent=2) + "\n").encode())


@torch.no_grad()
def compare_logits(
    generator: CausalModel, theirs: Any, tokenizer: Any, texts: Sequence[str], *, never: Sequence[int] = ()
) -> LogitParity:
    """Compare both models on drawn tokens and on texts.

    Args:
        generator: the model.
        theirs: the exported model, of transformers.
        tokenizer: its tokenizer.
        texts: texts to read and to continue.
        never: types that the model never predicts, whose logits do not count.
    """
    model, types = generator.model, len(generator.tokenizer)
    kept = torch.tensor([each for each in range(types) if each not in never])
    length = min(generator.context, LONGEST)
    drawn = torch.randint(types, (ROWS, length), generator=torch.Generator().manual_seed(0))
    rows = list(drawn.split(1))
    encoded = [[BEGIN, *generator.tokenizer.encode(text)] for text in texts]
    rows += [torch.tensor([each[:length]]) for each in encoded]
    difference = largest = 0.0
    for row in rows:
        features = model(row, Span.without_padding(row)).features
        own, other = model.head(features)[..., kept], theirs(row).logits[..., kept]
        difference = max(difference, float((own - other).abs().max()))
        largest = max(largest, float(own.abs().max()))
    pieces = sum(
        _same_pieces(generator.tokenizer, tokenizer, text, ids) for text, ids in zip(texts, encoded, strict=True)
    )
    continued = sum(_same_continuation(generator, theirs, ids) for ids in encoded)
    logits = sum(row.numel() for row in rows)
    return LogitParity(logits, difference, largest, len(texts), pieces, continued)


def _same_pieces(own: Tokenizer, tokenizer: Any, text: str, ids: list[int]) -> bool:
    found = list(tokenizer(text)["input_ids"])
    return bool(found == ids and tokenizer.decode(found, skip_special_tokens=True) == own.decode(ids))


def _same_continuation(generator: CausalModel, theirs: Any, ids: list[int]) -> bool:
    prompt = torch.tensor([ids[: max(generator.context // 2, 1)]])
    most = min(CONTINUED, generator.context - prompt.shape[1])
    if most < 1:
        return True
    mask = torch.ones_like(prompt)
    found: Tensor = theirs.generate(prompt, attention_mask=mask, do_sample=False, max_new_tokens=most)
    return found[0, prompt.shape[1] :].tolist() == greedy_continuation(generator, prompt, most)


def greedy_continuation(generator: CausalModel, tokens: Tensor, most: int) -> list[int]:
    """The likeliest next tokens, one after the other, up to the end symbol."""
    model, found = generator.model, list[int]()
    state = model.start(1)
    while len(found) < most and END not in found:
        log_p, state = model.step(tokens, state)
        allowed = log_p[0, -1].index_fill(0, torch.tensor([PAD, UNKNOWN, BEGIN]), -torch.inf)
        tokens = allowed.argmax().view(1, 1)
        found.append(int(tokens))
    return found
