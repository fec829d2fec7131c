"""Muon and newer parts of the Transformer, on a small language model of characters.

Claim: three changes lower the loss after equally many updates, compared with AdamW and the plain Transformer. One is
the optimizer Muon (Jordan et al. 2024). The second is a Transformer with rotary positions, QK-norm, squared ReLU,
outputs initialized to zero and a residual from the embedding. The third is both together, which is better than either.

Measured: tiny Shakespeare in characters, with the first 90 % for training: 4 layers of width 128, context 64, 12
windows per update, 700 updates. Weight decay is 0.1, gradient norms are clipped at 1, and the learning rate decreases
linearly to zero. The loss is in nats per character over the whole rest of the text, in windows of the context that do
not overlap; three seeds. Each optimizer uses the best of three rates for the plain Transformer; rows with parts use
6e-3. Each of the last rows adds one further part to all of these; no criterion uses them.

Thresholds: a difference of means counts if it exceeds the spread (maximum minus minimum over the seeds) of both rows.
With three seeds this is not a test of significance.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from regard.core import VERSION
from regard.core.atomic_files import explain_os_errors, write_json
from regard.core.figure import COLORS, INK
from regard.errors import ConfigError
from regard.runs.parameter_counts import parameters_by_part
from regard.runs.run_folder import RunFolder
from regard.studies.study import Criterion, Findings, Report, at_least
from regard.training.start import train

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEEDS, RATE = 3, 6e-3  # RATE: of rows with parts
PLAIN: dict[str, Any] = {"position": "learned"}
PARTS: dict[str, Any] = {
    "position": "rotary", "qk_norm": True, "activation": "relu2", "zero_output": True, "embedding_residual": True,
}  # fmt: skip


class VariantRow(NamedTuple):
    """Optimizer, learning rate, and keys of the model."""

    optimizer: str
    rate: float
    model: Mapping[str, Any]


ADAMW = {f"AdamW {rate:g}": VariantRow("adamw", rate, PLAIN) for rate in (1e-3, 3e-3, 6e-3)}
MUON = {f"Muon {rate:g}": VariantRow("muon", rate, PLAIN) for rate in (3e-3, 6e-3, 1e-2)}
ROWS = {
    **ADAMW,
    **MUON,
    "parts, AdamW": VariantRow("adamw", RATE, PARTS),
    "parts, Muon": VariantRow("muon", RATE, PARTS),
    "… + value embeddings": VariantRow("muon", RATE, PARTS | {"value_embedding": True}),
    "… + gate": VariantRow("muon", RATE, PARTS | {"attention_gate": True}),
    "… + forgetting, no rotary": VariantRow("muon", RATE, PARTS | {"position": "forgetting"}),
    "… + differential": VariantRow(
        "muon", RATE, PARTS | {"mixer": {"kind": "differential", "heads": 2}, "context_norm": True}
    ),
}


FEW = ("AdamW 0.006", "Muon 0.006", "parts, AdamW", "parts, Muon")  # rows of the minimal version


class Size(NamedTuple):
    """Updates, seeds, and sizes of model and batch."""

    updates: int = 700
    seeds: int = SEEDS
    context: int = 64
    windows: int = 12
    model: Mapping[str, Any] = {"preset": "tiny", "share": "all"}


MINIMAL = Size(2, 1, 8, 2, {"preset": "tiny", "share": "all", "layers": 1, "width": 8, "feed_forward": 8})


class RowFigures(NamedTuple):
    """Validation loss in nats per token, parameters, and the median duration of an update in milliseconds."""

    nats: float
    parameters: int
    milliseconds: float


def run(
    *,
    seed: int,
    minimal: bool,
    report: Report,
    text: Path | None = None,
    folder: Path | None = None,
    rows: Mapping[str, VariantRow] = ROWS,
) -> Findings:
    """Train ``rows``, which have the names of ROWS, on ``text`` and compare their losses.

    ``folder`` stores the figures of finished rows, from which an interrupted study continues.
    """
    size = MINIMAL if minimal else Size()
    rows_to_train = {name: row for name, row in rows.items() if not minimal or name in FEW}
    if text is None and not minimal:
        raise ConfigError(
            "the study requires a text", why="Regard contains no text", help="regard study modern --text FILE"
        )
    with tempfile.TemporaryDirectory() as scratch:
        source = _generated(Path(scratch)) if text is None else text.absolute()
        figures: dict[str, list[RowFigures]] = {name: [] for name in rows_to_train}
        jobs = [(name, seed + number) for number in range(size.seeds) for name in rows_to_train]
        for done, (name, job_seed) in enumerate(jobs):
            report(done / len(jobs))
            config = _config(rows_to_train[name], source, size, job_seed)
            figures[name].append(
                _load_or_train(config, folder and folder / "rows" / f"{_file_name(name)}-{job_seed}.json")
            )
    report(1.0)
    return _findings(figures, source.name)


def _findings(figures: Mapping[str, Sequence[RowFigures]], text: str) -> Findings:
    means = {name: fmean(one_run.nats for one_run in runs) for name, runs in figures.items()}
    best, muon = (min(means.keys() & rates, key=means.__getitem__) for rates in (ADAMW, MUON))
    return Findings(
        columns=("", "nats per character", "spread", f"gain over {best}", "parameters", "ms per update"),
        rows=[
            (
                name,
                means[name],
                _spread(runs),
                means[best] - means[name],
                runs[0].parameters,
                statistics.median(one_run.milliseconds for one_run in runs),
            )
            for name, runs in figures.items()
        ],
        criteria=[
            _gain(figures, muon, best),
            _gain(figures, "parts, AdamW", best),
            _gain(figures, "parts, Muon", muon),
            _gain(figures, "parts, Muon", "parts, AdamW"),
        ],
        remarks=(
            f"The text is {text}. Losses are those after the last update, in windows of the context that do not "
            "overlap: the first characters of a window have little context, equally in all rows.",
        ),
        draw=lambda figure: _draw(figure, figures),
    )


def _spread(runs: Sequence[RowFigures]) -> float:
    losses = [one_run.nats for one_run in runs]
    return max(losses) - min(losses)


def _gain(figures: Mapping[str, Sequence[RowFigures]], name: str, other: str) -> Criterion:
    """Return the criterion that the gain of ``name`` over ``other`` is at least the greater spread of both."""
    gain = fmean(one_run.nats for one_run in figures[other]) - fmean(one_run.nats for one_run in figures[name])
    return at_least(
        f"gain of {name} over {other}, against their spread", gain, max(_spread(figures[name]), _spread(figures[other]))
    )


def _config(row: VariantRow, text: Path, size: Size, seed: int) -> dict[str, Any]:
    """Return the config of a run: nanoGPT's settings for a CPU, with the optimizer and the parts of the row."""
    parts = {name: [{"source": str(text), "share": share}] for name, share in
             (("train", [0.0, 0.9]), ("valid", [0.9, 1.0]))}  # fmt: skip
    return {
        "task": {"kind": "language-model"},
        "seed": seed,
        "data": {**parts, "tokenizer": {"kind": "character"}, "context": size.context},
        "model": {**size.model, **row.model},
        "train": {
            "optimizer": row.optimizer, "learning_rate": row.rate, "betas": [0.9, 0.99], "epsilon": 1e-8,
            "weight_decay": 0.1, "clip_norm": 1.0, "schedule": "linear", "steps": size.updates,
            "batch_tokens": size.context * size.windows, "validate_every": size.updates, "save_every": size.updates,
            "precision": "float32", "threads": torch.get_num_threads(), "shards": 1,
        },
    }  # fmt: skip


