"""Training from Python: what ``regard train`` does, with a reporter of one's own or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.errors import ConfigError
from regard.runs.config import RunConfig, load_config
from regard.runs.run_folder import RunFolder
from regard.training.progress import Reporter
from regard.training.setup import require_trainable, set_up
from regard.training.trainer import Trainer

__all__ = ["train"]


class _Quiet:
    """A reporter that prints nothing."""

    def updated(self, progress: Any, steps: int | None, figures: dict[str, float]) -> None: ...
    def validated(self, progress: Any, validation: Any, best: bool) -> None: ...
    def said(self, message: str) -> None: ...


def train(
    config: str | Path | Mapping[str, Any] | RunConfig,
    folder: str | Path,
    *,
    overrides: Sequence[str] = (),
    reporter: Reporter | None = None,
) -> Path:
    """Train a run to its end and return its folder; resumes where ``folder`` is a run of the same config.

    ``config``: a recipe's name, a TOML file, nested tables, or a config. ``overrides``: as ``--set``,
    ``["train.steps=100"]``. ``reporter``: told of every update and validation. Raises ConfigError for a config that
    cannot be trained or another one than the folder's, and whatever ``regard train`` would tell.
    """
    wanted = config if isinstance(config, RunConfig) else load_config(config, overrides)
    path, reporter = Path(folder), reporter or _Quiet()
    if (path / "config.toml").is_file():
        run = RunFolder.open(path)
        if run.config != wanted:
            raise ConfigError(f"{path} is a run of another config", where=str(path), help="name another folder")
    else:
        require_trainable(wanted)
        run = RunFolder.create(path, wanted)
    with run.training():
        ready = set_up(run, say=reporter.said)
        trainer = Trainer(run, ready.net, ready.data, steps=ready.steps, reporter=reporter, interrupted=lambda: False)
        trainer.resume()
        trainer.fit()
    return run.path
