"""Training: the order of data, what an update is, what counts as best, and what happens when the loss is not finite."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from regard.cli import build_app
from regard.core.state import State
from regard.core.task import LossTerms
from regard.data.order import epoch_batches
from regard.data.pairs import PairBatch, pair_lengths
from regard.errors import ConfigError, DataError, ModelError, TrainingError
from regard.metrics.text import METRICS, evaluate
from regard.runs import checkpoint
from regard.runs.averaging import average_run
from regard.runs.config import load_config
from regard.runs.run_folder import CheckpointChoice, RunFolder
from regard.tasks.translation.config import TranslationConfig
from regard.tasks.translation.task import TASK
from regard.training import setup
from regard.training.progress import TrainingProgress, Validation
from regard.training.setup import set_up
from regard.training.trainer import Trainer

PAIRS = 40


class Recorder:
    """A reporter that remembers."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.best: list[int] = []

    def updated(self, place: TrainingProgress, steps: int | None, figures: dict[str, float]) -> None: ...

    def validated(self, place: TrainingProgress, validation: Validation, best: bool) -> None:
        self.best += [place.step] if best else []

    def log(self, message: str) -> None:
        self.messages.append(message)


class Making:
    """``making(ema=0.9)``: a trainer of a new run with these settings; ``making.again(run)``: of one that exists."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs = folder, 0
        draw = np.random.default_rng(1)
        lines = [" ".join(draw.choice(list("abcdefgh"), draw.integers(2, 7))) for _ in range(PAIRS)]
        for name in ("source", "target"):
            (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def config(self, *, seed: int = 1, valid: bool = False, dropout: float = 0.1, **train: Any) -> Any:
        corpus = {"source": str(self.folder / "source"), "target": str(self.folder / "target")}
        settings = {
            "steps": 10, "batch_tokens": 64, "learning_rate": 0.01, "warmup": 10, "save_every": 5, "validate_every": 5,
            "precision": "float32", "threads": 1, "shards": 1,
        }  # fmt: skip
        model = {
            "layers": 1,
            "width": 16,
            "feed_forward": 16,
            "heads": 2,
            "dropout": dropout,
        }
        data = {"train": [corpus], "tokenizer": {"kind": "word"}} | ({"valid": [corpus]} if valid else {})
        return load_config({"seed": seed, "data": data, "model": model, "train": settings | train})

    def __call__(self, **options: Any) -> Trainer:
        self.runs += 1
        return self.again(RunFolder.create(self.folder / f"run-{self.runs}", self.config(**options)))

    def again(self, run: RunFolder) -> Trainer:
        ready = set_up(run, log=lambda message: None)
        return Trainer(
            run, ready.net, ready.data, steps=ready.steps, reporter=Recorder(), interrupted=lambda: False,
        )  # fmt: skip


@pytest.fixture
def making(tmp_path: Path) -> Iterator[Making]:
    yield Making(tmp_path)


def said(trainer: Trainer) -> list[str]:
    assert isinstance(trainer.reporter, Recorder)
    return trainer.reporter.messages


def records(trainer: Trainer) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (trainer.run.path / "metrics.jsonl").read_text().splitlines()]


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.optimizer.weights().items()}


def spoil(
    trainer: Trainer, steps: set[int], how: Callable[[torch.Tensor], torch.Tensor] = lambda x: x * math.nan
) -> None:
    """The loss of these updates, counted from 0, is spoilt."""
    sound = trainer.model.objective

    def loss(net: nn.Module, batch: PairBatch, carry: State) -> LossTerms:
        found = sound(net, batch, carry)
        spoilt = trainer.progress.step in steps and torch.is_grad_enabled()
        return found._replace(minimized=how(found.minimized)) if spoilt else found

    trainer.model.objective = loss


# The order of data


def seen(trainer: Trainer) -> list[list[int]]:
    """Train; the pairs of each batch, in order."""
    batches, sound = [], trainer.model.objective

    def loss(net: nn.Module, batch: PairBatch, carry: State) -> LossTerms:
        batches.append(batch.index.tolist())
        return sound(net, batch, carry)

    trainer.model.objective = loss
    trainer.fit()
    return batches


def test_order_is_a_pure_function_of_seed_and_epoch(making: Making) -> None:
    trainer = making(seed=3, steps=1000, epochs=2)
    batches = seen(trainer)
    lengths = pair_lengths(trainer.data.train.corpora)
    planned = [epoch_batches(lengths, 64, seed=3, epoch=epoch) for epoch in (0, 1)]
    rows = [[sorted(batch.tolist()) for batch in epoch] for epoch in planned]
    assert len(batches) == len(rows[0]) + len(rows[1])
    for epoch in (batches[: len(rows[0])], batches[len(rows[0]) :]):
        assert sorted(index for batch in epoch for index in batch) == list(range(PAIRS))
    assert batches == seen(making(seed=3, steps=1000, epochs=2))
    assert batches != seen(making(seed=4, steps=1000, epochs=2))
    assert batches[: len(rows[0])] != batches[len(rows[0]) :]


def test_the_global_generator_does_not_matter(making: Making) -> None:
    one, two = making(), making()
    torch.manual_seed(5)
    one.fit()
    torch.manual_seed(6)
    two.fit()
    assert checkpoint.digest({"model": weights(one)}) == checkpoint.digest({"model": weights(two)})


def test_a_corpus_that_changed_is_refused_and_one_that_was_touched_is_not(making: Making) -> None:
    trainer = making(steps=5, valid=True)
    trainer.fit()
    source = making.folder / "source"
    os.utime(source, ns=(1, 1))
    assert making.again(trainer.run).resume()
    lines = source.read_text().splitlines(keepends=True)
    source.write_text("".join(reversed(lines)))
    for deleted in (False, True):
        with pytest.raises(DataError, match="changed since this run started") as caught:
            making.again(trainer.run)
        assert caught.value.where == str(source)
        if not deleted:
            shutil.rmtree(trainer.run.data)
    source.write_text("".join(lines))
    assert making.again(trainer.run).resume()


def test_an_update_on_nothing_is_never_made(making: Making) -> None:
    trainer = making(epochs=3)
    trainer.progress.batch = 1000
    with pytest.raises(DataError, match="changed since this run started"):
        trainer.fit()


# What an update is


def test_accumulating_equals_one_large_batch(making: Making) -> None:
    """An epoch to an update, in many batches of unlike size or in one; float64, to rounding."""
    small = making(batch_tokens=48, accumulate=100, steps=3, dropout=0.0)
    large = making(batch_tokens=10_000, steps=3, dropout=0.0)
    for trainer in (small, large):
        trainer.net.double()
        trainer.optimizer = trainer.updater.optimizer = type(trainer.optimizer)(trainer.net, epsilon=1e-3)
    assert len(seen(small)) > 3 * 4
    assert len(seen(large)) == 3
    for (name, mine), other in zip(weights(small).items(), weights(large).values(), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-12, msg=name)
    figures = ("loss", "nll", "norm", "tokens", "rate")
    for one, other in zip(records(small), records(large), strict=True):
        assert [one[key] for key in figures] == pytest.approx([other[key] for key in figures], rel=1e-12)


def test_an_epoch_s_end_makes_a_smaller_update_not_a_mixed_one(making: Making) -> None:
    trainer = making(accumulate=3, steps=1000, epochs=2)
    batches = len(epoch_batches(pair_lengths(trainer.data.train.corpora), 64, seed=1, epoch=0))
    assert batches % 3, "choose another corpus"
    trainer.fit()
    assert trainer.progress.step >= 2 * math.ceil(batches / 3) - 1
    per_epoch = [sum(r["tokens"] for r in records(trainer)[at : at + math.ceil(batches / 3)]) for at in (0,)]
    assert per_epoch == [int((trainer.data.train.corpora.target_length + 1).sum())]


def test_moving_average_is_what_is_validated_and_saved(making: Making) -> None:
    trainer = making(ema=0.9, valid=True)
    validated: list[dict[str, torch.Tensor]] = []

    assert trainer.validator is not None
    sums = trainer.validator.sums

    def look() -> Any:
        validated.append({name: parameter.detach().clone() for name, parameter in trainer.net.named_parameters()})
        return sums()

    trainer.validator.sums = look  # type: ignore[method-assign]
    trainer.fit()
    found = checkpoint.load_latest(trainer.run.checkpoints, pytest.fail)
    assert found is not None and found.step == 10
    for name, average in validated[-1].items():
        assert torch.equal(average, found.groups["model"][name])
        trained = dict(trainer.net.named_parameters())[name]
        assert torch.equal(trained, found.groups["optimizer"][f"master.{name}"])
        assert not torch.equal(trained, average)


# What counts as best, and when to stop


def scripted(trainer: Trainer, metric: str, values: list[float]) -> None:
    left = iter(values)
    assert trainer.validator is not None
    trainer.validator.decoded = lambda sums: {metric: next(left)}  # type: ignore[method-assign]


@pytest.mark.parametrize("metric", METRICS)
def test_the_best_by_any_metric_is_its_own_best(making: Making, metric: str) -> None:
    """The direction of each is worked out by scoring a right and a wrong output."""
    right, wrong = (evaluate(metric, [output], [["a b c d e"]]).value for output in ("a b c d e", "x y z"))
    values = [(right + wrong) / 2, right, wrong, (right + wrong) / 2, (right + wrong) / 2]
    trainer = making(valid=True, best_by=metric, validate_every=2)
    scripted(trainer, metric, values)
    assert trainer.fit().progress.best_step == 4


def test_every_metric_may_choose() -> None:
    assert set(TranslationConfig.metric_names) == set(METRICS) == set(TASK.metrics)


def test_decoding_less_often_than_validating(making: Making) -> None:
    """What was not decoded is neither better nor worse; the end is decoded whenever it comes."""
    trainer = making(valid=True, best_by="chrf", validate_every=2, decode_every=2, steps=15)
    scripted(trainer, "chrf", [5.0, 7.0, 6.0, 8.0])
    place = trainer.fit().progress
    validations = {record["step"]: record["validation"] for record in records(trainer) if "validation" in record}
    assert list(validations) == [2, 4, 6, 8, 10, 12, 14, 15]
    assert {step: found["chrf"] for step, found in validations.items() if "chrf" in found} == {
        4: 5.0, 8: 7.0, 12: 6.0, 15: 8.0,
    }  # fmt: skip
    assert all("loss" in found for found in validations.values())
    assert (place.best_step, place.best_value, place.without_better) == (15, 8.0, 0)


def test_early_stopping_counts_the_validations_that_decode(making: Making) -> None:
    trainer = making(valid=True, best_by="bleu", validate_every=2, decode_every=3, early_stopping=2, steps=100)
    scripted(trainer, "bleu", [5.0, 4.0, 3.0])
    outcome = trainer.fit()
    assert (outcome.reason, outcome.progress.step, outcome.progress.best_step) == ("early stopping", 18, 6)


@pytest.mark.parametrize(
    ("metric", "values", "best", "last"),
    [
        pytest.param("wer", [5.0, 4.0, 4.0, 6.0, 7.0, 0.0], 4, 10, id="an equal one is no better"),
        pytest.param("bleu", [5.0, 4.0, 6.0, 6.0, 5.0, 3.0, 9.0], 6, 12, id="of BLEU the higher is the better"),
        pytest.param("wer", [math.nan, 4.0, math.nan, 5.0, 5.0, 0.0], 4, 10, id="what is no number is never best"),
    ],
)
def test_early_stopping(making: Making, metric: str, values: list[float], best: int, last: int) -> None:
    trainer = making(valid=True, best_by=metric, early_stopping=3, validate_every=2, save_every=100, steps=100)
    scripted(trainer, metric, values)
    outcome = trainer.fit()
    assert (outcome.reason, outcome.progress.step, outcome.progress.best_step) == ("early stopping", last, best)
    marked = checkpoint.read_best(trainer.run.checkpoints)
    assert marked is not None and (marked.step, marked.metric) == (best, metric)
    assert last in checkpoint.list_steps(trainer.run.checkpoints)


def test_the_end_is_validated_and_saved_whenever_it_comes(making: Making) -> None:
    trainer = making(valid=True, steps=7)
    assert trainer.fit().reason == "steps"
    assert [record["step"] for record in records(trainer) if "validation" in record] == [5, 7]
    assert checkpoint.list_steps(trainer.run.checkpoints)[-1] == 7


def test_the_best_is_pointed_at_after_a_kill_between_the_two(making: Making, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is not pruned, though ``best.json`` says another and one checkpoint is kept."""
    trainer = making(valid=True, best_by="wer", validate_every=2, save_every=2, keep=1)
    scripted(trainer, "wer", [5.0, 4.0])
    with monkeypatch.context() as patch:
        mark = checkpoint.mark_best

        def killed(folder: Path, step: int, metric: str, value: float) -> None:
            if step == 4:
                raise KeyboardInterrupt
            mark(folder, step, metric, value)

        patch.setattr(checkpoint, "mark_best", killed)
        with pytest.raises(KeyboardInterrupt):
            trainer.fit()
    marked = checkpoint.read_best(trainer.run.checkpoints)
    assert marked is not None and marked.step == 2
    second = making.again(trainer.run)
    assert second.resume()
    scripted(second, "wer", [6.0, 7.0, 8.0])
    second.fit()
    marked = checkpoint.read_best(trainer.run.checkpoints)
    assert marked is not None and marked.step == 4
    assert checkpoint.list_steps(trainer.run.checkpoints) == [4, 10]


