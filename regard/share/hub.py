"""A trained model to be given away, as the Hugging Face hub wants it: a run without data, optimiser and history.

It is a run folder still, so that whatever reads one reads it: ``regard.load``, ``translate``, ``serve``. Weights are
those of one checkpoint, bit for bit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from regard.core import atomic_files
from regard.core.untrusted_files import parse_json, read_records
from regard.models.summary import one_line_summary
from regard.runs import checkpoint
from regard.runs.run_folder import CheckpointChoice, RunFolder
from regard.tasks.translation.codecs import open_codecs, save_codecs
from regard.tasks.translation.config import TranslationConfig, translation_config

__all__ = ["sums", "write"]

DECODED = ("bleu", "chrf", "ter", "wer")  # what the hub knows as metrics; a loss is one of our pieces


def write(run: RunFolder, which: str | None, folder: Path) -> None:
    """Write the checkpoint called ``which`` (see ``RunFolder.weights_path``) into a new folder, with all it needs."""
    chosen, config = run.weights_path(which), _given_away(translation_config(run))
    found = checkpoint.load(chosen.path, only={"model"})
    given = RunFolder.create(folder, config)
    atomic_files.remove_file(folder / "environment.json")  # of the machine that exports
    save_codecs(given, open_codecs(run))
    plan = run.read_plan()
    if plan is not None:
        given.write_plan(plan.model_copy(update={"corpora": {}, "seconds_per_update": {}}))
    averaged = chosen.name == "average"
    state = {"averaged": chosen.steps, "newest": found.step} if averaged else {}
    made = checkpoint.save(given.checkpoints, found.step, found.groups, state, keep=1)
    if averaged:
        atomic_files.commit_folder(made, given.checkpoints / "average")
    parameters = sum(tensor.numel() for tensor in found.groups["model"].values())
    card = "\n".join(_card(run, chosen, parameters))
    atomic_files.write_bytes_atomically(folder / "README.md", card.encode())


def sums(folder: Path) -> None:
    """``SHA256SUMS`` of every file in the folder, which ``sha256sum --check`` reads."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = (f"{atomic_files.sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)
    atomic_files.write_bytes_atomically(folder / "SHA256SUMS", "".join(lines).encode())


def _given_away(config: TranslationConfig) -> TranslationConfig:
    """Without corpora, and without what is decided on them."""
    values = config.model_dump()
    values["data"] |= {"train": [], "valid": None}
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
        "Training data": ", ".join(corpus.source.name for corpus in data.train),
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
    """YAML; texts are quoted as JSON is, for ``no`` is a language and no text in YAML."""
    languages = [each for each in (config.data.source_language, config.data.target_language) if each]
    yield from ("---", "library_name: regard", "pipeline_tag: translation")
    for key, values in (("language", languages), ("metrics", metrics)):
        if values:
            yield from (f"{key}:", *(f"- {json.dumps(value)}" for value in dict.fromkeys(values)))
    yield "---"


def _validation(run: RunFolder, chosen: CheckpointChoice) -> dict[str, float]:
    """The figures of the checkpoint itself, where it was validated; those of an average are not known."""
    path, found = run.path / "metrics.jsonl", dict[str, float]()
    if chosen.name == "average" or not path.is_file():
        return found
    for _, line in read_records(path):
        if b'"validation"' in line:
            with suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError):  # a torn line says nothing
                record = parse_json(line)
                if record["step"] in chosen.steps:
                    found = {name: float(value) for name, value in record["validation"].items()}
    return found


def _cell(value: str) -> str:
    return value.replace("|", "\\|").replace("\n", " ")
