"""Evaluation in one call: a run folder and data files in, figures out."""

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
    **settings: Any,
) -> Evaluation:
    """The figures of a run over data files: ``regard.evaluate("runs/book", "test.txt").figures["bits_per_byte"]``.

    A translation's run takes SOURCE and one or more TARGET files, or one .tsv or .jsonl, and ``settings`` of the search
    such as ``beam=1``. Any other takes files as its training does; each is prepared in a temporary folder and measured
    as validation measures, without smoothing; its ``settings`` are keys of the section ``data``, such as ``stride=64``.
    ``metrics``: BLEU and chrF for a translation's run, and all that the task has for others, unless given. Raises
    ConfigError for an unknown metric or setting, DataError for the files.
    """
    folder, paths = RunFolder.open(Path(run)), [Path(file) for file in files]
    if not paths:
        raise ConfigError("there is nothing to evaluate on", help=f"name a file: regard evaluate {run} FILE")
    return evaluate_run(folder, paths, metrics, checkpoint=checkpoint, device=device, **settings)