# The average at the end


def content(path: Path) -> str:
    return hashlib.sha256((path / "model.safetensors").read_bytes()).hexdigest()


def test_the_average_at_the_end_is_that_of_the_command(making: Making) -> None:
    """The same bytes, and what is loaded unless another is named."""
    trainer = making(average=3, save_every=2, steps=9, valid=True)
    trainer.fit()
    made = trainer.run.checkpoints / "average"
    mine = content(made)
    assert trainer.run.weights_path() == CheckpointChoice("average", made, [6, 8, 9])
    assert "averaged the last 3 checkpoints: steps 6, 8, 9" in said(trainer)
    plain = making(save_every=2, steps=9, valid=True)
    plain.fit()
    assert not (plain.run.checkpoints / "average").exists()
    assert CliRunner().invoke(build_app(), ["average", str(plain.run.path), "--last", "3"]).exit_code == 0
    assert content(plain.run.checkpoints / "average") == mine


def test_training_resumed_and_ended_by_patience_leaves_the_average_too(making: Making) -> None:
    options: dict[str, Any] = dict(
        valid=True, average=2, best_by="wer", early_stopping=2, validate_every=2, save_every=2, steps=100
    )
    whole, stopped = making(**options), making(**options)
    scripted(whole, "wer", [5.0, 4.0, 6.0, 6.0])
    assert whole.fit().reason == "early stopping"
    scripted(stopped, "wer", [5.0, 4.0])
    stopped.interrupted = lambda: stopped.progress.step == 5
    assert stopped.fit().reason == "interrupted"
    assert not (stopped.run.checkpoints / "average").exists()
    average_run(stopped.run)  # of what there is so far: old once training goes on
    again = making.again(stopped.run)
    assert again.resume()
    scripted(again, "wer", [6.0, 6.0])
    again.fit()
    assert again.run.weights_path().steps == whole.run.weights_path().steps == [6, 8]
    assert content(again.run.checkpoints / "average") == content(whole.run.checkpoints / "average")


