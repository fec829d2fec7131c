"""``regard import`` of an encoder, and the verbs that use it: fill, train, classify and the server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

from regard.errors import ConfigError, ModelError
from tests.share.test_encoder_import import folder_of
from tests.test_reading_part import LABELED


def test_an_imported_encoder_fills_gaps_and_is_tuned(regard: Callable[..., Result], tmp_path: Path) -> None:
    folder_of("bert", tmp_path / "bert")
    run, labeled = tmp_path / "run", tmp_path / "labeled.tsv"
    labeled.write_text(LABELED)
    done = regard("import", tmp_path / "bert", run)
    assert done.exit_code == 0, done.output
    assert (
        "masked model, transformer encoder, 3 layers, width 16" in done.output and "no masked head" not in done.output
    )
    assert "BertForMaskedLM in bert" in (run / "README.md").read_text()
    done = regard("fill", run, "The CATS ___ on the mat")
    assert done.exit_code == 0 and done.output.startswith("The CATS ")
    done = regard("train", labeled, "--runs", tmp_path, "--name", "tuned", "--set", f"model.encoder.from={run}",
                  "--set", "train.threads=1")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "fine-tuning → AdamW" in done.output and f"the encoder starts from {run}" in done.output
    assert regard("classify", tmp_path / "tuned", input="the cat sat\n").exit_code == 0


def test_a_folder_without_a_head_says_so(regard: Callable[..., Result], tmp_path: Path) -> None:
    folder_of("distilbert", tmp_path / "distilbert", "Model")
    done = regard("import", tmp_path / "distilbert", tmp_path / "run")
    assert done.exit_code == 0 and "cannot fill gaps" in done.output and "model.encoder.from=RUN" in done.output
    done = regard("fill", tmp_path / "run", "the ___")
    assert isinstance(done.exception, ModelError) and "cannot fill gaps" in str(done.exception)


def test_a_folder_of_transformers_is_no_run(regard: Callable[..., Result], tmp_path: Path) -> None:
    folder_of("bert", tmp_path / "bert")
    (tmp_path / "labeled.tsv").write_text(LABELED)
    done = regard("train", tmp_path / "labeled.tsv", "--set", f"model.encoder.from={tmp_path / 'bert'}")
    assert isinstance(done.exception, ConfigError)
    assert f"regard import {tmp_path / 'bert'} RUN, then --set model.encoder.from=RUN" in str(done.exception)
