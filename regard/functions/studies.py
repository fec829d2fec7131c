"""Comparisons of recipes, and claims of papers, as functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from regard.comparison.plan import plan_comparison
from regard.errors import ConfigError, TrainingError
from regard.studies.catalog import find_study
from regard.studies.record import record_study


def compare(
    *sources: str, budget: str | None = None, seeds: int = 1, metric: str = "bleu",
    test: str | Path | tuple[str | Path, str | Path] | None = None, overrides: Sequence[str] = (),
    vary: Sequence[str] = (), beam: int | None = None, average: int | None = None, out: str | Path | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Train several recipes with equal budgets, and return the results, as in ``results.json``.

    The same call continues the comparison after an interruption.

    Args:
        sources: recipes or .toml files, each optionally ``NAME=RECIPE``.
        budget: the training budget of each run: ``10m``, ``3000steps`` or ``2Mtokens``.
        seeds: the number of runs of each row.
        metric: ``loss``, or a metric of ``regard evaluate``.
        test: the test set, a file or two. Default: the validation data.
        overrides: overrides of every config, as in ``--set``.
        vary: keys with several values, each a row: ``["model.width=128,256"]``.
        beam: the beam of decoding.
        average: evaluate the average of this number of last checkpoints.
        out: the folder of runs and results. Default: ``runs/compare-NAMES``.

    Raises:
        TrainingError: if a run fails.
    """
    files = () if test is None else test if isinstance(test, tuple) else (test,)
    comparison = plan_comparison(
        sources, budget=budget, seeds=seeds, metric=metric, test=[Path(file) for file in files], overrides=overrides,
        vary=vary, beam=beam, average=average, out=None if out is None else Path(out),
    )  # fmt: skip
    if comparison.run():
        raise TrainingError("a run of the comparison failed", where=str(comparison.folder / "results.json"))
    return comparison.results()


def study(
    name: str, *, out: str | Path = "runs/studies", seed: int = 1, seeds: int = 1, minimal: bool = False,
    text: str | Path | None = None, data: str | Path | None = None, options: Mapping[str, Any] | None = None,
    threads: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Test a claim of the literature, and return the table and the verdict, as in ``result.json``.

    Args:
        name: the name of the study; ``regard study list`` prints all.
        out: the folder; the study writes to the subfolder of its name.
        seed: the seed of all random numbers.
        seeds: the number of runs.
        minimal: whether to run the smallest version, as a test of the program.
        text: the file of a text, for a study that requires one.
        data: the folder of corpora, for a study that requires one.
        options: settings of the study, by name.
        threads: the number of CPU threads. Default: all.

    Raises:
        ConfigError: if the study does not exist, or an argument does not apply to it.
    """
    if seeds < 1:
        raise ConfigError(f"seeds must be at least 1, not {seeds}", where="seeds")
    if threads is not None:
        torch.set_num_threads(threads)
    return record_study(
        find_study(name), Path(out) / name, seed=seed, seeds=seeds, minimal=minimal, options=options,
        text=None if text is None else Path(text), data=None if data is None else Path(data),
    )  # fmt: skip
