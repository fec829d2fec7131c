"""Configs: TOML over TOML with overrides; saved ones load equal; every failure says where and what was meant."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from regard.config.constructor_options import validate_options
from regard.config.explain import fields_of, short_keys
from regard.config.settings import SearchConfig, TrainConfig
from regard.config.toml_layers import parse_override
from regard.core.installation import upgrade_advice
from regard.errors import ConfigError
from regard.models.attention_config import MechanismConfig
from regard.models.configuration import ModelConfig
from regard.models.transformer.config import TransformerEncoderConfig
from regard.runs.config import dump_config, find_recipe, load_config, recipe_names
from regard.runs.run_config import FORMAT
from regard.tasks.translation.config import TranslationConfig

TOY: dict[str, Any] = {"data": {"train": [{"source": "a.en", "target": "a.de"}]}}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def failure(source: Any, *overrides: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_config(source, overrides)
    return caught.value


def test_config_imports_no_torch() -> None:
    code = "import sys, regard.runs.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# --- saving and loading


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**31),
    name=st.none() | st.text(min_size=1),
    train=st.fixed_dictionaries(
        {},
        optional={
            "lr": st.floats(1e-8, 1.0),
            "betas": st.tuples(st.floats(0, 0.999), st.floats(0, 0.999)),
            "steps": st.none() | st.integers(1, 10**9),
            "ema": st.none() | st.floats(0.5, 0.9999),
            "precision": st.sampled_from(["auto", "float32", "bfloat16"]),
            "deterministic": st.booleans(),
        },
    ),
    source=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1),
)
def test_a_saved_config_loads_equal(seed: int, name: str | None, train: dict[str, Any], source: str) -> None:
    corpus = {"source": source, "target": "a.de", "weight": 0.1}
    config = load_config({"seed": seed, "name": name, "train": train, "data": {"train": [corpus]}})
    assert load_config(tomllib.loads(dump_config(config))) == config


def test_whatever_may_be_none_is_none_by_default() -> None:
    """TOML has no null: a None that is left out of the file must come back as None."""

    def check(model: type[BaseModel]) -> None:
        for name, field in model.model_fields.items():
            if type(None) in getattr(field.annotation, "__args__", ()):
                assert field.default is None, f"{model.__name__}.{name}"

    for model in (
        TranslationConfig,
        TrainConfig,
        SearchConfig,
        *(field.annotation for field in TranslationConfig.model_fields.values()),
    ):
        if isinstance(model, type) and issubclass(model, BaseModel):
            check(model)


def test_the_saved_file_has_every_key_that_is_not_none() -> None:
    config = load_config(TOY)
    written = tomllib.loads(dump_config(config))
    assert written["format"] == FORMAT
    for part in ("train", "search", "model", "data"):
        values = getattr(config, part)
        assert set(written[part]) == {name for name in type(values).model_fields if getattr(values, name) is not None}


def test_a_newer_format_is_refused_whatever_else_is_in_it(tmp_path: Path) -> None:
    path = write(tmp_path / "config.toml", f"seed = 1\nformat = {FORMAT + 1}\nunheard_of = true\n")
    error = failure(path)
    assert error.where == f"{path}:2"
    assert str(FORMAT + 1) in error.what and error.help == upgrade_advice()


# --- extends


def test_a_file_lies_over_what_it_extends(tmp_path: Path) -> None:
    write(tmp_path / "deep" / "base.toml", "seed = 3\n[train]\nlr = 0.5\nwarmup = 7\n[search]\nbeam = 9\n")
    middle = 'extends = "deep/base.toml"\n[train]\nlearning_rate = 0.25\n'
    write(tmp_path / "middle.toml", middle)
    top = 'extends = "./middle.toml"\n[[data.train]]\nsource = "a"\ntarget = "b"\n[train]\nwarmup = 8\n'
    config = load_config(write(tmp_path / "top.toml", top), ["train.keep=3"])
    assert (config.seed, config.search.beam) == (3, 9)
    assert (config.train.learning_rate, config.train.warmup, config.train.keep) == (0.25, 8, 3)


def test_a_list_replaces_the_list_below(tmp_path: Path) -> None:
    write(tmp_path / "base.toml", '[data]\ntrain = [{source = "a"}, {source = "b"}]\n')
    top = write(tmp_path / "top.toml", 'extends = "base.toml"\n[data]\ntrain = [{source = "c"}]\n')
    assert [str(corpus.source) for corpus in load_config(top).data.train] == ["c"]


def test_files_that_extend_in_a_circle_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "one.toml", 'extends = "two.toml"')
    write(tmp_path / "two.toml", 'extends = "one.toml"')
    assert failure(tmp_path / "one.toml").why == "one.toml → two.toml → one.toml"


def test_an_unknown_recipe_names_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.runs.config.recipe_names", lambda: ["cmudict", "multi30k"])
    error = failure("multi3k")
    assert error.help == "did you mean multi30k?" and "cmudict" in (error.why or "")


def test_a_missing_file_is_told_with_its_path(tmp_path: Path) -> None:
    top = write(tmp_path / "top.toml", 'extends = "gone.toml"')
    assert failure(top).where == str(tmp_path / "gone.toml")


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_that_ships_is_valid(name: str) -> None:
    assert find_recipe(name).is_file()
    assert load_config(name).format == FORMAT


# --- overrides


@pytest.mark.parametrize(
    "text, key, value",
    [
        ("train.lr=1e-3", ("train", "lr"), 1e-3),
        ("train.betas = [0.9, 0.98]", ("train", "betas"), [0.9, 0.98]),
        ("data.joint=false", ("data", "joint"), False),
        ("data.train.0.weight=2", ("data", "train", 0, "weight"), 2),
        ("name=m30k", ("name",), "m30k"),
        ('name="1"', ("name",), "1"),
        ("name=a=b", ("name",), "a=b"),
        ("name=", ("name",), None),
        ("train.ema=", ("train", "ema"), None),
        ("name=1\nseed=2", ("name",), "1\nseed=2"),
    ],
)
def test_overrides_are_read_as_toml_or_as_text(text: str, key: tuple[str | int, ...], value: Any) -> None:
    parsed = parse_override(text)
    assert parsed == (key, value) and type(parsed[1]) is type(value)


def test_the_short_name_means_the_long_one_everywhere() -> None:
    assert short_keys(TranslationConfig)["train", "lr"] == ("train", "learning_rate")
    base = TOY | {"train": {"learning_rate": 0.5}}
    assert load_config(base, ["train.lr=0.25"]).train.learning_rate == 0.25
    assert load_config(TOY | {"train": {"lr": 0.5}}, ["train.learning_rate=0.25"]).train.learning_rate == 0.25
    assert TrainConfig(learning_rate=0.5) == TrainConfig(lr=0.5)  # type: ignore[call-arg]


def test_an_override_reaches_into_a_list_and_leaves_the_given_mapping_alone() -> None:
    config = load_config(TOY, ["data.train.0.weight=2", "train.steps=5", "train.steps="])
    assert config.data.train[0].weight == 2 and config.train.steps is None
    assert TOY == {"data": {"train": [{"source": "a.en", "target": "a.de"}]}}


def test_an_override_beyond_a_list_says_how_long_it_is() -> None:
    error = failure(TOY, "data.train.1.weight=2")
    assert error.where == "--set data.train.1.weight" and "the list has 1 item" in (error.why or "")


# --- failures


@pytest.mark.parametrize(
    "written, meant",
    [
        ("train.learningrate=1", "train.learning_rate"),
        ("lr=1", "train.lr"),
        ("beam=1", "search.beam"),
        ("search.steps=1", "train.steps"),
        ("trian.steps=1", "train"),
        ("data.train.0.wieght=1", "data.train.0.weight"),
        ("data.tokeniser.kind=word", "data.tokenizer"),
    ],
)
def test_an_unknown_key_names_the_nearest(written: str, meant: str) -> None:
    error = failure(TOY, written)
    assert error.what.startswith("unknown key ") and written.startswith(error.what.removeprefix("unknown key "))
    assert error.help == f"did you mean {meant}?"


def test_a_key_that_resembles_nothing_gets_no_guess() -> None:
    assert failure(TOY, "zzzzqqqq=1").help is None


RECIPE = """\
seed = 2  # seed

