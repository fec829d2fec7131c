"""Decoding while training validates: what is counted, over which examples, by which settings; and when it is told."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch

from regard.core.task import Data, find_task
from regard.core.tensors import added_sums
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import ConfigError, DataError, ModelError
from regard.inference.results import Candidate, Translation
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.tasks.translation.measure import _references
from regard.tasks.translation.translator import Translator
from regard.testing import TaskCase
from regard.training import validation
from regard.training.optim import Optimizer
from regard.training.shards import Shards, Workers
from regard.training.strategy import Trainable
from regard.training.validation import Validator, predictor_sums

PAIRS = [("a", "x"), ("b", "B"), ("a", "A"), ("c d", "C E"), ("a", "A"), ("d c b", "D C B"), ("e", "@@ E")]


def embedded() -> Shards:
    return Shards(2, Workers(1, 1))


def data_of(folder: Path, **changes: Any) -> tuple[RunFolder, Data]:
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS), encoding="utf-8")
    corpus = {"source": str(folder / "pairs.tsv")}
    data = {"train": [corpus], "valid": [corpus], "tokenizer": {"kind": "word"}, **changes.pop("data", {})}
    model = {"layers": 1, "width": 4, "heads": 1}
    train = {"best_by": "bleu", "steps": 1, "batch_tokens": 4}
    run = RunFolder.create(folder / "run", load_config({"data": data, "model": model, "train": train, **changes}))
    return run, run.task.prepare(run, lambda message: None, None)


class Upper(Translator):
    """In the place of a translator: says everything in capitals, and remembers what it was asked."""

    def __init__(self, right: Translator) -> None:
        self.__dict__ |= right.__dict__
        self.asked: list[tuple[list[str], Any]] = []

    def translate(self, lines: Sequence[str], *, search: Any = None, **options: Any) -> list[Translation]:
        self.asked.append((list(lines), search))
        return [Translation(line, [Candidate(line.upper(), 0.0, 0.0, [], [], True)], dict) for line in lines]


@pytest.fixture
def prepared(tmp_path: Path) -> tuple[Upper, Data, Any]:
    search = {"max_extra": 3, "max_length": 9, "batch_sentences": 7, "beam": 5, "nbest": 2, "temperature": 1.0}
    run, data = data_of(tmp_path, search=search)
    net = run.task.build(run.config, data.spec)
    return Upper(run.task.predictor(net, data.codecs, run.config)), data, run.task  # type: ignore[arg-type]


def figures(prepared: tuple[Upper, Data, Any], names: Sequence[str]) -> dict[str, float]:
    predictor, data, task = prepared
    assert data.valid is not None
    sums = predictor_sums(predictor, data.valid, names, embedded())
    assert sums is not None
    return task.compute_metrics({"nll": torch.tensor(1.0), "tokens": torch.tensor(1.0)} | sums)


def test_figures_over_batches_are_those_of_the_whole(
    prepared: tuple[Upper, Data, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "TOGETHER", 1)
    found = figures(prepared, ["bleu", "chrf", "ter", "wer", "per"])
    outputs, targets = [source.upper() for source, _ in PAIRS], [target for _, target in PAIRS]
    assert found["bleu"] == sacrebleu.corpus_bleu(outputs, [targets]).score
    assert found["chrf"] == sacrebleu.corpus_chrf(outputs, [targets]).score
    assert found["ter"] == sacrebleu.corpus_ter(outputs, [targets]).score
    assert found["wer"] == 100 * 2 / 5, "of five distinct sources, c d and e are wrong; a has several references"
    assert found["per"] == pytest.approx(100 * (0 + 0 + 1 + 0 + 1) / (1 + 1 + 2 + 3 + 2))
    assert len({id(search) for _, search in prepared[0].asked}) > 1, "more than one batch"


def test_an_item_of_several_lines_is_counted_with_the_first(prepared: tuple[Upper, Data, Any]) -> None:
    predictor, data, _ = prepared
    every = np.arange(len(PAIRS))
    whole = predictor.measure(data.valid, every, ["wer", "per", "bleu"])
    for cut in range(1, len(PAIRS)):
        parts = [predictor.measure(data.valid, part, ["wer", "per", "bleu"]) for part in (every[cut:], every[:cut])]
        total = added_sums(*parts)
        assert all(torch.equal(total[name], whole[name]) for name in whole), f"cut at {cut}"
    predictor.asked.clear()
    predictor.measure(data.valid, np.array([2, 4]), ["wer"])
    assert predictor.asked[0][0] == [], "both lines belong to an item that is counted elsewhere"


def test_it_decodes_each_source_once_greedily_by_the_search_settings_of_the_run(
    prepared: tuple[Upper, Data, Any],
) -> None:
    predictor, data, _ = prepared
    predictor.measure(data.valid, np.arange(len(PAIRS)), ["bleu"])
    ((lines, used),) = predictor.asked
    assert lines == ["a", "b", "c d", "d c b", "e"]
    assert (used.beam, used.nbest, used.temperature) == (1, 1, None)
    assert (used.max_extra, used.max_length, used.batch_sentences) == (3, 9, 7)


def test_the_language_of_the_run_cuts_the_text(tmp_path: Path) -> None:
    run, data = data_of(tmp_path, data={"target_language": "zh"})
    net = run.task.build(run.config, data.spec)
    assert run.task.predictor(net, data.codecs, run.config).language == "zh"  # type: ignore[attr-defined]


def test_references_are_put_together_as_outputs_are(prepared: tuple[Upper, Data, Any]) -> None:
    _, data, _ = prepared
    config = TokenizerConfig(kind="pretokenized", joiner="@@")
    assert _references(data.valid, [2, 4, 6], config) == ["A", "E"]  # type: ignore[arg-type]


def test_an_unknown_metric_and_a_changed_text_are_refused(prepared: tuple[Upper, Data, Any], tmp_path: Path) -> None:
    predictor, data, _ = prepared
    with pytest.raises(ConfigError, match="blue"):
        predictor.measure(data.valid, np.arange(2), ["blue"])
    (tmp_path / "pairs.tsv").write_text("a\tA\n")
    with pytest.raises(DataError, match="changed after it was prepared"):
        predictor.measure(data.valid, np.arange(2), ["bleu"])


def validator(prepared: tuple[Upper, Data, Any], run: RunFolder, stop: Callable[[], bool]) -> Validator:
    net = run.task.build(run.config, prepared[1].spec)
    model = Trainable(net, run.task.objective(run.config))
    assert prepared[1].valid is not None
    return Validator(run.task, run.config, model, net, prepared[1].valid, prepared[1].codecs, embedded(), stop)


def test_interrupted_while_it_decodes_it_is_as_if_it_had_not_begun(
    prepared: tuple[Upper, Data, Any], tmp_path: Path
) -> None:
    run, asked = RunFolder.open(tmp_path / "run"), 0
    batches = len(prepared[1].valid.batches(None))  # type: ignore[union-attr]

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > batches + 1  # the loss is measured, and one batch decoded

    held = validator(prepared, run, stop)
    optimizer = Optimizer(held.net)
    before = [tensor.clone() for tensor in optimizer.weights().values()]
    assert held.measure(optimizer, decode=True) is None and asked == batches + 2
    assert all(map(torch.equal, before, optimizer.weights().values()))


def test_a_model_without_probabilities_has_no_figure(
    prepared: tuple[Upper, Data, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: object, **options: object) -> list[Translation]:
        raise ModelError("this model computes no probabilities")

    monkeypatch.setattr(Translator, "translate", broken)
    held = validator(prepared, RunFolder.open(tmp_path / "run"), lambda: False)
    found = held.measure(Optimizer(held.net), decode=True)
    assert found is not None and math.isnan(found.metrics["bleu"]) and math.isfinite(found.loss)


def test_a_metric_of_the_objective_decodes_nothing() -> None:
    case = TaskCase(find_task("language-model"), "language-model")
    train = case.config.train.model_copy(update={"best_by": "perplexity"})
    config = case.config.model_copy(update={"train": train})
    task = replace(case.task, predictor=lambda *given: pytest.fail("a predictor is made"))
    model = Trainable(case.net().float(), task.objective(config))
    held = Validator(task, config, model, model.net, case.part("valid"), case.data.codecs, embedded(), lambda: False)
    found = held.measure(Optimizer(model.net), decode=True)
    assert found is not None and found.metrics == {"perplexity": pytest.approx(math.exp(found.loss))}
