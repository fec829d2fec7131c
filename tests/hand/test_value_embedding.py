"""Value embeddings by numbers that can be checked with a pencil, from a config, and in pieces."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention.heads import MultiHead, SelfAttention
from regard.attention.mask import Padding
from regard.attention.mechanisms.dot import Dot
from regard.attention.span import Span
from regard.core.state import join, repeat, select, truncate
from regard.errors import ConfigError
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.input import Input, TokenInput
from regard.models.language_model import LanguageModel
from regard.runs.config import load_config
from regard.tasks.language_model.task import TASK
from regard.training.muon import hidden_matrices

SIZES: dict[str, Any] = {"layers": 2, "width": 8, "heads": 4, "feed_forward": 12, "dropout": 0.0}
TOKENS = torch.tensor([[4, 5, 6]])
SPAN = Span.without_padding(TOKENS)


def model(**more: Any) -> EncoderDecoder:
    torch.manual_seed(4)
    return build(ModelConfig.model_validate(SIZES | more), source_types=9, target_types=9).double().eval()


def language_model(**more: Any) -> LanguageModel:
    torch.manual_seed(2)
    config = load_config({"task": "language-model", "data": {"train": [], "context": 12}, "model": SIZES | more})
    made = TASK.build(config, {"types": 11}).double().eval()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    assert isinstance(made, LanguageModel)
    return made


def test_values_are_mixed_by_both_factors() -> None:
    """One column sees itself alone: 2 · (1, −1) + 3 · (10, 20) = (32, 58)."""
    heads = MultiHead(2, heads=1, mechanism=Dot(), project=())
    mixer = SelfAttention(heads, mask=Padding(), adds_values=True)
    assert mixer.value_mix is not None and mixer.value_mix.tolist() == [0.5, 0.5]
    with torch.no_grad():
        mixer.value_mix.copy_(torch.tensor([2.0, 3.0]))
        x, e = torch.tensor([[[1.0, -1.0]]]), torch.tensor([[[10.0, 20.0]]])
        assert mixer(x, SPAN.columns(0, 1), (), e).output.tolist() == [[[32.0, 58.0]]]


def test_heads_have_their_own_features_of_the_table() -> None:
    """Two key heads of one feature, of which the second has the table's second feature."""
    heads = MultiHead(2, heads=2, mechanism=Dot(), project=())
    mixer = SelfAttention(heads, mask=Padding(), adds_values=True)
    e = torch.tensor([[[0.0, 8.0]]])
    assert mixer(torch.zeros(1, 1, 2), SPAN.columns(0, 1), (), e).output.tolist() == [[[0.0, 4.0]]]


def test_a_side_has_one_table_and_each_layer_two_factors() -> None:
    made = model(value_embedding=True, key_heads=2, value_width=3)
    plain = dict(model(key_heads=2, value_width=3).named_parameters())
    found = {name: tuple(each.shape) for name, each in made.named_parameters() if name not in plain}
    assert found == {
        f"{side}.{name}": shape
        for side in ("encoder", "decoder")
        for name, shape in {
            "embedding.values": (9, 6), "layers.0.mixer.value_mix": (2,), "layers.1.mixer.value_mix": (2,),
        }.items()
    }  # fmt: skip
    assert not set(found) & set(hidden_matrices(made)), "the table is an embedding"


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_every_layer_of_its_side_reads_the_token(side: str) -> None:
    made = model(**{side: {"value_embedding": True}})
    table = getattr(made, side).embedding.values
    assert isinstance(table, nn.Parameter)
    for layer in getattr(made, side).layers:
        made.zero_grad()
        with torch.no_grad():
            for each in getattr(made, side).layers:
                each.mixer.value_mix.copy_(torch.tensor([1.0, float(each is layer)]))
        made(TOKENS, SPAN, TOKENS, SPAN).square().sum().backward()
        assert table.grad is not None and table.grad.any(1).tolist() == [4 <= token <= 6 for token in range(9)]


class Frames(Input):
    """An input without tokens."""

    def vectors(self, inputs: Tensor) -> Tensor:
        return nn.functional.one_hot(inputs, 8).double()


def test_what_has_no_tokens_or_no_values_is_refused() -> None:
    made = model(value_embedding=True)
    made.encoder.embedding = Frames(8)
    with pytest.raises(ValueError, match="value embeddings are missing"):
        made.encoder(TOKENS, SPAN)
    with pytest.raises(ConfigError, match="'ssru'") as refused:
        model(decoder={"value_embedding": True, "mixer": "ssru"})
    assert refused.value.where == "model.decoder.value_embedding"
    with pytest.raises(ValueError, match="value_embedding"):
        ModelConfig.model_validate({"encoder": {"kind": "recurrent", "value_embedding": True}})


def test_values_keep_the_number_format_of_the_products() -> None:
    made = model(value_embedding=True).float()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.isfinite(made(TOKENS, SPAN, TOKENS, SPAN)).all()


@pytest.mark.parametrize("part", [{"value_embedding": True}, {"position": "forgetting", "key_heads": 1}], ids=str)
def test_a_language_model_with_it_reads_in_pieces_and_its_rows_can_be_moved(part: dict[str, Any]) -> None:
    made, tokens = language_model(**part), torch.randint(0, 11, (3, 7))
    whole, _ = made.step(tokens, made.start(3))
    state, parts = made.start(3), []
    for piece in (tokens[:, :3], tokens[:, 3:4], tokens[:, 4:6]):
        log_p, state = made.step(piece, state)
        parts.append(log_p)
    torch.testing.assert_close(torch.cat(parts, 1), whole[:, :6])
    rows, last = torch.tensor([2, 0]), tokens[:, 6:]
    wanted = whole[:, 6:]
    torch.testing.assert_close(made.step(last[rows], select(state, rows))[0], wanted[rows])
    torch.testing.assert_close(
        made.step(last.repeat_interleave(2, 0), repeat(state, 2))[0], wanted.repeat_interleave(2, 0)
    )
    apart = [select(state, torch.tensor([row])) for row in range(3)]
    torch.testing.assert_close(made.step(last, join(apart))[0], wanted)
    _, ahead = made.step(last, state)
    torch.testing.assert_close(made.step(last, truncate(ahead, torch.full((3,), 6)))[0], wanted)
    assert isinstance(made.embedding, TokenInput)