def test_an_average_that_is_missing_is_made_on_resuming_and_one_of_the_user_s_is_kept(
    making: Making, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = making(average=2, save_every=3)
    with monkeypatch.context() as patch:
        patch.setattr("regard.training.checkpoints.average_run", lambda run, steps: 1 / 0)  # killed between the two
        with pytest.raises(ZeroDivisionError):
            trainer.fit()

    def again() -> list[int]:
        second = making.again(trainer.run)
        assert second.resume() and second.fit().progress.step == 10
        return trainer.run.weights_path("average").steps

    assert again() == [9, 10]
    average_run(trainer.run, steps=[3, 6])
    assert again() == [3, 6]


def test_fewer_checkpoints_than_asked_for_are_averaged_and_it_is_said(making: Making) -> None:
    trainer = making(average=7)
    trainer.fit()
    told = "averaged the last 2 checkpoints of 7 requested, limited to the second half of training: steps 5, 10"
    assert told in said(trainer)


def test_what_is_averaged_must_be_kept(making: Making) -> None:
    with pytest.raises(ConfigError, match=r"train\.average and train\.keep cannot be combined") as caught:
        making.config(average=3, keep=2)
    assert "train.keep=3" in str(caught.value.help)
    making.config(average=3, keep=3)


# A loss that is not finite


def test_it_is_skipped_and_logged_with_its_pairs(making: Making) -> None:
    trainer = making()
    spoil(trainer, {3})
    trainer.fit()
    skipped = records(trainer)[3]
    assert skipped["step"] == 4 and skipped["skipped"]
    assert all(pair.startswith(f"{making.folder / 'source'}:") for pair in skipped["pairs"])
    assert [message for message in said(trainer) if "step 4" in message and skipped["pairs"][0] in message]
    assert all(math.isfinite(record["loss"]) for record in records(trainer) if record["step"] != 4)
    assert trainer.progress.nonfinite == 0 and trainer.progress.step == 10


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_nothing_is_learned_from_it(making: Making, what: str) -> None:
    """The update after it is as if it had not been, but for the data: its gradients are gone."""
    spoilt, plain = making(), making()

    def overflow(loss: torch.Tensor) -> torch.Tensor:
        loss.register_hook(lambda gradient: gradient * math.inf)
        return loss + 0

    spoil(spoilt, {1}, (lambda loss: loss * math.nan) if what == "loss" else overflow)
    for trainer in (spoilt, plain):
        trainer._update()
    assert checkpoint.digest({"": weights(spoilt)}) == checkpoint.digest({"": weights(plain)})
    spoilt._update()
    assert checkpoint.digest({"": weights(spoilt)}) == checkpoint.digest({"": weights(plain)})
    plain.updater.next_batches(plain.progress)
    plain.progress.step += 1
    for trainer in (spoilt, plain):
        trainer._update()
    assert checkpoint.digest({"": weights(spoilt)}) == checkpoint.digest({"": weights(plain)})


@pytest.mark.parametrize("interrupted", [False, True])
def test_many_in_a_row_roll_back_to_before_them_once(making: Making, interrupted: bool) -> None:
    """Not to what was saved among them, nor to what an interruption saved: no sitting may change the result."""
    trainer = making(steps=20, save_every=4, max_nonfinite=3)
    if interrupted:
        trainer.interrupted = lambda: trainer.progress.step == 6
        assert trainer.fit().reason == "interrupted"
        assert checkpoint.list_steps(trainer.run.checkpoints) == [4, 6]
        trainer = making.again(trainer.run)
        assert trainer.resume()
    spoil(trainer, {6, 7, 8})
    rolled: list[str] = []
    update = trainer._update

    def watched() -> None:
        before = trainer.progress.rolled_back
        update()
        if trainer.progress.rolled_back > before:
            rolled.append(checkpoint.digest({"": weights(trainer)}))

    trainer._update = watched  # type: ignore[method-assign]
    trainer.fit()
    assert any("rolled back to the weights of step 4" in message for message in said(trainer))
    fresh = making(steps=4)
    fresh.fit()
    assert rolled == [checkpoint.digest({"": weights(fresh)})]
    assert trainer.progress.step == 20


@pytest.mark.parametrize(
    ("spoilt", "saved", "why"),
    [({1, 2, 3}, [], "before its first checkpoint"), (set(range(5, 20)), [4, 8], "diverged")],
)
def test_what_does_not_help_ends_training_with_a_remedy(
    making: Making, spoilt: set[int], saved: list[int], why: str
) -> None:
    trainer = making(steps=20, save_every=4, max_nonfinite=3)
    spoil(trainer, spoilt)
    with pytest.raises(TrainingError, match="no finite loss for 3 updates in a row") as caught:
        trainer.fit()
    assert why in str(caught.value.why) and "train.lr=" in str(caught.value.help)
    assert checkpoint.list_steps(trainer.run.checkpoints) == saved


def test_each_bad_patch_may_roll_back_once_the_one_before_is_overcome(making: Making) -> None:
    trainer = making(steps=24, save_every=4, max_nonfinite=3)
    spoil(trainer, {5, 6, 7, 13, 14, 15})  # rolled back at 8, sound again at 12, rolled back at 16
    trainer.fit()
    assert [message for message in said(trainer) if "rolled back" in message] == [
        f"rolled back to the weights of step {step}; training continues with the next batch" for step in (4, 12)
    ]
    assert trainer.progress.step == 24 and trainer.progress.rolled_back == 0


def test_out_of_memory_says_what_to_lower(making: Making) -> None:
    def exhaust() -> None:
        torch.empty(1 << 50, dtype=torch.uint8)

    trainer = making()
    trainer._update = exhaust  # type: ignore[method-assign]
    with pytest.raises(TrainingError, match="out of memory while training") as caught:
        trainer.fit()
    assert "train.batch_tokens=32" in str(caught.value.help) and "1125899906842624 bytes" in str(caught.value.why)
    trainer = making()
    trainer._update = lambda: torch.zeros(2).view(3)  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="invalid for input"):
        trainer.fit()


