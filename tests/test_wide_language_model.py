"""A language model that is interpolated with n-grams: its mixture, its gradient, its states, and its command."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard import cli
from regard.core.state import join, repeat, select, truncate
from regard.core.task import find_task
from regard.data.tokenizers.tokenizer import END
from regard.inference.interpolated_model import InterpolatedModel
from regard.models.ngram_gate import NgramGate
from regard.tasks.language_model.wide import FOLDS, WideExamples, fit_ngrams, fold_of, held_out_models
from regard.testing import TaskCase

TEXT = "the cat sat on the mat\nthe rat sat on the hat\n" * 30


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wide")
    (folder / "book.txt").write_text(TEXT)
    given = ["model.layers=1", "model.width=16", "model.heads=2", "train.steps=30", "data.context=32",
             "train.threads=1", "train.precision=float32", "train.workers=1"]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert cli.run(["train", "book.txt", *(part for each in given for part in ("--set", each))]) == 0
    return folder / "runs" / "book"


def model_of(run: Path) -> tuple[Any, InterpolatedModel]:
    generator: Any = regard.load(run)
    generator.model.requires_grad_(False)
    return generator, InterpolatedModel(generator.model, generator.ngrams, generator.model.gate)


def test_a_mixture_by_hand() -> None:
    """Weights ¾ and ¼: ¾ · 0.5 + ¼ · 0.1 = 0.4, and ½ · 0.5 + ½ · 0.1 = 0.3 in the other bucket."""
    gate = NgramGate(2)
    gate.weight.data = torch.tensor([math.log(3), 0.0])
    mixed = gate(torch.tensor([0.5, 0.5]).log(), torch.tensor([0.1, 0.1]).log(), torch.tensor([0, 1]))
    torch.testing.assert_close(mixed.exp(), torch.tensor([0.4, 0.3]))


def test_the_network_learns_from_its_own_loss_and_the_gate_from_the_mixture() -> None:
    task = find_task("language-model")
    cases = [TaskCase(_sample(task, wide), "language-model") for wide in (False, True)]
    gradients = []
    for case in cases:
        net, batch = case.net(), case.data.train.collate(case.data.train.batches(0)[0])
        net.eval()
        terms = task.objective(case.config)(net, batch, ())
        terms.minimized.backward()
        gradients.append({name: one.grad for name, one in net.named_parameters()})
    assert gradients[1].pop("gate.weight").abs().sum() > 0
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, msg=name)
    torch.testing.assert_close(terms.minimized, terms.sums["nll"])


def _sample(task: Any, wide: bool) -> Any:
    from dataclasses import replace

    return replace(task, sample=lambda folder: _with(task.sample(folder), wide))


def _with(tables: Any, wide: bool) -> Any:
    return {**tables, "model": tables["model"] | {"wide": wide, "dropout": 0.0}}


def test_a_token_of_training_is_predicted_without_its_fold() -> None:
    """Each fold is a different sentence: without it, its words were never read."""
    case = TaskCase(find_task("language-model"), "language-model")
    examples: Any = case.data.train
    whole = fit_ngrams(examples, case.data.spec["types"])
    models = held_out_models(examples, whole)
    own, held_out = WideExamples(examples, [whole]), WideExamples(examples, models)
    fold = fold_of(np.arange(len(examples)), len(examples), FOLDS)
    assert len(models) == len({*fold.tolist()}) > 1
    (batch, *_) = examples.batches(None)
    seen, unseen = (part.collate(batch).wide[..., 0].sum() for part in (own, held_out))
    assert unseen < seen
    expected = fit_ngrams(examples, whole.types, chosen=fold != fold[-1], longest=whole.longest)
    assert all(np.array_equal(a.counts, b.counts) for a, b in zip(models[-1].orders, expected.orders, strict=True))


def test_steps_of_any_size_are_one_pass_and_sum_to_one(run: Path) -> None:
    generator, model = model_of(run)
    tokens = torch.tensor([generator.tokens("the cat sat on"), generator.tokens("the hat sat on")])
    whole, _ = model.step(tokens, model.start(2))
    torch.testing.assert_close(whole.exp().sum(-1), torch.ones(tokens.shape))
    state, parts = model.start(2), []
    for begin, end in ((0, 1), (1, 4), (4, 5), (5, tokens.shape[1])):
        log_p, state = model.step(tokens[:, begin:end], state)
        parts.append(log_p)
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-5, rtol=1e-5)


def test_states_are_selected_repeated_joined_and_truncated(run: Path) -> None:
    generator, model = model_of(run)
    long, short = generator.tokens("the cat sat"), generator.tokens("on")
    padded = torch.tensor([long, [*short, *[0] * (len(long) - len(short))]])
    _, state = model.step(padded, model.start(2))
    state = truncate(state, torch.tensor([len(long), len(short)]))
    following = torch.tensor([[generator.tokenizer.encode(" ")[0]]])

    def next_after(tokens: list[int]) -> torch.Tensor:
        log_p, _ = model.step(torch.tensor([[*tokens, int(following)]]), model.start(1))
        return log_p[0, -1]

    order = torch.tensor([1, 0, 1])
    rows = join([select(state, order), repeat(select(state, torch.tensor([0])), 2)])
    log_p, after = model.step(following.expand(5, 1), rows)
    expected = torch.stack([next_after(tokens) for tokens in (short, long, short, long, long)])
    torch.testing.assert_close(log_p[:, -1], expected, atol=1e-5, rtol=1e-5)
    with pytest.raises(TypeError, match="cannot be truncated"):
        truncate(after, torch.ones(5, dtype=torch.int64))


def test_every_figure_of_a_text_is_that_of_the_mixture(run: Path, tmp_path: Path, capsys: Any) -> None:
    generator, model = model_of(run)
    text = "the rat sat on the cat\n"
    tokens = generator.tokens(text)
    log_p, _ = model.step(torch.tensor([tokens]), model.start(1))
    own = log_p[0, :-1].gather(1, torch.tensor(tokens[1:])[:, None])[:, 0]
    score = generator.score(text)
    assert score.nll == pytest.approx(-float(own.sum()), rel=1e-5)
    alone, _ = generator.model.step(torch.tensor([tokens]), generator.model.start(1))
    assert abs(float((alone - log_p).abs().max())) > 0.01
    observed = generator.inspect(text.strip()).predictions
    assert [one.log_probability for one in observed[: len(own) - 1]] == pytest.approx(own[:-1].tolist(), rel=1e-4)
    (tmp_path / "text.txt").write_text(text)
    assert cli.run(["evaluate", str(run), str(tmp_path / "text.txt"), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert figures["loss"] * len(tokens) == pytest.approx(-float(own.sum() + log_p[0, -1, END]), rel=1e-4)


@pytest.mark.parametrize("engine", ["reference", "float32"])
def test_engines_generate_the_same(run: Path, engine: str) -> None:
    """Beyond the context too, where the last half of a window is read again."""
    expected = regard.load(run, engine="reference")("the cat", length=60, greedy=True)
    found = regard.load(run, engine=engine)("the cat", length=60, greedy=True)
    assert found.text == expected.text and found.log_probability == pytest.approx(expected.log_probability, rel=1e-4)


def test_another_format_is_refused_with_the_setting(run: Path, capsys: Any) -> None:
    assert cli.run(["export", str(run), "made", "--to", "transformers"]) == 2
    assert "--set model.wide=false" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "named"), [("data.order=lanes", "model.wide"), ("train.baseline=false", "train.baseline")]
)
def test_a_setting_that_excludes_n_grams_is_named(tmp_path: Path, capsys: Any, given: str, named: str) -> None:
    (tmp_path / "book.txt").write_text(TEXT)
    options = ["--set", "model.wide=true", "--set", given, "--set", "train.steps=1"]
    assert cli.run(["train", str(tmp_path / "book.txt"), *options]) == 2
    assert named in capsys.readouterr().err
