"""Export for publication on the Hugging Face hub: a run without data, optimizer and history, with a model card.

The export is a run folder that ``regard.load``, ``translate`` and ``serve`` open. Its weights are a bit-identical copy
of one checkpoint.
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

DECODED = (
    "bleu",
    "chrf",
    "ter",
    "wer",
)  # metrics with a name on the hub; losses are not comparable, because they depend on the pieces


def write(run: RunFolder, which: str | None, folder: Path) -> None:
    """Write the checkpoint called ``which`` (see ``RunFolder.weights_path``) as a run with a card to a new folder."""
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
        "Install Regard from its repository; on a package index, the name may belong to another project. Then:",
        "",
        "```python",
        "import regard",
        "",
    )
    yield 'model = regard.load("FOLDER")  # the folder of these files'
    yield from ('print(model("…").text)', "```", "")
    yield "`sha256sum --check SHA256SUMS` checks whether the files are complete and unchanged. No file is a pickle."
    yield ""
    yield "The model learned from its training data only. Expect worse outputs for other domains and spellings."
    yield "Attention weights show which positions it attended to, not the reasons for its outputs."
    yield ""


def _header(config: Any, metrics: list[str]) -> Iterator[str]:
    """Yield the card's YAML header. Values are quoted as in JSON, because YAML parses the language ``no`` as false."""
    languages = [code for code in (config.data.source_language, config.data.target_language) if code]
    yield from ("---", "library_name: regard", "pipeline_tag: translation")
    for key, values in (("language", languages), ("metrics", metrics)):
        if values:
            yield from (f"{key}:", *(f"- {json.dumps(value)}" for value in dict.fromkeys(values)))
    yield "---"


def _validation(run: RunFolder, chosen: CheckpointChoice) -> dict[str, float]:
    """Return the validation metrics of the checkpoint; {} for an average, which was not validated."""
    if chosen.name == "average":
        return {}
    validations = read_validations(run.path / "metrics.jsonl")
    matching = [figures for step, figures in validations if step in chosen.steps]
    return matching[-1] if matching else {}


def _cell(value: str) -> str:
    return value.replace("|", "\\|").replace("\n", " ")


def _decoder(model: PairModel, folder: Path) -> Decode:
    translator: Any = load(folder, device="cpu")
    return greedy_decoder(translator)


def _export(export: PairExport, folder: Path) -> None:
    write(export.run, export.checkpoint, folder)


FORMAT = pair_format(_export, _decoder, finish=lambda folder: write_checksums(folder))
