"""Configs of networks of sides: keys that sides share, older spellings, and who wins."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from regard.errors import ConfigError
from regard.models.causal_config import CausalModelConfig
from regard.models.configuration import ModelConfig
from regard.runs.config import dump_config, load_config

TOY: dict[str, Any] = {"data": {"train": [{"source": "a.en", "target": "a.de"}]}}


def sides(config: ModelConfig, key: str) -> tuple[Any, Any]:
    return getattr(config.encoder, key, None), getattr(config.decoder, key, None)


def test_a_key_beside_the_sides_is_the_default_of_those_that_have_it() -> None:
    config = ModelConfig.model_validate(
        {"width": 64, "heads": 4, "layers": 3, "encoder": {"layers": 5}, "decoder": {"kind": "recurrent", "width": 32}}
        | {"share": "target"}
    )
    assert sides(config, "layers") == (5, 3)
    assert sides(config, "width") == (64, 32)
    assert sides(config, "feed_forward") == (2048, None)


def test_states_of_two_directions_are_as_wide_as_the_model() -> None:
    config = ModelConfig.model_validate({"kind": "recurrent", "width": 64})
    assert (config.encoder.width, config.encoder.features, config.encoder.embedding_width) == (32, 64, 64)
    one = ModelConfig.model_validate({"kind": "recurrent", "width": 64, "encoder": {"bidirectional": False}})
    assert (one.encoder.width, one.encoder.features) == (64, 64)
    assert ModelConfig.model_validate({"kind": "recurrent", "width": 64, "bidirectional": False}) == one
    with pytest.raises(ValidationError, match="a width of 63 cannot be divided between two directions"):
        ModelConfig.model_validate({"kind": "recurrent", "width": 63})


@pytest.mark.parametrize(
    "old, new",
    [
        ({"encoder_layers": 2, "decoder_layers": 1}, {"encoder": {"layers": 2}, "decoder": {"layers": 1}}),
        ({"self_attention": "additive"}, {"encoder": {"mixer": "additive"}, "decoder": {"mixer": "additive"}}),
        ({"self_attention": "additive", "decoder": {"mixer": "ssru"}},
         {"encoder": {"mixer": "additive"}, "decoder": {"mixer": "ssru"}}),
        ({"encoder": {"self_attention": {"kind": "dot", "neighborhood": 3}}},
         {"encoder": {"mixer": {"kind": "dot", "neighborhood": 3}}}),
        ({"cross_attention": {"kind": "additive"}}, {"decoder": {"cross_attention": "additive"}}),
        ({"position": "learned", "longest": 300}, {"position": {"kind": "learned", "longest": 300}}),
        ({"position": "rotary", "longest": 70}, {"position": "rotary"}),
        ({"longest": 70, "position": {"kind": "learned", "longest": 300}},
         {"position": {"kind": "learned", "longest": 300}}),
        ({"encoder": "recurrent", "encoder_layers": 3}, {"encoder": {"kind": "recurrent", "layers": 3}}),
        ({"width": None, "decoder": {"self_attention": None}}, {}),
    ],
)  # fmt: skip
def test_older_spellings_mean_the_same(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert ModelConfig.model_validate(old) == ModelConfig.model_validate(new)
    assert load_config(TOY | {"model": old}).model == ModelConfig.model_validate(new)


@pytest.mark.parametrize("given", ['"general"', '{ kind = "general" }'])
@pytest.mark.parametrize("old", [True, False])
def test_the_later_file_counts_wherever_it_writes_a_key(tmp_path: Path, old: bool, given: str) -> None:
    below, above = tmp_path / "below.toml", tmp_path / "above.toml"
    below.write_text(
        "[model.encoder]\nwidth = 64\nlayers = 5\n[model.decoder]\nmixer = { kind = 'additive', learned = [] }\n"
        "[[data.train]]\nsource = 'a.tsv'\n"
    )
    mixer = "self_attention" if old else "mixer"
    above.write_text(f'extends = "below.toml"\n[model]\nwidth = 128\n{mixer} = {given}\nencoder.heads = 2\n')
    model = load_config(above).model
    assert sides(model, "width") == (128, 128)
    assert sides(model, "layers") == (5, 6)
    assert sides(model, "heads") == (2, 8)
    assert [each.kind for each in sides(model, "mixer")] == ["general", "general"]
    assert model.decoder.mixer.options == {}, "nothing of the kind below is left"


def test_the_later_override_counts() -> None:
    orders = ["model.encoder.width=64", "model.width=128"]
    assert sides(load_config(TOY, orders).model, "width") == (128, 128)
    shared = load_config(TOY | {"model": {"share": "target"}}, orders[::-1])
    assert sides(shared.model, "width") == (64, 128)
    assert (
        load_config(TOY | {"model": {"encoder": {"layers": 2}}}, ["model.encoder_layers=3"]).model.encoder.layers == 3
    )
    within = ["model.encoder.mixer={kind='additive', learned=[]}", "model.mixer.heads=2"]
    model = load_config(TOY, within).model
    assert [(each.kind, each.heads) for each in sides(model, "mixer")] == [("additive", 2), ("dot", 2)]


def test_presets_lie_below_all_that_is_given() -> None:
    model = load_config(TOY, ["model.preset=rnnsearch-small", "model.width=64", "model.decoder.readout=64"]).model
    assert (model.encoder.features, model.decoder.width, model.decoder.features) == (64, 64, 64)


@pytest.mark.parametrize("overrides", [
    [], ["model.kind=recurrent"], ["model.preset=luong"], ["model.preset=convs2s-small"],
    ["model.position=learned", "model.decoder.mixer=ssru"], ["model.encoder.position=t5"],
])  # fmt: skip
def test_what_is_saved_owns_its_keys_and_loads_equal(overrides: list[str]) -> None:
    config = load_config(TOY, overrides)
    saved = tomllib.loads(dump_config(config))
    assert saved["format"] == 2
    assert set(saved["model"]) <= set(ModelConfig.model_fields)
    assert load_config(saved, saved=True).model == config.model


def test_a_wrong_value_is_named_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text("[model]\nnorm = 'pre'\nheads = 3\n[[data.train]]\nsource = 'a.tsv'\n")
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert "heads = 3 does not divide" in str(caught.value.why) and caught.value.where == f"{file}:3"
    file.write_text("[model]\nheads = 2\n\n[model.decoder]\nlayers = 0\n[[data.train]]\nsource = 'a.tsv'\n")
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert "model.decoder.layers cannot be 0" in caught.value.what and caught.value.where == f"{file}:5"
    with pytest.raises(ConfigError) as caught:
        load_config(TOY, ["model.width=none"])
    assert caught.value.what == "model.width cannot be 'none'", "said once, though both sides have it"
    with pytest.raises(ConfigError) as caught:
        load_config(TOY, ["model.widht=12"])
    assert caught.value.help == "did you mean model.width?"
    with pytest.raises(ConfigError) as caught:
        load_config(TOY, ["model.decoder.kind=recurrent", "model.decoder.feed_forward=12"])
    assert caught.value.why == "only kind transformer has this key"


def test_a_language_model_has_one_side() -> None:
    config = CausalModelConfig.model_validate({"preset": "small", "width": 32, "mixer": "ssru"})
    assert (config.decoder.layers, config.decoder.width, config.decoder.mixer.kind) == (6, 32, "ssru")
    with pytest.raises(ValidationError, match="encoder"):
        CausalModelConfig.model_validate({"encoder": {"layers": 2}})


def test_a_side_of_another_kind_replaces_that_below_wherever_the_kind_of_both_is_written(tmp_path: Path) -> None:
    """``model.kind`` takes the place of each side's kind below, and must not hide that a side here has another."""
    given = {"kind": "recurrent", "decoder": {"kind": "transformer", "layers": 3}, "share": "target"}
    model = ModelConfig.model_validate({"preset": "luong-small", **given})
    assert (model.encoder.kind, model.decoder.kind, sides(model, "layers")) == ("recurrent", "transformer", (2, 3))
    below, above = tmp_path / "below.toml", tmp_path / "above.toml"
    below.write_text("[model.decoder]\nkind = 'recurrent'\ncell = 'gru'\n[[data.train]]\nsource = 'a.tsv'\n")
    above.write_text('extends = "below.toml"\n[model]\nkind = "recurrent"\nshare = "target"\ndecoder = "transformer"\n')
    assert load_config(above).model.decoder.kind == "transformer"


