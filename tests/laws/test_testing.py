"""``regard.testing``: what an author of a mechanism, mixer or decoder is offered."""

from __future__ import annotations

import pytest
import torch

from regard import testing
from regard.attention.catalog import MECHANISMS as CATALOG
from regard.attention.catalog import build_mechanism
from regard.attention.heads import SelfAttention
from regard.attention.mask import Causal, Padding
from regard.errors import ConfigError
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.convolutional.gated_convolution import GatedConvolution
from regard.testing import check_decoder, check_encoder, check_mechanism, check_mixer

from .cases import MECHANISMS, SIZES, WIDTH, heads, luong, transformer
from .encoder_cases import INPUTS, built
from .mutants.decoders import OffByOne, _transformer
from .mutants.encoders import Centered, _frames
from .mutants.mechanisms import NaNWhenEmpty
from .mutants.mixers import ZeroPast


def test_a_right_one_passes_and_hears_which_laws_held():
    mechanism = MECHANISMS["general"](SIZES)
    held = check_mechanism(mechanism, trials=1)
    assert {"chunk", "reorder", "causal", "empty", "differentiable"} <= set(held)
    assert "fused" not in held, "general has no fused path"
    assert mechanism.weight.dtype == torch.float32, "one's own module is left alone"
    assert "truncated" in check_mixer(GatedConvolution(4, kernel=2), width=4, trials=1)
    assert "compacted" in check_decoder(transformer(), width=WIDTH, types=9, trials=1)
    make, draw_inputs = INPUTS["frames"]
    assert "rows_apart" in check_encoder(built("recurrent", make()), draw_inputs=draw_inputs, trials=1)
    assert "ragged" in check_decoder(luong("dot"), width=WIDTH, types=9, summary=5, trials=1)


@pytest.mark.parametrize(
    "check, law",
    [
        (lambda: check_mechanism(NaNWhenEmpty()), "empty"),
        (lambda: check_mixer(ZeroPast(4, kernel=3), width=4), "chunk"),
        (lambda: check_encoder(_frames(Centered)[0], draw_inputs=INPUTS["frames"][1]), "batched"),
        (lambda: check_decoder(_transformer(OffByOne), width=WIDTH, types=9), "chunk"),
    ],
)
def test_a_wrong_one_fails_by_the_name_of_the_law(check, law):
    with pytest.raises(AssertionError, match=rf"the law '{law}' is broken \(seed \d+\)"):
        check()


def test_the_public_surface_is_there():
    assert all(hasattr(testing, name) for name in testing.__all__)


def test_every_mechanism_of_the_catalog_is_under_the_laws():
    tested = {type(make(SIZES)) for make in MECHANISMS.values()}
    assert set(CATALOG.values()) <= tested


def test_a_config_reaches_a_mechanism_within_a_mechanism():
    config = ModelConfig(preset="tiny", cross_attention={"kind": "local-p", "window": 3, "score": {"kind": "general"}})
    mechanism = build(config, source_types=9, target_types=9).decoder.layers[0].reader.attention.mechanism
    assert mechanism.window == 3
    assert mechanism.score.weight.shape == (4, 32, 32)


@pytest.mark.parametrize(
    "kind, options, complaint",
    [
        ("dott", {}, "unknown mechanism 'dott'"),
        ("dot", {"scales": 1}, "did you mean model.x.scale?"),
        ("dot", {"scale": "much"}, "model.x.scale cannot be 'much'"),
        ("dot", {"scale": float("nan")}, "finite number"),
        ("dot", {"bias": 3}, "unknown key model.x.bias"),
        ("additive", {"key_width": 7}, "unknown key model.x.key_width"),
        ("additive", {"width": 0}, "width ≥ 1 .*got 0"),
        ("additive", {"width": -1}, "width ≥ 1 .*got -1"),
        ("hard", {"score": {"kind": "general", "heads": 3}}, "unknown key model.x.score.heads"),
        ("multi-resolution", {"reach": "far"}, "model.x.reach cannot be 'far'"),
        ("location-aware", {"learned": ["query"], "width": 3}, "a key with 4 features and no learned weights"),
        ("location-aware", {"reach": -1}, "reach ≥ 0, got 10, 1, -1"),
        ("multi-resolution", {"reach": [1, 2, 3]}, "one half-width per head: got 3 for 2"),
        ("local-p", {"score": {"kind": "generall"}}, r"'generall'\n  where: model.x.score"),
        ("local-p", {"score": {}, "window": 0.5}, "window must be at least 1"),
    ],
)
def test_what_cannot_be_built_says_why(kind, options, complaint):
    with pytest.raises(ConfigError, match=complaint):
        build_mechanism(kind, options, where="model.x", sizes=SIZES)


def test_options_of_older_configs_keep_their_meaning():
    """``own`` is now ``learned``."""
    made = build_mechanism("additive", {"own": ["key"]}, where="model.x", sizes=SIZES)
    assert made.content.query_weight is None and made.content.key_weight is not None
    with pytest.raises(ConfigError, match=r"unknown key model.x.own"):
        build_mechanism("dot", {"own": []}, where="model.x", sizes=SIZES)


def test_a_mechanism_is_refused_where_it_cannot_serve():
    with pytest.raises(ValueError, match="LocationAware attention cannot be causal"):
        SelfAttention(heads(MECHANISMS["location-aware"](SIZES)), mask=Causal() & Padding())
    with pytest.raises(ConfigError, match="'location-aware' attention cannot be used in a decoder"):
        build(
            ModelConfig(preset="tiny", mixer={"kind": "location-aware", "width": 4}),
            source_types=9,
            target_types=9,
        )
