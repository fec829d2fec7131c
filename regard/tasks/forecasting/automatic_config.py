"""Choice of a config for tables of series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.core.wording import pluralize
from regard.data.file_names import named_files
from regard.data.lint.tables import described
from regard.data.rows import FileHead
from regard.data.series_files import SeriesColumns, first_cells, is_series_table
from regard.data.time_series import Series
from regard.errors import RegardError
from regard.runs.run_config import Confidence, Proposal
from regard.tasks.automatic_training import training_settings
from regard.tasks.detect_files import CommonHead, common_head
from regard.tasks.forecasting.data_config import SeriesDataConfig, SeriesFiles
from regard.tasks.forecasting.parts import series_of

SMALL = 500_000  # values of a table for the preset tiny
WINDOWS = 64  # of a batch
MAX_BACK = 336
ADAMW = {"optimizer": "adamw", "learning_rate": 1e-3, "weight_decay": 0.01, "warmup": 50}


def confidence(files: Sequence[Path], overrides: Mapping[str, Any]) -> Confidence:
    """Return the evidence that files are tables of series: dates and numbers, or arrays ``x``."""
    common = common_head(tables_of(files))
    if common is None:
        return Confidence.NONE
    return Confidence.FORM if _is_series(common, overrides) else Confidence.NONE


def choose(files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal | None:
    """Return the config of a forecaster; None if the files are not tables of series."""
    tables = tables_of(files)
    common = common_head(tables)
    if common is None or not _is_series(common, overrides):
        return None
    own: dict[str, Any] = dict(overrides.get("data", {}))
    source = str(tables[0]) if len(tables) == 1 else [str(path) for path in tables]
    data = SeriesDataConfig.model_validate({"train": [{"source": source}], **own})
    series = [*series_of([SeriesFiles(source=source)], data.columns)]
    horizon = int(own.get("horizon", _horizon(series)))
    shortest = min(map(len, series))
    back = int(own.get("look_back", max(min(MAX_BACK, shortest // 3 - horizon, 8 * max(horizon, 12)), 1)))
    parts: dict[str, Any] = {"train": [{"source": source}]}
    if valid:
        parts["valid"] = [{"source": str(path)} for path in valid]
        held_out = f"validation on {valid[0]}"
    else:
        parts = {
            "train": [{"source": source, "period": "train"}], "valid": [{"source": source, "period": "valid"}],
        } | _borders(series, own)  # fmt: skip
        held_out = f"validation from {parts['valid_from']}, test from {parts['test_from']}"
    patch = _patch(series[0], back)
    numbers = sum(one.values.size for one in series)
    settings = training_settings(
        overrides, tokens=sum(map(len, series)) * (back + horizon), epochs=20, optimizer=ADAMW,
        largest=WINDOWS * (back + horizon), smallest=WINDOWS * (back + horizon), patience=5,
    )  # fmt: skip
    config = {
        "task": {"kind": "forecasting"},
        "data": {**parts, "horizon": horizon, "look_back": back},
        "model": {
            "preset": "tiny" if numbers < SMALL else "small", "skip": "average",
            "encoder": {"input": {"patch": patch, "stride": max(patch // 2, 1)}},
        },
        "train": settings,
    }  # fmt: skip
    what = f"{tables[0]}: {described(series)} → task forecasting, look-back {back}, horizon {horizon}"
    return Proposal(config, [what, held_out, f"patches of {pluralize(patch, 'time step')}"])


def tables_of(files: Sequence[Path]) -> list[Path]:
    """Return the files, with the tables of a folder in its place."""
    named = [path for name in files for path in (_in_folder(name) if name.is_dir() else named_files(name))]
    return sorted(named) if any(name.is_dir() for name in files) else list(files)


def _in_folder(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.endswith((".csv", ".csv.gz", ".tsv", ".parquet"))]


def _is_series(common: CommonHead, overrides: Mapping[str, Any]) -> bool:
    head: FileHead = common.head
    if head.form == "npz":
        return "x" in head.names and not {"edges", "edge_index", "adjacency", "frames"} & {*head.names}
    if head.form not in ("csv", "tsv", "parquet"):
        return False
    own: Mapping[str, Any] = overrides.get("data", {})
    try:
        names, cells = first_cells(common.files[0])
    except RegardError:
        return False
    return is_series_table(names, cells, SeriesColumns(time=own.get("time")))


def _horizon(series: Sequence[Series]) -> int:
    """Return a day, if a row is shorter, else a dozen rows; at most a tenth of the shortest series."""
    step = series[0].step
    season = 24 if step is None else step.season
    return max(min(season if season > 4 else 12, 96, min(map(len, series)) // 10), 1)


def _patch(series: Series, back: int) -> int:
    """Return the length of a patch: a season if that is short, and at least two of them in the look-back."""
    season = 16 if series.step is None else series.step.season
    return max(min(season if 8 <= season <= 48 else 16, back // 4), 1)


def _borders(series: Sequence[Series], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the borders of the parts; dates for one table, because a longer table then has the same parts."""
    data = SeriesDataConfig.model_validate({"train": (), **{key: own[key] for key in _KEYS if key in own}})
    shares = {"valid_from": data.valid_from, "test_from": data.test_from}
    if len(series) > 1 or series[0].start is None:
        return shares
    first = series[0]
    return {
        name: first.labels([int(border * len(first))])[0] if isinstance(border, float) else border
        for name, border in shares.items()
    }


_KEYS = ("valid_from", "test_from")
