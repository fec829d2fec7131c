"""Records of studies: results as plain values, in files.

``RUNS/NAME/`` contains ``result.json`` and, if matplotlib is installed, ``figure.svg`` and ``figure.png``. If the study
saves its model, the folder also contains ``run/`` for ``regard inspect``; a long study writes its finished parts to
``rows/``. Of several seeds, table, figure and model are those of the first, and ``over_seeds`` has the criteria of all.
The record is written after each seed. The page ``docs/evidence/studies.md`` is generated from such folders, without
running any study.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.core import VERSION
from regard.core.atomic_files import explain_os_errors, remove_file, remove_folder, write_json
from regard.core.figure import Caption, can_draw, save_figure
from regard.core.untrusted_files import LARGE, parse_json, read_bytes
from regard.errors import ModelError
from regard.studies.save_model import save_model
from regard.studies.seeds import summarize_seeds
from regard.studies.study import Findings, Report, Study, ignore_report

FORMAT = 1


def record_study(
    study: Study,
    folder: Path,
    *,
    seed: int = 1,
    seeds: int = 1,
    minimal: bool = False,
    report: Report = ignore_report,
    text: Path | None = None,
    data: Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run a study, write its outcome to ``folder`` and return the contents of ``result.json``.

    Figures of an earlier run are removed even without matplotlib, because they show other numbers.

    Args:
        study: the study to run.
        folder: folder of the outcome; a study with a text or data also stores finished parts there.
        seed: seed of all random numbers; the first of several.
        seeds: number of runs. The seeds of two runs are ``study.seeds_per_run`` apart.
        minimal: whether to run the smallest version, as a test of the program.
        report: receives the share of work done.
        text: file of the text, for a study that requires one.
        data: folder of corpora, for a study that requires one.
        options: settings of the study, by name.

    Raises:
        ConfigError: if a check is to run with several seeds, or a setting or an input is wrong.
    """
    study.require_seeds(seeds)
    inputs: dict[str, Any] = {"minimal": minimal, "text": text, "folder": folder, "data": data, "options": options}
    records: list[dict[str, Any]] = []
    for number in range(seeds):
        run_seed, start = seed + number * study.seeds_per_run, time.perf_counter()
        findings = study.run(seed=run_seed, report=_part_of(report, number, seeds), **inputs)
        seconds = time.perf_counter() - start
        records.append(_record(study, findings, seed=run_seed, minimal=minimal, seconds=seconds, options=options))
        if number == 0:
            _write_artifacts(study, findings, folder, run_seed)
        record = records[0] if seeds == 1 else _with_seeds(records)
        write_json(folder / "result.json", record)
    return record


def _part_of(report: Report, number: int, parts: int) -> Report:
    """Return a function that reports the share of one part of equal parts as a share of the whole."""
    return lambda share: report((number + share) / parts)


def _write_artifacts(study: Study, findings: Findings, folder: Path, seed: int) -> None:
    """Write the figure and the model of a study to its folder, and remove those of an earlier run."""
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for kind in ("svg", "png"):
        remove_file(folder / f"figure.{kind}")
    if can_draw():
        caption = Caption(f"study {study.name} · seed {seed}", f"regard study {study.name} --seed {seed}")
        save_figure(findings.draw, folder, caption)
    if (folder / "run").is_dir():
        remove_folder(folder / "run")
    if findings.saved_model is not None:
        save_model(findings.saved_model, folder / "run", name=study.name)


def _with_seeds(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the first record with the summary of all; it holds if it does for every seed."""
    seconds = round(sum(record["seconds"] for record in records), 1)
    holds = all(record["holds"] for record in records)
    return records[0] | {"holds": holds, "seconds": seconds, "over_seeds": summarize_seeds(records)}


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


def _record(
    study: Study, findings: Findings, *, seed: int, minimal: bool, seconds: float, options: Mapping[str, Any] | None
) -> dict[str, Any]:
    import torch

    head = {name: value for name, value in asdict(study).items() if name in ("name", "claim", "source", "check")}
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
        **({"options": dict(options)} if options else {}),
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
