"""Preparation of the corpora of a translation run: pairs of token ids, written once and opened again."""

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

REPORTED, WARNING = 0.001, 0.05  # shares of unknown pieces above which they are reported, or cause a warning


def prepare(run: RunFiles, log: Report, progress: ProgressCallback | None = None) -> Data:
    """Prepare or open the tokenizers and corpora of a run, and log the numbers of pairs and of omitted ones."""
    config = translation_config(run)
    contents = run.contents
    codecs = make_codecs(run, log) if run.makes_codecs else open_codecs(run)
    parts: dict[str, str] = {}

    def examples(name: str, corpora: tuple[CorpusConfig, ...], *, computed: bool = False) -> PairExamples:
        opened = _corpora(run, codecs, name, corpora, contents or {}, log, progress)
        parts.update({part.folder.name: part.content for part in opened.parts})
        weights = [corpus.weight for corpus in corpora]
        return PairExamples(
            opened, weights, tokens=config.train.batch_tokens, seed=config.seed, files=corpora, computed=computed
        )  # fmt: skip

    valid = examples("valid", config.data.valid) if config.data.valid else None
    train = examples("train", config.data.train, computed=config.data.order == "feistel")
    longest = train.corpora.longest_source + 1  # for the end token
    return Data(train, valid, codecs, spec_of(codecs), parts, longest)


def _corpora(
    run: RunFiles,
    codecs: Codecs,
    name: str,
    corpora: tuple[CorpusConfig, ...],
    contents: Mapping[str, str],
    log: Report,
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
        log(f"{part.name}: {pluralize(report.pairs, 'pair')} ({name})")
        if report.long:
            lines = ", ".join(map(str if part.files is None else part.place, report.long_lines))
            omitted = f"{pluralize(report.long, 'pair')} longer than {pluralize(report.max_length, 'piece')} left out"
            log(f"{part.name}: {omitted}: lines {lines}")
        if report.cropped:
            log(f"{part.name}: {pluralize(report.cropped, 'long source')} truncated to {report.max_length} pieces")
        _report_unknown(part, log)
        parts.append(part)
        atomic_files.fault_point("corpus")
    return Corpora(parts)


def _report_unknown(part: Corpus, log: Report) -> None:
    for side, share in part.unknown_shares.items():
        message = f"{part.name}: {share:.1%} of the {side} pieces are not in the vocabulary"
        if share >= WARNING:
            remedy = "increase data.tokenizer.size, or use data.tokenizer.kind = byte-bpe, which has no unknown pieces"
            log(f"warning: {message}; {remedy}")
        elif share >= REPORTED:
            log(message)
