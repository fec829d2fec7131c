"""Results of studies as plain values: written to disk and read back.

``RUNS/NAME/`` holds ``result.json`` and, where matplotlib is installed, ``figure.svg`` and ``figure.png``; if the
study saves its model, ``run/``, to be shown by ``regard inspect``; of a long study ``rows/``, its finished parts. The
page ``docs/evidence/studies.md`` is made from such folders alone, so a study of minutes is not run again for it.
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
    """Run a study and write the outcome into ``folder``; returns the contents of ``result.json``.

    ``text``: for a study that needs one; such a study keeps what it has finished in ``folder``, too.

    Without matplotlib there are no figures; those of an earlier run are removed, since they show other numbers.
    """
    began = time.perf_counter()
    findings = study.run(seed=seed, minimal=minimal, report=report, text=text, folder=folder)
    record = _record(study, findings, seed=seed, minimal=minimal, seconds=time.perf_counter() - began)
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
    """Read a ``result.json``; raises ModelError if it is damaged or newer than this version."""
    help = f"run it again: regard study {path.parent.name}"
    try:
        record: dict[str, Any] = parse_json(read_bytes(path, LARGE))
        newer = record["format"] > FORMAT
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModelError("this is no result of a study", where=str(path), why=str(error), help=help) from error
    if newer:
        raise ModelError("a newer version of regard wrote this result", where=str(path), help=help)
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
    """Replace NaN and infinities, which JSON lacks, by words."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
