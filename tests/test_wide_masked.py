"""A masked model that is multiplied by tables: its product, its gradient, its evidence, and its predictions."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.baselines.gaps import HiddenTokens
from regard.core.task import find_task
from regard.data.notes import spell
from regard.data.tokenizers.notes import FIRST
from regard.errors import ConfigError
from regard.models.gap_gate import GapGate
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.runs.shortcomings import shortcomings
from regard.share.encoder_format import obstacles
from regard.tasks.evaluate import evaluate
from regard.tasks.load import load
from regard.tasks.masked.baseline import make_tables
from regard.tasks.masked.harmony import harmonize
from regard.tasks.masked.wide import FOLDS, WideMaskedExamples, fold_of, held_out_tables
from regard.testing import TaskCase
from regard.training.baseline import added, baseline_groups
from regard.training.setup import prepare
from regard.training.start import train

KINDS = pytest.mark.parametrize("kind", ["words", "music"])


def music(folder: Path) -> dict[str, Any]:
    """Major chords in one position, at several heights."""
    draw, lines = np.random.default_rng(1), []
    for _ in range(12):
        roots = draw.integers(40, 60, 6).tolist()
        lines.append(json.dumps({"text": spell([(root, root + 4, root + 7) for root in roots])}) + "\n")
    (folder / "music.jsonl").write_text("".join(lines))
    corpus = [{"source": str(folder / "music.jsonl")}]
    return {
        "data": {"train": corpus, "valid": corpus, "documents": "json-line", "tokenizer": {"kind": "notes"},
                 "context": 32},
        "masking": {"unit": "voice", "share": 0.4},
        "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2},
        "train": {"batch_tokens": 64},
    }  # fmt: skip


@cache
def wide_case(kind: str, wide: bool = True) -> TaskCase:
    task = find_task("masked")
    sample: Callable[[Path], Any] = music if kind == "music" else task.sample

    def tables(folder: Path) -> Any:
        values = dict(sample(folder))
        return values | {"model": values["model"] | {"wide": wide, "dropout": 0.0}}

    return TaskCase(replace(task, sample=tables), "masked")


def test_a_product_by_hand() -> None:
    """½ · ½ and ½ · ¼ are as 2 to 1; with exponents 0 and 1, or 1 and 0, it is one of both."""
    gate = GapGate(1, 2)
    net, tables = torch.tensor([[0.5, 0.5, 1e-9]]).log(), torch.tensor([[0.5, 0.25]]).log()
    torch.testing.assert_close(gate(net, tables, torch.tensor([[0]])).exp()[0, :2], torch.tensor([2 / 3, 1 / 3]))
    gate.offsets.data = torch.tensor([0.0, 1.0, 0.0, -1.0])  # of the second bucket
    torch.testing.assert_close(gate(net, tables, torch.tensor([[1]])).exp()[0, :2], torch.tensor([0.5, 0.5]))
    gate.exponents.data = torch.tensor([1.0, 1.0])
    skewed = torch.tensor([[0.8, 0.2, 1e-9]]).log()
    torch.testing.assert_close(gate(skewed, tables, torch.tensor([[0]])).exp()[0, :2], torch.tensor([8 / 9, 1 / 9]))


@KINDS
def test_an_untrained_model_is_its_tables(kind: str) -> None:
    case = wide_case(kind)
    baseline = case.task.fit_baseline(case.run(), case.data)
    expected = added(baseline_groups(baseline, case.data.valid, ()))
    net, objective = case.task.build(case.config, case.data.spec).eval(), case.task.objective(case.config)
    with torch.no_grad():
        batches = [case.data.valid.collate(batch) for batch in case.data.valid.batches(None)]
        sums = added([objective(net, batch, ()).sums for batch in batches])
    assert float(sums["nll"]) == pytest.approx(float(expected["nll"]), rel=5e-3)  # without pitches beyond the last
    assert float(sums["correct"]) == pytest.approx(float(expected["correct"]), abs=2)  # outcomes of equal probability


@KINDS
def test_the_network_learns_from_its_own_loss_and_the_gate_from_the_product(kind: str) -> None:
    gradients = []
    for case in (wide_case(kind, wide=False), wide_case(kind)):
        net: Any = case.net()
        batch = case.data.train.collate(case.data.train.batches(0)[0])
        if case.config.wide:
            net.gate.exponents.data = torch.tensor([0.5, 1.0], dtype=torch.float64)
        net.zero_grad()
        terms = case.task.objective(case.config)(net, batch, ())
        terms.minimized.backward()
        gradients.append({name: one.grad for name, one in net.named_parameters()})
    assert gradients[1].pop("gate.exponents").abs().min() > 0
    assert gradients[1].pop("gate.offsets").abs().sum() > 0
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, msg=name)
    torch.testing.assert_close(terms.minimized.detach(), terms.sums["nll"])


@KINDS
def test_no_chosen_token_is_read_by_the_tables(kind: str) -> None:
    """Training may show a chosen token to the network; for the tables, what is not known gives the same evidence."""
    case = wide_case(kind)
    examples, mask = case.data.train, len(case.data.codecs.tokenizer)
    batch: Any = examples.collate(examples.batches(0)[0])
    gap = 0
    for row, index in enumerate(batch.index.tolist()):
        hidden = torch.where(batch.chosen[row], mask, batch.target[row])[batch.valid[row]].numpy()
        model = examples.models[examples.fold(index)]
        evidence = model.evidence(HiddenTokens.unknown([hidden], mask))
        end = gap + len(evidence.buckets)
        np.testing.assert_allclose(batch.tables[gap:end], evidence.log_probabilities, rtol=1e-6)
        np.testing.assert_array_equal(batch.buckets[gap:end], evidence.buckets)
        gap = end
    assert gap == len(batch.tables)


@KINDS
def test_a_token_of_training_is_predicted_without_its_fold(kind: str) -> None:
    case = wide_case(kind)
    examples, codecs = case.data.train.examples, case.data.codecs
    models = held_out_tables(examples, codecs.wide, lambda: make_tables(case.undisturbed[0]))
    own, held_out = WideMaskedExamples(examples, [codecs.wide]), WideMaskedExamples(examples, models)
    seen, unseen = (_log_probability(part) for part in (own, held_out))
    assert len(models) == FOLDS and unseen < seen - 0.01


def _log_probability(examples: Any) -> float:
    batches = [examples.collate(batch) for batch in examples.batches(None)]
    tables, targets = torch.cat([one.tables for one in batches]), torch.cat([one.target[one.chosen] for one in batches])
    return float(tables.gather(1, targets[:, None]).mean())


def test_equal_documents_are_in_one_fold() -> None:
    """So are pieces that differ in height only, of which the tables count one."""
    chords, words = wide_case("music").data.codecs.wide, wide_case("words").data.codecs.wide
    piece = np.array([2, FIRST + 40, FIRST + 44, 4, FIRST + 45, 4, 3])
    higher = np.where(piece >= FIRST, piece + 5, piece)
    assert fold_of(chords.key(piece)) == fold_of(chords.key(higher))
    assert words.key(piece) != words.key(higher)
    counts = np.bincount([fold_of(words.key(np.array([2, number, 3]))) for number in range(1000)], minlength=FOLDS)
    assert len(counts) == FOLDS and counts.min() > 150


@KINDS
def test_evaluation_is_that_of_predictions(kind: str) -> None:
    """On the training file, too: the network was trained with other evidence."""
    case = wide_case(kind)
    run = case.undisturbed[0]
    filler: Any = load(run.path)
    filler.model.gate.exponents.data = torch.tensor([0.3, 0.8])
    data: Any = prepare(run, log=lambda message: None)  # with the tables of the run
    examples, mask, objective = data.valid, filler.mask, case.task.objective(case.config)
    for batch in examples.batches(None):
        scores = list[float]()
        for index in batch.index.tolist():
            text, chosen = torch.from_numpy(examples.text(index)), torch.from_numpy(examples.chosen(index))
            log_p = filler.log_probabilities(torch.where(chosen, mask, text)[None])
            scores += log_p.gather(1, text[chosen][:, None])[:, 0].tolist()
        with torch.no_grad():
            nll = float(objective(filler.model, examples.collate(batch), ()).sums["nll"])
        assert nll == pytest.approx(-math.fsum(scores), rel=1e-4), batch.index
    assert evaluate(run.path, case.folder / ("music.jsonl" if kind == "music" else "sample.txt")).baseline is not None


def test_gaps_scores_and_inspection_are_those_of_the_product() -> None:
    case = wide_case("words")
    filler: Any = case.predictor
    tokens = torch.tensor([filler._tokens("the ___ sat")])
    expected = filler.log_probabilities(tokens)[0].exp()
    tables, filler.tables = filler.tables, None
    alone = filler.log_probabilities(tokens)[0].exp()
    filler.tables = tables
    assert (expected - alone).abs().max() > 0.01
    (filled,) = filler(["the ___ sat"], top_k=3)
    for candidate in filled.gaps[0]:
        (piece,) = case.data.codecs.tokenizer.encode(candidate.text)
        assert candidate.probability == pytest.approx(float(expected[piece]), rel=1e-5)
    best = filler.inspect("the ___ sat").predictions[0].alternatives[0]
    assert math.exp(best.log_probability) == pytest.approx(filled.gaps[0][0].probability)
    text = np.array([2, *case.data.codecs.tokenizer.encode("the cat sat"), 3])
    score = filler.pseudo_log_probabilities(text)[1]
    assert score == pytest.approx(math.log(expected[text[2]]), rel=1e-4)


def test_harmonies_begin_with_those_of_the_tables() -> None:
    """An untrained network adds nothing: the third of a major chord, as in the pieces."""
    case = wide_case("music")
    net = case.task.build(case.config, case.data.spec).eval()
    filler: Any = case.task.predictor(net, case.data.codecs, case.config)
    assert harmonize(filler, [(50, 57), (43, 50)], [2]).frames == [(50, 54, 57), (43, 47, 50)]


def test_it_is_the_baseline_and_not_exported() -> None:
    case = wide_case("words")
    with pytest.raises(ConfigError, match=r"model\.wide"):
        load_config(case.tables, ["train.baseline=false"])
    assert "model.wide=false" in str(obstacles(case.task.export_form(case.config), case.config))


def test_a_network_that_adds_nothing_is_left_out(tmp_path: Path) -> None:
    config = load_config(wide_case("words").tables, ["train.learning_rate=50", "train.steps=4"])
    problems = shortcomings(RunFolder.open(train(config, tmp_path / "run")))
    assert any("the network does not improve on its baseline" in problem.what for problem in problems)
