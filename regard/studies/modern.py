"""Muon and newer parts of the Transformer, on a small language model of characters.

Claim: the optimizer Muon (Jordan et al. 2024), and a Transformer with rotary positions, QK-norm, squared ReLU, outputs
that start at zero and a residual from the embedding, reach lower losses after equally many updates than AdamW and the
plain Transformer; and together they reach lower ones than either.

Measured: tiny Shakespeare in characters, of which the first 90 % are for training: 4 layers of 128, context 64, 12
windows an update, 700 updates; weight decay 0.1, norms clipped at 1, the rate a line to zero. The loss is nats a
character over the whole rest of the text, in windows of the context that do not overlap; three seeds. Each optimizer
has the best of three rates for the plain Transformer; rows with parts train at 6e-3. Single further parts are added to
all of these, one a row, and are shown without being judged.

Thresholds: a difference of means counts if it is more than the spread (greatest minus least of the seeds) of both rows.
With three seeds this is no test of significance, only what one would not call luck at a glance.
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
from regard.errors import ConfigError
from regard.runs.parameter_counts import parameters_by_part
from regard.runs.run_folder import RunFolder
from regard.studies.study import Criterion, Findings, Report, at_least
from regard.training.start import train

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEEDS, RATE = 3, 6e-3  # and the rate of rows with parts
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
    """Validation loss in nats a token, parameters, and the median duration of an update in milliseconds."""

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
    """Train and judge ``rows``, which have the names of ROWS, on ``text``.

    ``folder``: where the figures of rows are kept, so that a study that was interrupted goes on from them.
    """
    size = MINIMAL if minimal else Size()
    shown = {name: row for name, row in rows.items() if not minimal or name in FEW}
    if text is None and not minimal:
        raise ConfigError(
            "this study needs a text", why="none is part of Regard", help="regard study modern --text FILE"
        )
    with tempfile.TemporaryDirectory() as scratch:
        source = _generated(Path(scratch)) if text is None else text.absolute()
        found: dict[str, list[RowFigures]] = {name: [] for name in shown}
        jobs = [(name, seed + number) for number in range(size.seeds) for name in shown]
        for done, (name, each) in enumerate(jobs):
            report(done / len(jobs))
            config = _config(shown[name], source, size, each)
            found[name].append(_kept(config, folder and folder / "rows" / f"{_plain(name)}-{each}.json"))
    report(1.0)
    return _findings(found, source.name)


def _findings(found: Mapping[str, Sequence[RowFigures]], text: str) -> Findings:
    means = {name: fmean(each.nats for each in trained) for name, trained in found.items()}
    best, muon = (min(means.keys() & rates, key=means.__getitem__) for rates in (ADAMW, MUON))
    return Findings(
        columns=("", "nats a character", "spread", f"gain on {best}", "parameters", "ms an update"),
        rows=[
            (
                name,
                means[name],
                _spread(trained),
                means[best] - means[name],
                trained[0].parameters,
                statistics.median(each.milliseconds for each in trained),
            )
            for name, trained in found.items()
        ],
        criteria=[
            _gain(found, muon, best),
            _gain(found, "parts, AdamW", best),
            _gain(found, "parts, Muon", muon),
            _gain(found, "parts, Muon", "parts, AdamW"),
        ],
        remarks=(
            f"The text is {text}. Losses are of the last update, in windows of the context that do not overlap: the "
            "first characters of each have little before them, which costs all rows alike.",
        ),
        draw=lambda figure: _draw(figure, found),
    )


def _spread(trained: Sequence[RowFigures]) -> float:
    losses = [each.nats for each in trained]
    return max(losses) - min(losses)


def _gain(found: Mapping[str, Sequence[RowFigures]], name: str, other: str) -> Criterion:
    """The gain of ``name`` on ``other``, against the greater spread of both."""
    gain = fmean(each.nats for each in found[other]) - fmean(each.nats for each in found[name])
    return at_least(
        f"gain of {name} on {other}, against their spread", gain, max(_spread(found[name]), _spread(found[other]))
    )


def _config(row: VariantRow, text: Path, size: Size, seed: int) -> dict[str, Any]:
    """The config of a run: nanoGPT's setting for a CPU, with the optimizer and the parts of the row."""
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


def _kept(config: Mapping[str, Any], file: Path | None) -> RowFigures:
    """The figures in ``file``, if they are those of this config; else those of a run, which are written there."""
    text = Path(config["data"]["train"][0]["source"])
    of = {"config": config, "bytes": text.stat().st_size, "version": VERSION}
    if file is not None and file.is_file():
        kept = json.loads(file.read_text(encoding="utf-8"))
        if {key: kept[key] for key in of} == of:
            return RowFigures(**kept["figures"])
    figures = _train(config)
    if file is not None:
        with explain_os_errors(file):
            file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, {**of, "figures": figures._asdict()})
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
    """A text of a few hundred words, for the minimal version."""
    file = folder / "generated.txt"
    file.write_text(" ".join(_words()), encoding="utf-8")
    return file


def _words() -> Iterator[str]:
    for number in range(300):
        yield "to be or not to be that is the question".split()[number * number % 10]


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name).strip("-")


def _draw(figure: Figure, found: Mapping[str, Sequence[RowFigures]]) -> None:
    axes = figure.subplots()
    for place, (name, trained) in enumerate(found.items()):
        losses = [each.nats for each in trained]
        axes.plot(losses, [place] * len(losses), "o", label=name, alpha=0.6)
        axes.plot([fmean(losses)], [place], "k|", markersize=14)
    axes.set(xlabel="validation loss, nats a character", yticks=range(len(found)), yticklabels=list(found))
    axes.invert_yaxis()
