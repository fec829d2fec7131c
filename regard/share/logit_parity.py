"""Parity of an exported language model: logits of the same tokens, pieces of the same texts, greedy continuations."""

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

TOLERANCE = 1e-4  # maximum difference of a logit, relative to the largest logit if that exceeds 1
ROWS, MAX_TOKENS = 8, 256  # rows of random tokens; tokens per row
MAX_CONTINUATION = 32  # tokens


class CausalModel(Protocol):
    """The predictor of a task whose network is a ``core.export_forms.CausalForm``."""

    model: LanguageModel
    tokenizer: Tokenizer
    context: int  # tokens that a prediction depends on


class LogitParity(NamedTuple):
    """Result of a comparison."""

    logits: int  # number of compared positions
    difference: float  # maximum over all logits
    largest: float  # size of the largest logit
    texts: int
    pieces: int  # number of texts with equal pieces that decode to the text
    continued: int  # number of texts with equal greedy continuations

    @property
    def same(self) -> bool:
        """Return whether all differences are within rounding."""
        return self.difference <= TOLERANCE * max(self.largest, 1.0) and self.pieces == self.continued == self.texts

    def __str__(self) -> str:
        warning = "" if self.same else "warning: the export differs: "
        return (
            f"{warning}logits of {pluralize(self.logits, 'token')} differ by at most {self.difference:.1e}; "
            f"equal pieces for {self.pieces:,} of {pluralize(self.texts, 'text')}, "
            f"equal greedy continuations for {self.continued:,}"
        )

    def write(self, folder: Path, to: str) -> None:
        """Write ``parity.json`` into the folder of the export."""
        record: dict[str, Any] = {"format": "regard-parity", "version": 1, "to": to, "search": "greedy, float32"}
        record |= self._asdict() | {"environment": environment()}
        atomic_files.write_bytes_atomically(folder / "parity.json", (json.dumps(record, indent=2) + "\n").encode())


@torch.no_grad()
def compare_logits(
    generator: CausalModel, exported: Any, tokenizer: Any, texts: Sequence[str], *, never: Sequence[int] = ()
) -> LogitParity:
    """Compare a model with its export on random tokens and on texts.

    Args:
        generator: the model.
        exported: the model of transformers.
        tokenizer: the tokenizer of transformers.
        texts: texts to encode and to continue.
        never: ids that the model never predicts, whose logits are not compared.
    """
    model, types = generator.model, len(generator.tokenizer)
    predicted = torch.tensor([id for id in range(types) if id not in never])
    length = min(generator.context, MAX_TOKENS)
    random_rows = torch.randint(types, (ROWS, length), generator=torch.Generator().manual_seed(0))
    rows = list(random_rows.split(1))
    encoded = [[BEGIN, *generator.tokenizer.encode(text)] for text in texts]
    rows += [torch.tensor([ids[:length]]) for ids in encoded]
    difference = largest = 0.0
    for row in rows:
        features = model(row, Span.without_padding(row)).features
        own, other = model.head(features)[..., predicted], exported(row).logits[..., predicted]
        difference = max(difference, float((own - other).abs().max()))
        largest = max(largest, float(own.abs().max()))
    pieces = sum(
        _has_same_pieces(generator.tokenizer, tokenizer, text, ids) for text, ids in zip(texts, encoded, strict=True)
    )
    continued = sum(_has_same_continuation(generator, exported, ids) for ids in encoded)
    logits = sum(row.numel() for row in rows)
    return LogitParity(logits, difference, largest, len(texts), pieces, continued)


def _has_same_pieces(own: Tokenizer, tokenizer: Any, text: str, ids: list[int]) -> bool:
    exported_ids = list(tokenizer(text)["input_ids"])
    return bool(exported_ids == ids and tokenizer.decode(exported_ids, skip_special_tokens=True) == own.decode(ids))


def _has_same_continuation(generator: CausalModel, exported: Any, ids: list[int]) -> bool:
    prompt = torch.tensor([ids[: max(generator.context // 2, 1)]])
    limit = min(MAX_CONTINUATION, generator.context - prompt.shape[1])
    if limit < 1:
        return True
    mask = torch.ones_like(prompt)
    output: Tensor = exported.generate(prompt, attention_mask=mask, do_sample=False, max_new_tokens=limit)
    return output[0, prompt.shape[1] :].tolist() == greedy_continuation(generator, prompt, limit)


def greedy_continuation(generator: CausalModel, tokens: Tensor, limit: int) -> list[int]:
    """Return the most probable next tokens, at most ``limit``, up to and including the end symbol."""
    model, output = generator.model, list[int]()
    state = model.start(1)
    while len(output) < limit and END not in output:
        log_p, state = model.step(tokens, state)
        allowed = log_p[0, -1].index_fill(0, torch.tensor([PAD, UNKNOWN, BEGIN]), -torch.inf)
        tokens = allowed.argmax().view(1, 1)
        output.append(int(tokens))
    return output
