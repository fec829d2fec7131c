"""``regard import`` of a language model, and ``regard train`` that goes on from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

from regard.errors import ConfigError, ModelError
from regard.runs.config import load_config
from regard.share.transformers_format import write
from tests.share.test_causal_export import LLAMA, config_of, model_of, tokenizer_of


def test_an_imported_model_generates_and_is_gone_on_from(regard: Callable[..., Result], tmp_path: Path) -> None:
    config, tokenizer = config_of(LLAMA, "byte-bpe"), tokenizer_of("byte-bpe")
    write(model_of(config, len(tokenizer)), config, tokenizer, tmp_path / "theirs")
    run, text = tmp_path / "run", tmp_path / "book.txt"
    done = regard("import", tmp_path / "theirs", run)
    assert done.exit_code == 0, done.output
    assert "language model, 2 layers, width 12" in done.output and f"{len(tokenizer):,} pieces" in done.output
    assert "LlamaForCausalLM in theirs" in (run / "README.md").read_text()
    assert regard("generate", run, "--prompt", "the cat", "--length", "3", "--seed", "1").exit_code == 0
    text.write_text("the cat sat on the mat\n" * 120)
    with (run / "config.toml").open("a") as file:
        file.write('[chat]\nuser = "<u>{text}\\n"\nassistant = "<a>{text}\\n"\n')
    assert regard("generate", run, "--chat", "--prompt", "the cat", "--length", "3", "--seed", "1").exit_code == 0
    sets = [f"model.from={run}", "train.steps=1", "train.epochs=", "train.precision=float32", "train.threads=1"]
    options = [word for each in sets for word in ("--set", each)]
    done = regard("train", text, "--runs", tmp_path / "runs", "--name", "on", *options)
    assert done.exit_code == 0, done.output
    assert f"network and vocabulary from {run}" in done.output
    assert f"starts from {run}: last (step 0)" in done.output
    assert load_config(tmp_path / "runs" / "on" / "config.toml", saved=True).chat.user == "<u>{text}\n"
    done = regard("train", text, "--runs", tmp_path / "runs", "--name", "other", *options, "--set", "model.width=13")
    assert isinstance(done.exception, ConfigError) and "model.decoder.width cannot be 13" in str(done.exception)
    assert not (tmp_path / "runs" / "other").exists()


def test_another_kind_of_model_is_refused_by_name(regard: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bloom"}')
    done = regard("import", tmp_path, tmp_path / "run")
    assert isinstance(done.exception, ModelError) and "'bloom'" in str(done.exception)
