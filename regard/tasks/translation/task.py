"""The task of translation: preparation of pairs, the loss, the predictor, and an example sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from torch import nn

from regard.attention.span import Span
from regard.core import atomic_files
from regard.core.export_forms import PairForm
from regard.core.state import State
from regard.core.task import (
    Card,
    Data,
    LossTerms,
    Metric,
    MetricSums,
    Objective,
    ProgressCallback,
    Report,
    RunFiles,
    Task,
)
from regard.core.wording import pluralize
from regard.data.column_names import TEXTS, pair_columns
from regard.data.corpus import Corpora, Corpus
from regard.data.masking import word_starts
from regard.data.pairs import PairBatch, PairExamples
from regard.data.preparation import open_or_prepare
from regard.data.reading import CorpusConfig, read_pairs
from regard.data.rows import column_names
from regard.data.tokenizers.tokenizer import SPECIALS
from regard.data.unfinished_pairs import UnfinishedPairs
from regard.inference.decoding import Engine
from regard.metrics.text import METRICS, OUTPUT_METRICS, metric_value
from regard.models.build import build
from regard.models.encoder_decoder import EncoderDecoder
from regard.tasks.held_out_samples import validated_on
from regard.tasks.row_inputs import named_column, rows_of_one_column
from regard.tasks.translation.baseline import fit_translation_baseline, open_translation_baseline
from regard.tasks.translation.baseline_choice import choose_baseline
from regard.tasks.translation.baseline_translator import open_baseline_translator
from regard.tasks.translation.codecs import Codecs, make_codecs, open_codecs, open_run, spec_of
from regard.tasks.translation.config import TranslationConfig, translation_config
from regard.tasks.translation.engine_trials import PairTrials
from regard.tasks.translation.ensemble import EnsembleTranslator
from regard.tasks.translation.evaluation import TranslationTest
from regard.tasks.translation.memory import with_memory
from regard.tasks.translation.translator import Translator

SEARCHED = 1000  # number of pairs that are searched for an example
FITTING = (6, 24)  # minimum and maximum number of pieces of an example that is easy to display
REPORTED, WARNING = 0.001, 0.05  # shares of unknown pieces above which they are reported, or cause a warning


def prepare(run: RunFiles, log: Report, progress: ProgressCallback | None = None) -> Data:
    """Prepare or open the tokenizers and corpora of a run, and log the numbers of pairs and of omitted ones."""
    config = translation_config(run)
    contents = run.contents
    codecs = make_codecs(run, log) if run.makes_codecs else open_codecs(run)
    parts: dict[str, str] = {}

    def examples(name: str, corpora: tuple[CorpusConfig, ...], **training: Any) -> PairExamples:
        opened = _corpora(run, codecs, name, corpora, contents or {}, log, progress)
        parts.update({part.folder.name: part.content for part in opened.parts})
        weights = [corpus.weight for corpus in corpora]
        return PairExamples(
            opened, weights, tokens=config.train.batch_tokens, seed=config.seed, files=corpora, **training
        )  # fmt: skip

    valid = examples("valid", config.data.valid) if config.data.valid else None
    computed = config.data.order == "feistel"
    train = examples("train", config.data.train, computed=computed, unfinished=_unfinished(config, codecs))
    longest = train.corpora.longest_source + 1  # for the end token
    return Data(train, valid, codecs, spec_of(codecs), parts, longest)


def _unfinished(config: TranslationConfig, codecs: Codecs) -> UnfinishedPairs | None:
    """Return the changes of training pairs that the config defines; None: none."""
    train = config.train
    if not train.changes_pairs:
        return None
    return UnfinishedPairs(
        train.prefixes, train.waits, config.seed, (word_starts(codecs.source), word_starts(codecs.target))
    )


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


def examples(config: TranslationConfig, data: Data) -> Iterator[str]:
    """Yield validation sources: those of a fitting length, then shorter ones, longest first."""
    assert isinstance(data.valid, PairExamples)
    source, corpora = data.codecs.source, data.valid.corpora
    for index in _by_length(corpora.source_length[:SEARCHED]):
        pieces = [int(piece) for piece in corpora.source(index)]
        known = all(len(SPECIALS) <= piece < len(source) for piece in pieces)
        if known and (text := source.decode(pieces).strip()):
            yield text


def _by_length(lengths: npt.NDArray[np.int32]) -> list[int]:
    """Return the indices of pairs of a fitting length in order, then of shorter ones, longest first."""
    minimum, maximum = FITTING
    fitting = np.flatnonzero((lengths >= minimum) & (lengths <= maximum))
    shorter = np.flatnonzero((lengths > 0) & (lengths < minimum))
    return [*fitting.tolist(), *shorter[np.argsort(-lengths[shorter], kind="stable")].tolist()]


def objective(config: TranslationConfig) -> Objective:
    """Return the loss of a batch of pairs, summed over tokens, with the label smoothing of the config."""
    smoothing = config.train.label_smoothing

    def loss(net: nn.Module, batch: PairBatch, carry: State = ()) -> LossTerms:
        model = cast(EncoderDecoder, net)
        spans = Span.of(batch.source_valid), Span.of(batch.target_valid)._replace(visible_until=batch.visible_until)
        terms = model.loss(
            batch.source, spans[0], batch.target_input, spans[1], batch.target_output, smoothing=smoothing
        )
        return LossTerms(terms.smoothed, {"nll": terms.nll.detach(), "tokens": batch.target_valid.sum()})

    return loss


def compute_metrics(sums: MetricSums) -> dict[str, float]:
    """Return the metrics that have sums: ``loss``, in nats per target token without smoothing, and of decoded text."""
    loss = {"loss": float(sums["nll"]) / float(sums["tokens"])} if "nll" in sums else {}
    return loss | {name: metric_value(name, sums[name].tolist()) for name in METRICS if name in sums}


def _build(config: TranslationConfig, spec: Mapping[str, int]) -> nn.Module:
    return build(config.model, source_types=spec["source_types"], target_types=spec["target_types"])


def _predictor(net: Any, codecs: Codecs, config: TranslationConfig, *, engine: Engine | None = None) -> Translator:
    return Translator(
        net, codecs.source, codecs.target, config.search,
        max_length=config.data.max_length, crops=config.data.crops, language=config.data.target_language, engine=engine,
        reads_unfinished=config.train.changes_pairs,
    )  # fmt: skip


def _sample(folder: Path) -> dict[str, Any]:
    """Write short sequences of letters, and the same sequences reversed."""
    words = [
        ["abcdef"[(start + step * index) % 6] for index in range(2 + start % 3)]
        for start in range(6)
        for step in (1, 5)
    ]
    lines = [" ".join(line) for line in words]
    (folder / "sample.tsv").write_text("".join(f"{line}\t{line[::-1]}\n" for line in lines), encoding="utf-8")
    corpus = {"source": str(folder / "sample.tsv")}
    return {
        "data": {"train": [corpus], "valid": [corpus], "tokenizer": {"kind": "word"}},
        "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2},
        "train": {"batch_tokens": 24},
    }


def _languages(config: TranslationConfig) -> list[str]:
    return [language for language in (config.data.source_language, config.data.target_language) if language]


def _held_out_samples(folder: Path, sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    contents = "a b c\tc b a\n", "f x e\tz z\nd\ta\nb b\tf q\n"
    return validated_on(sample, folder, "valid.tsv", contents)


def _read_sources(config: Any, path: Path, selected: Sequence[str | int]) -> Iterator[tuple[str, str]]:
    """Yield the name of each row and its source: see ``core.task.Task.row_inputs``."""
    sides = pair_columns(column_names(path))
    trained = [corpus.source_key for corpus in config.data.train] + ([] if sides is None else [sides[0]])
    return rows_of_one_column(path, named_column(path, selected, trained, TEXTS))


def _export_form(config: TranslationConfig) -> PairForm:
    corpora = (config.data.valid or config.data.train)[:1]
    return PairForm(texts=lambda: (source for corpus in corpora for _, source, _ in read_pairs(corpus)))


TASK = Task(
    name="translation",
    serves=frozenset({"translate"}),
    scores="pairs",
    reference_test=TranslationTest,
    open=open_run,
    prepare=prepare,
    build=_build,
    small_spec={"source_types": 8, "target_types": 8},
    objective=objective,
    predictor=_predictor,
    compute_metrics=compute_metrics,
    metrics={
        name: Metric(about.lower_is_better, by_predictor=True, slow=name not in OUTPUT_METRICS)
        for name, about in METRICS.items()
    },
    fit_baseline=fit_translation_baseline,
    open_baseline=open_translation_baseline,
    baseline_predictor=open_baseline_translator,
    ensemble=EnsembleTranslator,
    with_memory=with_memory,
    choose_baseline=choose_baseline,
    sample=_sample,
    held_out_samples=_held_out_samples,
    row_inputs=_read_sources,
    engine_trials=PairTrials,
    export_form=_export_form,
    sample_lines=("a b c", "f e d c", "b", ""),
    examples=examples,
    card=Card("translation", 'print(model("…").text)', "translate {run} < in.txt", _languages),
)
