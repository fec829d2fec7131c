"""From the corpora of a translation run to pairs of token numbers, made once and opened again."""

from __future__ import annotations

from collections.abc import Mapping

from regard.core import atomic_files
from regard.core.task import Data, ProgressCallback, Report, RunFiles
from regard.core.wording import pluralize
from regard.data.corpus import Corpora, Corpus
from regard.data.pairs import PairExamples
from regard.data.preparation import open_or_prepare
from regard.data.reading import CorpusConfig
from regard.tasks.translation.codecs import Codecs, make_codecs, open_codecs, spec_of
from regard.tasks.translation.config import translation_config

TOLD, MANY = 0.001, 0.05  # shares of unknown pieces from which on they are told, and warned of


def prepare(run: RunFiles, say: Report, progress: ProgressCallback | None = None) -> Data:
    """The vocabularies and corpora of a run, made or opened again; ``say`` is told what was done and left out."""
    config = translation_config(run)
    contents = run.contents
    codecs = make_codecs(run, say) if run.makes_codecs else open_codecs(run)
    parts: dict[str, str] = {}

    def examples(name: str, corpora: tuple[CorpusConfig, ...], *, computed: bool = False) -> PairExamples:
        opened = _corpora(run, codecs, name, corpora, contents or {}, say, progress)
        parts.update({part.folder.name: part.content for part in opened.parts})
        weights = [corpus.weight for corpus in corpora]
        return PairExamples(
            opened, weights, tokens=config.train.batch_tokens, seed=config.seed, files=corpora, computed=computed
        )  # fmt: skip

    valid = examples("valid", config.data.valid) if config.data.valid else None
    train = examples("train", config.data.train, computed=config.data.order == "feistel")
    longest = train.corpora.longest_source + 1  # the end symbol
    return Data(train, valid, codecs, spec_of(codecs), parts, longest)


def _corpora(
    run: RunFiles,
    codecs: Codecs,
    name: str,
    corpora: tuple[CorpusConfig, ...],
    contents: Mapping[str, str],
    say: Report,
    progress: ProgressCallback | None,
) -> Corpora:
    data, parts = translation_config(run).data, []
    for number, corpus in enumerate(corpora):
        folder = run.data / f"{name}-{number}"
        part = open_or_prepare(
            corpus, codecs.source, codecs.target, folder, max_length=data.max_length, crop=data.crops,
            content=contents.get(folder.name, ""), processes=data.processes, progress=progress,
        )  # fmt: skip
        report = part.report
        say(f"{part.name}: {pluralize(report.pairs, 'pair')} ({name})")
        if report.long:
            lines = ", ".join(map(str if part.files is None else part.place, report.long_lines))
            told = f"{pluralize(report.long, 'pair')} over {pluralize(report.max_length, 'piece')} left out"
            say(f"{part.name}: {told}: lines {lines}")
        if report.cropped:
            say(
                f"{part.name}: of {pluralize(report.cropped, 'long source')} the first "
                f"{report.max_length} pieces are read"
            )
        _tell_unknown(part, say)
        parts.append(part)
        atomic_files.fault_point("corpus")
    return Corpora(parts)


def _tell_unknown(part: Corpus, say: Report) -> None:
    for side, share in part.unknown_shares.items():
        told = f"{part.name}: {share:.1%} of the pieces of the {side} are unknown to its vocabulary"
        if share >= MANY:
            say(f"warning: {told}; a larger data.tokenizer.size knows more, data.tokenizer.kind = byte-bpe all")
        elif share >= TOLD:
            say(told)