def _load_or_train(config: Mapping[str, Any], file: Path | None) -> RowFigures:
    """Return the figures in ``file`` if this config and text produced them; otherwise train a run and write them."""
    text = Path(config["data"]["train"][0]["source"])
    inputs = {"config": config, "bytes": text.stat().st_size, "version": VERSION}
    if file is not None and file.is_file():
        saved = json.loads(file.read_text(encoding="utf-8"))
        if {key: saved[key] for key in inputs} == inputs:
            return RowFigures(**saved["figures"])
    figures = _train(config)
    if file is not None:
        with explain_os_errors(file):
            file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, {**inputs, "figures": figures._asdict()})
    return figures


def _train(config: Mapping[str, Any]) -> RowFigures:
    with tempfile.TemporaryDirectory() as scratch:
        run = RunFolder.open(train(config, Path(scratch) / "run"))
        lines = (run.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines]
        plan = run.read_plan()
        assert plan is not None
        parameters = parameters_by_part(lambda: run.task.build(run.config, plan.spec))
    losses = [record["validation"]["loss"] for record in records if "validation" in record]
    durations = [record["seconds"] for record in records if "seconds" in record]
    return RowFigures(losses[-1], sum(parameters.values()), 1000 * statistics.median(durations))


def _generated(folder: Path) -> Path:
    """Write a text of a few hundred words, for the minimal version."""
    file = folder / "generated.txt"
    file.write_text(" ".join(_words()), encoding="utf-8")
    return file


def _words() -> Iterator[str]:
    for number in range(300):
        yield "to be or not to be that is the question".split()[number * number % 10]


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name).strip("-")


def _draw(figure: Figure, figures: Mapping[str, Sequence[RowFigures]]) -> None:
    axes = figure.subplots()
    for row, runs in enumerate(figures.values()):
        losses = [one_run.nats for one_run in runs]
        axes.plot(losses, [row] * len(losses), "o", color=COLORS[0], alpha=0.6)
        axes.plot([fmean(losses)], [row], "|", color=INK, markersize=14)
    axes.set(xlabel="validation loss, nats per character", ylabel="change of the model",
             yticks=range(len(figures)), yticklabels=list(figures))  # fmt: skip
    axes.invert_yaxis()
