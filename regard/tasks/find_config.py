"""The config that somebody means who names files or a recipe: what a command or a check is to train."""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.config.toml_layers import merge, parse_override
from regard.core.task import Report
from regard.core.task_table import TASKS, locate
from regard.data.file_names import named_files
from regard.data.public.catalog import corpora
from regard.data.rows import read_head
from regard.data.text_files import first_bytes, require_content
from regard.errors import ConfigError, DataError
from regard.runs.config import load_config, recipe_names
from regard.runs.origin import parse_start
from regard.runs.run_config import Confidence, Proposal, RunConfig
from regard.tasks.found_files import require_known_form
from regard.training.setup import require_trainable


def find_config(
    what: Sequence[str], held_out: Sequence[Path], overrides: Sequence[str], *, say: Report = lambda message: None
) -> RunConfig:
    """The config that files or a recipe mean, which can be trained as far as that shows without reading all text.

    ``held_out``: files to validate on. ``say`` is told why each value was chosen for files without a recipe.
    """
    if os.environ.get("REGARD_QUICK"):  # the README's commands as a test: every part of the work, hardly any of it
        overrides = [*overrides, "train.steps=3", "train.minutes="]
    proposal = _proposal(what, held_out, _given(overrides))
    if proposal is not None:
        proposal = _with_origin(proposal, overrides)
        for reason in proposal.reasons:
            say(reason)
        config = load_config(proposal.config, overrides)
    elif _is_recipe([Path(each) for each in what]):
        if held_out:
            raise ConfigError("a recipe names its validation data itself", help="--set data.valid=…")
        config = load_config(what[0], overrides)
    else:
        raise _no_task([Path(each) for each in what], overrides)
    require_data(config)
    require_trainable(config)
    return config


def _with_origin(proposal: Proposal, overrides: Sequence[str]) -> Proposal:
    """The proposal without what a run decides that training is to start from."""
    start = parse_start(merge([], map(parse_override, overrides)))
    if start is None:
        return proposal
    data, model = proposal.config["data"], proposal.config.get("model", {})
    tables = {name: table for name, table in proposal.config.items() if name != "model"}
    if start.part == "encoder":
        net = locate(proposal.config["task"]["kind"]).config().nets()["model"]
        of_sides = {*net.sides, *net.shared_keys(), "preset"}
        kept = {key: value for key, value in model.items() if key not in of_sides}
        tables["data"] = {key: value for key, value in data.items() if key != "tokenizer"}
        told = proposal.reasons[:2]  # the kind of work and what validates; the others are of the encoder
        return Proposal(tables | {"model": kept}, [f"encoder and vocabulary are those of {start.origin.run}", *told])
    tables["data"] = {key: value for key, value in data.items() if key in ("train", "valid", "documents", "order")}
    return Proposal(tables, [f"network and vocabulary are those of {start.origin.run}", *proposal.reasons[1:]])


def _given(overrides: Sequence[str]) -> dict[str, Any]:
    """Return the keys of train that are set by hand, and under ``data`` and ``task`` those of data and of the task."""
    found = merge([], map(parse_override, overrides))
    train, data = (each if isinstance(each, dict) else {} for each in (found.get("train"), found.get("data")))
    task = found.get("task")
    kind = task.get("kind") if isinstance(task, dict) else task
    return train | ({"data": data} if data else {}) | ({"task": kind} if kind else {})


def _proposal(what: Sequence[str], held_out: Sequence[Path], given: dict[str, Any]) -> Proposal | None:
    """Return a config for data files, of the task that is most certain to read them; None for a recipe.

    ``given["task"]`` names the only task to ask.

    Raises:
        ConfigError: two tasks are equally certain.
        DataError: for a file without content or of a kind that no task reads.
    """
    files = [Path(each) for each in what]
    if _is_recipe(files):
        return None
    for file in (*(each for name in files for each in named_files(name)), *held_out):
        if file.is_file():
            require_content(file)
            require_known_form(file)
    groups = [[given["task"]]] if "task" in given else tasks_by_confidence(files, held_out, given)
    for kinds in groups:
        answers = {kind: locate(kind).config().propose(files, held_out, given) for kind in kinds}
        proposals = {kind: proposal for kind, proposal in answers.items() if proposal is not None}
        if len(proposals) > 1:
            raise _undecided(what, proposals)
        if proposals:
            return next(iter(proposals.values()))
    return None


