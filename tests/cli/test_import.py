"""``regard import``: somebody else's model translates, is looked at, and goes back to where it came from."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from regard.errors import ConfigError, ModelError, StorageError
from tests.share.test_marian import THEIRS, WORDS, pieces_of, vocabulary, write_plain


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder, pieces = tmp_path / "theirs", pieces_of(WORDS)
    folder.mkdir()
    numbers = vocabulary([pieces, pieces])
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(pieces.model)
    (folder / "vocab.json").write_text(json.dumps(numbers))
    (folder / "tokenizer_config.json").write_text('{"source_lang": "en", "target_lang": "ROMANCE"}')
    pad = numbers["<pad>"]
    write_plain(folder, THEIRS | {"vocab_size": len(numbers), "pad_token_id": pad, "decoder_start_token_id": pad})
    return folder


def test_an_imported_model_is_a_run(folder: Path, regard: Callable[..., Result], tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = regard("import", folder, run)
    assert done.exit_code == 0, done.output
    assert "transformer, 2+2 layers, width 16" in done.output
    said = regard("translate", run, "--beam", "2", input="the cat sat on a mat\n\n").stdout.splitlines()
    assert len(said) == 2 and said[1] == ""
    told = regard("info", run).output
    assert "shared matrices: all" in told and "last" not in told
    assert 'source_language = "en"' in (run / "config.toml").read_text()
    assert "MarianMTModel in theirs" in (run / "README.md").read_text()
    assert "ROMANCE" not in (run / "config.toml").read_text(), "a group of languages is none"
    assert isinstance(regard("import", folder, run).exception, ConfigError), "what is there stays"


@pytest.mark.skipif(importlib.util.find_spec("transformers") is not None, reason="transformers is installed")
def test_it_goes_back_without_transformers(folder: Path, regard: Callable[..., Result], tmp_path: Path) -> None:
    import safetensors.torch
    import torch

    regard("import", folder, tmp_path / "run")
    done = regard("export", tmp_path / "run", tmp_path / "back", "--to", "marian")
    assert "not compared: transformers is not installed" in done.output
    there, back = (safetensors.torch.load_file(path / "model.safetensors") for path in (folder, tmp_path / "back"))
    assert there.keys() == back.keys()
    layers = [name for name in there if "layers" in name]
    assert all(torch.equal(there[name], back[name]) for name in layers), "bit for bit"
    assert torch.equal(there["model.shared.weight"].sort(0).values, back["model.shared.weight"].sort(0).values)


def test_a_folder_that_is_not_there_is_told(regard: Callable[..., Result], tmp_path: Path) -> None:
    done = regard("import", tmp_path / "gone", tmp_path / "run")
    assert isinstance(done.exception, ModelError) and "does not exist" in str(done.exception)


def test_what_stands_or_appears_in_its_place_stays(
    folder: Path, regard: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.share import import_marian as module

    run, write = tmp_path / "run", module.write_run

    def appear(*given: Any, **options: Any) -> None:
        write(*given, **options)
        run.mkdir()
        (run / "mine").write_text("kept")

    run.symlink_to("gone")
    done = regard("import", folder, run)
    assert isinstance(done.exception, ConfigError) and "exists" in str(done.exception)
    run.unlink()
    monkeypatch.setattr(module, "write_run", appear)
    done = regard("import", folder, run)
    assert isinstance(done.exception, StorageError) and "in the meantime" in str(done.exception)
    assert {path.name for path in tmp_path.iterdir()} == {"theirs", "run"} and (run / "mine").read_text() == "kept"


@pytest.mark.parametrize("problem", [KeyboardInterrupt, RuntimeError])
def test_whatever_stops_it_nothing_is_left(
    folder: Path, regard: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    problem: type[BaseException],
) -> None:  # fmt: skip
    from regard.runs import checkpoint

    def stop(path: Path, *given: Any, **options: Any) -> None:
        assert path.parent.is_dir()
        raise problem

    monkeypatch.setattr(checkpoint, "save", stop)
    done = regard("import", folder, tmp_path / "run")
    assert done.exit_code != 0 and [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_a_checkpoint_that_no_training_will_save_is_told(
    folder: Path, regard: Callable[..., Result], tmp_path: Path
) -> None:
    regard("import", folder, tmp_path / "run")
    done = regard("translate", tmp_path / "run", "--checkpoint", "best", input="the cat\n")
    assert isinstance(done.exception, ModelError)
    assert "--checkpoint last" in str(done.exception) and "--resume" not in str(done.exception)


def test_the_command_imports_a_file_and_reports_how_to_write_text(
    regard: Callable[..., Result], tmp_path: Path
) -> None:
    pytest.importorskip("yaml", reason="the writer of checkpoints needs it")
    from tests.share.toolkit_checkpoints import write_opennmt

    write_opennmt(tmp_path, bias=True)
    (tmp_path / "model_step_2.pt").write_bytes((tmp_path / "model_step_1.pt").read_bytes())
    refused = regard("import", tmp_path, tmp_path / "run")
    assert "several checkpoints" in str(refused.exception) and "model_step_2.pt" in str(refused.exception)
    done = regard("import", tmp_path / "model_step_2.pt", tmp_path / "run")
    assert done.exit_code == 0 and "segment text" in done.output, done.output
    assert regard("translate", tmp_path / "run", "--max-length", "5", input="s1 s2\n\n").exit_code == 0
    card = (tmp_path / "run" / "README.md").read_text()
    assert "OpenNMT-py, model_step_2.pt" in card
