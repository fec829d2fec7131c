"""The table of tasks: names, and the modules of their config and functions.

It names modules by strings and imports none of them: configs load without torch, and lower layers resolve a task by
name.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any, NamedTuple

from regard.core.wording import did_you_mean
from regard.errors import ConfigError


class TaskPlace(NamedTuple):
    """``package.module:NAME`` of the class of a task's config, and of its ``core.task.Task``; the verb of its runs."""

    config_name: str
    task_name: str
    verb: str = "predict"

    def config(self) -> Any:
        """Return the class of the config; importing it loads no torch for the tasks of the table."""
        return _imported(self.config_name)

    def task(self) -> Any:
        return _imported(self.task_name)


# A new task is a module in ``regard/tasks``, an entry here and a page in the docs. A verb without a module in
# ``commands/`` is an alias of ``regard predict``.
TASKS: dict[str, TaskPlace] = {
    "nodes": TaskPlace("regard.tasks.nodes.config:NodesConfig", "regard.tasks.nodes.task:TASK", "nodes"),
    "links": TaskPlace("regard.tasks.links.config:LinksConfig", "regard.tasks.links.task:TASK", "links"),
    "graphs": TaskPlace("regard.tasks.graphs.config:GraphsConfig", "regard.tasks.graphs.task:TASK", "graphs"),
    "tagging": TaskPlace("regard.tasks.tagging.config:TaggingConfig", "regard.tasks.tagging.task:TASK", "tag"),
    "next-item": TaskPlace(
        "regard.tasks.next_item.config:NextItemConfig", "regard.tasks.next_item.task:TASK", "recommend"
    ),
    "classification": TaskPlace(
        "regard.tasks.classification.config:ClassificationConfig", "regard.tasks.classification.task:TASK", "classify"
    ),
    "translation": TaskPlace(
        "regard.tasks.translation.config:TranslationConfig", "regard.tasks.translation.task:TASK", "translate"
    ),
    "recognition": TaskPlace(
        "regard.tasks.recognition.config:RecognitionConfig", "regard.tasks.recognition.task:TASK", "recognize"
    ),
    "language-model": TaskPlace(
        "regard.tasks.language_model.config:LanguageModelConfig", "regard.tasks.language_model.task:TASK", "generate"
    ),
    "forecasting": TaskPlace(
        "regard.tasks.forecasting.config:ForecastingConfig", "regard.tasks.forecasting.task:TASK", "forecast"
    ),
    "masked": TaskPlace("regard.tasks.masked.config:MaskedConfig", "regard.tasks.masked.task:TASK", "fill"),
}


def locate(kind: str, *, saved: bool = False) -> TaskPlace:
    """Return the entry of the task ``task.kind``: one of the table, or a user's own ``package.module:NAME``.

    The module of a user-defined task also holds the class of its config, as ``CONFIG``. ``saved``: the name comes from
    a run folder, which may come from someone else; user-defined tasks are then accepted only if the environment
    variable REGARD_TASKS lists them, separated by commas. Their modules are also searched in the working folder. Raises
    ConfigError if there is no such task.
    """
    if kind in TASKS:
        return TASKS[kind]
    trusted = os.environ.get("REGARD_TASKS", "").split(",")
    if ":" in kind and (not saved or kind in trusted):
        if (
            os.getcwd() not in sys.path
        ):  # missing in the console script's path; last, because it must not hide a package
            sys.path.append(os.getcwd())
        return TaskPlace(f"{kind.partition(':')[0]}:CONFIG", kind)
    why, help = f"the tasks are {', '.join(TASKS)}", did_you_mean(kind, TASKS)
    if ":" in kind:
        why = "the run folder names a module to import, and may come from someone else"
        help = f"if you trust it: REGARD_TASKS={kind} regard …"
    raise ConfigError(f"unknown task {kind!r}", where="task.kind", why=why, help=help)


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{name} cannot be imported",
            where="task.kind",
            why=str(error),
            help="put the module into the working folder, or install its package",
        ) from error