def test_a_key_is_named_as_it_is_spelled_and_by_its_last_line(tmp_path: Path) -> None:
    def failure(text: str, *overrides: str) -> ConfigError:
        file.write_text(text + "[[data.train]]\nsource = 'a.tsv'\n")
        with pytest.raises(ConfigError) as caught:
            load_config(file, overrides)
        return caught.value

    file, below = tmp_path / "wrong.toml", tmp_path / "below.toml"
    found = failure("[model]\nlayers = 2\n[model.decoder]\nlayers = 0\n")
    assert found.what == "model.decoder.layers cannot be 0" and found.where == f"{file}:4", "not the one beside it"
    found = failure("[model]\nlayers = 0\n[model.encoder]\nheads = 2\n")
    assert found.what.startswith("model.layers cannot be 0") and found.where == f"{file}:2", "the table has other keys"
    found = failure("[model]\nwidth = 32\nencoder_layers = 0\n")
    assert found.what == "model.encoder.layers cannot be 0" and found.where == f"{file}:3", (
        "the line of an old spelling"
    )
    assert failure("", "model.position={kind='learned', longets=3}").help == "did you mean model.position.longest?"
    below.write_text("[model]\nwidth = 64\nheads = 3\n")
    assert failure('extends = "below.toml"\n[model]\nwidth = 128\n').where == f"{file}:3", "the later of two files"


def test_relative_positions_of_a_side_without_self_attention_are_refused() -> None:
    both = ModelConfig.model_validate({"position": "rotary", "decoder": {"kind": "convolutional"}})
    assert both.decoder.position.kind == "none", "they are the encoder's"
    with pytest.raises(ValidationError, match="rotary positions require self-attention"):
        ModelConfig.model_validate({"decoder": {"kind": "convolutional", "position": "rotary"}})


@pytest.mark.parametrize(("blocks", "fits"), [(0, False), (1, True), (100, True), (101, False)])
def test_convolutions_have_one_to_a_hundred_blocks(blocks: int, fits: bool) -> None:
    tables = {"encoder": {"kind": "convolutional", "position": "learned", "blocks": [[8, 3, 1]] * blocks}}
    if fits:
        assert ModelConfig.model_validate(tables).encoder.depth == blocks
    else:
        with pytest.raises(ValueError, match="blocks"):
            ModelConfig.model_validate(tables)