[[data.train]]
source = "a"

[[data.train]]
source = "b"
{second}

[train]
{train}
search.beam = 3
"""


@pytest.mark.parametrize(
    "second, train, line, what",
    [
        ("wieght = 2", "", 8, "unknown key data.train.1.wieght"),
        ("weight = -2", "", 8, "data.train.1.weight cannot be -2"),
        ("", "'lerning_rate' = 2", 11, "unknown key train.lerning_rate"),
        ("", "lr = 'fast'", 11, "train.learning_rate cannot be 'fast'"),
        ("", "betas = [0.9]", 11, "train.betas.1 is missing"),
        ("", "steps = 1", 12, "unknown key train.search"),
        ("", "steps = ", 11, "not valid TOML"),
    ],
)
def test_a_failure_names_file_and_line(tmp_path: Path, second: str, train: str, line: int, what: str) -> None:
    path = write(tmp_path / "mine.toml", RECIPE.format(second=second, train=train))
    error = failure(path)
    assert error.where == f"{path}:{line}"
    assert what in error.what


def test_the_line_is_that_of_the_file_whose_value_counts(tmp_path: Path) -> None:
    base = write(tmp_path / "base.toml", "seed = 1\n[train]\nsteps = 0\nkeep = 0\n")
    top = write(tmp_path / "top.toml", 'extends = "base.toml"\n[train]\nsteps = 5\n[data]\ntrain=[{source="a"}]\n')
    error = failure(top)
    assert error.where == f"{base}:4" and error.what == "train.keep cannot be 0"


def test_one_mistake_is_counted_once() -> None:
    assert failure({"data": {"train": [{"sauce": "a", "source": "b"}]}}).what == "unknown key data.train.0.sauce"


def test_a_missing_key_is_named() -> None:
    assert failure({"seed": 1}).what == "the key data is missing"


def test_not_utf8_and_no_permission_are_told(tmp_path: Path) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes(b'name = "caf\xe9"\n')
    assert failure(path).where == str(path)
    assert "cannot read" in failure(tmp_path).what


# --- values that do not fit together


@pytest.mark.parametrize(
    "override, why",
    [
        ("search.top_k=5", "temperature"),
        ("search.nbest=6", "at most beam = 5"),
        ("data.source_tokenizer.kind=word", "joint = false"),
        ("train.learning_rate=nan", "finite"),
        ("data.joint=false", 'share = "target"'),
        ("train.best_by=wer", "data.valid"),
        ("train.early_stopping=3", "data.valid"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(override: str, why: str) -> None:
    error = failure(TOY, override)
    assert why in (error.why or "") and error.where == f"--set {override.partition('=')[0]}"


def test_a_learned_table_has_a_row_for_the_longest_sentence_and_its_end() -> None:
    learned = ["model.position=learned", "data.max_length=20"]
    error = failure(TOY, *learned, "model.position.longest=20")
    assert error.where == "--set model.position.longest" and "model.position.longest=21" in (error.help or "")
    for spelled in ("model.position.longest=21", "model.longest=21"):  # the second is older
        assert load_config(TOY, [*learned, spelled]).model.encoder.position.longest == 21
    assert load_config(TOY, ["data.max_length=20", "model.longest=20"]).model.encoder.position.kind == "sinusoidal"


def test_what_separate_vocabularies_can_share(tmp_path: Path) -> None:
    for share in ("target", "none"):
        assert load_config(TOY, ["data.joint=false", f'model.share="{share}"']).model.share == share
    text = '[data]\njoint = false\n[[data.train]]\nsource = "a"\ntarget = "b"\n'
    error = failure(write(tmp_path / "mine.toml", text))
    assert error.where == f"{tmp_path / 'mine.toml'}:2" and "model.share=target" in (error.help or "")


def test_the_learning_rate_is_a_factor_under_the_papers_schedule() -> None:
    assert load_config(TOY, ["train.schedule=noam"]).train.learning_rate == 1.0
    assert load_config(TOY).train.learning_rate == 1e-3
    assert "inverse-sqrt" in (failure(TOY, "train.schedule=noam", "train.lr=3e-3").why or "")


def test_configs_are_frozen() -> None:
    config = load_config(TOY)
    with pytest.raises(ValueError, match="frozen"):
        config.train.steps = 3  # type: ignore[misc]


def test_every_key_is_spelled_once() -> None:
    keys = [key for key, _ in fields_of(TranslationConfig)]
    assert len(keys) == len(set(keys)) and ("data", "train", "*", "weight") in keys


def test_a_failure_inside_one_of_several_kinds_is_named_by_its_key() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(TOY, ["model.kind=recurrent", "model.encoder.cell.forget_bias=much"])
    assert "model.encoder.cell.forget_bias" in str(caught.value) and "recurrent" not in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        load_config(TOY, ["model.kind=recurrent", "model.decoder.reedout=3"])
    assert caught.value.help == "did you mean model.decoder.readout?"


def test_a_recurrent_side_has_fewer_layers_unless_they_are_given() -> None:
    def layers(*overrides: str) -> tuple[int, int]:
        model = load_config(TOY, overrides).model
        return model.encoder.layers, model.decoder.layers

    assert layers() == (6, 6)
    assert layers("model.kind=recurrent") == (2, 2)
    assert layers("model.decoder.kind=recurrent") == (6, 2)
    assert layers("model.kind=recurrent", "model.encoder_layers=3") == (3, 2)


def test_a_saved_run_means_what_it_meant_when_it_was_saved(tmp_path: Path) -> None:
    """Embeddings of cells were not scaled before there was a key for it; a run of today says what it does."""
    lines = dump_config(load_config("multi30k-gru")).splitlines()
    today, before = tmp_path / "today.toml", tmp_path / "before.toml"
    today.write_text("\n".join(lines))
    before.write_text("\n".join(line for line in lines if not line.startswith("scale_embedding")))

    def scaled(path: Path, saved: bool) -> list[bool]:
        model = load_config(path, saved=saved).model
        return [side.scale_embedding for side in (model.encoder, model.decoder)]

    assert scaled(today, True) == [True, True] and scaled(before, True) == [False, False]
    assert scaled(before, False) == [True, True], "a recipe that does not say so is a new one"
    (tmp_path / "checkpoints").mkdir()
    assert scaled(before.rename(tmp_path / "config.toml"), False) == [False, False], "the config of a run is not"


def test_a_search_stops_early_in_new_runs_only(tmp_path: Path) -> None:
    lines = dump_config(load_config("demo")).splitlines()
    older = tmp_path / "older.toml"
    older.write_text("\n".join(line for line in lines if not line.startswith("early_stopping")))
    assert load_config("demo").search.early_stopping and load_config(older).search.early_stopping
    assert not load_config(older, saved=True).search.early_stopping


@pytest.mark.parametrize(("optimizer", "rate", "epsilon"), [("adam", 1e-3, 1e-9), ("adadelta", 1.0, 1e-6)])
def test_an_optimizer_brings_its_usual_rate(optimizer: str, rate: float, epsilon: float) -> None:
    train = TrainConfig(optimizer=optimizer)
    assert (train.learning_rate, train.epsilon) == (rate, epsilon)


@pytest.mark.parametrize("given", [{"halve_every": 3}, {"schedule": "halving"}, {"halve_after": 3}])
def test_halving_is_said_whole(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="halv"):
        TrainConfig(**given)


def test_a_table_of_another_kind_brings_its_own_options(tmp_path: Path) -> None:
    below = tmp_path / "below.toml"
    below.write_text('extends = "multi30k"\n[model.cross_attention]\nkind = "local-p"\nwindow = 3\n')
    above = tmp_path / "above.toml"
    above.write_text('extends = "below.toml"\n[model.cross_attention]\nkind = "additive"\n')
    assert load_config(above).model.decoder.cross_attention.options == {}
    above.write_text('extends = "below.toml"\n[model.cross_attention]\nheads = 2\n')
    kept = load_config(above).model.decoder.cross_attention
    assert (kept.kind, kept.heads, kept.options) == ("local-p", 2, {"window": 3})


def test_an_override_can_say_none_where_that_is_a_choice() -> None:
    """``none`` is a kind of position and of sharing; taking a key out is spelled with nothing after the ``=``."""
    config = load_config(TOY, ["model.position=none", "model.share=none", "train.steps="])
    assert (config.model.encoder.position.kind, config.model.share, config.train.steps) == ("none", "none", None)


@pytest.mark.parametrize(
    "given, where, what",
    [
        ("model.position={kind='rotary', layuot='half'}", "model.position.layuot", "unknown key"),
        ("model.position={kind='alibi', clip=3}", "model.position.clip", "unknown key"),
        ("model.position={kind='rotary', layout='split'}", "model.position.layout", "cannot be 'split'"),
        ("model.position={kind='t5', buckets=5}", "model.position.buckets", "cannot be 5"),
        ("model.position={kind='shaw', clip=-1}", "model.position.clip", "cannot be -1"),
        ("model.position=rope", "model.position", "kind cannot be 'rope'"),
        ("model.position.clip=3", "model.position.clip", "model.position.kind is missing"),
    ],
)
def test_options_of_a_position_are_those_of_its_kind(given: str, where: str, what: str) -> None:
    error = failure(TOY, given)
    assert where in str(error) and what in str(error)


def test_a_position_is_a_name_or_a_table_with_options() -> None:
    config = load_config(TOY, ["model.position={kind='rotary', layout='half'}"])
    assert config.model.decoder.position.model_dump() == {"kind": "rotary", "layout": "half", "base": 10000.0}
    assert load_config(tomllib.loads(dump_config(config))) == config
    assert load_config(TOY, ["model.position=alibi"]).model.encoder.position.model_dump() == {"kind": "alibi"}


def test_of_several_overrides_the_one_that_the_reason_speaks_of_is_named() -> None:
    assert failure(TOY, "model.heads=3", "model.dropout=0.2").where == "--set model.heads"
    assert failure(TOY, "model.dropout=0.2", "model.heads=3").where == "--set model.heads"


def test_a_key_of_another_kind_is_said_to_be_one() -> None:
    """Not: did you mean the same key?"""
    error = failure(TOY, "model.encoder.cell=gru")
    assert error.help is None and error.why == "only kind recurrent has this key"
    assert failure(TOY, "model.position={kind='alibi', base=3}").why == "only kind rotary has this key"


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize("given", ["5", "[1]", "{kind=[1]}", "{kind=5}", "recurent"])
def test_what_no_side_can_be_is_refused_by_its_key(side: str, given: str) -> None:
    assert f"model.{side}" in str(failure(TOY, f"model.{side}={given}"))
    assert "model.kind" in str(failure(TOY, "model.kind=[1]"))


def test_a_side_is_a_name_or_a_table_with_options() -> None:
    config = load_config("multi30k-mixed", ["model.decoder=transformer", "model.encoder=recurrent"])
    assert (config.model.encoder.kind, config.model.decoder.kind) == ("recurrent", "transformer")
    assert load_config(tomllib.loads(dump_config(config))) == config


def test_a_side_of_another_kind_than_its_preset_brings_its_own_options() -> None:
    config = load_config(TOY, ["model.preset=rnnsearch-small", "model.encoder.kind=transformer"])
    sizes = {"layers": 1, "width": 256, "dropout": 0.3}
    assert config.model.encoder == TransformerEncoderConfig.model_validate(sizes)
    assert config.model.decoder.order == "bahdanau"
    assert load_config(tomllib.loads(dump_config(config))) == config


@pytest.mark.parametrize("order", [1, -1])
def test_an_override_of_a_kind_replaces_the_table_in_any_order(order: int) -> None:
    def encoder(table: dict[str, Any], *overrides: str) -> Any:
        files = [{"source": "a.tsv"}]
        data = {"train": files, "valid": files, "text": 1, "label": 2}
        config = load_config({"task": "classification", "data": data, "model": {"encoder": table}}, overrides)
        return config.model.encoder

    table = {"kind": "convolutional", "blocks": [[8, 3, 1]], "width": 8}
    changed = encoder(table, *["model.encoder.kind=recurrent", "model.encoder.layers=1"][::order])
    assert changed == encoder({"kind": "recurrent", "layers": 1})
    assert encoder(table, "model.encoder.kind=convolutional").width == 8


def test_a_preset_of_another_kind_is_refused() -> None:
    error = failure(TOY, "model.preset=luong-small", "model.kind=transformer")
    assert "model.preset" in error.what and "recurrent" in (error.why or "")


def test_attention_that_nobody_would_ask_is_refused() -> None:
    unread = ["model.kind=recurrent", "model.decoder.order=none"]
    assert "model.decoder.order" in failure(TOY, *unread, "model.cross_attention=additive").what
    for preset in ("rnnsearch-small", "luong"):
        config = load_config(TOY, [*unread, "model.decoder.start=learned", f"model.preset={preset}"])
        assert load_config(tomllib.loads(dump_config(config))) == config
    assert "self-attention" in (failure(TOY, "model.cross_attention.neighborhood=3").why or "")


def test_a_mechanism_means_the_same_as_a_table_and_as_an_object() -> None:
    """One head over the states, where a recurrent decoder is not told otherwise; and what is saved loads equal."""
    config = ModelConfig(kind="recurrent", cross_attention=MechanismConfig(kind="general"))
    assert config == ModelConfig(kind="recurrent", cross_attention={"kind": "general"})
    assert config == ModelConfig(**config.model_dump())


def test_positions_of_self_attention_need_self_attention() -> None:
    sizes = ["model.kind=recurrent", "model.position=alibi"]
    assert "require self-attention" in (failure(TOY, *sizes).why or "")
    mixed = ["model.encoder.kind=recurrent", "model.decoder.mixer=ssru"]
    assert "require self-attention" in (failure(TOY, *mixed, "model.position=rotary").why or "")
    assert load_config(TOY, [*sizes, "model.decoder.kind=transformer"]).model.decoder.position.kind == "alibi"


def test_an_option_without_a_declared_type_is_taken_as_it_is() -> None:
    class Made:
        def __init__(self, *, heads, start=1.0):
            pass

    assert validate_options(Made, {"start": 2.0}, excluded=("heads",), where="model.cross_attention") == {"start": 2.0}
