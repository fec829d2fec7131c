"""From a run folder to everything training needs: vocabularies, token arrays, a model, and a plan made once.

What is measured (the number format, how many updates fit into the minutes) or counted is written to ``plan.json``
the first time and read from there ever after, so that a resumed run is the same run. Training adds what its
clock decides.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import accumulate, count
from typing import Literal, NamedTuple

import torch
from torch import nn

from regard.attention.contract import Mechanism
from regard.core import atomic_files
from regard.core.out_of_memory import within_memory
from regard.core.reference_mode import as_textbook
from regard.core.tensors import kept_buffers
from regard.data.batches import collate, epoch_batches, pair_lengths
from regard.data.corpora import Corpora, CorpusConfig, Sentences
from regard.data.preparation import open_or_prepare
from regard.data.tokenizers.catalogue import Tokenizer, TokenizerConfig, train_tokenizer
from regard.engine.processor import bfloat16_in_hardware
from regard.errors import ConfigError, ModelError
from regard.models.build import build
from regard.models.encoder_decoder import EncoderDecoder
from regard.runs import checkpoint
from regard.runs.config import Config
from regard.runs.plan import Plan
from regard.runs.run_folder import RunFolder
from regard.runs.size_check import outline, require_fitting, require_room
from regard.training.gradients import Workers, batch_loss, gradient
from regard.training.optim import Optimizer
from regard.training.pace import fit
from regard.training.trainer import Data, batch_memory, planned_epoch, to_device

__all__ = ["TrainingInputs", "prepare", "rehearse", "remarks", "require_trainable", "set_up"]

TRIALS = 8  # updates timed per number format
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class TrainingInputs(NamedTuple):
    model: EncoderDecoder
    data: Data
    source: Tokenizer
    target: Tokenizer
    steps: int | None


def require_trainable(config: Config) -> None:
    """ConfigError for what would only show once the text is prepared: no end, a model that cannot be built. Seconds.

    TrainingError for a model that this machine has no room for.
    """
    _require_corpora(config)
    settings = config.train
    ends = (settings.steps, settings.epochs, settings.minutes, settings.tokens, settings.early_stopping)
    if all(each is None for each in ends):
        raise ConfigError(
            "this training would never end",
            where="train",
            why="it has neither steps nor epochs, minutes, tokens or early_stopping",
            help="say how long: --set train.epochs=20, train.steps=5000 or train.minutes=30",
        )
    require_room(outline(config.model, source_types=8, target_types=8))
    with torch.device("meta"):  # shapes alone: no memory, whatever the size
        _require_alone(build(config.model, source_types=8, target_types=8), config)


def _require_batches(config: Config, data: Data) -> None:
    """DataError for a pair that fits into no batch, before anything is kept that the run would have to agree with."""
    planned_epoch(config, data, 0)


def _require_corpora(config: Config) -> None:
    if not config.data.train:
        raise ConfigError(
            "there is nothing to learn from",
            where="data.train",
            why="no corpus is named; a model that was imported, or exported to be given away, has none",
            help="regard translate, score, evaluate and serve need none",
        )


def _require_alone(model: nn.Module, config: Config) -> None:
    """ConfigError where a pass over a batch changes the model, and several are to be made side by side."""
    if config.train.workers > 1 and kept_buffers(model):
        raise ConfigError(
            "this model cannot be trained by several workers at once",
            where="train.workers",
            why="what a batch leaves in it, such as BatchNorm's running statistics, would depend on who was first",
            help="--set train.workers=1",
        )


def set_up(
    run: RunFolder, *, say: Callable[[str], None], progress: Callable[[int], None] | None = None
) -> TrainingInputs:
    """Prepare or reopen all of it. ``say`` is told what was done and what was left out of the corpora."""
    config = run.config
    if config.train.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS asks for it, before its first product
    if torch.are_deterministic_algorithms_enabled() != config.train.deterministic:
        torch.use_deterministic_algorithms(config.train.deterministic)  # costs seconds: it imports the compiler
    if config.train.threads is not None:
        torch.set_num_threads(config.train.threads)
    source, target, data = prepare(run, say=say, progress=progress)
    _require_sizes(run, len(source), len(target))
    plan = run.read_plan()
    if plan is None:
        _require_batches(config, data)
        plan = _make_plan(config, data, len(source), len(target))
        run.write_plan(plan)
        for message in _about(plan):
            say(message)
    if config.train.precision == "bfloat16" and _device().type == "cpu" and not bfloat16_in_hardware():
        say("warning: this processor emulates bfloat16: train.precision = auto takes float32 on it")
    torch.set_num_threads(plan.threads)
    model = _build(config, len(source), len(target), plan.precision)
    _require_alone(model, config)
    for remark in remarks(model, data):
        say(remark)
    return TrainingInputs(model, data, source, target, plan.steps)


def rehearse(run: RunFolder, *, progress: Callable[[int], None] | None = None) -> list[str]:
    """All that comes before the first update but for what is measured; returns the remarks.

    Raises what ``set_up`` would, with ``require_trainable`` before it.
    """
    require_trainable(run.config)
    source, target, data = prepare(run, say=lambda message: None, progress=progress)
    _require_batches(run.config, data)
    with torch.device("meta"):
        model = build(run.config.model, source_types=len(source), target_types=len(target))
    return remarks(model, data)


def prepare(
    run: RunFolder, *, say: Callable[[str], None], progress: Callable[[int], None] | None = None
) -> tuple[Tokenizer, Tokenizer, Data]:
    """The vocabularies of source and target, and the corpora in their pieces, made or opened again."""
    _require_corpora(run.config)
    source, target = _tokenizers(run, say)
    plan = run.read_plan()
    return source, target, _corpora(run, source, target, plan.corpora if plan else {}, say, progress)


def remarks(model: nn.Module, data: Data) -> list[str]:
    """What is odd about the model's mechanisms over sources as long as those of ``data``; nothing is an error."""
    longest = int(data.train.source_length.max()) + 1  # the end symbol
    found = (module.remark(longest) for module in model.modules() if isinstance(module, Mechanism))
    return [f"warning: {text}" for text in dict.fromkeys(filter(None, found))]


