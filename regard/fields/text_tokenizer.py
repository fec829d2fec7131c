"""The tokenizer of a run that reads texts: trained on its data, or inherited from another run."""

from __future__ import annotations

from collections.abc import Iterable

from regard.core.task import Report, RunFiles
from regard.data.tokenizers.catalog import load_tokenizer, train_tokenizer
from regard.data.tokenizers.tokenizer import Tokenizer


def make_text_tokenizer(run: RunFiles, lines: Iterable[str], log: Report) -> Tokenizer:
    """Train the tokenizer of the config on these lines and save it, or load the inherited one."""
    start, config = run.config.start, run.config.data.tokenizer
    if start is None:
        tokenizer = train_tokenizer(lines, config)
        tokenizer.save(run.tokenizers, "text")
        log(f"vocabulary: {len(tokenizer):,} {config.kind} pieces")
    else:
        tokenizer = load_tokenizer(run.tokenizers, "text")
        log(f"vocabulary: {len(tokenizer):,} {config.kind} pieces of {start.origin.run}")
    return tokenizer
