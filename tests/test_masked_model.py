"""Masked models: networks that see both sides, what their loss counts, and how gaps are filled."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.attention.span import Span
from regard.core.observation import Site
from regard.core.task import find_task
from regard.data.tokenizers.tokenizer import SPECIALS
from regard.errors import ConfigError, DataError
from regard.models.input import TokenInput
from regard.models.masked_config import MaskedModelConfig
from regard.models.masked_model import ContextMeanEncoder, MaskedModel, build_masked_model
from regard.runs.config import load_config
from regard.tasks.evaluate import evaluate
from regard.tasks.masked.config import FillConfig
from regard.tasks.masked.filler import Filled, Filler, GapCandidate
from regard.testing import TASK_LAWS, Draw, TaskCase

TYPES = 9
KINDS: dict[str, dict[str, Any]] = {
    "transformer": {"layers": 1, "width": 8, "feed_forward": 8, "heads": 2, "dropout": 0.0, "position": "rotary"},
    "recurrent": {"kind": "recurrent", "layers": 1, "width": 8, "dropout": 0.0},
    "convolutional": {"kind": "convolutional", "layers": 2, "width": 8, "dropout": 0.0, "longest": 16},
    "context-mean": {"kind": "context-mean", "width": 8, "dropout": 0.0},
}


def model(kind: str, **more: Any) -> MaskedModel:
    torch.manual_seed(1)
    return build_masked_model(MaskedModelConfig.model_validate(KINDS[kind] | more), TYPES).double().eval()


@pytest.mark.parametrize("kind", KINDS)
def test_a_place_sees_both_sides(kind: str) -> None:
    net = model(kind, share="none")
    tokens = torch.tensor([[2, 4, 5, 6, TYPES, 7, 8, 4, 3]])
    weight = next(part.weight for part in net.modules() if isinstance(part, TokenInput))
    weight.grad = None
    net(tokens, Span.without_padding(tokens))[0, 4].square().sum().backward()
    assert weight.grad is not None
    seen = set(weight.grad.abs().sum(-1).nonzero()[:, 0].tolist())
    assert {6, 7} <= seen


@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing(kind: str) -> None:
    net, tokens = model(kind), torch.tensor([[2, 4, TYPES, 6, 3]])
    padded = torch.cat([tokens, torch.zeros(1, 3, dtype=torch.int64)], 1)
    alone = net(tokens, Span.without_padding(tokens))
    torch.testing.assert_close(net(padded, Span.of(padded > 0))[:, :5], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("window", [None, 1, 2])
def test_a_context_mean_is_that_of_the_others_around(window: int | None) -> None:
    weight = torch.nn.Parameter(torch.randn(6, 3, dtype=torch.float64))
    encoder = ContextMeanEncoder(TokenInput(weight).configure(scale=1.0), window)
    tokens, valid = torch.tensor([[1, 2, 3, 4], [5, 0, 0, 0]]), torch.tensor([[True] * 4, [True] + [False] * 3])
    states = encoder(tokens, Span.of(valid)).states
    for at in range(4):
        near = [j for j in range(4) if j != at and abs(j - at) <= (window or 9)]
        torch.testing.assert_close(states[0, at], weight[tokens[0, near]].mean(0))
    assert (states[1, 0] == 0).all()


def test_embeddings_have_the_mask_and_are_the_projection_unless_said() -> None:
    tied, free = model("transformer"), model("transformer", share="none")
    assert tied.head.weight.shape == (TYPES + 1, 8)
    assert {id(tied.head.weight)} == {id(each.weight) for each in tied.modules() if isinstance(each, TokenInput)}
    assert sum(p.numel() for p in free.parameters()) - sum(p.numel() for p in tied.parameters()) == (TYPES + 1) * 8


def test_an_encoder_of_one_direction_is_refused() -> None:
    tables = {"task": "masked", "data": {"train": []}, "model": {"kind": "recurrent", "bidirectional": False}}
    with pytest.raises(ConfigError, match="both sides"):
        load_config(tables)


@pytest.mark.parametrize("kind", ["recurrent", "convolutional", "context-mean"])
def test_other_encoders_keep_the_laws_of_losses(kind: str) -> None:
    task = find_task("masked")

    changed = replace(task, sample=lambda folder: dict(task.sample(folder)) | {"model": KINDS[kind]})
    case = TaskCase(changed, "masked")
    for each in TASK_LAWS:
        if each.name in ("terms_add_over_dealing", "the_loss_of_one_batch_falls"):
            each.check(case, Draw(random.Random(1)))


@pytest.fixture(scope="module")
def case() -> TaskCase:
    return TaskCase(find_task("masked"), "masked")


def test_places_that_are_not_chosen_give_no_loss(case: TaskCase) -> None:
    net, examples = case.net(), case.data.train.batches(0)[0]
    batch: Any = case.data.train.collate(examples)
    objective = case.task.objective(case.config)
    other = batch._replace(target=torch.where(batch.chosen, batch.target, 5))
    assert objective(net, batch, ()).minimized == objective(net, other, ()).minimized
    moved = batch._replace(target=torch.where(batch.chosen, 5, batch.target))
    assert objective(net, batch, ()).minimized != objective(net, moved, ()).minimized


def words(case: TaskCase) -> Any:
    return case.data.codecs.tokenizer


def filler(case: TaskCase) -> Any:
    return case.predictor


def test_gaps_are_filled_by_the_likeliest(case: TaskCase) -> None:
    (found,) = filler(case)(["the cat ___ on the ___"], top_k=3)
    assert [len(gap) for gap in found.gaps] == [3, 3]
    best = [gap[0].text for gap in found.gaps]
    assert found.text == f"the cat {best[0]} on the {best[1]}"
    for gap in found.gaps:
        probabilities = [each.probability for each in gap]
        assert probabilities == sorted(probabilities, reverse=True)
        assert sum(probabilities) <= 1


def test_no_special_token_is_offered_even_where_the_model_prefers_it(case: TaskCase) -> None:
    tokenizer = words(case)
    net = case.net().float()
    with torch.no_grad():
        net.head.bias[: len(SPECIALS)] = 50
        net.head.bias[len(tokenizer)] = 60
    found = Filler(net, tokenizer, FillConfig(), context=8)(["the ___"], top_k=999)[0].gaps[0]
    assert len(found) == len(tokenizer) - len(SPECIALS)
    assert not {each.text for each in found} & {*SPECIALS, "<mask>"}


def test_a_probability_is_that_of_the_model(case: TaskCase) -> None:
    predictor, tokenizer = filler(case), words(case)
    tokens = torch.tensor([[2, *tokenizer.encode("the cat"), len(tokenizer), 3]])
    with torch.no_grad():
        log_p = predictor.model.log_probabilities(predictor.model(tokens, Span.without_padding(tokens)))
    for each in predictor(["the cat ___"], top_k=4)[0].gaps[0]:
        (piece,) = tokenizer.encode(each.text)
        assert each.probability == pytest.approx(float(log_p[0, 3, piece].exp()), rel=1e-5)


def test_a_line_without_a_gap_is_refused_with_how_to_write_one(case: TaskCase) -> None:
    with pytest.raises(DataError, match="no gap") as error:
        filler(case).read("the cat sat")
    assert "___" in str(error.value.why)
    with pytest.raises(DataError, match="too long"):
        filler(case).read("the cat sat on the mat and on ___")


def test_a_setting_that_cannot_be_is_refused(case: TaskCase) -> None:
    with pytest.raises(ConfigError, match="top_k"):
        filler(case)(["___"], top_k=0)


def test_an_output_is_written_for_people_and_as_json(case: TaskCase) -> None:
    output = Filled("a cat sat", ((GapCandidate("cat", 0.5), GapCandidate(" ", 0.25)), (GapCandidate("sat", 1.0),)))
    assert filler(case).write(output, json=False) == "a cat sat\tcat 0.500  ' ' 0.250 | sat 1.000"
    told = json.loads(filler(case).write(output, json=True))
    assert told["text"] == "a cat sat"
    assert told["gaps"][0][0] == {"text": "cat", "probability": 0.5}


def test_pseudo_log_probabilities_mask_each_token_in_turn(case: TaskCase) -> None:
    predictor, tokenizer = filler(case), words(case)
    text = np.array([2, *tokenizer.encode("the cat sat"), 3])
    found = predictor.pseudo_log_probabilities(text)
    for at in range(3):
        read = torch.from_numpy(text.copy())[None]
        read[0, at + 1] = len(tokenizer)
        with torch.no_grad():
            log_p = predictor.model.log_probabilities(predictor.model(read, Span.without_padding(read)))
        assert found[at] == pytest.approx(float(log_p[0, at + 1, text[at + 1]]), abs=1e-5)
    assert len(found) == 3


def test_inspection_shows_each_head_with_the_gap(case: TaskCase) -> None:
    found = filler(case).inspect("the ___ sat")
    (weights,) = found.attention
    assert weights.query.labels == ("<s>", "the", "___", "sat", "</s>")
    torch.testing.assert_close(weights.weights.sum(-1), torch.ones(2, 5))
    assert found.surfaces[0].pieces == ("the ", "___", " sat")
    (prediction,) = found.predictions
    assert prediction.site == Site("gap", (1,))
    (filled,) = filler(case)(["the ___ sat"], top_k=10)
    told = {each.label: math.exp(each.log_probability) for each in prediction.alternatives}
    assert told == pytest.approx({each.text: each.probability for each in filled.gaps[0]})


@pytest.fixture(scope="module")
def run(case: TaskCase) -> Path:
    return case.undisturbed[0].path


def test_evaluation_is_the_same_twice_and_carries_its_baseline(run: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the cat sat on the mat\na rat sat on the hat\n\nthe the the\n")
    one, other = (evaluate(run, tmp_path / "text.txt") for _ in range(2))
    assert one.figures == other.figures
    assert one.examples == 3
    wanted = {"loss", "perplexity", "accuracy", "pseudo_perplexity", "unigram_loss", "unigram_accuracy"}
    assert one.figures.keys() == wanted
    assert one.figures["perplexity"] == pytest.approx(math.exp(one.figures["loss"]))
    (tmp_path / "other.txt").write_text("the the the the\n")
    assert evaluate(run, tmp_path / "other.txt", metrics=["unigram_accuracy"]).figures["unigram_accuracy"] == 1


def test_a_saved_run_fills(run: Path) -> None:
    (found,) = regard.load(run)(["the ___ sat"])
    assert len(found.gaps) == 1


def test_a_request_has_no_more_candidates_than_an_answer_may(case: TaskCase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.tasks.masked.filler.MAX_CANDIDATES", 6)
    predictor = filler(case)
    settings = predictor.interface.settings
    assert settings is not None
    ask = partial(predictor.interface.predict, interrupted=lambda: False)
    found = ask("the ___ ___ cat", settings.model_copy(update={"top_k": 3}))
    assert [len(gap) for gap in found.gaps] == [3, 3]
    with pytest.raises(DataError, match="too many candidates"):
        ask("the ___ ___ cat", settings.model_copy(update={"top_k": 4}))
