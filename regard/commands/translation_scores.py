"""The part of ``regard evaluate`` that is translation's: decoding, another system beside it, signatures."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.commands.metric_tables import aligned, table_as_json
from regard.commands.options import open_model, search_settings
from regard.commands.progress import progress
from regard.core.wording import counted
from regard.errors import ModelError

if TYPE_CHECKING:
    from regard.metrics.significance import BootstrapDifference
    from regard.metrics.text import EvaluationSet
    from regard.runs.run_folder import RunFolder
    from regard.tasks.evaluation import Evaluation
    from regard.training.ranks import Peers

__all__ = ["evaluate_translation"]


def evaluate_translation(
    run: RunFolder,
    files: list[Path],
    names: list[str],
    *,
    given: dict[str, Any],
    opening: dict[str, Any],
    checkpoint: str | None,
    against: Path | None,
    output: Path | None,
    as_json: bool,
    peers: Peers | None = None,
) -> None:
    """Decode a test set and print its metrics; ``given``: options of the search, ``opening``: how models are opened.

    Of several ``peers`` each decodes a part, and rank 0 prints.
    """
    from regard.metrics.text import check_names, read_examples
    from regard.tasks.translation.config import translation_config
    from regard.tasks.translation.evaluation import measured, translated

    _require_rival(against)
    check_names(names)
    model = open_model(run.path, checkpoint=checkpoint, **opening)
    search = search_settings(model.search, nbest=1, **given)
    examples = read_examples(files[0], files[1:], tokenizer=model.target.config)
    if peers is None or not peers.rank:
        _warn_of_swapped_sides(run, examples)
    began = time.perf_counter()
    ranks = 1 if peers is None else peers.world
    with progress(
        "translating", len(set(examples.sources)) // ranks, hidden=peers is not None and peers.rank > 0
    ) as advance:
        texts = translated(model, examples, search, advance, peers)
    seconds = time.perf_counter() - began
    if peers is not None and peers.rank:
        return
    if output is not None:
        _write_outputs(output, [texts[line] for line in examples.sources])
    found = measured(run, names, examples, texts, search, checkpoint=checkpoint, seconds=seconds)
    others = _rival_outputs(against, examples, given, opening) if against else None
    language = translation_config(run).data.target_language
    differences = _compare(names, found.outputs, others, examples, language)
    if as_json:
        print(json.dumps(_as_json(found) | _differences_as_json(against, differences), indent=2))
    else:
        _print_scores(found)
        _print_differences(against, differences)


def _warn_of_swapped_sides(run: RunFolder, examples: EvaluationSet) -> None:
    """Report at once that sources look like the run's target language, and references like its source language."""
    from regard.data.lint.languages import is_swapped
    from regard.tasks.translation.config import translation_config

    data = translation_config(run).data
    if data.source_language is None or data.target_language is None:
        return
    pairs = ((source, accepted[0]) for source, accepted in zip(examples.sources, examples.references, strict=True))
    if is_swapped(pairs, (data.source_language, data.target_language)):
        languages = f"{data.source_language} to {data.target_language}"
        typer.echo(f"warning: the model translates {languages}, and the files look like the other order", err=True)


def _require_rival(against: Path | None) -> None:
    """Raise ModelError, before anything is translated, if there is nothing to compare with."""
    if against is not None and not against.exists():
        raise ModelError(
            f"there is neither a run nor a file {against}",
            where="--against",
            help="name a run folder, or a file with an output a line",
        )


def _rival_outputs(against: Path, examples: EvaluationSet, given: dict[str, Any], opening: dict[str, Any]) -> list[str]:
    """Return another system's outputs, read from a file or decoded by another run with the same options."""
    from regard.data.corpora import read_lines
    from regard.tasks.translation.evaluation import translated

    if not against.is_dir():
        return list(read_lines(against))
    model = open_model(against, checkpoint=None, **opening)
    search = search_settings(model.search, nbest=1, **given)
    with progress(f"translating by {against.name}", len(set(examples.sources))) as advance:
        texts = translated(model, examples, search, advance)
    return [texts[line] for line in examples.sources]


def _compare(
    names: list[str], outputs: list[str], others: list[str] | None, examples: EvaluationSet, language: str | None
) -> list[BootstrapDifference]:
    """Compare both systems' outputs by each metric; nothing without a second system."""
    from regard.metrics.significance import compare_outputs

    if others is None:
        return []
    return [compare_outputs(name, outputs, others, examples, language=language) for name in names]


def _print_differences(against: Path | None, differences: list[BootstrapDifference]) -> None:
    from regard.metrics.significance import RESAMPLES

    if differences:
        print(
            f"\nagainst {against}, and p of so large a difference by chance (paired bootstrap, {RESAMPLES:,} resamples)"
        )
    width = max((len(each.metric) for each in differences), default=0)
    for each in differences:
        print(f"{each.metric:<{width}}  {each.other:6.2f}  {each.value - each.other:+6.2f}  p = {each.p:.4f}")


def _differences_as_json(against: Path | None, differences: list[BootstrapDifference]) -> dict[str, object]:
    from regard.metrics.significance import RESAMPLES

    if against is None:
        return {}
    scores = {
        each.metric: {"value": each.other, "difference": each.value - each.other, "p": each.p} for each in differences
    }
    return {"against": {"name": str(against), "scores": scores, "test": f"paired bootstrap, {RESAMPLES} resamples"}}


def _write_outputs(output: Path, lines: list[str]) -> None:
    from regard.core import atomic_files

    text = "".join(line.replace("\r", " ").replace("\n", " ") + "\n" for line in lines)
    atomic_files.write_bytes_atomically(output, text.encode())


def _print_scores(found: Evaluation) -> None:
    width = max(map(len, found.figures))
    for name, value in found.figures.items():
        print(f"{name:<{width}}  {value:6.2f}  {found.signatures[name]}")
    for table in found.tables.values():
        print(f"\n{aligned(table, decimals=2)}\n")
    lines, items = found.examples, int(found.sums["distinct_sources"])
    print(
        f"{counted(lines, 'line')}, beam {found.settings['beam']}, checkpoint {found.checkpoint}, {found.seconds:.1f} s"
    )
    if items < lines:
        print(
            f"{counted(items, 'distinct source')}: for wer and per, lines with the same source are one item with "
            "several references; for the other metrics each line stands by itself"
        )


def _as_json(found: Evaluation) -> dict[str, object]:
    from regard.metrics.text import METRICS

    return {
        "scores": {
            name: {
                "value": value,
                "signature": found.signatures[name],
                "lower_is_better": METRICS[name].lower_is_better,
            }
            for name, value in found.figures.items()
        },
        "tables": {name: table_as_json(table) for name, table in found.tables.items()},
        "lines": found.examples,
        "distinct_sources": int(found.sums["distinct_sources"]),
        "checkpoint": found.checkpoint,
        "search": found.settings,
        "seconds": round(found.seconds, 3),
    }
