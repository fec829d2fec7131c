"""``regard.evaluate``: evaluate a run folder on data files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.errors import ConfigError
from regard.runs.run_folder import RunFolder
from regard.tasks.evaluation import Evaluation, evaluate_run


def evaluate(
    run: str | Path,
    *files: str | Path,
    metrics: Sequence[str] | None = None,
    checkpoint: str | None = None,
    device: str | None = None,
    outcomes: bool = False,
    **settings: Any,
) -> Evaluation:
    """Evaluate a run on data files: ``regard.evaluate("runs/book", "test.txt").figures["bits_per_byte"]``.

    Outputs of a translation run are compared with references. For other tasks, the files are prepared in a temporary
    folder and evaluated as in validation, without label smoothing.

    Args:
        run: the run folder.
        files: SOURCE and one or more TARGET files, or one .tsv or .jsonl, for a translation run; otherwise files as in
            training.
        metrics: the names of the metrics. Default: BLEU and chrF for a translation run, all metrics of other tasks.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        outcomes: whether to return each target with its prediction, as ``Evaluation.outcomes``.
        settings: search settings of a translation run, such as ``beam=1``; otherwise keys of the section ``data``, such
            as ``stride=64``.

    Raises:
        ConfigError: for an unknown metric or setting.
        DataError: for a missing or damaged file.
    """
    folder, paths = RunFolder.open(Path(run)), [Path(file) for file in files]
    if not paths:
        raise ConfigError("no file to evaluate on", help=f"regard evaluate {run} FILE")
    return evaluate_run(folder, paths, metrics, checkpoint=checkpoint, device=device, outcomes=outcomes, **settings)
