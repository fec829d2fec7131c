"""An observation of a language model: each number by a second way; and observations that disagree with themselves."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from regard.core.observation import Alternative, AttentionWeights, Axis, Observation, ObservedStep, require_observation
from regard.data.tokenizers.tokenizer import BEGIN
from regard.errors import ConfigError, ModelError
from regard.models.language_model import LanguageModel

from .language_models import generator


def test_each_token_has_its_probability_and_the_likeliest_in_its_place() -> None:
    model = generator()
    found = require_observation(model.inspect("abca\ng"))
    tokens = [BEGIN, *model.tokenizer.encode("abca\ng")]
    assert "".join(step.label for step in found.steps) == found.text == "abca\ng"
    told = [*found.steps, None]
    for at, step in enumerate(told, start=1):
        log_p = model.model.step(torch.tensor([tokens[:at]]), model.model.start(1))[0][0, -1].detach()
        best = step.alternatives if step else found.following
        if step:
            assert step.log_probability == pytest.approx(float(log_p[tokens[at]]))
        number = {label: at for at, label in enumerate(model.tokenizer.pieces(range(len(model.tokenizer))))}
        values = [each.log_probability for each in best]
        assert values == pytest.approx([float(log_p[number[each.label]]) for each in best])
        assert values == pytest.approx(sorted(log_p[3:].tolist(), reverse=True)[:10])
    assert sum(step.log_probability for step in found.steps) == pytest.approx(-model.score("abca\ng").nll)


def test_heads_look_back_alone_and_have_labels_on_both_axes() -> None:
    model = generator()
    found = model.inspect("abca")
    assert list(found.attention) == ["layers.0.self", "layers.1.self"]
    for weights, query, key in found.attention.values():
        assert query.labels == key.labels == ("<s>", "a", "b", "c", "a") and query.name != key.name
        assert weights.shape == (2, 5, 5) and not weights.triu(1).any()
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    longer = model.inspect("abcad").attention["layers.1.self"].weights[:, :5, :5]
    torch.testing.assert_close(found.attention["layers.1.self"].weights, longer)


def test_looking_puts_no_hooks_on_the_model_that_generates(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = generator(), []
    step = LanguageModel.step
    monkeypatch.setattr(LanguageModel, "step", lambda self, *given: (seen.append(self), step(self, *given))[1])
    model.inspect("ab")
    assert (
        len(seen) == 1 and seen[0] is not model.model and next(seen[0].parameters()) is next(model.model.parameters())
    )


def test_parts_of_a_character_are_spelled() -> None:
    labels = [step.label for step in generator("byte").inspect("aé").steps]
    assert labels[0] == "a" and len(labels) == 3 and not any("\ufffd" in label or not label for label in labels)


def test_a_model_without_attention_shows_the_rest() -> None:
    found = require_observation(generator(mixer={"kind": "average"}).inspect("abc"))
    assert found.attention == {} and len(found.steps) == 3


@pytest.mark.parametrize(
    ("text", "told"),
    [("", "no text to look at"), ("a" * 12, "12 tokens is too long"), ("a" * 10**5, "too long"), ("xa", "'x'")],
)
def test_a_text_that_cannot_be_looked_at_is_refused(text: str, told: str) -> None:
    assert len(generator().inspect("a" * 11).steps) == 11
    with pytest.raises(ConfigError) as caught:
        generator().inspect(text)
    assert told in str(caught.value)


def test_at_most_256_tokens_are_shown_whatever_the_context() -> None:
    model = generator(context=1000)
    assert model.inspect("a" * 256).attention["layers.0.self"].weights.shape == (2, 257, 257)
    with pytest.raises(ConfigError, match="257 tokens is too long"):
        model.inspect("a" * 257)


def test_no_number_at_all_is_told_as_such() -> None:
    model = generator()
    with torch.no_grad():
        for parameter in model.model.parameters():
            parameter.fill_(math.nan)
    with pytest.raises(ModelError):
        require_observation(model.inspect("ab"))


SQUARE = Axis("node", ("a", "b"))


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"text": "a"}, "returned dict"),
        (Observation("", {"x": AttentionWeights(torch.zeros(2, 2), SQUARE, SQUARE)}), "weights of 2 × 2 for 2 × 2"),
        (Observation("", {"x": AttentionWeights(torch.zeros(1, 2, 3), SQUARE, SQUARE)}), "1 × 2 × 3 for 2 × 2 labels"),
        (Observation("", {"x": AttentionWeights(torch.full((1, 2, 2), math.inf), SQUARE, SQUARE)}), "not finite"),
        (Observation("", {}, (ObservedStep("a", math.nan),)), "no number"),
        (Observation("", {}, (ObservedStep("a", 0.0, (Alternative("b", math.inf),)),)), "no number"),
    ],
)
def test_an_observation_that_disagrees_with_itself_is_refused(found: Any, told: str) -> None:
    with pytest.raises(ModelError) as caught:
        require_observation(found)
    assert told in (caught.value.why or "")