# A plan is made once


def test_a_plan_is_measured_once_and_used_ever_after(making: Making, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"float32": 0.5, "bfloat16": 0.25}
    monkeypatch.setattr(setup, "_time_update", lambda config, task, data, name, shards: seconds[name])
    monkeypatch.setattr(setup, "bfloat16_in_hardware", lambda: True)
    monkeypatch.setattr(setup, "BFLOAT16_WIDTH", 16)
    run = RunFolder.create(making.folder / "run", making.config(precision="auto", minutes=0.1, steps=1000))
    first = set_up(run, log=lambda message: None)
    assert first.steps == 24  # 6 s of 0.25 s each
    seconds.update(float32=0.01, bfloat16=1.0)
    torch.set_num_threads(2)
    second = set_up(run, log=lambda message: None)
    assert second.steps == 24
    for ready in (first, second):
        assert next(ready.net.parameters()).dtype == torch.bfloat16
    assert torch.get_num_threads() == 1


class Clock:
    """Asked before and after each update: it takes as long as ``seconds`` says of the one that is made."""

    def __init__(self, trainer: Trainer, seconds: Callable[[int], float]) -> None:
        self.trainer, self.seconds, self.now, self.working = trainer, seconds, 0.0, False

    def __call__(self) -> float:
        self.now += self.seconds(self.trainer.progress.step) if self.working else 0.0
        self.working = not self.working
        return self.now


