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

from regard.errors import ConfigError, StorageError
from tests.shape_checks import unchecked

from .conftest import TinyRun


def test_an_export_stands_by_itself_and_says_the_same(
    tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path
) -> None:
    folder = tmp_path / "exported"
    done = regard("export", tiny_run.path, folder, "--to", "ctranslate2", "--source", tiny_run.source)
    assert done.exit_code == 0, done.output
    assert "equal greedy outputs for 40 of 40 sentences" in done.output
    written = json.loads((folder / "parity.json").read_text())
    assert (written["sentences"], written["differing"], written["left_out"]) == (40, 0, 0)
    assert written["environment"]["torch"]
    names = {path.name for path in folder.iterdir()}
    assert {"model.bin", "config.json", "tokenizer", "parity.json"} <= names
    again = regard("export", tiny_run.path, folder, "--to", "ctranslate2")
    assert again.exit_code == 2 or again.exception is not None
    assert [path.name for path in tmp_path.iterdir()] == ["exported"], "nothing half made is left"


def test_an_export_to_onnx_says_the_same(tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path) -> None:
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name, reason=f"needs {name}: pip install '.[onnx]'")
    folder = tmp_path / "exported"
    with unchecked():
        done = regard("export", tiny_run.path, folder, "--to", "onnx", "--source", tiny_run.source)
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"{folder}: equal greedy outputs for 40 of 40 sentences"), (
        "and nothing else is printed"
    )
    written = json.loads((folder / "parity.json").read_text())
    assert (written["sentences"], written["differing"], written["to"]) == (40, 0, "onnx")
    names = {"encoder.onnx", "decoder.onnx", "config.json", "README.md", "source_pieces.json", "target_pieces.json"}
    assert {path.name for path in folder.iterdir()} == names | {"parity.json", "tokenizer"}


