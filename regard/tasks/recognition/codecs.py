"""The codecs of a recognition run: the features of recordings, and the tokenizer of their texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from regard.core import atomic_files
from regard.core.task import CodecsAndSpec, Report, RunFiles
from regard.core.wording import pluralize
from regard.data.tokenizers.catalog import load_tokenizer, train_tokenizer
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.tasks.recognition.features import Features

NAME = "text"
SHOWN = 20  # unknown characters in a message


class SpeechCodecs(NamedTuple):
    """Features of recordings, and the tokenizer of texts."""

    features: Features
    tokenizer: Tokenizer

    @property
    def spec(self) -> dict[str, int]:
        """Sizes of the network."""
        return {"channels": self.features.channels, "types": len(self.tokenizer)}


def make_tokenizer(run: RunFiles, texts: Sequence[str], log: Report) -> Tokenizer:
    """Train the tokenizer on the training texts, and save it in the run."""
    tokenizer = train_tokenizer(texts, run.config.data.tokenizer)
    log(f"vocabulary: {len(tokenizer):,} {tokenizer.config.kind} pieces")
    tokenizer.save(run.tokenizers, NAME)
    atomic_files.fault_point("vocabulary")
    return tokenizer


def open_codecs(run: RunFiles) -> SpeechCodecs:
    """Return the saved codecs; raise ModelError if they are missing or damaged."""
    return SpeechCodecs(Features(run.config.data).open(run), load_tokenizer(run.tokenizers, NAME))


def open_run(run: RunFiles) -> CodecsAndSpec:
    """See ``core.task.Task.open``."""
    codecs = open_codecs(run)
    return CodecsAndSpec(codecs, codecs.spec)


def unknown_report(name: str, texts: Sequence[str], tokenizer: Tokenizer) -> str | None:
    """Return a line about unknown characters or words in transcripts, with the share of transcripts; None without."""
    counts = Counter[str]()
    lines = 0
    for text in texts:
        unknown = tokenizer.unknown(text)
        counts.update(unknown)
        lines += bool(unknown)
    if not lines:
        return None
    named = " ".join(sorted(counts, key=lambda unknown: (-counts[unknown], unknown))[:SHOWN])
    share = f"{lines / len(texts):.1%} of the transcripts"
    return f"{name}: {pluralize(lines, 'transcript')} ({share}) with parts that are not in the vocabulary: {named}"