@pytest.fixture
def paced(making: Making, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Trainer]:
    """``paced(seconds, run)``: three seconds are planned as 30 updates; each then takes what ``seconds`` says of it."""
    monkeypatch.setattr(setup, "_time_update", lambda *arguments: 0.1)
    options: dict[str, Any] = dict(minutes=0.05, steps=None, schedule="linear", warmup=None, save_every=4)

    def make(seconds: Callable[[int], float], run: RunFolder | None = None, **more: Any) -> Trainer:
        trainer = making(**options | more) if run is None else making.again(run)
        trainer.clock = Clock(trainer, seconds)
        return trainer

    return make


@pytest.mark.parametrize(
    ("seconds", "last"),
    [
        pytest.param(lambda step: 0.1, 30, id="as planned"),
        pytest.param(lambda step: 0.25, 12, id="slower"),
        pytest.param(lambda step: 0.05, 60, id="quicker"),
        pytest.param(lambda step: 0.1 if step < 15 else 0.3, 20, id="slower from its half on"),
        pytest.param(lambda step: 60.0, 1, id="over at once"),
    ],
)
def test_minutes_hold_whatever_was_measured(
    paced: Callable[..., Trainer], seconds: Callable[[int], float], last: int
) -> None:
    """To an update; and the line falls to zero there, without a leap."""
    trainer = paced(seconds)
    assert trainer.run.read_plan().steps == 30
    place = trainer.fit().progress
    assert abs(place.step - last) <= 1
    assert place.seconds - seconds(place.step - 1) < 3.0 + 1e-9
    rates = [record["rate"] for record in records(trainer)]
    assert max(rates) == pytest.approx(0.01) or last < 3
    if last > 3:
        assert rates[-1] < 0.0035
        falls = [a - b for a, b in pairwise(rates[2:])]
        assert all(0 <= fall < 0.005 for fall in falls)


