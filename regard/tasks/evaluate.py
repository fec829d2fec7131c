"""``regard.evaluate``: evaluate a run folder on data files, or on data that a program holds."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from regard.core.columns import naming_rows
from regard.errors import ConfigError
from regard.runs.run_folder import RunFolder
from regard.tasks.evaluation import Evaluation, evaluate_run
from regard.tasks.in_memory import is_name, write_data


def evaluate(
    run: str | Path,
    *files: Any,
    metrics: Sequence[str] | None = None,
    checkpoint: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    engine: str | None = None,
    ensemble: Sequence[str | Path] = (),
    outcomes: bool = False,
    **settings: Any,
) -> Evaluation:
    """Evaluate a run on data: ``regard.evaluate("runs/book", "test.txt").figures["bits_per_byte"]``.

    Outputs of a translation run are compared with references. For other tasks, the files are prepared in a temporary
    folder and evaluated as in validation, without label smoothing.

    Args:
        run: the run folder.
        files: names of files: SOURCE and one or more TARGET files, or one .tsv or .jsonl, for a translation run;
            otherwise files as in training. Or data in memory, as for ``regard.train``.
        metrics: the names of the metrics. Default: BLEU and chrF for a translation run, all metrics of other tasks.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        threads: the number of CPU threads. Default: all.
        engine: the engine that decodes, for a translation run.
        ensemble: further runs, for a translation run: see ``regard.load``.
        outcomes: whether to return each target with its prediction, as ``Evaluation.outcomes``.
        settings: search settings of a translation run, such as ``beam=1``; otherwise keys of the section ``data``, such
            as ``stride=64``.

    Raises:
        ConfigError: for an unknown metric or setting.
        DataError: for a missing or damaged file.
    """
    folder = RunFolder.open(Path(run))
    if not files:
        raise ConfigError("no file to evaluate on", help=f"regard evaluate {run} FILE")
    if threads is not None:
        torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as temporary, naming_rows(Path(temporary), "test data"):
        if all(map(is_name, files)):
            paths = [Path(file) for file in files]
        else:
            paths = write_data(files, Path(temporary), "test", folder.config.task.kind)
        return evaluate_run(
            folder, paths, metrics, checkpoint=checkpoint, device=device, engine=engine, ensemble=ensemble,
            outcomes=outcomes, **settings,
        )  # fmt: skip