def _about(plan: Plan) -> Iterator[str]:
    yield f"computing in {plan.precision}" + (f", {plan.steps:,} updates" if plan.steps else "")
    if plan.fit is not None and plan.steps is not None and plan.fit.warmup > max(plan.steps - 1, 1):
        yield (
            f"warning: the warm-up of {plan.fit.warmup:,} updates is not over when training ends, after "
            f"{plan.steps:,}; --set train.warmup={plan.steps // 10} makes it fit"
        )


def _require_sizes(run: RunFolder, source_types: int, target_types: int) -> None:
    """Before a model is built: there is room for it, and the newest checkpoint that can be read is of such a model."""
    types = {"source_types": source_types, "target_types": target_types}
    require_room(outline(run.config.model, **types))
    for step in reversed(checkpoint.list_steps(run.checkpoints)):
        path = checkpoint.step_path(run.checkpoints, step)
        try:
            checkpoint.shapes(path, "model")
        except ModelError:
            continue  # resuming tells of it, and goes to the one before
        require_fitting(path, run.config.model, **types)
        return


def _build(config: Config, source_types: int, target_types: int, precision: str) -> EncoderDecoder:
    torch.manual_seed(config.seed)
    with within_memory("building the model", help="lower model.width, model.feed_forward or the layers"):
        model = build(config.model, source_types=source_types, target_types=target_types)
        return model.to(device=_device(), dtype=DTYPES[precision])


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _tokenizers(run: RunFolder, say: Callable[[str], None]) -> tuple[Tokenizer, Tokenizer]:
    if run.read_plan() is not None:
        return run.load_tokenizers()
    data = run.config.data
    if data.joint:
        source = target = train_tokenizer(Sentences(data.train, "both"), data.tokenizer)
        say(f"vocabulary: {len(source):,} {data.tokenizer.kind} pieces for both sides")
    else:
        source_config: TokenizerConfig = data.source_tokenizer or data.tokenizer
        target_config: TokenizerConfig = data.target_tokenizer or data.tokenizer
        source = train_tokenizer(Sentences(data.train, "source"), source_config)
        target = train_tokenizer(Sentences(data.train, "target"), target_config)
        say(f"vocabularies: {len(source):,} {source_config.kind} and {len(target):,} {target_config.kind} pieces")
    run.save_tokenizers(source, target)
    atomic_files.at("vocabulary")
    return source, target