def test_something_else_may_end_it_before_the_minutes(paced: Callable[..., Trainer]) -> None:
    assert paced(lambda step: 0.05, steps=40).fit().progress.step == 40


def test_what_the_clock_decided_is_replayed(paced: Callable[..., Trainer]) -> None:
    """Resumed on a machine ten times as quick: the bits of the sitting that was killed, as far as its decisions go."""

    def uneven(step: int) -> float:
        return 0.05 if step < 6 else 0.3

    whole, stopped = paced(uneven), paced(uneven)
    whole.fit()
    decided = whole.run.read_plan().decisions
    assert decided is not None and len(decided) > 2
    assert len({steps for _, steps in decided}) > 2
    stopped.interrupted = lambda: stopped.progress.step == 5
    assert stopped.fit().reason == "interrupted"
    assert stopped.run.read_plan().decisions == decided[: len(stopped.run.read_plan().decisions)] != decided
    quick = RunFolder.open(Path(shutil.copytree(stopped.run.path, stopped.run.path.with_name("quick"))))
    quick.write_plan(quick.read_plan().model_copy(update={"decisions": decided}))  # killed later, between checkpoints
    same = paced(uneven, stopped.run)
    replayed = paced(lambda step: 0.005, quick)
    for trainer in (same, replayed):
        assert trainer.resume()
        trainer.fit()
        assert trainer.run.read_plan().decisions == decided
        assert [one["rate"] for one in records(trainer)] == [one["rate"] for one in records(whole)]
        assert checkpoint.digest({"": weights(trainer)}) == checkpoint.digest({"": weights(whole)})


