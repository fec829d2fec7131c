"""The base of the estimators: training in a run folder, and copies for other processes."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from regard.functions.training import overrides_of, train
from regard.runs.run_folder import INPUTS, RunFolder
from regard.tasks.load import load

TRAINING_ONLY = (INPUTS, "data", "lock", "optimizer.safetensors")  # names that predictions do not read


class TemporaryRun:
    """A temporary folder that is removed when this object is collected.

    A copy is another folder with the same files, without those that only training reads.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="regard-")) / "run"
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.path.parent, ignore_errors=True)

    def __reduce__(self) -> Any:
        return restored_run, (predicting_files(self.path),)


def predicting_files(run: Path) -> dict[str, bytes]:
    """Return the contents of the files of a run that predictions read, by relative path."""
    chosen, checkpoints = RunFolder.open(run).selected().path, run / "checkpoints"
    files = {}
    for file in sorted(run.rglob("*")):
        names = file.relative_to(run).parts
        other = checkpoints in file.parent.parents and chosen not in file.parents
        if file.is_file() and not other and not {*names} & {*TRAINING_ONLY}:
            files["/".join(names)] = file.read_bytes()
    return files


def restored_run(files: Mapping[str, bytes]) -> TemporaryRun:
    """Return a new temporary run with these files."""
    run = TemporaryRun()
    for name, contents in files.items():
        file = run.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(contents)
    return run


class RunEstimator(BaseEstimator):
    """An estimator that trains a run.

    A fitted estimator can be pickled. With ``runs``, the copy reads the run folder, which must still exist; otherwise
    it contains the files of the model.

    Attributes:
        run_: the run folder.
        model_: the predictor that ``regard.load`` returns for it.
    """

    run_: Path
    model_: Any
    _temporary: TemporaryRun | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.non_deterministic = False
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        if state.get("_temporary") is not None:  # the folder of the copy has another path
            del state["run_"], state["model_"]
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        super().__setstate__(dict(state))
        if (temporary := state.get("_temporary")) is not None:
            self.run_ = temporary.path
            self.model_ = load(self.run_)

    def _train(self, what: Sequence[Any], task: str, defaults: Mapping[str, Any]) -> None:
        """Train a run on data of the program, and load it.

        Args:
            what: the data, as for ``regard.train``.
            task: the name of the task.
            defaults: settings that those of the estimator replace.
        """
        temporary = TemporaryRun() if self.runs is None else None
        place: dict[str, Any] = {"runs": self.runs} if temporary is None else {"folder": temporary.path}
        changes = [*overrides_of(defaults), *overrides_of(self.settings or {}), *overrides_of(self._own_settings())]
        run = train(*what, task=task, overrides=changes, reporter=[], **place)
        self.model_, self.run_ = load(run), run
        self._temporary = temporary

    def _own_settings(self) -> dict[str, Any]:
        """Return the settings that are parameters of their own, as a table of dotted keys."""
        named = {"train.minutes": "minutes", "train.epochs": "epochs", "model.preset": "preset", "seed": "seed"}
        named |= {"data.horizon": "horizon", "data.look_back": "look_back"}
        values = {key: getattr(self, name, None) for key, name in named.items()}
        return {key: value for key, value in values.items() if value is not None}

    def _fitted_model(self) -> Any:
        """Return the predictor. Raises NotFittedError before ``fit``."""
        check_is_fitted(self)
        return self.model_
