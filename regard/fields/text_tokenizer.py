"""The tokenizer of a run that reads texts: learned from its own, or come with another run's encoder."""

from __future__ import annotations

from collections.abc import Iterable

from regard.core.task import Report, RunFiles
from regard.data.tokenizers.catalog import load_tokenizer, train_tokenizer
from regard.data.tokenizers.tokenizer import Tokenizer


def make_text_tokenizer(run: RunFiles, lines: Iterable[str], say: Report) -> Tokenizer:
    """Learn the tokenizer of the config from these lines, and save it in the run, unless one came there already."""
    start, config = run.config.start, run.config.data.tokenizer
    if start is None:
        tokenizer = train_tokenizer(lines, config)
        tokenizer.save(run.tokenizers, "text")
        say(f"vocabulary: {len(tokenizer):,} {config.kind} pieces")
    else:
        tokenizer = load_tokenizer(run.tokenizers, "text")
        say(f"vocabulary: {len(tokenizer):,} {config.kind} pieces of {start.origin.run}")
    return tokenizer
