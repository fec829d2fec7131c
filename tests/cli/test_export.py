"""``regard export``: a folder that is whole or absent, and what was compared."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import Result

from regard.errors import ConfigError
from tests.share.tracing import unchecked

from .conftest import TinyRun


def test_an_export_stands_by_itself_and_says_the_same(
    tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path
) -> None:
    folder = tmp_path / "exported"
    done = regard("export", tiny_run.path, folder, "--to", "ctranslate2", "--source", tiny_run.source)
    assert done.exit_code == 0, done.output
    assert "40 of 40 sentences the same" in done.output
    written = json.loads((folder / "parity.json").read_text())
    assert (written["sentences"], written["differing"]) == (40, 0)
    names = {path.name for path in folder.iterdir()}
    assert {"model.bin", "config.json", "tokenizer", "parity.json"} <= names
    again = regard("export", tiny_run.path, folder, "--to", "ctranslate2")
    assert again.exit_code == 2 or again.exception is not None
    assert [path.name for path in tmp_path.iterdir()] == ["exported"], "nothing half made is left"


def test_an_export_to_onnx_says_the_same(tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path) -> None:
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name, reason=f"needs {name}: pip install 'regard[onnx]'")
    folder = tmp_path / "exported"
    with unchecked():
        done = regard("export", tiny_run.path, folder, "--to", "onnx", "--source", tiny_run.source)
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"{folder}: 40 of 40 sentences the same"), "and nothing else is printed"
    written = json.loads((folder / "parity.json").read_text())
    assert (written["sentences"], written["differing"], written["to"]) == (40, 0, "onnx")
    names = {"encoder.onnx", "decoder.onnx", "config.json", "README.md", "source_pieces.json", "target_pieces.json"}
    assert {path.name for path in folder.iterdir()} == names | {"parity.json", "tokenizer"}


def test_what_cannot_be_run_is_written_and_not_compared(
    tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.share import onnx

    for name in ("onnx", "onnxscript"):
        pytest.importorskip(name, reason=f"needs {name}: pip install 'regard[onnx]'")
    monkeypatch.setattr(onnx, "write", lambda model, source, target, folder: folder.mkdir())
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = regard("export", tiny_run.path, tmp_path / "exported", "--to", "onnx", "--source", tiny_run.source)
    assert done.output == f"{tmp_path / 'exported'}: not compared: onnxruntime is not installed\n"
    assert [path.name for path in (tmp_path / "exported").iterdir()] == ["tokenizer"]


def test_what_writes_a_format_must_be_there(
    tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    monkeypatch.setitem(sys.modules, "onnx", ModuleType("onnx"))
    done = regard("export", tiny_run.path, tmp_path / "exported", "--to", "onnx")
    assert isinstance(done.exception, ConfigError)
    assert "onnxscript is not installed" in str(done.exception) and "regard[onnx]" in str(done.exception)
    assert not list(tmp_path.iterdir())


def test_a_run_to_be_given_away_is_a_run_without_its_data(
    tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path
) -> None:
    folder = tmp_path / "given"
    done = regard("export", tiny_run.path, folder, "--to", "hub", "--source", tiny_run.source)
    assert done.exit_code == 0, done.output
    assert "40 of 40 sentences the same" in done.output
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    weights = {name for name in files if name.startswith("checkpoints/")}
    others = {"README.md", "SHA256SUMS", "config.toml", "plan.json", "parity.json"}
    assert files - weights == others | {"tokenizer/source.json", "tokenizer/target.json"}
    assert {Path(name).name for name in weights} == {"model.safetensors", "state.json", "manifest.json"}
    whole = "".join((folder / name).read_text() for name in others)
    assert str(tiny_run.path.parent) not in whole, "no path of this machine is told"
    given, again = (regard("translate", path, input="c a b\n") for path in (tiny_run.path, folder))
    assert given.stdout == again.stdout
    assert regard("info", folder).exit_code == 0


def test_its_sums_are_those_of_its_files(tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path) -> None:
    folder = tmp_path / "given"
    regard("export", tiny_run.path, folder, "--to", "hub", "--source", tiny_run.source)
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    found = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "SHA256SUMS"]
    assert found == {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_its_card_has_the_header_that_the_hub_reads(
    tiny_copy: TinyRun, regard: Callable[..., Result], tmp_path: Path
) -> None:
    config, metrics = tiny_copy.path / "config.toml", tiny_copy.path / "metrics.jsonl"
    config.write_text(config.read_text().replace("joint = false", 'joint = false\nsource_language = "no"'))
    with metrics.open("a") as file:
        file.write('{"step": 400, "validation": {"loss": 0.5, "bleu": 99.5}}\n{"step": 400, "valid')
    regard("export", tiny_copy.path, tmp_path / "given", "--to", "hub", "--checkpoint", "400", "--sentences", "2")
    _, header, body = (tmp_path / "given" / "README.md").read_text().split("---\n", 2)
    expected = ["library_name: regard", "pipeline_tag: translation", "language:", '- "no"', "metrics:", '- "bleu"']
    assert header.splitlines() == expected, "and no licence, which nobody told"
    assert "| Validation | loss 0.5000, bleu 99.5000 |" in body and "| Weights | step 400 |" in body


def test_an_average_is_given_away_as_one(tiny_copy: TinyRun, regard: Callable[..., Result], tmp_path: Path) -> None:
    from regard.run import RunFolder

    regard("average", tiny_copy.path, "--last", "2")
    done = regard("export", tiny_copy.path, tmp_path / "given", "--to", "hub", "--sentences", "3")
    assert "3 of 3 sentences the same" in done.output
    assert str(RunFolder.open(tmp_path / "given").weights_path()) == "average (steps 300, 400)"


def test_what_marian_cannot_say_is_refused(tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path) -> None:
    done = regard("export", tiny_run.path, tmp_path / "marian", "--to", "marian")
    assert isinstance(done.exception, ConfigError)
    assert "it normalises before its sub-layers" in str(done.exception)
    assert not list(tmp_path.iterdir())
