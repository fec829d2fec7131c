"""An observation of a language model: each number by a second way; and observations that disagree with themselves."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.observation import (
    WHOLE,
    Alternative,
    AttentionMap,
    Axis,
    Influence,
    Observation,
    Prediction,
    Site,
    Surface,
    require_observation,
)  # fmt: skip
from regard.data.tokenizers.tokenizer import BEGIN
from regard.errors import ConfigError, ModelError
from regard.models.language_model import LanguageModel

from .language_models import generator


def test_each_token_has_its_probability_and_the_likeliest_in_its_place() -> None:
    model = generator()
    found = require_observation(model.inspect("abca\ng"))
    tokens = [BEGIN, *model.tokenizer.encode("abca\ng")]
    (surface,) = found.surfaces
    assert "".join(surface.pieces) == "abca\ng" and surface.ids == tuple(tokens[1:])
    assert [each.site.pieces for each in found.predictions] == [(place,) for place in range(-1, len(surface.pieces))]
    number = {label: place for place, label in enumerate(model.tokenizer.pieces(range(len(model.tokenizer))))}
    for length, prediction in enumerate(found.predictions, start=1):
        log_p = model.model.step(torch.tensor([tokens[:length]]), model.model.start(1))[0][0, -1].detach()
        assert prediction.log_probability == pytest.approx(float(log_p[number[prediction.label]]))
        if length < len(tokens):
            assert number[prediction.label] == tokens[length]
        values = [each.log_probability for each in prediction.alternatives]
        assert values == pytest.approx([float(log_p[number[each.label]]) for each in prediction.alternatives])
        assert values == pytest.approx(sorted(log_p[3:].tolist(), reverse=True)[:10])
    nll = -sum(each.log_probability or 0.0 for each in found.predictions[:-1])
    assert nll == pytest.approx(model.score("abca\ng").nll)


def test_heads_look_back_alone_and_have_labels_on_both_axes() -> None:
    model = generator()
    maps = model.inspect("abca").attention
    assert [each.place for each in maps] == ["decoder.0.self", "decoder.1.self"]
    for each in maps:
        assert each.query.labels == each.key.labels == ("<s>", "a", "b", "c", "a") and each.query.name != each.key.name
        assert each.weights.shape == (2, 5, 5) and not each.weights.triu(1).any()
        assert each.allowed is not None and each.allowed.equal(torch.ones(5, 5).tril().bool())
        torch.testing.assert_close(each.weights.sum(-1), torch.ones_like(each.weights[..., 0]))
    torch.testing.assert_close(maps[1].weights, model.inspect("abcad").attention[1].weights[:, :5, :5])


def test_looking_puts_no_hooks_on_the_model_that_generates(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = generator(), []
    step = LanguageModel.step
    monkeypatch.setattr(LanguageModel, "step", lambda self, *given: (seen.append(self), step(self, *given))[1])
    model.inspect("ab")
    assert (
        len(seen) == 1 and seen[0] is not model.model and next(seen[0].parameters()) is next(model.model.parameters())
    )


def test_parts_of_a_character_are_spelled() -> None:
    labels = generator("byte").inspect("aé").surfaces[0].pieces
    assert labels[0] == "a" and len(labels) == 3 and not any("\ufffd" in label or not label for label in labels)


def test_a_model_without_attention_shows_the_rest() -> None:
    found = require_observation(generator(mixer={"kind": "average"}).inspect("abc"))
    assert found.attention == () and len(found.predictions) == 4


@pytest.mark.parametrize(
    ("text", "told"),
    [("", "no text to inspect"), ("a" * 12, "too long to inspect: 12"), ("a" * 10**5, "too long"), ("xa", "'x'")],
)
def test_a_text_that_cannot_be_looked_at_is_refused(text: str, told: str) -> None:
    assert len(generator().inspect("a" * 11).surfaces[0].pieces) == 11
    with pytest.raises(ConfigError) as caught:
        generator().inspect(text)
    assert told in str(caught.value)


def test_at_most_256_tokens_are_shown_whatever_the_context() -> None:
    model = generator(context=1000)
    assert model.inspect("a" * 256).attention[0].weights.shape == (2, 257, 257)
    with pytest.raises(ConfigError, match="too long to inspect: 257 tokens"):
        model.inspect("a" * 257)


def test_no_number_at_all_is_told_as_such() -> None:
    model = generator()
    with torch.no_grad():
        for parameter in model.model.parameters():
            parameter.fill_(math.nan)
    with pytest.raises(ModelError):
        require_observation(model.inspect("ab"))


SQUARE = Axis("node", ("a", "b"))
PIECES = Surface("tokens", ("a", "b"))


def attention(weights: Tensor, allowed: Tensor | None = None) -> AttentionMap:
    return AttentionMap("encoder", 0, "self", weights, SQUARE, SQUARE, allowed)


def predicted(at: Site, *logs: float) -> Prediction:
    return Prediction(at, "token", "a", logs[0], tuple(Alternative("b", value) for value in logs[1:]))


EYE = torch.eye(2)[None]


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"text": "a"}, "returned dict"),
        (Observation((), attention=(attention(torch.zeros(2, 2)),)), "weights of 2 × 2 for 2 × 2"),
        (Observation((), attention=(attention(torch.zeros(1, 2, 3)),)), "1 × 2 × 3 for 2 × 2 labels"),
        (Observation((), attention=(attention(torch.full((1, 2, 2), math.inf)),)), "not finite"),
        (Observation((), attention=(attention(EYE, torch.ones(2, 3).bool()),)), "different shapes"),
        (Observation((), attention=(attention(EYE, torch.zeros(2, 2).bool()),)), "its mask hides"),
        (Observation((), attention=(attention(EYE), attention(EYE))), "the same side, layer and part"),
        (Observation((PIECES,), (predicted(WHOLE, math.nan),)), "not a number"),
        (Observation((PIECES,), (predicted(WHOLE, 0.0, math.inf),)), "not a number"),
        (Observation((PIECES,), (predicted(Site("piece", (2,)), 0.0),)), "the 2 pieces"),
        (Observation((PIECES,), (predicted(Site("after", (-2,)), 0.0),)), "the 2 pieces"),
        (Observation((PIECES,), (predicted(Site("piece", (-1,)), 0.0),)), "the 2 pieces"),
        (Observation((PIECES,), (predicted(Site("pair", (0,)), 0.0),)), "does not exist"),
        (Observation((PIECES,), (predicted(Site("whole", (), 1), 0.0),)), "does not exist"),
        (Observation((PIECES._replace(ids=(1,)),)), "one id for each piece"),
        (Observation((PIECES._replace(words=(0, 1), spelled=("ab",)),)), "words and the pieces of a surface"),
        (Observation((PIECES._replace(edges=((0, 2),)),)), "refers to a missing node"),
        (Observation((PIECES,), (), (), (Influence(0, 0, (0.0, 0.0), ""),)), "which does not exist"),
        (Observation((PIECES,), (predicted(WHOLE, 0.0),), (), (Influence(0, 0, (0.0,), ""),)), "one value for each"),
    ],
)
def test_an_observation_that_disagrees_with_itself_is_refused(found: Any, why: str) -> None:
    with pytest.raises(ModelError) as caught:
        require_observation(found)
    assert why in (caught.value.why or "")


@pytest.mark.parametrize(
    "place", ["encoder.0.self", "decoder.12.source", "decoder.source", "copying.source", "pooling", "body.net.1.a.b"]
)
def test_the_place_of_a_map_is_its_side_layer_and_part(place: str) -> None:
    assert AttentionMap.at(place, EYE, SQUARE, SQUARE).place == place
