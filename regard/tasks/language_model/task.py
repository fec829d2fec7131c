"""Language modeling: text in windows, cross-entropy of each next token, bits per byte."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import nn

from regard.baselines.ngrams import BUCKETS, NgramBaseline
from regard.core import atomic_files
from regard.core.baseline import FOLDER, require_wide, save_baseline
from regard.core.export_forms import CausalForm
from regard.core.task import (
    Card,
    CodecsAndSpec,
    Data,
    Metric,
    MetricSums,
    ProgressCallback,
    Report,
    RunFiles,
    Task,
)
from regard.core.wording import pluralize
from regard.data.column_names import DOCUMENTS, PROMPTS
from regard.data.document_stream import DocumentStream, open_or_prepare_documents
from regard.data.documents import read_documents
from regard.data.lanes import LaneExamples
from regard.data.packs import PackExamples
from regard.data.stream import Stream, TextConfig, open_or_prepare_stream, read_text_lines
from regard.data.tokenizers.catalog import load_tokenizer, train_tokenizer
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.windows import WindowExamples
from regard.errors import ConfigError
from regard.inference.decoding import Engine
from regard.models.head import Head
from regard.models.input import TokenInput, embedding_matrix
from regard.models.language_model import LanguageModel
from regard.models.ngram_gate import NgramGate
from regard.models.transformer.build import language_model
from regard.tasks.example_lines import prompts
from regard.tasks.held_out_samples import validated_on
from regard.tasks.language_model.baseline import fit_text_baseline, open_ngrams, open_text_baseline
from regard.tasks.language_model.config import LanguageModelConfig, TextDataConfig
from regard.tasks.language_model.engine_trials import CausalTrials
from regard.tasks.language_model.ensemble import EnsembleGenerator
from regard.tasks.language_model.generator import Generator
from regard.tasks.language_model.objective import cannot_pack, objective
from regard.tasks.language_model.outcomes import TextOutcomes
from regard.tasks.language_model.wide import WideExamples, fit_ngrams, held_out_models
from regard.tasks.row_inputs import named_column, rows_of_one_column

SUPPRESSED = -1e4  # logit with probability 0 and a finite loss, also with label smoothing


class TextCodec(NamedTuple):
    """Tokenizer of a run, and the n-grams of its wide part, if it has one."""

    tokenizer: Tokenizer
    wide: NgramBaseline | None = None


def _open(run: RunFiles) -> CodecsAndSpec:
    tokenizer = load_tokenizer(run.tokenizers, "text")
    wide = require_wide(open_ngrams(run, len(tokenizer)), run) if run.config.wide else None
    return CodecsAndSpec(TextCodec(tokenizer, wide), {"types": len(tokenizer)})


def _prepare(run: RunFiles, log: Report, progress: ProgressCallback | None = None) -> Data:
    config: LanguageModelConfig = run.config
    contents = run.contents
    if run.makes_codecs:
        tokenizer = train_tokenizer(_lines(config.data), config.data.tokenizer)
        log(f"vocabulary: {len(tokenizer):,} {config.data.tokenizer.kind} pieces")
        tokenizer.save(run.tokenizers, "text")
        atomic_files.fault_point("vocabulary")
    codecs = TextCodec(load_tokenizer(run.tokenizers, "text"))
    spec = {"types": len(codecs.tokenizer)}
    digests: dict[str, str] = {}

    def examples(name: str, texts: tuple[TextConfig, ...]) -> WindowExamples | PackExamples | LaneExamples:
        prepare = partial(_documents if config.data.packed(texts) else _stream, run, codecs.tokenizer)
        streams: Any = [
            prepare(text, f"{name}-{number}", contents or {}, log, progress) for number, text in enumerate(texts)
        ]
        digests.update({stream.folder.name: stream.content for stream in streams})
        kind: Any = PackExamples if config.data.packed(texts) else WindowExamples
        if config.data.order == "lanes":
            kind = LaneExamples
        batches: WindowExamples | PackExamples | LaneExamples = kind(
            streams, context=config.data.context, tokens=config.train.batch_tokens, seed=config.seed,
            stride=config.data.stride, computed=config.data.order == "feistel",
        )  # fmt: skip
        if not isinstance(batches, WindowExamples):
            log(f"{name}: {batches.description}")
        return batches

    valid = examples("valid", config.data.valid) if config.data.valid else None
    train = examples("train", config.data.train)
    _warn_of_documents_in_both(train, valid, log)
    if config.wide:
        codecs, train, valid = _with_ngrams(run, codecs, train, valid)
    return Data(train, valid, codecs, spec, digests, config.data.context)


def _with_ngrams(run: RunFiles, codecs: TextCodec, train: Any, valid: Any) -> tuple[TextCodec, Any, Any]:
    """Return the codecs with the wide part, which is fitted on ``train`` or opened, and examples with its evidence."""
    types = len(codecs.tokenizer)
    trains = run.contents != {}  # an evaluation accepts any contents
    if trains and not (run.path / FOLDER).exists():
        save_baseline(run.path / FOLDER, fit_ngrams(train, types), {})
    ngrams = require_wide(open_ngrams(run, types), run)
    models = held_out_models(train, ngrams) if trains else [ngrams]
    wide_valid = None if valid is None else WideExamples(valid, [ngrams])
    return codecs._replace(wide=ngrams), WideExamples(train, models), wide_valid


def _lines(data: TextDataConfig) -> Iterator[str]:
    """Yield the lines that train the tokenizer."""
    for text in data.train:
        if data.packed(data.train):
            for document in read_documents(text, data.cut):
                yield from (document.prompt + document.text).splitlines(keepends=True)
        else:
            yield from read_text_lines(text)


def _warn_of_documents_in_both(train: object, valid: object, log: Report) -> None:
    training, validation = (
        [stream for stream in getattr(part, "streams", ()) if isinstance(stream, DocumentStream)]
        for part in (train, valid)
    )
    if training and validation:
        held_out = set[bytes]().union(*(stream.digests() for stream in validation))
        both = len(set[bytes]().union(*(stream.held(held_out) for stream in training)))
        if both:
            log(f"warning: {both:,} of {pluralize(len(held_out), 'validation document')} also in the training data")


def _stream(
    run: RunFiles,
    tokenizer: Tokenizer,
    text: TextConfig,
    name: str,
    contents: Mapping[str, str],
    log: Report,
    progress: ProgressCallback | None,
) -> Stream:
    stream = open_or_prepare_stream(
        text, tokenizer, run.data / name, content=contents.get(name, ""), processes=run.config.data.processes,
        progress=progress,
    )  # fmt: skip
    size = f"{pluralize(len(stream) - 1, 'token')}, {pluralize(stream.bytes, 'byte')}"
    log(f"{stream.name}: {size} ({name.partition('-')[0]})")
    atomic_files.fault_point("corpus")
    return stream


def _documents(
    run: RunFiles,
    tokenizer: Tokenizer,
    text: TextConfig,
    name: str,
    contents: Mapping[str, str],
    log: Report,
    progress: ProgressCallback | None,
) -> DocumentStream:
    cut = run.config.data.cut
    stream = open_or_prepare_documents(
        text,
        cut,
        tokenizer,
        run.data / name,
        content=contents.get(name, ""),
        processes=run.config.data.processes,
        progress=progress,
    )
    size = f"{pluralize(len(stream), 'token')} in {pluralize(stream.documents, 'document')}"
    if bool(stream.prompts.any()):
        size += f", {pluralize(int(stream.prompts.sum()), 'prompt token')} not in the loss"
    log(f"{stream.name}: {size} ({name.partition('-')[0]})")
    atomic_files.fault_point("corpus")
    return stream


def _build(config: LanguageModelConfig, spec: Mapping[str, int]) -> LanguageModel:
    layers, types = config.model.decoder, spec["types"]
    embedding = projection = embedding_matrix(types, layers.width, std=layers.init_std)
    if config.model.share == "none":
        projection = embedding_matrix(types, layers.width, std=layers.init_std)
    built = language_model(layers, TokenInput(embedding), Head(projection, _bias(config, types)))
    if config.wide:
        built.gate = NgramGate(BUCKETS)
    if config.data.order == "lanes":
        if not built.carries:
            raise _cannot_carry(config)
    elif config.data.packed(config.data.train) and not built.packs:
        raise cannot_pack(config)
    return built


def _cannot_carry(config: LanguageModelConfig) -> ConfigError:
    kind = config.model.decoder.mixer.kind
    return ConfigError(
        f'the mixer {kind!r} does not support data.order = "lanes"',
        where="model.decoder.mixer.kind",
        why="its state grows with each token and cannot be kept between batches",
        help="--set model.mixer=segment-memory, or --set data.order=shuffled",
    )


def _bias(config: LanguageModelConfig, types: int) -> torch.Tensor | None:
    """Return the output bias: learned, or constant to suppress some types, or None."""
    if config.model.output_bias:
        return nn.Parameter(torch.zeros(types))
    never = config.model.never_predicted
    if not never:
        return None
    if max(never) >= types:
        why = f"the vocabulary has {pluralize(types, 'type')}, counted from 0"
        raise ConfigError(f"there is no type {max(never):,}", where="model.never_predicted", why=why)
    bias = torch.zeros(types)
    bias[list(never)] = SUPPRESSED
    return bias


def _compute_metrics(sums: MetricSums) -> dict[str, float]:
    """Return ``loss`` (nats per token without smoothing), ``perplexity`` (its exponential), and bits per raw size.

    The size of a text counts with its first window: without it there are no bits.

    ``nats_per_frame``, for music, is the joint −log p of all pitches of a frame and its end (and the end of the piece).
    """
    nll = float(sums["nll"])
    loss = nll / float(sums["tokens"])
    by_text = {f"bits_per_{unit[:-1]}": unit for unit in ("bytes", "characters") if float(sums.get(unit, 0))}
    bits = {name: nll / math.log(2) / float(sums[unit]) for name, unit in by_text.items()}
    frames = {"nats_per_frame": nll / max(float(sums["frames"]), 1.0)} if "frames" in sums else {}
    return {"loss": loss, "perplexity": math.exp(min(loss, 700.0)), **bits, **frames}


def _predictor(
    net: nn.Module, codecs: TextCodec, config: LanguageModelConfig, *, engine: Engine | None = None
) -> Generator:
    return Generator(
        cast(LanguageModel, net), codecs.tokenizer, config.generate, context=config.data.context, engine=engine,
        carried=config.data.order == "lanes", ngrams=codecs.wide,
        chat=config.chat,
    )  # fmt: skip


def _sample(folder: Path) -> dict[str, Any]:
    """Write a few rhyming lines."""
    text = "the cat sat on the mat\nthe rat sat on the hat\n" * 4
    (folder / "sample.txt").write_text(text, encoding="utf-8")
    parts = {"train": [0.0, 0.8], "valid": [0.8, 1.0]}
    texts = {name: [{"source": str(folder / "sample.txt"), "share": share}] for name, share in parts.items()}
    return {
        "data": {**texts, "context": 8},
        "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2, "dropout": 0.1},
        "train": {"batch_tokens": 32},
        "generate": {"length": 12},
    }


def _held_out_samples(folder: Path, sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    contents = "the cat sat on the rat\n", "striped zebras\nthat ate hats and mats\n"
    return validated_on(sample, folder, "valid.txt", contents)


def _read_prompts(config: Any, path: Path, selected: Sequence[str | int]) -> Iterator[tuple[str, str]]:
    """Yield the row name and the prompt, or the text, of each row: see ``core.task.Task.row_inputs``."""
    return rows_of_one_column(path, named_column(path, selected, (), (*PROMPTS, *DOCUMENTS)))


def _export_form(config: LanguageModelConfig) -> CausalForm:
    texts = (config.data.valid or config.data.train)[:1]
    return CausalForm(texts=lambda: (line for text in texts for line in read_text_lines(text)))


TASK = Task(
    name="language-model",
    ensemble=EnsembleGenerator,
    serves=frozenset({"generate"}),
    scores="texts",
    open=_open,
    prepare=_prepare,
    build=_build,
    small_spec={"types": 8},
    objective=objective,
    predictor=_predictor,
    compute_metrics=_compute_metrics,
    metrics={
        "perplexity": Metric(lower_is_better=True),
        "bits_per_byte": Metric(lower_is_better=True, by_predictor=True),
        "bits_per_character": Metric(lower_is_better=True, by_predictor=True),
        "nats_per_frame": Metric(lower_is_better=True),
    },
    sample=_sample,
    examples=lambda config, data: prompts(cast(Any, data.valid), data.codecs.tokenizer, config.data.context),
    held_out_samples=_held_out_samples,
    row_inputs=_read_prompts,
    engine_trials=CausalTrials,
    export_form=_export_form,
    fit_baseline=fit_text_baseline,
    open_baseline=open_text_baseline,
    outcomes=TextOutcomes,
    sample_lines=("the cat", "the rat sat", "the"),
    evaluated_as=lambda config: config.data.described,
    card=Card("text-generation", 'print(model("").text)', 'generate {run} --prompt ""'),
)
