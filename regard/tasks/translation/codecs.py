"""The tokenizers of a translation run: trained on its corpora, saved in its folder, and opened again."""

from __future__ import annotations

from typing import Literal, NamedTuple

from regard.core import atomic_files
from regard.core.task import CodecsAndSpec, Report, RunFiles
from regard.data.reading import Sentences
from regard.data.tokenizers.catalog import load_tokenizer, train_tokenizer
from regard.data.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from regard.data.tokenizers.white_space import report_lost_space
from regard.errors import ModelError
from regard.tasks.translation.config import DataConfig, TranslationConfig, translation_config


class Codecs(NamedTuple):
    """The tokenizers of both sides; the same object for a joint vocabulary."""

    source: Tokenizer
    target: Tokenizer


def spec_of(codecs: Codecs) -> dict[str, int]:
    """Return the sizes of both vocabularies for ``models.build``."""
    return {"source_types": len(codecs.source), "target_types": len(codecs.target)}


def make_codecs(run: RunFiles, log: Report) -> Codecs:
    """Train the tokenizers of the config on its training corpora, and save them in the run."""
    data = translation_config(run).data
    if data.joint:
        source = target = train_tokenizer(Sentences(data.train, "both"), data.tokenizer)
        log(f"joint vocabulary: {len(source):,} {data.tokenizer.kind} pieces")
    else:
        source, target = _of_side(data, "source"), _of_side(data, "target")
        kinds = source.config.kind, target.config.kind
        log(f"vocabularies: {len(source):,} {kinds[0]} and {len(target):,} {kinds[1]} pieces")
    codecs = Codecs(source, target)
    sides: tuple[Literal["source", "target"], ...] = ("source", "target")
    for side, tokenizer in zip(sides, codecs, strict=True):
        key = "data.tokenizer" if getattr(data, f"{side}_tokenizer") is None else f"data.{side}_tokenizer"
        if message := report_lost_space(tokenizer, Sentences(data.train, side), f"{side}s", key):
            log(message)
    save_codecs(run, codecs)
    atomic_files.fault_point("vocabulary")
    return codecs


def _of_side(data: DataConfig, side: Literal["source", "target"]) -> Tokenizer:
    own: TokenizerConfig | None = getattr(data, f"{side}_tokenizer")
    key = "data.tokenizer" if own is None else f"data.{side}_tokenizer"
    return train_tokenizer(Sentences(data.train, side), own or data.tokenizer, key)


def save_codecs(run: RunFiles, codecs: Codecs) -> None:
    if translation_config(run).data.joint:
        codecs.source.save(run.tokenizers, "joint")
    else:
        codecs.source.save(run.tokenizers, "source")
        codecs.target.save(run.tokenizers, "target")


def open_codecs(run: RunFiles) -> Codecs:
    """Return the saved tokenizers of a run; raise ModelError if they are missing, damaged or of another config."""
    config: TranslationConfig = translation_config(run)
    if config.data.joint:
        joint = load_tokenizer(run.tokenizers, "joint")
        return Codecs(joint, joint)
    codecs = Codecs(load_tokenizer(run.tokenizers, "source"), load_tokenizer(run.tokenizers, "target"))
    if config.model.share == "all" and len(codecs.source) != len(codecs.target):
        sizes = f"{len(codecs.source):,} and {len(codecs.target):,}"
        raise ModelError(
            "the tokenizers do not match the config of the run",
            where=str(run.tokenizers),
            why=f"model.share = all needs vocabularies of equal size; the sizes are {sizes} pieces",
            help="copy the complete run folder again",
        )
    return codecs


def open_run(run: RunFiles) -> CodecsAndSpec:
    """See ``core.task.Task.open``."""
    codecs = open_codecs(run)
    return CodecsAndSpec(codecs, spec_of(codecs))
