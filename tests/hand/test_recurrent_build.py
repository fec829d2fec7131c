"""Recurrent models from a config: how large they are by formula, what may be mixed, what cannot be."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch

from regard.attention.heads import AttentionReader
from regard.attention.span import Span
from regard.errors import ConfigError
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.recurrent.cells import GRU
from regard.models.recurrent.decoder_memory import CopiedState, LearnedState
from regard.models.recurrent.decoders import BahdanauDecoder, FixedContextDecoder, InputFeedingDecoder, LuongDecoder
from regard.runs.parameter_counts import parameters_by_part

TYPES = 9
SMALL: dict[str, Any] = dict(layers=1, width=8)
SOURCE = torch.arange(4) < torch.tensor([[4], [2]])
TARGET = torch.arange(3) < torch.tensor([[2], [3]])


def made(**config: Any):
    model = build(ModelConfig(**{**SMALL, **config}), source_types=TYPES, target_types=TYPES)
    source, target = torch.randint(4, TYPES, (2, 4)), torch.randint(4, TYPES, (2, 3))
    features = model.eval()(source, Span.of(SOURCE), target, Span.of(TARGET))
    assert features.shape == (2, 3, model.head.weight.shape[1]) and model.decoder.width == features.shape[2]
    features[TARGET].square().sum().backward()
    idle = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert idle == ([] if model.head.weight is model.decoder.embedding.weight else ["head.weight"])
    return model


def gru(enter: int, width: int) -> int:
    return 3 * width * (enter + width + 2)


def lstm(enter: int, width: int) -> int:
    return 4 * width * (enter + width + 2)


def test_rnnsearch_is_as_large_as_the_paper_makes_it():
    parts = parameters_by_part(
        partial(build, ModelConfig(preset="rnnsearch"), source_types=30_000, target_types=30_000)
    )
    n, m, maxout, align = 1000, 620, 500, 1000
    assert parts["embeddings"] == 2 * 30_000 * m + 30_000 * maxout
    assert parts["encoder cells"] == 2 * gru(m, n)
    assert parts["decoder cells"] == gru(m + 2 * n, n)
    assert parts["decoder source attention"] == align * n + align * 2 * n + align
    assert parts["decoder read-out"] == 2 * maxout * (n + m + 2 * n)
    assert parts["decoder first state"] == 2 * n * n + n  # the paper: n · n, from ←h_1 alone


def test_luong_is_as_large_as_the_paper_makes_it():
    parts = parameters_by_part(partial(build, ModelConfig(preset="luong"), source_types=50_000, target_types=50_000))
    n = 1000
    assert parts["embeddings"] == 3 * 50_000 * n
    assert parts["encoder cells"] == 4 * lstm(n, n)
    assert parts["decoder cells"] == lstm(2 * n, n) + 3 * lstm(n, n)
    assert parts["decoder source attention"] == n * n + n * n + n  # W_a; W_p, v_p
    assert parts["decoder read-out"] == 2 * n * n
    assert "decoder first state" not in parts, "it is copied"


@pytest.mark.parametrize("preset", ["rnnsearch-small", "luong-small"])
def test_small_presets_run(preset):
    model = made(preset=preset, width=8, encoder={"width": 8}, share="none")
    kinds = {"rnnsearch-small": (BahdanauDecoder, LearnedState), "luong-small": (InputFeedingDecoder, CopiedState)}
    assert (type(model.decoder), type(model.decoder.bridge)) == kinds[preset]


@pytest.mark.parametrize(("decoder", "kind"), [
    ({}, InputFeedingDecoder), ({"input_feeding": False}, LuongDecoder), ({"order": "none"}, FixedContextDecoder),
    ({"order": "bahdanau"}, BahdanauDecoder),
])  # fmt: skip
@pytest.mark.parametrize("encoder", ["transformer", "recurrent", "convolutional"])
def test_any_encoder_is_read_by_cells(encoder, decoder, kind):
    model = made(encoder={"kind": encoder}, decoder={"kind": "recurrent", "cell": "gru", **decoder}, heads=2)
    assert type(model.decoder) is kind


@pytest.mark.parametrize("bidirectional", [True, False])
def test_a_transformer_decoder_reads_cells(bidirectional):
    encoder = {"kind": "recurrent", "width": 6, "bidirectional": bidirectional, "cell": "elman"}
    assert made(encoder=encoder, heads=2).encoder.width == 6 * (1 + bidirectional)


def test_cells_are_what_the_config_says():
    cell = {"kind": "gru", "reset": "before", "update": "renews", "orthogonal": True, "forget_bias": 3.0}
    model = made(kind="recurrent", encoder={"cell": cell}, decoder={"cell": cell}, encoder_layers=2)
    for layer in model.encoder.layers:
        for each in layer:
            assert isinstance(each, GRU) and (each.reset, each.update, each.width) == ("before", "renews", 4)
            for block in each.core.weight_hh_l0.chunk(3):
                torch.testing.assert_close(block @ block.T, torch.eye(4), atol=1e-5, rtol=0)
            assert bool((each.core.bias_ih_l0[4:8] < -2).all()), "z = 0 keeps here"


def test_a_recurrent_decoder_reads_the_states_as_they_are_unless_told_otherwise():
    def reads(**config: Any) -> AttentionReader:
        return made(kind="recurrent", **config).decoder.reader

    assert (reads().attention.heads, reads().width, list(reads().parameters())) == (1, 8, [])
    assert list(dict(reads(cross_attention="general").named_parameters())) == ["attention.mechanism.weight"]
    assert reads(cross_attention={"heads": 2}).attention.heads == 2
    assert made(kind="recurrent", width=6, heads=8).decoder.reader.attention.heads == 1


def test_a_copied_first_state_is_the_encoders_last():
    cells = {"kind": "recurrent", "cell": "lstm"}
    config = dict(encoder={**cells, "bidirectional": False}, decoder={**cells, "start": "copied"})
    model = made(**config, layers=2)
    encoded = model.encoder(torch.randint(4, TYPES, (2, 4)), Span.of(SOURCE))
    (_, _), (top, _) = model.decoder.prepare(encoded).first
    ends = encoded.states[torch.arange(2), SOURCE.sum(1) - 1]
    torch.testing.assert_close(top, ends)


def test_cells_get_embeddings_times_the_root_of_their_width():
    """Of standard deviation 1 then, while the output that shares them has 1/√width; and as they are where so said."""
    tokens = torch.tensor([[4, 5]])
    for scaled, times in ((True, math.sqrt(8)), (False, 1.0)):
        side = {"kind": "recurrent", "scale_embedding": scaled}
        model = made(encoder=side, decoder=side)
        for embedding in (model.encoder.embedding, model.decoder.embedding):
            torch.testing.assert_close(embedding(tokens, Span.of(tokens > 0)).x, times * embedding.weight[tokens])


def test_luongs_cells_start_orthogonal():
    model = made(preset="luong-small", width=8, share="none")
    for block in model.decoder.cells.cells[0].core.weight_hh_l0.chunk(4):
        torch.testing.assert_close(block @ block.T, torch.eye(8), atol=1e-5, rtol=0)


def test_every_parameter_starts_in_the_range_of_the_paper():
    model = made(kind="recurrent", cross_attention="general", init_uniform=0.1)
    for name, parameter in model.named_parameters():
        values = parameter.detach()
        assert 0.05 < float(values.max()) <= 0.1 and -0.1 <= float(values.min()) < -0.05, name


def test_reading_the_source_backwards_is_reading_it_reversed():
    """States stay with their words: those of the reversed sentence, in reverse; padding is not read."""
    cells = {"kind": "recurrent", "bidirectional": False}
    backwards = made(encoder={**cells, "reversed": True}, decoder=RECURRENT, encoder_layers=2).encoder
    forwards = made(encoder=cells, decoder=RECURRENT, encoder_layers=2).encoder.eval()
    forwards.load_state_dict(backwards.state_dict())
    tokens = torch.tensor([[4, 5, 6, 7], [8, 4, 0, 0]])
    turned = torch.tensor([[7, 6, 5, 4], [4, 8, 0, 0]])
    ours, theirs = backwards(tokens, Span.of(SOURCE)), forwards(turned, Span.of(SOURCE))
    torch.testing.assert_close(ours.states[0], theirs.states[0].flip(0))
    torch.testing.assert_close(ours.states[1, :2], theirs.states[1, :2].flip(0))
    torch.testing.assert_close(ours.final, theirs.final)


RECURRENT = {"kind": "recurrent"}
COPIED = {"start": "copied"}


@pytest.mark.parametrize(("config", "why"), [
    ({"decoder": COPIED}, "recurrent encoder with one direction"),
    ({"kind": "transformer", "decoder": {"kind": "recurrent", **COPIED}}, "recurrent encoder with one direction"),
    ({"encoder": {"bidirectional": False, "width": 6}, "decoder": COPIED}, "1 layers of lstm cells of width 6"),
    ({"encoder": {"bidirectional": False, "cell": "gru"}, "decoder": COPIED}, "gru cells"),
    ({"encoder": {"bidirectional": False}, "decoder": COPIED, "decoder_layers": 2}, "2 layers"),
    ({"width": 7}, "a width of 7 cannot be divided"),
    ({"encoder": {"reversed": True}}, "bidirectional = false"),
    ({"encoder": {"kind": "transformer"}, "init_uniform": 0.1, "heads": 2}, "init_std"),
    ({"encoder": {"cell": {"kind": "lstm", "reset": "before"}}}, "apply to a GRU only"),
    ({"encoder": {"cell": {"kind": "elman", "forget_bias": 1.0}}}, "requires a cell with gates"),
    ({"decoder": {"order": "bahdanau", "readout": 3}}, "share"),
])  # fmt: skip
def test_what_cannot_be_is_said(config, why):
    with pytest.raises(ValueError, match=why):
        ModelConfig(**{**SMALL, **RECURRENT, **config})


def test_a_product_of_unequal_widths_is_refused():
    config = ModelConfig(**SMALL, kind="recurrent", encoder={"width": 6})
    with pytest.raises(ConfigError) as caught:
        build(config, source_types=TYPES, target_types=TYPES)
    assert (
        caught.value.where == "model.decoder.cross_attention"
        and "8" in str(caught.value.why)
        and "12" in str(caught.value.why)
    )
    assert made(kind="recurrent", encoder={"width": 6}, cross_attention="general").decoder.reader.width == 12