def test_what_cannot_be_run_is_written_and_not_compared(
    tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.share import onnx

    for name in ("onnx", "onnxscript"):
        pytest.importorskip(name, reason=f"needs {name}: pip install '.[onnx]'")
    monkeypatch.setattr(onnx, "write", lambda model, source, target, folder: folder.mkdir())
    monkeypatch.setattr("regard.share.export_format.find_spec", lambda name: None)
    done = regard("export", tiny_run.path, tmp_path / "exported", "--to", "onnx", "--source", tiny_run.source)
    assert done.output == f"{tmp_path / 'exported'}: outputs not compared: onnxruntime is not installed\n"
    assert [path.name for path in (tmp_path / "exported").iterdir()] == ["tokenizer"]


def test_what_writes_a_format_must_be_there(
    tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    monkeypatch.setitem(sys.modules, "onnx", ModuleType("onnx"))
    done = regard("export", tiny_run.path, tmp_path / "exported", "--to", "onnx")
    assert isinstance(done.exception, ConfigError)
    assert "onnxscript is not installed" in str(done.exception) and "pip install" in str(done.exception)
    assert not list(tmp_path.iterdir())


def test_a_run_to_be_given_away_is_a_run_without_its_data(
    tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path
) -> None:
    folder = tmp_path / "given"
    done = regard("export", tiny_run.path, folder, "--to", "hub", "--source", tiny_run.source)
    assert done.exit_code == 0, done.output
    assert "equal greedy outputs for 40 of 40 sentences" in done.output
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    weights = {name for name in files if name.startswith("checkpoints/")}
    others = {"README.md", "SHA256SUMS", "config.toml", "plan.json", "parity.json"}
    assert files - weights == others | {"tokenizer/source.json", "tokenizer/target.json"}
    assert {Path(name).name for name in weights} == {"model.safetensors", "state.json", "manifest.json"}
    whole = "".join((folder / name).read_text() for name in others)
    assert str(tiny_run.path.parent) not in whole, "no path of this machine is told"
    assert "environment" not in json.loads((folder / "parity.json").read_text()), "and not what machine it is"
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
    assert header.splitlines() == expected, "and no license, which nobody told"
    assert "| Validation | loss 0.5000, bleu 99.5000 |" in body and "| Weights | step 400 |" in body


def test_an_average_is_given_away_as_one(tiny_copy: TinyRun, regard: Callable[..., Result], tmp_path: Path) -> None:
    from regard.runs.run_folder import RunFolder

    regard("average", tiny_copy.path, "--last", "2")
    done = regard("export", tiny_copy.path, tmp_path / "given", "--to", "hub", "--sentences", "3")
    assert "equal greedy outputs for 3 of 3 sentences" in done.output
    assert str(RunFolder.open(tmp_path / "given").weights_path()) == "average (steps 300, 400)"


def test_what_marian_cannot_say_is_refused(tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path) -> None:
    done = regard("export", tiny_run.path, tmp_path / "marian", "--to", "marian")
    assert isinstance(done.exception, ConfigError)
    assert "pre-norm" in str(done.exception)
    assert not list(tmp_path.iterdir())


LONG = " ".join("abcdefgh" * 4)


def with_learned_positions(run: TinyRun, path: Path, positions: int) -> Path:
    """An untrained run with a table of that many positions."""
    import torch

    from regard.models.build import build
    from regard.runs import checkpoint
    from regard.runs.run_folder import RunFolder
    from regard.tasks.translation.codecs import open_codecs, save_codecs
    from regard.tasks.translation.config import TranslationConfig

    trained = RunFolder.open(run.path)
    values = trained.config.model_dump()
    values["model"] |= {"position": "learned", "longest": positions}
    values["data"] |= {"max_length": positions - 1}
    made = RunFolder.create(path, TranslationConfig.model_validate(values))
    codecs = open_codecs(trained)
    source, target = codecs
    save_codecs(made, codecs)
    torch.manual_seed(1)
    model = build(made.config.model, source_types=len(source), target_types=len(target))
    checkpoint.save(made.checkpoints, 0, {"model": dict(model.named_parameters())}, {}, keep=1)
    return path


def test_what_is_too_long_for_the_format_is_left_out_and_told(
    tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.share import ctranslate2

    monkeypatch.setattr(ctranslate2, "POSITIONS", 12)
    source, folder = tmp_path / "source", tmp_path / "exported"
    source.write_text(f"c a b\n{LONG}\nb b\nc a b d e f g h a b c\n")
    done = regard("export", tiny_run.path, folder, "--to", "ctranslate2", "--source", source)
    assert done.exit_code == 0, done.output
    assert (
        "equal greedy outputs for 3 of 3 sentences" in done.output and "1 longer than 11 pieces left out" in done.output
    )
    assert json.loads((folder / "parity.json").read_text())["left_out"] == 1
    source.write_text(LONG)
    done = regard("export", tiny_run.path, tmp_path / "other", "--to", "ctranslate2", "--source", source)
    assert isinstance(done.exception, ConfigError) and "11 pieces" in str(done.exception)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("to", ["ctranslate2", "hub"])
def test_what_is_too_long_for_our_own_table_is_left_out(
    tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path, to: str
) -> None:
    run = with_learned_positions(tiny_run, tmp_path / "learned", 12)
    source = tmp_path / "source"
    source.write_text(f"c a b\n{LONG}\nb b\nc a b d e f g h a b c\n")
    done = regard("export", run, tmp_path / "exported", "--to", to, "--source", source)
    assert done.exit_code == 0, done.output
    assert (
        "equal greedy outputs for 3 of 3 sentences" in done.output and "1 longer than 11 pieces left out" in done.output
    )


def test_what_is_longer_than_any_that_was_learned_is_left_out(
    tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_text(f"c a b\n{' '.join('a' * 2000)}\n")
    done = regard("export", tiny_run.path, tmp_path / "exported", "--to", "ctranslate2", "--source", source)
    assert "equal greedy outputs for 1 of 1 sentence" in done.output and "left out" in done.output


def test_what_appears_in_its_place_meanwhile_stays(
    tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.share import hub

    folder = tmp_path / "given"

    def appear(made: Path) -> None:
        folder.mkdir()
        (folder / "mine").write_text("kept")

    monkeypatch.setattr(hub, "write_checksums", appear)
    done = regard("export", tiny_run.path, folder, "--to", "hub", "--sentences", "2")
    assert isinstance(done.exception, StorageError) and "in the meantime" in str(done.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["given"] and (folder / "mine").read_text() == "kept"


def test_a_link_to_nothing_is_something(tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("gone")
    done = regard("export", tiny_run.path, tmp_path / "link", "--to", "hub", "--sentences", "2")
    assert isinstance(done.exception, ConfigError) and "exists" in str(done.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


@pytest.mark.parametrize("problem", [KeyboardInterrupt, RuntimeError])
def test_whatever_stops_it_nothing_is_left(
    tiny_run: TinyRun, regard: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    problem: type[BaseException],
) -> None:  # fmt: skip
    from regard.share import hub

    def stop(folder: Path) -> None:
        assert (folder / "README.md").exists()
        raise problem

    monkeypatch.setattr(hub, "write_checksums", stop)
    done = regard("export", tiny_run.path, tmp_path / "given", "--to", "hub", "--sentences", "2")
    assert done.exit_code != 0 and not list(tmp_path.iterdir())


def test_the_command_offers_every_format_of_the_table() -> None:
    from typing import get_args

    from regard.commands.export import To
    from regard.share.export_format import EXPORT_FORMATS, export_formats

    assert set(get_args(get_args(To)[0])) == set(EXPORT_FORMATS)
    assert all(export_formats(name) for name in EXPORT_FORMATS)


def test_a_model_trained_for_a_format_leaves_to_it(regard: Callable[..., Result], tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="compares the outputs")
    rows = "".join(f"{'good' if n % 2 else 'bad'} film {n},{'ab'[n % 2]}\n" for n in range(40))
    (tmp_path / "rows.csv").write_text("text,label\n" + rows)
    small = [
        part for key in ("layers=1", "width=16", "heads=2", "feed_forward=16") for part in ("--set", f"model.{key}")
    ]
    options = ["--for", "transformers", *small, "--set", "train.steps=2", "--runs", tmp_path, "--name", "run"]
    refused = regard("train", tmp_path / "rows.csv", *options, "--set", "model.pooling=mean")
    assert isinstance(refused.exception, ConfigError) and not (tmp_path / "run").exists()
    assert regard("train", tmp_path / "rows.csv", *options).exit_code == 0
    done = regard("export", tmp_path / "run", tmp_path / "out", "--to", "transformers")
    assert done.exit_code == 0 and (tmp_path / "out" / "parity.json").is_file(), done.output
    resumed = regard("train", "--resume", tmp_path / "run", "--for", "onnx")
    assert "--for is only for a new run" in str(resumed.exception)


def test_options_of_other_formats_are_refused(regard: Callable[..., Result], tiny_run: TinyRun, tmp_path: Path) -> None:
    for options, part in (
        (("--to", "marian", "--quantization", "int8"), "writes float32 only"),
        (("--to", "ctranslate2", "--quantization", "int3"), "writes int8, int8_float16"),
        (("--to", "onnx", "--push", "me/model"), "--push needs --to hub"),
        (("--to", "hub", "--push", "../model"), "not the name of a repository"),
    ):
        refused = regard("export", tiny_run.path, tmp_path / "out", *options)
        assert isinstance(refused.exception, ConfigError) and part in str(refused.exception), options
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("files", "advice"),
    [
        (("config.json", "model.safetensors"), "a model of transformers: regard import"),
        (("dict.de.txt", "checkpoint_best.pt"), "a model of fairseq: regard import"),
        (("config.yaml", "best.ckpt"), "a model of Joey NMT: regard import"),
        (("config", "params.best"), "a model of Sockeye: regard import"),
        (("model.bin", "config.json"), "CTranslate2 cannot be imported: use the run"),
    ],
)
def test_folders_of_other_libraries_are_recognized(
    files: tuple[str, ...], advice: str, regard: Callable[..., Result], tmp_path: Path
) -> None:
    for name in files:
        (tmp_path / name).touch()
    assert advice in str(regard("info", tmp_path).exception)
