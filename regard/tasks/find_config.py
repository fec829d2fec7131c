"""Choice of the config for files or a recipe named on the command line."""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from regard.config.toml_layers import merge, parse_override
from regard.core.task import Report
from regard.core.task_table import TASKS, locate
from regard.data.file_names import named_files
from regard.data.public.catalog import corpora
from regard.data.rows import read_head
from regard.data.text_files import first_bytes, require_content
from regard.errors import ConfigError, DataError
from regard.runs.config import load_config, recipe_names, source_config
from regard.runs.origin import parse_start
from regard.runs.plugins import enable_listed
from regard.runs.run_config import Confidence, Proposal, RunConfig, TaskSection
from regard.tasks.automatic_training import fine_tuning_settings
from regard.tasks.detect_files import require_known_form
from regard.training.setup import require_trainable


class Target(Protocol):
    """A use of the trained run that restricts the choice of its config, such as an export."""

    def fit(self, proposal: Proposal, overrides: Sequence[str]) -> Proposal:
        """Return a proposal with the settings that the use needs."""

    def require(self, config: RunConfig) -> None:
        """Raise ConfigError with all reasons why a run of this config cannot be used so."""


def find_config(
    what: Sequence[str],
    held_out: Sequence[Path],
    overrides: Sequence[str],
    *,
    log: Report = lambda message: None,
    target: Target | None = None,
) -> RunConfig:
    """Return the config for files or a recipe.

    It is checked for training as far as possible without reading all data.

    Args:
        what: data files, or one recipe.
        held_out: validation files.
        overrides: settings of the user, KEY=VALUE.
        log: receives the reason of each value that is chosen for files without a recipe.
        target: what the trained run must be able to become.

    Raises:
        ConfigError: if no task reads the files, or several do with equal confidence, or the target refuses the config.
        DataError: if a file cannot be read.
    """
    if os.environ.get("REGARD_QUICK"):  # a short run of all stages, to test the commands of the README
        overrides = [*overrides, "train.steps=3", "train.minutes="]
    enable_listed()
    proposal = _proposal(what, held_out, overrides)
    if proposal is not None:
        proposal = _with_origin(proposal, overrides)
        if target is not None:
            proposal = target.fit(proposal, overrides)
        for reason in proposal.reasons:
            log(reason)
        config = load_config(proposal.config, overrides)
    elif _is_recipe([Path(name) for name in what]):
        if held_out:
            raise ConfigError("--valid cannot be combined with a recipe", help="use --set data.valid=…")
        config = load_config(what[0], overrides)
    else:
        raise _no_task([Path(name) for name in what], overrides)
    require_data(config)
    if target is not None:
        target.require(config)
    require_trainable(config)
    return config


def _with_origin(proposal: Proposal, overrides: Sequence[str]) -> Proposal:
    """Return the proposal without the settings that come from the run that training starts from."""
    start = parse_start(merge([], map(parse_override, overrides)))
    if start is None:
        return proposal
    data, model = proposal.config["data"], proposal.config.get("model", {})
    tables = {name: table for name, table in proposal.config.items() if name != "model"}
    if start.part == "encoder":
        kind = proposal.config.get("task", {}).get("kind", TaskSection().kind)
        net = locate(kind).config().nets()["model"]
        of_sides = {*net.sides, *net.shared_keys(), "preset"}
        head = {key: value for key, value in model.items() if key not in of_sides}
        tables["data"] = {key: value for key, value in data.items() if key != "tokenizer"}
        reasons = proposal.reasons[:2]  # the task and the validation data; the other reasons are about the encoder
        source = source_config(start)
        if source.reads_with[1].kind != "word":  # subword features are for unknown words, which subwords avoid
            head.pop("affixes", None)
            tables["data"].pop("hidden_tokens", None)
        user = merge([], map(parse_override, overrides))
        settings, reason = fine_tuning_settings(tables.get("train", {}), _user_settings(overrides), width=source.width)
        if _encoder_table(user).get("frozen") != "all":
            tables, reasons = tables | {"train": settings}, [*reasons, reason]
        return Proposal(tables | {"model": head}, [f"encoder and vocabulary from {start.origin.run}", *reasons])
    tables["data"] = {key: value for key, value in data.items() if key in ("train", "valid", "documents", "order")}
    return Proposal(tables, [f"network and vocabulary from {start.origin.run}", *proposal.reasons[1:]])