def test_a_run_of_an_older_version_keeps_its_plan(paced: Callable[..., Trainer]) -> None:
    run = paced(lambda step: 0.1).run
    run.write_plan(run.read_plan().model_copy(update={"decisions": None, "fit": None}))
    assert paced(lambda step: 1.0, run).fit().progress.step == 30


def test_warm_up_and_intervals_suit_the_length_unless_given(making: Making) -> None:
    usual: dict[str, Any] = dict(warmup=None, validate_every=None, save_every=None)

    def fitted(**options: Any) -> tuple[int, ...]:
        return tuple(making(**usual | options).intervals)

    one = making(**usual | dict(steps=None, epochs=20))
    epoch = len(epoch_batches(pair_lengths(one.data.train.corpora), 64, seed=1, epoch=0))
    assert one.intervals == (2 * epoch, epoch, 4 * epoch)  # one validation an epoch
    assert 1 < epoch < 16 and fitted(steps=80) == (8, epoch, 16)
    assert fitted(steps=100_000) == (4000, 500, 500)
    assert fitted(steps=15_000) == (1500, 300, 500)  # 50 validations
    assert fitted(steps=80, warmup=30, save_every=5) == (30, epoch, 5)
    assert fitted(steps=80, schedule="noam", learning_rate=1.0) == (4000, epoch, 16)
    assert making(**usual | dict(steps=None, early_stopping=3, valid=True)).intervals == (4000, 500, 500)


def test_a_warm_up_that_does_not_end_is_said(making: Making) -> None:
    told: list[str] = []
    for warmup in (9, 10):
        run = RunFolder.create(making.folder / f"warm-up-{warmup}", making.config(warmup=warmup))
        set_up(run, log=told.append)
    warnings = [message for message in told if message.startswith("warning: the warm-up of")]
    assert len(warnings) == 1 and "of 10 updates is longer than the training of 10" in warnings[0]


def test_several_workers_resumed_are_as_if_never_stopped(making: Making) -> None:
    whole = making(workers=2, threads=2, shards=2, dropout=0.3)
    whole.fit()
    stopped = making(workers=2, threads=2, shards=2, dropout=0.3)
    stopped.interrupted = lambda: stopped.progress.step == 3
    assert stopped.fit().reason == "interrupted"
    again = making.again(stopped.run)
    assert again.updater.strategy.workers.number == 2 and again.resume()
    again.fit()
    assert checkpoint.digest({"": weights(again)}) == checkpoint.digest({"": weights(whole)})


@pytest.mark.parametrize("shards", [2, 4])
def test_the_number_of_workers_changes_no_bit(making: Making, shards: int) -> None:
    """At equal threads a shard; the number of shards is of the run, and decides the order of the sum."""
    one = making(shards=shards, threads=1, dropout=0.3, accumulate=2)
    two = making(shards=shards, threads=2, workers=2, dropout=0.3, accumulate=2)
    for trainer in (one, two):
        trainer.fit()
    assert one.run.read_plan().threads == two.run.read_plan().threads == 1
    assert checkpoint.digest({"": weights(one)}) == checkpoint.digest({"": weights(two)})
    other = making(shards=2 * shards, threads=1, dropout=0.3, accumulate=2)
    other.fit()
    assert checkpoint.digest({"": weights(one)}) != checkpoint.digest({"": weights(other)})