def tasks_by_confidence(files: Sequence[Path], held_out: Sequence[Path], given: Mapping[str, Any]) -> list[list[str]]:
    """Return the tasks that may read these files, the most certain first; those together that are equally certain."""
    groups: defaultdict[Confidence, list[str]] = defaultdict(list)
    for kind in TASKS:
        groups[locate(kind).config().confidence(files, held_out, given)].append(kind)
    return [groups[certain] for certain in sorted(groups, reverse=True) if certain]


def _undecided(what: Sequence[str], proposals: Mapping[str, Proposal]) -> ConfigError:
    """Return the error for files that several tasks read, with the command of each."""
    command = shlex.join(["regard", "train", *what])
    return ConfigError(
        f"{' and '.join(proposals)} both read these files", where=what[0],
        why="; ".join(proposal.reasons[0] for proposal in proposals.values()),
        help=", or ".join(f"{command} --task {kind}" for kind in proposals),
    )  # fmt: skip


def _is_recipe(names: Sequence[Path]) -> bool:
    """Return whether the only name is that of a config or a recipe, or of a run, by its form."""
    return len(names) == 1 and (names[0].suffix == ".toml" or not (names[0].suffix or _is_data(names[0])))


def _no_task(files: Sequence[Path], overrides: Sequence[str]) -> ConfigError:
    """Return the error for files that no task takes, or not together."""
    actual = [file for name in files for file in named_files(name)]
    help = "a pattern of many files is written in quotes, 'part-*.en' 'part-*.de'; regard train --help"
    if not actual or not all(file.exists() for file in actual):
        if len(files) == 1:
            first_bytes(files[0])  # raises the error for a missing file, with the nearest name
        return ConfigError(
            "train takes files (SOURCE TARGET, a table, a text, a graph), a recipe, or --resume RUN", help=help
        )
    described = dict.fromkeys(f"{file} is {_described(file)}" for file in actual)
    task = _given(overrides).get("task")
    these = "these files" if len(actual) > 1 else "this file"
    what = f"{these} are not one corpus" if task is None else f"the task {task} does not read {these}"
    if len(files) == 1:
        help = "name it by the ending of its form; without --task, regard train chooses a task by the file"
        if task == "classification" and actual[0].is_file() and read_head(actual[0]).names:
            help = "--set data.text=… --set data.label=… names the columns of the text and of the label"
    return ConfigError(what, where=str(actual[0]), why="; ".join(list(described)[:4]), help=help)


def _described(file: Path) -> str:
    """Return the form of a file and its columns."""
    if file.is_dir():
        return "a folder"
    head = read_head(file)
    return f"{head.form} with the columns {', '.join(head.names)}" if head.names else head.form


def _is_data(path: Path) -> bool:
    """Return whether it is a file, a pattern of files, or a folder of texts: neither a run nor a recipe by its name."""
    if path.is_dir():
        return not (path / "config.toml").exists() and str(path) not in recipe_names()
    return path.is_file() or named_files(path) != [path]


def require_data(config: RunConfig) -> None:
    """Before a run folder is made: a recipe's data may not have been fetched yet."""
    for corpus in (*config.data.train, *(config.data.valid or ())):
        for path in (getattr(corpus, "source", None), getattr(corpus, "target", None)):
            known = isinstance(path, Path) and path.parent.name in corpora() and not path.parent.exists()
            if isinstance(path, Path) and known:
                raise DataError(
                    f"the corpus {path.parent.name} is not here",
                    where=str(path),
                    help=f"regard data fetch {path.parent.name} --to {path.parent}",
                )
