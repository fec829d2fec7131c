"""Records of studies: results as plain values, in files.

``RUNS/NAME/`` contains ``result.json`` and, if matplotlib is installed, ``figure.svg`` and ``figure.png``. If the study
saves its model, the folder also contains ``run/`` for ``regard inspect``; a long study writes its finished parts to
``rows/``. The page ``docs/evidence/studies.md`` is generated from such folders, without running any study.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.core import VERSION
from regard.core.atomic_files import explain_os_errors, remove_file, remove_folder, write_json
from regard.core.figure import can_draw, save_figure
from regard.core.untrusted_files import LARGE, parse_json, read_bytes
from regard.errors import ModelError
from regard.studies.save_model import save_model
from regard.studies.study import Findings, Report, Study, ignore_report

FORMAT = 1


def record_study(
    study: Study,
    folder: Path,
    *,
    seed: int = 1,
    minimal: bool = False,
    report: Report = ignore_report,
    text: Path | None = None,
) -> dict[str, Any]:
    """Run a study, write its outcome to ``folder`` and return the contents of ``result.json``.

    Figures of an earlier run are removed even without matplotlib, because they show other numbers.

    Args:
        study: the study to run.
        folder: folder of the outcome; a study with a text also stores finished parts there.
        seed: seed of all random numbers.
        minimal: whether to run the smallest version, as a test of the program.
        report: receives the share of work done.
        text: file of the text, for a study that requires one.
    """
    start = time.perf_counter()
    findings = study.run(seed=seed, minimal=minimal, report=report, text=text, folder=folder)
    record = _record(study, findings, seed=seed, minimal=minimal, seconds=time.perf_counter() - start)
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for kind in ("svg", "png"):
        remove_file(folder / f"figure.{kind}")
    write_json(folder / "result.json", record)
    if can_draw():
        save_figure(findings.draw, folder)
    if (folder / "run").is_dir():
        remove_folder(folder / "run")
    if findings.saved_model is not None:
        save_model(findings.saved_model, folder / "run", name=study.name)
    return record


def read_record(path: Path) -> dict[str, Any]:
    """Read a ``result.json``. ModelError if it is damaged or written by a newer version."""
    help = f"run it again: regard study {path.parent.name}"
    try:
        record: dict[str, Any] = parse_json(read_bytes(path, LARGE))
        newer = record["format"] > FORMAT
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModelError("the file is not the result of a study", where=str(path), why=str(error), help=help) from error
    if newer:
        raise ModelError("the result was written by a newer version of Regard", where=str(path), help=help)
    return record


def _record(study: Study, findings: Findings, *, seed: int, minimal: bool, seconds: float) -> dict[str, Any]:
    import torch

    head = asdict(study)
    del head["seconds"], head["needs_text"]
    return {
        "format": FORMAT,
        **head,
        "holds": findings.holds,
        "criteria": [{**_plain(criterion._asdict()), "holds": criterion.holds} for criterion in findings.criteria],
        "columns": list(findings.columns),
        "rows": _plain(findings.rows),
        "remarks": list(findings.remarks),
        "seed": seed,
        "quick": minimal,
        "seconds": round(seconds, 1),
        "versions": {"regard": VERSION, "torch": torch.__version__},
        "threads": torch.get_num_threads(),
    }


def _plain(value: Any) -> Any:
    """Replace NaN and infinities, which JSON does not support, by strings."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