def test_a_run_from_before_shards_goes_on_by_the_rule_of_its_time(making: Making) -> None:
    """Its plan has the threads of all workers together, and rows of padded batches are dealt to them."""
    run = RunFolder.create(making.folder / "older", making.config(workers=2, threads=4, shards=2))
    set_up(run, log=lambda message: None)
    plan = json.loads((run.path / "plan.json").read_text())
    older = {key: value for key, value in plan.items() if key not in ("spec", "shards")} | plan["spec"] | {"threads": 4}
    (run.path / "plan.json").write_text(json.dumps(older))
    trainer = making.again(run)
    assert trainer.updater.strategy.shard_count is None and trainer.updater.strategy.workers.number == 2
    assert list(trainer.updater.strategy.workers.map(lambda _: torch.get_num_threads(), [0])) == [2]
    assert run.read_plan().spec == plan["spec"]


@pytest.mark.parametrize(("given", "shards"), [({}, 2), ({"workers": 3}, 4), ({"shards": 8}, 8), ({"shards": 1}, 1)])
def test_shards_unless_given_are_two_or_as_many_as_workers(making: Making, given: dict, shards: int) -> None:
    config = making.config(**({"shards": None} | given))
    run = RunFolder.create(making.folder / "run", config)
    set_up(run, log=lambda message: None)
    assert run.read_plan().shards == shards


def test_more_workers_than_shards_are_refused(making: Making) -> None:
    with pytest.raises(ConfigError, match="3 workers cannot share 2 shards"):
        setup.require_trainable(making.config(workers=3, shards=2))


def test_a_model_that_passes_change_has_one_worker(making: Making) -> None:
    """BatchNorm's running statistics are written by every pass: two at once would be a race."""
    options = making.config(threads=2).model_dump(mode="json")
    batch = ["model.normalization=batch"]
    run = RunFolder.create(making.folder / "run", load_config(options, batch))
    set_up(run, log=lambda message: None)
    options["train"] |= {"workers": 2, "shards": 2}
    refused = load_config(options, batch)
    with pytest.raises(ConfigError, match="several passes"):
        setup.require_trainable(refused)
    with pytest.raises(ConfigError, match="several passes"):
        set_up(RunFolder.create(making.folder / "refused", refused), log=lambda message: None)


def test_tokens_end_training_with_the_update_that_reaches_them(making: Making) -> None:
    """Of the target, end symbols counted and padding not: summed over an undisturbed run, batch by batch."""
    whole = making(steps=40, accumulate=2)
    whole.fit()
    totals = list(accumulate(record["tokens"] for record in records(whole) if "loss" in record))
    for tokens, steps in ((1, 1), (totals[11], 12), (totals[11] + 1, 13), (totals[30], 31)):
        assert making(steps=None, tokens=tokens, accumulate=2).budget.first == steps
    assert making(steps=7, tokens=totals[11], accumulate=2).budget.first == 7  # whichever comes first


def test_a_linear_schedule_falls_to_zero_at_the_last_update_of_its_epochs(making: Making) -> None:
    with pytest.raises(ConfigError, match="train"):
        making.config(schedule="linear", steps=None, early_stopping=3)
    trainer = making(schedule="linear", steps=None, epochs=3, warmup=1)
    last = 3 * len(trainer.data.train.batches(0))
    assert trainer.budget.first == last and trainer.rate(last) == 0 < trainer.rate(last - 1)
    assert making(schedule="linear", steps=2, epochs=3).budget.first == 2


# One process at a time


def test_a_run_is_trained_by_one_process_and_a_kill_lets_go(making: Making) -> None:
    run = making().run
    code = (
        "import sys, time; from pathlib import Path; from regard.runs.run_folder import RunFolder\n"
        "with RunFolder.open(Path(sys.argv[1])).training(): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(run.path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        with pytest.raises(ModelError, match="another process is training this run"), run.training():
            pass
        other.kill()
        other.wait()
        with run.training():
            pass


def test_the_reference_engine_trains_as_the_textbook_has_it(making: Making, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float32, and nothing is timed to choose it; validation, too."""
    plain = making(dropout=0.0, steps=4, precision="auto", engine="reference", valid=True, validate_every=2)
    assert plain.run.read_plan().precision == "float32"
    assert plain.run.read_plan().seconds_per_update == {"float32": 0.0}
    monkeypatch.setattr(
        "regard.models.cross_entropy.projected_cross_entropy", lambda *a, **k: pytest.fail("the fast loss")
    )
    plain.fit()
    assert plain.progress.step == 4
