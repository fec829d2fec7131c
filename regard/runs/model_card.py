"""Model cards: the README.md of a run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.core import atomic_files
from regard.core.baseline import FOLDER, baseline_summary
from regard.runs.baseline_choice import read_choice
from regard.runs.checkpoint import read_best
from regard.runs.network_comparison import read_comparison
from regard.runs.run_folder import RunFolder
from regard.runs.shortcomings import shortcomings

ATTENTION = "Attention weights show which inputs the model attended to, not the reasons for its decisions."

ALONE = (
    "The outputs may be texts of the training data. They have no probabilities and no attention. "
    'The network of this run is loaded with `checkpoint="best"`.'
)


def write_card(run: RunFolder, *, parameters: int, updates: int, seconds: float, trained: int | None = None) -> str:
    """Write README.md into the run folder and return the text.

    Args:
        run: the run folder.
        parameters: the number of weights of the network.
        updates: the number of updates.
        seconds: the training time.
        trained: the number of weights that training changed, with adapters; None: all that are not frozen.
    """
    config = run.config
    best = read_best(run.checkpoints)
    choice, baseline = read_choice(run.path), baseline_summary(run.path / FOLDER)
    alone = choice is not None and choice.is_baseline and baseline is not None
    rows: list[tuple[str, Any]] = [
        *([("Model", f"{baseline.description} (a simple baseline, without a network)")] if alone and baseline else []),
        ("Network, not used by default" if alone else "Model", config.summary),
        ("Parameters", f"{parameters:,}"),
        *([("Trained weights", f"{trained:,}")] if trained is not None else []),
        ("Training data", ", ".join(map(_name, config.data.train))),
        ("Updates", f"{updates:,}, in {_duration(seconds)}"),
        ("Seed", config.seed),
    ]
    if (plan := run.read_plan()) is not None and plan.origin is not None:
        rows.insert(2, ("Started from", f"{plan.origin.run}, {plan.origin.checkpoint}"))
    if best is not None:
        rows.append(("Best checkpoint", f"step {best.step:,}, {best.metric} {best.value:.4f} on the validation data"))
    if choice is not None:
        rows.append(("Chosen by", choice.figures))
    if baseline is not None:
        rows.append(("Baseline", baseline.describe(run.task.metrics)))
    if (comparison := read_comparison(run.path)) is not None and choice is None:
        rows.append(("Compared with the baseline", "<br>".join(comparison.lines(run.task.metrics))))
    if problems := shortcomings(run):
        rows.append(("Shortcomings", "<br>".join(problem.what for problem in problems)))
    limits = "The model was trained on the data above; expect lower quality for other domains and spellings. "
    return _write(run, rows, limits + (ALONE if alone else ATTENTION), path=run.path)


def write_import_card(run: RunFolder, *, parameters: int, source: str, path: Path) -> str:
    """Write the README.md of an imported model and return the text.

    ``source``: the imported model. ``path``: the future path of the run.
    """
    rows = [("Model", run.config.summary), ("Parameters", f"{parameters:,}"), ("Imported from", source)]
    limits = "See the card of the imported model for its training data, its limits and its license. " + ATTENTION
    return _write(run, rows, limits, path=path)


def write_shared_card(
    run: RunFolder, *, weights: str, parameters: int, validation: Mapping[str, float], folder: Path
) -> str:
    """Write the README.md of a shared run into ``folder`` and return the text."""
    rows = [
        ("Model", run.config.summary),
        ("Parameters", f"{parameters:,}"),
        ("Training data", ", ".join(map(_name, run.config.data.train))),
        ("Weights", weights),
        ("Validation", ", ".join(f"{name} {value:.4f}" for name, value in validation.items())),
    ]
    limits = (
        "`sha256sum --check SHA256SUMS` verifies the files. No file is a pickle.\n\n"
        "The model was trained on the data above; expect lower quality for other domains and spellings. " + ATTENTION
    )
    return _write(run, [row for row in rows if row[1]], limits, path=Path("FOLDER"), folder=folder)


def _duration(seconds: float) -> str:
    number, unit = (round(seconds), "second") if seconds < 90 else (round(seconds / 60), "minute")
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def _write(
    run: RunFolder, rows: Sequence[tuple[str, Any]], limits: str, *, path: Path, folder: Path | None = None
) -> str:
    task = run.task.card_of(run.config)
    languages = task.languages(run.config)
    header = ["---", "library_name: regard", f"pipeline_tag: {task.pipeline_tag}"]
    header += ["language:", *(f"- {language}" for language in languages)] if languages else []
    table = ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    use = ["```python", "import regard", f'model = regard.load("{path}")', task.usage, "```"]
    name = run.config.name or path.name
    card = "\n".join([*header, "---", "", f"# {name}", "", *table, "", "## Use", "", *use, "", limits, ""])
    atomic_files.write_bytes_atomically((folder or run.path) / "README.md", card.encode())
    return card


def _name(corpus: Any) -> str:
    """Return the file name of a corpus, if it has one."""
    source = getattr(corpus, "source", corpus)
    return source.name if isinstance(source, Path) else str(source)
