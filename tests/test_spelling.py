"""Configs, tokenizers and verbs with the British spelling of earlier versions keep their meaning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regard.cli import build_app
from regard.config.toml_layers import SPELLINGS, current_spelling
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import ConfigError
from regard.runs.config import dump_config, load_config

NETWORKS = {"normalisation": "rms", "normalisation_epsilon": 1e-5}


def test_each_earlier_key_has_one_present_spelling() -> None:
    """No present spelling is an earlier one of another key."""
    assert len(set(SPELLINGS.values())) == len(SPELLINGS) and not set(SPELLINGS) & set(SPELLINGS.values())


@pytest.mark.parametrize("key, value", NETWORKS.items())
def test_an_earlier_key_of_a_network_is_read_from_a_mapping_a_file_and_an_override(
    tmp_path: Path, key: str, value: object
) -> None:
    """All three give the config of the present key, which is the one that is saved."""
    expected = load_config("multi30k", [f"model.{SPELLINGS[key]}={json.dumps(value)}"])
    file = tmp_path / "earlier.toml"
    file.write_text(f'extends = "multi30k"\n[model]\n{key} = {json.dumps(value)}\n')
    assert load_config(file) == expected
    assert load_config({"extends": "multi30k", "model": {key: value}}) == expected
    assert load_config("multi30k", [f"model.{key}={json.dumps(value)}"]) == expected
    assert f"{SPELLINGS[key]} = " in dump_config(expected) and f"{key} = " not in dump_config(expected)


def test_options_of_parts_keep_their_earlier_names() -> None:
    """Options are tables of their own, below a side of the network."""
    part = {"kind": "additive", "normalise": "sigmoid"}
    config = load_config({"extends": "multi30k", "model": {"cross_attention": part}})
    assert config == load_config(
        {"extends": "multi30k", "model": {"cross_attention": {"kind": "additive", "normalize": "sigmoid"}}}
    )


def test_an_error_names_the_line_of_an_earlier_key(tmp_path: Path) -> None:
    """The line is found by the present spelling."""
    file = tmp_path / "wrong.toml"
    file.write_text('extends = "multi30k"\n[model]\nwidth = 64\nnormalisation = "none of these"\n')
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert caught.value.where == f"{file}:4"


def test_the_present_spelling_wins_over_the_earlier_one() -> None:
    """A table that has both means the present one; lists and tables below are read too."""
    values = {"normalise": 1, "normalize": 2, "parts": [{"neighbours": 3}, "neighbours"], "other": {"neighbourhood": 4}}
    assert current_spelling(values) == {
        "normalize": 2,
        "parts": [{"neighbors": 3}, "neighbours"],
        "other": {"neighborhood": 4},
    }


def test_a_tokenizer_of_an_earlier_name_is_read() -> None:
    """Saved tokenizers say their kind."""
    assert TokenizerConfig.model_validate({"kind": "pretokenised", "joiner": "@@"}).kind == "pretokenized"


def test_the_earlier_name_of_a_verb_is_a_verb() -> None:
    """It is left out of the help."""
    runner = CliRunner()
    assert runner.invoke(build_app(), ["harmonise", "--help"]).exit_code == 0
    assert "harmonise" not in runner.invoke(build_app(), ["--help"]).output
