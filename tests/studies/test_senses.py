"""The study of senses: probes find what is there and nothing else, and each criterion can fail."""

from __future__ import annotations

from statistics import fmean

import pytest
import torch
from torch import Tensor

from regard.studies import senses as study
from regard.studies import toy_tasks
from regard.studies.sentences import Sense, sense_sentences, word_tokenizer
from regard.studies.study import ignore_report

LANGUAGE = sense_sentences()


def of_sense() -> Tensor:
    return torch.tensor([[float(each.sense), 1.0] for each in LANGUAGE]) + 0.1 * torch.randn(len(LANGUAGE), 2)


def of_neighbor() -> Tensor:
    """A feature of its own for each word beside *bank*: who has seen the word knows its sense, nobody else does."""
    words = torch.tensor([each.neighbor + (12 if each.sense > 0 else 0) for each in LANGUAGE])
    return torch.nn.functional.one_hot(words, 24).float()


def test_a_probe_finds_the_sense_for_people_and_words_it_has_not_seen() -> None:
    torch.manual_seed(1)
    told = study.ProbeAccuracy.of(of_sense(), LANGUAGE)
    assert told.people == 1.0
    assert told.by_word == [1.0] * 24


def test_a_neighbor_is_not_a_sense() -> None:
    told = study.ProbeAccuracy.of(of_neighbor(), LANGUAGE)
    assert told.people == 1.0
    assert fmean(told.by_word) == 0.5


def test_one_vector_tells_nothing() -> None:
    told = study.ProbeAccuracy.of(torch.ones(len(LANGUAGE), 3), LANGUAGE)
    assert (told.people, fmean(told.by_word)) == (0.5, 0.5)


def verdict(monkeypatch: pytest.MonkeyPatch, before: Tensor, after: Tensor, static: Tensor) -> list[bool]:
    states = iter([{"embedding": static, "last": before}, {"embedding": static, "last": after}])
    monkeypatch.setattr(study, "_vectors_at_bank", lambda *rest: next(states))
    return [criterion.holds for criterion in study.run(seed=1, minimal=True, report=ignore_report).criteria]


def test_each_criterion_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    sense, neighbor, nothing = of_sense(), of_neighbor(), torch.ones(len(LANGUAGE), 2)
    assert verdict(monkeypatch, neighbor, sense, nothing) == [True, True, True, True]
    assert verdict(monkeypatch, neighbor, sense, sense) == [False, True, True, True]
    assert verdict(monkeypatch, neighbor, neighbor, nothing) == [True, True, False, False]
    assert verdict(monkeypatch, sense, sense, nothing) == [True, True, True, False]
    assert verdict(monkeypatch, neighbor, nothing, nothing) == [True, False, False, False]


def test_columns_are_those_at_bank() -> None:
    """The embedding is one vector in all sentences; a state differs from sentence to sentence."""
    torch.manual_seed(1)
    chosen: list[Sense] = [LANGUAGE[0], LANGUAGE[1], LANGUAGE[-1]]
    tokenizer = word_tokenizer(LANGUAGE)
    sizes = dict(encoder_layers=2, decoder_layers=1, width=8, feed_forward=8, heads=1)
    model = toy_tasks.toy_model(len(tokenizer), **sizes, norm="pre")
    columns = study._vectors_at_bank(model, chosen, tokenizer)
    assert list(columns) == ["embedding", "states after layer 1", "states after layer 2"]
    bank = tokenizer.encode("bank")[0]
    shared = model.head.weight[bank].detach()  # one matrix for embeddings and output
    assert torch.equal(columns["embedding"], shared.expand(3, -1))
    assert len(torch.unique(columns["states after layer 2"], dim=0)) == 3
