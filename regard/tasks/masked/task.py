"""Masked modeling: texts with gaps, cross-entropy and accuracy of the masked tokens, and filling of gaps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from regard.attention.span import Span
from regard.baselines.context_product import BUCKETS, CHAINS
from regard.baselines.gaps import GapBaseline
from regard.baselines.neighbors import MAX_TYPES
from regard.core import atomic_files
from regard.core.baseline import FOLDER, require_wide, save_baseline
from regard.core.codec_files import open_codec_file, save_codec_file
from regard.core.export_forms import EncoderForm
from regard.core.task import (
    Card,
    Carry,
    CodecsAndSpec,
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
from regard.data.column_names import DOCUMENTS
from regard.data.document_stream import DocumentStream, open_or_prepare_documents
from regard.data.documents import read_documents
from regard.data.masked_examples import MaskedBatch, MaskedExamples
from regard.data.masking import word_starts
from regard.data.stream import TextConfig
from regard.data.tokenizers.catalog import load_tokenizer
from regard.data.tokenizers.tokenizer import SPECIALS, Tokenizer
from regard.errors import ConfigError, DataError, ModelError
from regard.fields.vocabularies import make_text_tokenizer
from regard.models.cross_entropy import Loss
from regard.models.gap_gate import GapGate
from regard.models.masked_model import MaskedModel, build_masked_model
from regard.tasks.example_lines import gapped
from regard.tasks.held_out_samples import validated_on
from regard.tasks.masked.baseline import (
    fit_masked_baseline,
    fit_tables,
    make_tables,
    open_masked_baseline,
    open_tables,
)
from regard.tasks.masked.config import MaskedConfig, MaskedDataConfig
from regard.tasks.masked.filler import Filler
from regard.tasks.masked.outcomes import MaskedOutcomes
from regard.tasks.masked.wide import WideMaskedExamples, held_out_tables
from regard.tasks.row_inputs import named_column, rows_of_one_column

COUNTS = "counts.json"  # number of each type in the training data, for the unigram baseline


class MaskedCodec(NamedTuple):
    """Tokenizer of a run, the frequency of each type in the training data if known, and the tables of a wide part."""

    tokenizer: Tokenizer
    frequencies: Tensor | None
    wide: GapBaseline | None = None


def _open(run: RunFiles) -> CodecsAndSpec:
    codecs = _codecs(run)
    wide = require_wide(open_tables(run, len(codecs.tokenizer)), run) if run.config.wide else None
    return CodecsAndSpec(codecs._replace(wide=wide), {"types": len(codecs.tokenizer)})


def _codecs(run: RunFiles) -> MaskedCodec:
    tokenizer = load_tokenizer(run.tokenizers, "text")
    return MaskedCodec(tokenizer, _frequencies(run.tokenizers / COUNTS, len(tokenizer)))


def _frequencies(path: Path, types: int) -> Tensor | None:
    """Return the frequencies of the types with add-one smoothing; 0 for special tokens."""

    def parse(value: Any) -> npt.NDArray[np.int64]:
        counts = np.array(value, np.int64)
        if counts.shape != (types,) or (counts < 0).any():
            raise ValueError(f"expected a count for each of {pluralize(types, 'type')}")
        return counts

    if not path.is_file():
        return None
    smoothed = torch.from_numpy(open_codec_file(path, parse)).double() + 1
    smoothed[: len(SPECIALS)] = 0
    return smoothed / smoothed.sum()


def _prepare(run: RunFiles, log: Report, progress: ProgressCallback | None = None) -> Data:
    config: MaskedConfig = run.config
    if run.makes_codecs:
        make_text_tokenizer(run, _lines(config.data), log)
        atomic_files.fault_point("vocabulary")
    tokenizer = load_tokenizer(run.tokenizers, "text")
    parts = {
        part: [_documents(run, tokenizer, text, f"{part}-{number}", log, progress) for number, text in enumerate(texts)]
        for part, texts in (("valid", config.data.valid or ()), ("train", config.data.train))
    }
    if run.makes_codecs:
        counts = sum(np.bincount(stream.tokens, minlength=len(tokenizer)) for stream in parts["train"])
        save_codec_file(run.tokenizers / COUNTS, np.asarray(counts).tolist())
    examples = {part: _examples(config, streams, tokenizer) for part, streams in parts.items() if streams}
    for part, texts_of_part in examples.items():
        if not len(texts_of_part):
            where = ", ".join(stream.name for stream in texts_of_part.streams)
            raise DataError(f"there is nothing to mask ({part})", where=where, why="all tokens are unknown")
    digests = {stream.folder.name: stream.content for streams in parts.values() for stream in streams}
    codecs, train, valid = _codecs(run), examples["train"], examples.get("valid")
    if config.wide:
        codecs, train, valid = _with_tables(run, codecs, train, valid)
    return Data(train, valid, codecs, {"types": len(tokenizer)}, digests, config.data.context)


def _with_tables(run: RunFiles, codecs: MaskedCodec, train: Any, valid: Any) -> tuple[MaskedCodec, Any, Any]:
    """Return the codecs with the wide part, which is fitted on ``train`` or opened, and examples with its evidence."""
    types = len(codecs.tokenizer)
    trains = run.contents != {}  # an evaluation accepts any contents
    if trains and not (run.path / FOLDER).exists():
        if types > MAX_TYPES:
            what, why = "the vocabulary is too large for the tables of model.wide", f"it has {pluralize(types, 'type')}"
            raise ConfigError(what, where="data.tokenizer.size", why=why, help="--set model.wide=false")
        save_baseline(run.path / FOLDER, fit_tables(train, make_tables(run), types), {})
    tables = require_wide(open_tables(run, types), run)
    models = held_out_tables(train, tables, lambda: make_tables(run)) if trains else [tables]
    wide_valid = None if valid is None else WideMaskedExamples(valid, [tables])
    return codecs._replace(wide=tables), WideMaskedExamples(train, models), wide_valid


def _lines(data: MaskedDataConfig) -> Iterator[str]:
    """Yield the lines that train the tokenizer."""
    for text in data.train:
        for document in read_documents(text, data.cut):
            yield from document.text.splitlines()


def _documents(
    run: RunFiles, tokenizer: Tokenizer, text: TextConfig, name: str, log: Report, progress: ProgressCallback | None
) -> DocumentStream:
    data: MaskedDataConfig = run.config.data
    stream = open_or_prepare_documents(
        text, data.cut, tokenizer, run.data / name, content=(run.contents or {}).get(name, ""),
        processes=data.processes, progress=progress,
    )  # fmt: skip
    tokens = len(stream) - 2 * stream.documents
    size = f"{pluralize(tokens, 'token')} in {pluralize(stream.documents, 'text')}"
    if unknown := stream.unknown():
        size += f", {unknown / max(tokens, 1):.1%} unknown (never masked)"
    log(f"{stream.name}: {size} ({name.partition('-')[0]})")
    atomic_files.fault_point("corpus")
    return stream


def _examples(config: MaskedConfig, streams: list[DocumentStream], tokenizer: Tokenizer) -> MaskedExamples:
    return MaskedExamples(
        streams, config.masking, types=len(tokenizer), starts=word_starts(tokenizer), context=config.data.context,
        tokens=config.train.batch_tokens, seed=config.seed,
    )  # fmt: skip


def _build(config: MaskedConfig, spec: Mapping[str, int]) -> MaskedModel:
    built = build_masked_model(config.model, spec["types"])
    if config.wide:
        built.gate = GapGate(CHAINS, BUCKETS)
    return built


def _objective(config: MaskedConfig) -> Objective:
    """Return the cross-entropy of the masked tokens in nats and, in evaluation, the number of correct predictions."""
    smoothing = config.train.label_smoothing

    def loss(net: nn.Module, batch: MaskedBatch, carry: Carry = ()) -> LossTerms:
        model = cast(MaskedModel, net)
        features, targets = model(batch.input, Span.of(batch.valid))[batch.chosen], batch.target[batch.chosen]
        terms, scores = model.head.loss(features, targets, smoothing=smoothing), None
        if model.gate is not None:
            with torch.no_grad():
                own = model.log_probabilities(features)
            scores = model.gate(own, batch.tables, batch.buckets)
            mixed = -scores.gather(1, targets[:, None]).sum()
            terms = Loss(mixed + terms.smoothed - terms.smoothed.detach(), mixed)  # the gradients of both
        sums = {"nll": terms.nll.detach(), "tokens": batch.chosen.sum()}
        if not net.training:
            with torch.no_grad():
                scores = model.head(features) if scores is None else scores
                sums["correct"] = (scores.argmax(-1) == targets).sum()
        return LossTerms(terms.smoothed, sums)

    return loss


def _compute_metrics(sums: MetricSums) -> dict[str, float]:
    """Return ``loss`` (nats per masked token without smoothing), and ``unigram_…`` for the unigram baseline."""
    loss = float(sums["nll"]) / float(sums["tokens"])
    metrics = {"loss": loss, "perplexity": _exp(loss)}
    if "correct" in sums:
        metrics["accuracy"] = float(sums["correct"]) / float(sums["tokens"])
    if "pseudo_nll" in sums:
        metrics["pseudo_perplexity"] = _exp(float(sums["pseudo_nll"]) / float(sums["pseudo_tokens"]))
    if "unigram_nll" in sums:
        metrics["unigram_loss"] = float(sums["unigram_nll"]) / float(sums["unigram_tokens"])
        metrics["unigram_accuracy"] = float(sums["unigram_correct"]) / float(sums["unigram_tokens"])
    return metrics


def _exp(nats: float) -> float:
    return math.exp(min(nats, 700.0))


def _predictor(net: nn.Module, codecs: MaskedCodec, config: MaskedConfig, *, engine: str | None = None) -> Filler:
    if not config.model.head:
        raise ModelError(
            "this run cannot fill gaps", where="model.head",
            why="it was imported from a folder without a masked head",
            help="use it as the start of another model: --set model.encoder.from=RUN",
        )  # fmt: skip
    return Filler(
        cast(MaskedModel, net), codecs.tokenizer, config.fill, context=config.data.context,
        frequencies=codecs.frequencies, tables=codecs.wide,
    )  # fmt: skip


def _evaluated_as(config: MaskedConfig) -> dict[str, Any]:
    masking = config.masking
    return {
        "context": config.data.context, "documents": config.data.documents,
        "masked": f"{masking.share:.0%} by {masking.unit}, all read as the mask, seed {masking.seed}",
    }  # fmt: skip


def _sample(folder: Path) -> dict[str, Any]:
    """Write a few rhyming lines."""
    lines = ["the cat sat on the mat", "the rat sat on the hat", "a cat", "the bat ate a rat on the mat"] * 3
    (folder / "sample.txt").write_text(
        "".join(f"{line} {number % 2}\n" for number, line in enumerate(lines)), encoding="utf-8"
    )
    texts = {part: [{"source": str(folder / "sample.txt")}] for part in ("train", "valid")}
    return {
        "data": {**texts, "context": 8},
        "masking": {"share": 0.4},
        "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2, "dropout": 0.1},
        "train": {"batch_tokens": 32},
    }


def _held_out_samples(folder: Path, sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    contents = "the cat sat on the rat\n", "striped zebras\na hat that ate the mats\n"
    return validated_on(sample, folder, "valid.txt", contents)


def _read_texts(config: Any, path: Path, selected: Sequence[str | int]) -> Iterator[tuple[str, str]]:
    """Yield the row name and the text of each row: see ``core.task.Task.row_inputs``."""
    return rows_of_one_column(path, named_column(path, selected, (), DOCUMENTS))


def _card(config: MaskedConfig) -> Card:
    if config.data.tokenizer.kind == "notes":
        usage = 'print(model(["C3 G3 ___ C5\\nD3 G3 F4 B4\\n"])[0].text)'
        return Card("other", usage, "harmonize {run} three.mid --voice 2 -o four.mid")
    return Card(
        "fill-mask", 'print(model(["A dog ___ over the fence"])[0].text)', 'fill {run} "A dog ___ over the fence"'
    )


def _export_form(config: MaskedConfig) -> EncoderForm:
    data = config.data
    corpora = (data.valid or data.train)[:1]
    obstacles = {"its distribution is multiplied by that of tables": "model.wide=false"} if config.wide else {}
    if config.model.transform != "none":
        obstacles["it has a layer before the output (`model.transform`)"] = "model.transform=none"
    if not config.model.head:
        obstacles["it has no masked head"] = ""
    return EncoderForm(
        head="mask", longest=data.context, obstacles=obstacles,
        texts=lambda: (document.text for corpus in corpora for document in read_documents(corpus, data.cut)),
    )  # fmt: skip


TASK = Task(
    name="masked",
    open=_open,
    prepare=_prepare,
    build=_build,
    small_spec={"types": 8},
    objective=_objective,
    predictor=_predictor,
    compute_metrics=_compute_metrics,
    metrics={
        "perplexity": Metric(lower_is_better=True),
        "accuracy": Metric(lower_is_better=False, baseline="unigram_accuracy"),
        "pseudo_perplexity": Metric(lower_is_better=True, by_predictor=True, slow=True),
        "unigram_loss": Metric(lower_is_better=True, by_predictor=True),
        "unigram_accuracy": Metric(lower_is_better=False, by_predictor=True),
    },
    fit_baseline=fit_masked_baseline,
    open_baseline=open_masked_baseline,
    outcomes=MaskedOutcomes,
    sample=_sample,
    examples=lambda config, data: gapped(cast(Any, data.valid), data.codecs.tokenizer, config.fill.blank),
    held_out_samples=_held_out_samples,
    row_inputs=_read_texts,
    export_form=_export_form,
    sample_lines=("the ___ sat", "a ___ on the ___", "___"),
    evaluated_as=_evaluated_as,
    card=_card,
)