def _encoder_table(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the table ``model.encoder`` of the user; {} if it is missing."""
    model = tables.get("model")
    encoder = model.get("encoder") if isinstance(model, Mapping) else None
    return encoder if isinstance(encoder, Mapping) else {}


def _user_settings(overrides: Sequence[str]) -> dict[str, Any]:
    """Return the keys of ``train`` that the user sets, and the tables ``data`` and ``model`` and the task by name."""
    tables = merge([], map(parse_override, overrides))
    named = {name: table for name in ("data", "model") if isinstance(table := tables.get(name), dict) and table}
    train, task = tables.get("train"), tables.get("task")
    kind = task.get("kind") if isinstance(task, dict) else task
    return (train if isinstance(train, dict) else {}) | named | ({"task": kind} if kind else {})


def _proposal(what: Sequence[str], held_out: Sequence[Path], overrides: Sequence[str]) -> Proposal | None:
    """Return a config for data files, from the task with the highest confidence; None for a recipe.

    Args:
        what: data files, or one recipe.
        held_out: validation files.
        overrides: the settings of the user; ``task`` restricts the choice to one task.

    Raises:
        ConfigError: if two tasks have equal confidence, or for a setting that the task does not have.
        DataError: for an empty file, or a form that no task reads.
    """
    files, settings = [Path(name) for name in what], _user_settings(overrides)
    if _is_recipe(files):
        return None
    for file in (*(path for name in files for path in named_files(name)), *held_out):
        if file.is_file():
            require_content(file)
            require_known_form(file)
    groups = [[settings["task"]]] if "task" in settings else tasks_by_confidence(files, held_out, settings)
    for kinds in groups:
        answers = {kind: _answer(kind, files, held_out, overrides) for kind in kinds}
        proposals = {kind: proposal for kind, proposal in answers.items() if proposal is not None}
        if len(proposals) > 1:
            raise _undecided(what, proposals)
        if proposals:
            return next(iter(proposals.values()))
    return None


def _answer(
    kind: str, files: Sequence[Path], held_out: Sequence[Path], overrides: Sequence[str]
) -> Proposal | None:  # fmt: skip
    """Return the config that a task proposes for files; None if it does not read them.

    Raises:
        ConfigError: for a setting of the data that the task does not have.
    """
    try:
        return locate(kind).config().propose(files, held_out, _user_settings(overrides))
    except ValidationError:
        load_config({"task": {"kind": kind}, "data": {"train": [{"source": str(files[0])}]}}, overrides)  # explains it
        raise


def tasks_by_confidence(
    files: Sequence[Path], held_out: Sequence[Path], settings: Mapping[str, Any]
) -> list[list[str]]:
    """Return the tasks that can read these files, in groups of equal confidence, the highest first."""
    groups: defaultdict[Confidence, list[str]] = defaultdict(list)
    for kind in TASKS:
        groups[locate(kind).config().confidence(files, held_out, settings)].append(kind)
    return [groups[confidence] for confidence in sorted(groups, reverse=True) if confidence]


def _undecided(what: Sequence[str], proposals: Mapping[str, Proposal]) -> ConfigError:
    """Return the error for files that several tasks can read, with a command for each."""
    command = shlex.join(["regard", "train", *what])
    return ConfigError(
        f"these files fit several tasks: {', '.join(proposals)}", where=what[0],
        why="; ".join(proposal.reasons[0] for proposal in proposals.values()),
        help="choose one: " + ", or ".join(f"{command} --task {kind}" for kind in proposals),
    )  # fmt: skip


def _is_recipe(names: Sequence[Path]) -> bool:
    """Return whether the only name is that of a config, a recipe or a run."""
    return len(names) == 1 and (names[0].suffix == ".toml" or not (names[0].suffix or _is_data(names[0])))


def _no_task(files: Sequence[Path], overrides: Sequence[str]) -> ConfigError:
    """Return the error for files that no task reads, at least not together."""
    actual = [file for name in files for file in named_files(name)]
    help = "write a pattern of many files in quotes, such as 'part-*.en' 'part-*.de'; see regard train --help"
    if not actual or not all(file.exists() for file in actual):
        if len(files) == 1:
            first_bytes(files[0])  # raises the error for a missing file, with the nearest name
        return ConfigError(
            "expected data files (SOURCE TARGET, a table, a text, a graph), a recipe, or --resume RUN", help=help
        )
    described = dict.fromkeys(f"{file} is {_described(file)}" for file in actual)
    task = _user_settings(overrides).get("task")
    these = "these files" if len(actual) > 1 else "this file"
    what = f"no task reads {these}" + (" together" if len(actual) > 1 else "")
    what = what if task is None else f"the task {task} does not read {these}"
    if len(files) == 1:
        help = "use the file extension of its format; without --task, regard train chooses a task by the file"
        if task == "classification" and actual[0].is_file() and read_head(actual[0]).names:
            help = "name the columns of the text and the label: --set data.text=… --set data.label=…"
    return ConfigError(what, where=str(actual[0]), why="; ".join(list(described)[:4]), help=help)


def _described(file: Path) -> str:
    """Describe the form of a file and its columns."""
    if file.is_dir():
        return "a folder"
    head = read_head(file)
    return f"{head.form} with the columns {', '.join(head.names)}" if head.names else head.form


def _is_data(path: Path) -> bool:
    """Return whether the path is a file, a pattern of files, or a folder of texts, and not a run or a recipe."""
    if path.is_dir():
        return not (path / "config.toml").exists() and str(path) not in recipe_names()
    return path.is_file() or named_files(path) != [path]


def require_data(config: RunConfig) -> None:
    """Raise DataError if a public corpus of the config has not been fetched yet."""
    for corpus in (*config.data.train, *(config.data.valid or ())):
        for path in (getattr(corpus, "source", None), getattr(corpus, "target", None)):
            known = isinstance(path, Path) and path.parent.name in corpora() and not path.parent.exists()
            if isinstance(path, Path) and known:
                raise DataError(
                    f"the corpus {path.parent.name} has not been downloaded",
                    where=str(path),
                    help=f"regard data fetch {path.parent.name} --to {path.parent}",
                )
