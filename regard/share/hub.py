"""Export for publication on the Hugging Face hub: a run without data, optimizer and history, with a model card.

The export is still a run folder, which ``regard.load``, ``translate`` and ``serve`` open. The weights are those of one
checkpoint, bit for bit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.core import atomic_files
from regard.models.summary import one_line_summary
from regard.runs.metrics_log import read_validations
from regard.runs.run_folder import CheckpointChoice, RunFolder
from regard.share.export_format import Decode
from regard.share.pair_export import PairExport, pair_format
from regard.share.parity import PairModel, greedy_decoder
from regard.share.task_run import write_checksums, write_weights
from regard.tasks.load import load

DECODED = ("bleu", "chrf", "ter", "wer")  # metrics that the hub knows; losses depend on the pieces


def write(run: RunFolder, which: str | None, folder: Path) -> None:
    """Write the checkpoint called ``which`` (see ``RunFolder.weights_path``) to a new folder, as a run with a card."""
    chosen, _, parameters = write_weights(run, which, folder)
    card = "\n".join(_card(run, chosen, parameters))
    atomic_files.write_bytes_atomically(folder / "README.md", card.encode())


def _card(run: RunFolder, chosen: CheckpointChoice, parameters: int) -> Iterator[str]:
    config: Any = run.config
    data = config.data
    validation = _validation(run, chosen)
    yield from _header(config, [name for name in DECODED if name in validation])
    yield from ("", f"# {config.name or run.path.name}", "", "| | |", "|---|---|")
    rows = {
        "Model": one_line_summary(config.model),
        "Parameters": f"{parameters:,}",
        "Training data": ", ".join(Path(corpus.name).name for corpus in data.train),
        "Weights": str(chosen),
        "Validation": ", ".join(f"{name} {value:.4f}" for name, value in validation.items()),
    }
    yield from (f"| {name} | {_cell(value)} |" for name, value in rows.items() if value)
    yield from (
        "",
        "## Use",
        "",
        "With regard installed from its own repository, for its name on an index of packages may be another's:",
        "",
        "```python",
        "import regard",
        "",
    )
    yield 'model = regard.load("FOLDER")  # where these files are'
    yield from ('print(model("…").text)', "```", "")
    yield "`sha256sum --check SHA256SUMS` tells whether the files are whole. No file is a pickle."
    yield ""
    yield "What the model knows it learned from its training data: other domains and other spellings will be worse."
    yield "Attention weights show where it looked, not why it decided."
    yield ""


def _header(config: Any, metrics: list[str]) -> Iterator[str]:
    """The card's YAML header; texts are quoted like JSON, since YAML reads the language ``no`` as false."""
    languages = [each for each in (config.data.source_language, config.data.target_language) if each]
    yield from ("---", "library_name: regard", "pipeline_tag: translation")
    for key, values in (("language", languages), ("metrics", metrics)):
        if values:
            yield from (f"{key}:", *(f"- {json.dumps(value)}" for value in dict.fromkeys(values)))
    yield "---"


def _validation(run: RunFolder, chosen: CheckpointChoice) -> dict[str, float]:
    """The figures of the checkpoint itself, where it was validated; those of an average are not known."""
    if chosen.name == "average":
        return {}
    validations = read_validations(run.path / "metrics.jsonl")
    found = [figures for step, figures in validations if step in chosen.steps]
    return found[-1] if found else {}


def _cell(value: str) -> str:
    return value.replace("|", "\\|").replace("\n", " ")


def _decoder(model: PairModel, folder: Path) -> Decode:
    return greedy_decoder(load(folder, device="cpu"))


def _export(export: PairExport, folder: Path) -> None:
    write(export.run, export.checkpoint, folder)


FORMAT = pair_format(_export, _decoder, finish=lambda folder: write_checksums(folder))
