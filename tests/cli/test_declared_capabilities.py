"""Verbs ask what a task declares: a task of another name that declares the same has the same verbs."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

import regard as package
from regard.core.task_table import TASKS, locate
from regard.errors import ConfigError
from regard.native.library import library

from .conftest import TinyRun

Verb = Callable[..., Result]
UNDECLARED = "export_form=None, scores=None, reference_test=None, engine_trials=None"


def renamed(run: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, changes: str = "") -> Path:
    """Copy a run as one of a user's own task, which is that of the run but for its name and ``changes``."""
    saved = (run / "config.toml").read_text()
    (kind,) = [task for task in TASKS if f'kind = "{task}"' in saved]
    (config, _, config_class), (task, _, _) = (each.partition(":") for each in TASKS[kind][:2])
    (folder / f"{name}.py").write_text(
        "from dataclasses import replace\n"
        f"from {config} import {config_class} as CONFIG\nfrom {task} import TASK as ORIGINAL\n"
        f"TASK = replace(ORIGINAL, name={name!r}, {changes})\n"
    )
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("REGARD_TASKS", f"{name}:TASK")
    copied = Path(shutil.copytree(run, folder / name))
    (copied / "config.toml").write_text(saved.replace(f'kind = "{kind}"', f'kind = "{name}:TASK"'))
    assert locate(f"{name}:TASK", saved=True).task().name == name
    return copied


@pytest.fixture
def pairs(tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return renamed(tiny_run.path, tmp_path, monkeypatch, "own_pairs")


@pytest.fixture
def undeclared(tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return renamed(tiny_run.path, tmp_path, monkeypatch, "undeclared", UNDECLARED)


@pytest.mark.parametrize("to", ["ctranslate2", "hub"])
def test_a_model_from_text_to_text_is_exported(
    regard: Verb, pairs: Path, tiny_run: TinyRun, tmp_path: Path, to: str
) -> None:
    pytest.importorskip("ctranslate2", reason="needs ctranslate2: pip install ctranslate2")
    done = regard("export", pairs, tmp_path / "out", "--to", to, "--source", tiny_run.source, "--sentences", "5")
    assert done.exit_code == 0 and "equal greedy outputs for 5 of 5 sentences" in done.output, done.output


def test_a_language_model_is_exported_and_scores(
    regard: Verb, language_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.share.export_format.find_spec", lambda name: None)
    run = renamed(language_model, tmp_path, monkeypatch, "own_text")
    done = regard("export", run, tmp_path / "out", "--to", "transformers")
    assert done.exit_code == 0 and (tmp_path / "out" / "model.safetensors").is_file(), done.output
    scores, own = (regard("score", path, input="the cat\n").stdout for path in (language_model, run))
    assert scores == own != ""


def test_outputs_are_compared_with_references_and_with_other_outputs(
    regard: Verb, pairs: Path, tiny_run: TinyRun
) -> None:
    arguments = (tiny_run.source, tiny_run.target, "--metric", "wer", "--beam", "1", "--json")
    own = json.loads(regard("evaluate", pairs, *arguments, "--against", tiny_run.path).stdout)
    original = json.loads(regard("evaluate", tiny_run.path, *arguments).stdout)
    assert own["scores"] == original["scores"] and own["against"]["scores"]["wer"]["difference"] == 0
    found = package.evaluate(pairs, tiny_run.source, tiny_run.target, beam=1)
    assert set(found.figures) == {"bleu", "chrf"} and len(found.outputs) == 40


def test_pairs_are_scored(regard: Verb, pairs: Path, tiny_run: TinyRun) -> None:
    own, original = (
        regard("score", run, tiny_run.source, tiny_run.target).stdout for run in (pairs, tiny_run.path)
    )  # fmt: skip
    assert own == original and own.count("\n") == 40


@pytest.mark.skipif(library() is None, reason="needs the kernels")
def test_engines_are_chosen(pairs: Path, undeclared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for run, chooses in ((pairs, True), (undeclared, False)):
        monkeypatch.setenv("REGARD_TASKS", f"{run.name}:TASK")
        package.load(run, engine="auto")
        assert (run / "engine.json").exists() == chooses


def test_what_is_not_declared_is_refused(regard: Verb, undeclared: Path, tiny_run: TinyRun, tmp_path: Path) -> None:
    files = (tiny_run.source, tiny_run.target)
    calls: list[tuple[Any, ...]] = [
        ("export", undeclared, tmp_path / "out", "--to", "ctranslate2"),
        ("score", undeclared, *files),
        ("evaluate", undeclared, *files, "--beam", "2"),
        ("evaluate", tiny_run.path, *files, "--against", undeclared),
    ]
    errors = [regard(*call).exception for call in calls]
    assert all(isinstance(error, ConfigError) for error in errors)
    assert "--to hub" in str(errors[0]) and "requires a translation or language model" in str(errors[1])
    assert "compared with references" in str(errors[2]) and "--against" in str(errors[3])


def test_what_is_not_declared_is_measured_as_in_validation(undeclared: Path, tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("a b\tA B\nc\tC\n")
    found = package.evaluate(undeclared, tmp_path / "test.tsv", metrics=["loss"])
    assert set(found.figures) == {"loss"} and found.examples == 2 and not found.outputs


def test_every_declared_form_is_written_by_a_format() -> None:
    from regard.share.export_format import EXPORT_FORMATS, export_formats

    forms = {format.form for name in EXPORT_FORMATS for format in export_formats(name)} - {None}
    module = importlib.import_module("regard.core.export_forms")
    declared = {
        value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__
    }
    assert forms == {form for form in declared if issubclass(form, module.ExportForm)} - {module.ExportForm}
