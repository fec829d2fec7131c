"""Export for publication on the Hugging Face hub: a run without data, optimiser and history, with a model card.

The export is still a run folder, which ``regard.load``, ``translate`` and ``serve`` open. The weights are those of one
checkpoint, bit for bit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from regard.core import atomic_files
from regard.models.summary import one_line_summary
from regard.runs import checkpoint
from regard.runs.metrics_log import read_validations
from regard.runs.run_folder import CheckpointChoice, RunFolder
from regard.share.export_format import Decode, ExportFormat
from regard.share.parity import greedy_decoder
from regard.tasks.translation.codecs import open_codecs
from regard.tasks.translation.config import TranslationConfig, translation_config
from regard.tasks.translation.translator import Translator, load
from regard.tasks.translation.write_run import write_run

__all__ = ["FORMAT", "write", "write_checksums"]

DECODED = ("bleu", "chrf", "ter", "wer")  # metrics that the hub knows; losses depend on the pieces


def write(run: RunFolder, which: str | None, folder: Path) -> None:
    """Write the checkpoint called ``which`` (see ``RunFolder.weights_path``) to a new folder, as a run with a card."""
    chosen, plan = run.weights_path(which), run.read_plan()
    found = checkpoint.load(chosen.path, only={"model"})
    weights, averaged = found.groups["model"], chosen.steps if chosen.name == "average" else ()
    if plan is not None:
        plan = plan.model_copy(update={"corpora": {}, "seconds_per_update": {}, "origin": None})
    config = _without_corpora(translation_config(run))
    write_run(folder, config, *open_codecs(run), weights, plan=plan, step=found.step, averaged=averaged)
    atomic_files.remove_file(folder / "environment.json")  # describes the machine that exports
    parameters = sum(tensor.numel() for tensor in weights.values())
    card = "\n".join(_card(run, chosen, parameters))
    atomic_files.write_bytes_atomically(folder / "README.md", card.encode())


def write_checksums(folder: Path) -> None:
    """Write ``SHA256SUMS`` of every file in the folder, for ``sha256sum --check``."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = (f"{atomic_files.sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)
    atomic_files.write_bytes_atomically(folder / "SHA256SUMS", "".join(lines).encode())


def _without_corpora(config: TranslationConfig) -> TranslationConfig:
    """The config without corpora and without settings that depend on them."""
    values = config.model_dump()
    values["data"] |= {"train": [], "valid": None}
    values["model"] |= {"from": None}
    values["train"] |= {"early_stopping": None, "best_by": "loss", "threads": None}
    return TranslationConfig.model_validate(values)


def _card(run: RunFolder, chosen: CheckpointChoice, parameters: int) -> Iterator[str]:
    config = translation_config(run)
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


def _header(config: TranslationConfig, metrics: list[str]) -> Iterator[str]:
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


def _export(run: RunFolder, translator: Translator, checkpoint: str | None, folder: Path) -> None:
    write(run, checkpoint, folder)


def _decoder(translator: Translator, folder: Path) -> Decode:
    return greedy_decoder(load(folder, device="cpu"))


FORMAT = ExportFormat(write=_export, decoder=_decoder, finish=lambda folder: write_checksums(folder))
