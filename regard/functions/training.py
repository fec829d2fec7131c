"""``regard.train`` and ``regard.cross_validate``: runs on files, a recipe, or data that a program holds."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from regard.core import atomic_files
from regard.core.columns import is_table, naming_rows
from regard.errors import ConfigError, StorageError
from regard.runs.config import recipe_names
from regard.runs.run_config import RunConfig
from regard.runs.run_folder import INPUTS, RunFolder
from regard.runs.run_names import default_name, new_folder
from regard.share.export_target import ExportTarget
from regard.tasks.cross_validation import CrossValidation
from regard.tasks.cross_validation import cross_validate as measure_folds
from regard.tasks.find_config import find_config
from regard.tasks.in_memory import FORMS, is_name, write_data
from regard.training.longer import longer_run
from regard.training.progress import Reporter
from regard.training.reporters import Reporters, default_reporters
from regard.training.start import train as train_config


def train(
    *what: Any, valid: Any = None, task: str | None = None, for_: str | None = None, name: str | None = None,
    runs: str | Path = "runs", folder: str | Path | None = None, resume: str | Path | None = None,
    continue_: str | Path | None = None, overrides: Sequence[str] = (),
    reporter: Reporter | Sequence[Reporter] | None = None, **settings: Any,
) -> Path:  # fmt: skip
    """Train a run to its end and return its folder: ``regard.train("reviews.csv", train={"minutes": 5})``.

    The same call resumes an unfinished run, if ``name`` or ``folder`` is set; Ctrl-C raises KeyboardInterrupt. With
    several ranks, each rank calls this function.

    Args:
        what: names of files, or a recipe, as for ``regard train``; or data that the program holds, which are written
            into the run folder (see "Training and data"); or a config, as nested tables, and the run folder.
        valid: the validation data in the same form; a tuple for two objects.
        task: the name of the task, instead of the one that fits the data.
        for_: choose settings that can be exported to this format: see ``regard.export``.
        name: the name of the run folder in ``runs``. Default: a new name.
        runs: the folder of run folders.
        folder: the run folder, instead of ``name`` and ``runs``.
        resume: resume this run folder.
        continue_: train this finished run longer, in a new folder.
        overrides: overrides as in ``--set``: ``["train.steps=100"]``.
        reporter: one or several reporters: see "Report a training". Default: a progress bar in a notebook.
        settings: sections and keys of the config: ``train={"minutes": 5}``, ``data={"text": "body"}``, ``seed=3``.

    Raises:
        ConfigError: the config cannot be trained, or differs from that of the folder.
        DataError: the data cannot be read.
    """
    reporters, changes = _reporters(reporter), _changes(task, overrides, settings)
    if resume is not None:
        _refuse_with("resume", what, valid, changes, name, folder, continue_, for_)
        return train_config(RunFolder.open(Path(resume)).config, resume, reporter=reporters)
    if continue_ is not None:
        _refuse_with("continue_", what, valid, for_)
        place = Path(folder or _folder(name, Path(runs), f"{Path(continue_).resolve().name}-continued"))
        return _train_longer(Path(continue_), place, changes, reporters)
    if what and isinstance(what[0], RunConfig | Mapping) and not is_table(what[0]):
        return train_config(what[0], _one_folder(what, folder), overrides=changes, reporter=reporters)
    if len(what) == 2 and folder is None and all(map(is_name, what)) and _is_recipe(str(what[0])):
        what, folder = what[:-1], what[-1]
    place = Path(folder or _folder(name, Path(runs), _stem(what)))
    return _train_new(what, valid, place, task, None if for_ is None else ExportTarget(for_), changes, reporters)


def cross_validate(
    *what: Any, folds: int = 5, task: str | None = None, for_: str | None = None, name: str | None = None,
    runs: str | Path = "runs", folder: str | Path | None = None, overrides: Sequence[str] = (),
    reporter: Reporter | Sequence[Reporter] | None = None, **settings: Any,
) -> CrossValidation:  # fmt: skip
    """Train one run without each fold of the data, measure each with its fold, and return the means over folds.

    The same call does not repeat finished folds, if ``name`` or ``folder`` is set.

    Args:
        what: the data, as in ``regard.train``.
        folds: the number of folds, at least 2.
        task: the name of the task, instead of the one that fits the data.
        for_: choose settings that can be exported to this format: see ``regard.export``.
        name: the name of the folder for the runs, in ``runs``. Default: a new name.
        runs: the folder of run folders.
        folder: the folder for the runs, instead of ``name`` and ``runs``.
        overrides: overrides as in ``--set``.
        reporter: one or several reporters: see "Report a training". Default: a progress bar in a notebook.
        settings: sections and keys of the config.

    Raises:
        ConfigError: the config cannot be trained, or the task has no folds.
        DataError: the data cannot be read, or a fold has no example.
    """
    if folds < 2:
        raise ConfigError(f"folds must be at least 2, not {folds}", where="folds")
    if "RANK" in os.environ:
        raise ConfigError("cross-validation cannot be one of several ranks", where="RANK", help="use a single process")
    reporters = _reporters(reporter)
    place = Path(folder or _folder(name, Path(runs), f"{_stem(what)}-folds"))
    changes, target = _changes(task, overrides, settings), None if for_ is None else ExportTarget(for_)
    log = Reporters(reporters).log
    with naming_rows(place / INPUTS, "data"):
        with _removed_if_unprepared(place):
            files = _named_files(what, None, place, task)["train"]
            config = find_config(files, [], changes, log=log, target=target)
        return measure_folds(config, place, folds, train_run=partial(train_config, reporter=reporters), log=log)


def _reporters(reporter: Reporter | Sequence[Reporter] | None) -> Sequence[Reporter]:
    """Return the reporters of an argument; by default a progress bar in a notebook."""
    return default_reporters() if reporter is None else reporter if isinstance(reporter, Sequence) else [reporter]


def _changes(task: str | None, overrides: Sequence[str], settings: Mapping[str, Any]) -> list[str]:
    """Return all overrides of a call."""
    return [*([f"task.kind={task}"] if task else []), *overrides, *overrides_of(settings)]


def _train_longer(source: Path, folder: Path, overrides: Sequence[str], reporters: Sequence[Reporter]) -> Path:
    """Train a finished run longer, in a new folder."""
    log = Reporters(reporters).log
    run = longer_run(RunFolder.open(source), overrides, log).begin(folder, log)
    return train_config(run.config, folder, reporter=reporters)


def _train_new(
    what: Sequence[Any],
    valid: Any,
    folder: Path,
    task: str | None,
    target: ExportTarget | None,
    overrides: Sequence[str],
    reporters: Sequence[Reporter],
) -> Path:
    """Train on files, or on data of the program, with the config that fits them."""
    with naming_rows(folder / INPUTS, "data"), _removed_if_unprepared(folder):
        files = _named_files(what, valid, folder, task)
        held_out, log = [Path(name) for name in files["valid"]], Reporters(reporters).log
        config = find_config(files["train"], held_out, overrides, log=log, target=target)
        return train_config(config, folder, reporter=reporters)


@contextmanager
def _removed_if_unprepared(folder: Path) -> Iterator[None]:
    """Remove a new folder if the block raises before its data are prepared: the same error would occur again."""
    new = not folder.exists() and "RANK" not in os.environ  # a rank does not own the folder
    try:
        yield
    except BaseException:
        if new and folder.exists() and not (folder / "plan.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _named_files(what: Sequence[Any], valid: Any, folder: Path, task: str | None) -> dict[str, list[str]]:
    """Return the names of the files of both parts; data of the program are first written into the run folder."""
    held_out = () if valid is None else valid if isinstance(valid, tuple) else (valid,)
    parts = {"train": what, "valid": held_out}
    in_memory = {part: values for part, values in parts.items() if not all(map(is_name, values))}
    if mixed := [part for part, values in in_memory.items() if any(map(is_name, values))]:
        raise ConfigError("names of files and data of the program cannot be mixed", where=mixed[0], help=FORMS)
    named = {part: [os.fspath(value) for value in values] for part, values in parts.items() if part not in in_memory}
    return {**named, **_in_run_folder(in_memory, folder, task)} if in_memory else named


def _in_run_folder(parts: Mapping[str, Sequence[Any]], folder: Path, task: str | None) -> dict[str, list[str]]:
    """Write the data of each part into the run folder, once; return the names of the files."""
    final = folder / INPUTS
    with tempfile.TemporaryDirectory() as temporary:
        files = {part: write_data(values, Path(temporary), part, task) for part, values in parts.items()}
        if not final.is_dir():
            _publish(Path(temporary), final)
        for file in (file for names in files.values() for file in names):
            known = final / file.name
            if not (known.is_file() and atomic_files.sha256(known) == atomic_files.sha256(file)):
                raise ConfigError(f"the run {folder} has other data", where=str(known), help="choose another name")
    return {part: [str(final / file.name) for file in names] for part, names in files.items()}


def _publish(source: Path, final: Path) -> None:
    """Copy a folder to its final name, unless another rank has just done that."""
    with atomic_files.explain_os_errors(final):
        final.parent.mkdir(parents=True, exist_ok=True)
    try:
        with atomic_files.publishing(final) as hidden:
            shutil.copytree(source, hidden)
    except StorageError:
        if not final.is_dir():
            raise


def overrides_of(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield nested tables as overrides: ``train.minutes=5``."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from overrides_of(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}=" + ("" if value is None else _written(value, f"{prefix}{name}"))


def _written(value: Any, key: str) -> str:
    """Return a value in TOML. Raises ConfigError if it has no form there."""
    plain = value.tolist() if hasattr(value, "tolist") else value  # numbers and arrays of NumPy
    if isinstance(plain, Path):
        return str(plain)
    try:
        return json.dumps(plain, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        why = f"it is of the type {type(value).__name__}"
        raise ConfigError(f"{key} cannot be written into a config", where=key, why=why) from error


def _is_recipe(name: str) -> bool:
    return name in recipe_names() or name.endswith(".toml")


def _one_folder(what: Sequence[Any], folder: str | Path | None) -> str | Path:
    """Return the run folder of a config, which is the second argument or ``folder``."""
    folders: list[str | Path] = [*what[1:], *([] if folder is None else [folder])]
    if not folders or len(folders) > 1:
        raise ConfigError("a config is trained in one run folder", help='regard.train(config, "runs/first")')
    return folders[0]


def _folder(name: str | None, runs: Path, default: str) -> Path:
    """Return the run folder; without a name, one that does not exist, except that ranks share one name."""
    if name is not None or "RANK" in os.environ:
        return runs / (name or default)
    return new_folder(runs, default)


def _stem(what: Sequence[Any]) -> str:
    """Return the default name of a run on this data."""
    return default_name(str(what[0])) if what and is_name(what[0]) else "run"


def _refuse_with(argument: str, *excluded: Any) -> None:
    if any(value not in (None, [], ()) for value in excluded):
        raise ConfigError(f"{argument} cannot be combined with other data or settings", where=argument)