def _corpora(
    run: RunFolder,
    source: Tokenizer,
    target: Tokenizer,
    contents: Mapping[str, str],
    say: Callable[[str], None],
    progress: Callable[[int], None] | None,
) -> Data:
    data = run.config.data

    def prepare(name: str, corpora: tuple[CorpusConfig, ...]) -> Corpora:
        parts = []
        for number, corpus in enumerate(corpora):
            folder = run.data / f"{name}-{number}"
            content = contents.get(folder.name, "")
            part = open_or_prepare(
                corpus, source, target, folder, max_length=data.max_length, content=content, progress=progress
            )
            report = part.report
            say(f"{part.name}: {report.pairs:,} pairs")
            if report.long:
                lines = ", ".join(map(str, report.long_lines))
                say(f"{part.name}: {report.long:,} pairs over {report.max_length} pieces left out: lines {lines}")
            parts.append(part)
            atomic_files.at("corpus")
        return Corpora(parts)

    valid = prepare("valid", data.valid) if data.valid else None
    return Data(prepare("train", data.train), [corpus.weight for corpus in data.train], valid)


def _make_plan(config: Config, data: Data, source_types: int, target_types: int) -> Plan:
    settings = config.train
    formats: list[Literal["float32", "bfloat16"]] = ["float32", "bfloat16"]
    if settings.precision != "auto":
        formats = [settings.precision]
    elif settings.engine == "reference" or (_device().type == "cpu" and not bfloat16_in_hardware()):
        formats = ["float32"]  # emulated, bfloat16 is at best as quick, and loses bits
    timed = len(formats) > 1 or settings.minutes is not None
    with batch_memory("timing an update", config):
        seconds = {
            name: _time_update(config, data, source_types, target_types, name) if timed else 0.0 for name in formats
        }
    precision = min(formats, key=lambda name: seconds[name])
    others = [settings.steps] if settings.steps is not None else []
    if settings.tokens is not None:
        others.append(_updates_of(settings.tokens, config, data))
    fitting = None
    if settings.minutes is not None:
        fitting = max(int(settings.minutes * 60 / seconds[precision]), 1)
    steps = min([*others, *([fitting] if fitting is not None else [])], default=None)
    return Plan(
        precision=precision,
        steps=steps,
        threads=torch.get_num_threads(),
        seconds_per_update=seconds,
        source_types=source_types,
        target_types=target_types,
        corpora={part.folder.name: part.content for side in (data.train, data.valid) if side for part in side.parts},
        most=min(others, default=None),
        fit=fit(settings, _planned(steps, config, data)),
        decisions=None if fitting is None else [],
    )


def _planned(steps: int | None, config: Config, data: Data) -> int | None:
    """The updates of a training that nothing ends early; None where nobody knows."""
    if config.train.epochs is None:
        return steps
    by_epochs = config.train.epochs * math.ceil(len(planned_epoch(config, data, 0)) / config.train.accumulate)
    return by_epochs if steps is None else min(steps, by_epochs)


def _updates_of(tokens: int, config: Config, data: Data) -> int:
    """The first update after which ``tokens`` of the target, END included, are seen. As long as ordering each epoch."""
    seen = accumulate(_tokens_by_update(config, data))
    return next(updates for updates, total in enumerate(seen, start=1) if total >= tokens)


def _tokens_by_update(config: Config, data: Data) -> Iterator[int]:
    """Tokens of the target in each update of a training that does not end."""
    lengths, together = data.train.target_length, config.train.accumulate
    for epoch in count():
        plan = planned_epoch(config, data, epoch)
        for start in range(0, len(plan), together):
            yield sum(int(lengths[rows].sum()) + len(rows) for rows in plan[start : start + together])


def _time_update(config: Config, data: Data, source_types: int, target_types: int, precision: str) -> float:
    """Seconds of one update in a number format, on a model that is thrown away: the mean of a few, after a first."""
    model = _build(config, source_types, target_types, precision)
    optimizer, workers = Optimizer(model), Workers(config.train.workers, torch.get_num_threads())
    loss = partial(batch_loss, model, smoothing=config.train.label_smoothing)
    lengths = pair_lengths(data.train)
    plan = epoch_batches(lengths, config.train.batch_tokens, seed=config.seed, epoch=0, where=data.train.where)
    times = []
    for indices in plan[: TRIALS + 1]:
        started = time.perf_counter()
        batch = to_device(collate(data.train, indices), _device())
        with as_textbook(config.train.engine == "reference"):
            found = gradient(loss, optimizer.parameters, [batch], seed=(0,), workers=workers)
        optimizer.step(1e-6, found.values)
        times.append(time.perf_counter() - started)
    counted = times[1:] or times
    return sum(counted) / len(counted) * config.train.accumulate
