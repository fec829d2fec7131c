"""The study of pronouns: what a head's absence is, what right is, and a verdict that can fail."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from regard import inspect
from regard.attention.heads import MultiHead
from regard.models.encoder_decoder import EncoderDecoder
from regard.studies import pronoun, toy_tasks
from regard.studies.catalog import STUDIES
from regard.studies.pronoun import ALL_HEADS, HeadSite, switched_off
from regard.studies.record import record_study
from regard.studies.sentences import pronoun_sentences, word_tokenizer
from regard.studies.study import ignore_report

LANGUAGE = pronoun_sentences()
TOKENIZER = word_tokenizer(LANGUAGE)


@pytest.fixture(scope="module")
def model() -> EncoderDecoder:
    torch.manual_seed(1)
    return pronoun._learn(LANGUAGE, TOKENIZER, updates=2, seed=1, report=ignore_report)


def test_a_head_switched_off_is_one_whose_share_of_the_output_projection_is_zero(model: EncoderDecoder) -> None:
    judged = LANGUAGE[:4]
    whole = pronoun._log_p(model, judged, TOKENIZER)
    for head in (HeadSite("encoder.1.self", 2), HeadSite("decoder.0.source", 0)):
        with switched_off(model, head):
            silenced = pronoun._log_p(model, judged, TOKENIZER)
        attention = model.get_submodule(pronoun.ATTENTIONS[head.attention].removesuffix(".mechanism"))
        assert isinstance(attention, MultiHead) and isinstance(attention.output, torch.nn.Linear)
        columns = attention.output.weight[:, 16 * head.number : 16 * (head.number + 1)]
        kept = columns.detach().clone()
        with torch.no_grad():
            columns.zero_()
            without = pronoun._log_p(model, judged, TOKENIZER)
            columns.copy_(kept)
        torch.testing.assert_close(silenced, without)
        assert not torch.allclose(silenced, whole)
        torch.testing.assert_close(pronoun._log_p(model, judged, TOKENIZER), whole)


def test_weight_gaps_by_hand(model: EncoderDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns 0 to 2 are the subject's, 5 to 7 the object's."""
    tired, wide = (
        next(each for each in LANGUAGE if each.source.endswith(f"cross the street because it was too {word}"))
        for word in ("tired", "wide")
    )
    weights = torch.tensor([[0.1, 0.2, 0.3, 0.0, 0.0, 0.05, 0.05, 0.0, 0.3]]).expand(2, -1)
    monkeypatch.setattr(pronoun, "_weights", lambda *rest: {ALL_HEADS[0]: weights})
    looks = pronoun._weight_gaps(model, [tired, wide], TOKENIZER)[ALL_HEADS[0]]
    assert looks == pytest.approx([0.5, -0.5])


def test_right_is_the_word_after_weil(model: EncoderDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = LANGUAGE[:4]
    texts = [each.target for each in judged]
    assert all("weil es" in text for text in texts)
    said = [texts[0], texts[1].replace("weil es", "weil sie"), "das Tier weil", "das Tier"]
    monkeypatch.setattr(toy_tasks, "translate_greedily", lambda *rest: TOKENIZER.encode_lines(said))
    assert pronoun._share_correct(model, judged, TOKENIZER) == 0.25


def test_an_untrained_model_does_not_hold() -> None:
    torch.manual_seed(1)
    found = pronoun.run(seed=1, minimal=True, report=ignore_report)
    assert not found.criteria[0].holds
    assert [row[0] for row in found.rows] == ["none", *map(str, ALL_HEADS)]


@pytest.mark.parametrize(("right", "looks", "failed"), [(1.0, 0.5, []), (0.8, 0.5, [0]), (1.0, 0.0, [1])])
def test_each_criterion_can_fail(
    right: float, looks: float, failed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {head: [0.0, 0.01, -0.01] for head in ALL_HEADS} | {ALL_HEADS[5]: [looks, looks + 0.01, looks - 0.01]}
    monkeypatch.setattr(pronoun, "_share_correct", lambda *rest: right)
    monkeypatch.setattr(pronoun, "_weight_gaps", lambda *rest: given)
    falls = iter([torch.tensor([0.0, 0.0, 0.0]), *[torch.tensor([-0.3, -0.4, -0.5])] * len(ALL_HEADS)])
    monkeypatch.setattr(pronoun, "_log_p", lambda *rest: next(falls))
    found = pronoun.run(seed=1, minimal=True, report=ignore_report)
    assert [place for place, criterion in enumerate(found.criteria) if not criterion.holds] == failed


def test_heads_of_the_encoder_are_told_apart_from_the_one_that_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict may rest on the decoder; then the remarks say how little the encoder's heads look."""
    values = dict.fromkeys(ALL_HEADS, 0.0) | {
        HeadSite("encoder.1.self", 3): 0.0125,
        HeadSite("decoder.0.source", 1): 0.5,
    }
    monkeypatch.setattr(pronoun, "_share_correct", lambda *rest: 1.0)
    monkeypatch.setattr(pronoun, "_weight_gaps", lambda *rest: {head: [each, each] for head, each in values.items()})
    monkeypatch.setattr(pronoun, "_log_p", lambda *rest: torch.zeros(2))
    found = pronoun.run(seed=1, minimal=True, report=ignore_report)
    assert found.criteria[1].what.startswith("decoder.0.source, head 1")
    assert any("of the encoder" in remark and " 0.0125." in remark for remark in found.remarks)


def test_a_head_whose_absence_helps_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    falls = iter([torch.tensor([0.0, 0.0, 0.0]), *[torch.tensor([0.3, 0.4, 0.5])] * len(ALL_HEADS)])
    monkeypatch.setattr(pronoun, "_log_p", lambda *rest: next(falls))
    found = pronoun.run(seed=1, minimal=True, report=ignore_report)
    assert not found.criteria[2].holds


def test_the_model_is_kept_as_a_run_that_can_be_looked_into(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()  # of an earlier run, which is replaced
    record_study(STUDIES["pronoun"], tmp_path, minimal=True)
    found = inspect(tmp_path / "run", LANGUAGE[0].source)
    assert set(found.attention) == {"encoder.0.self", "encoder.1.self", "decoder.0.self", "decoder.0.source"}
    assert found.document["alignment"]["why"].startswith("Of all heads")
    assert "<unk>" not in found.document["surfaces"][0]["pieces"]
