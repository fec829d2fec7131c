"""``regard evaluate``: translate a test set and measure the outputs, with the signature of each metric."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands import completion
from regard.commands.options import (
    AsJson,
    Beam,
    CheckpointName,
    CoveragePenalty,
    DeviceName,
    EngineName,
    LengthPenalty,
    Run,
    Threads,
    checkpoint_name,
    epilog,
    open_model,
    search_settings,
)
from regard.commands.progress import progress
from regard.errors import ModelError

if TYPE_CHECKING:
    from regard.config.settings import SearchConfig
    from regard.metrics.significance import BootstrapDifference
    from regard.metrics.text import EvaluationSet, MetricScore
    from regard.tasks.translation.translator import Translator

__all__ = ["register"]

EPILOG = epilog(
    "regard evaluate runs/m30k test.en test.de --metric bleu,chrf",
    "regard evaluate runs/m30k test.en test.de --against runs/gru",
    "regard evaluate runs/m30k test.en test.de --against outputs.txt --json",
    notes="Metrics: bleu, chrf, ter (sacreBLEU) · bleu-tok-lc (BLEU as papers print it, tokenised and lowercased) "
    "· wer (per cent of items whose output equals none of their references: the word error rate of pronunciation) · "
    "per (edits per reference token, to the nearest reference). For wer and per, lines with the same source are one "
    "item with several references.",
)

Source = Annotated[
    Path,
    typer.Argument(metavar="SOURCE", help="Sentences to translate, one a line; or a .tsv or .jsonl of both sides."),
]
Targets = Annotated[
    list[Path] | None,
    typer.Argument(metavar="TARGET", help="Reference translations; several files are several references."),
]
Metric = Annotated[
    str,
    typer.Option("--metric", metavar="NAMES", help="Metrics, separated by commas.", autocompletion=completion.metrics),
]
Against = Annotated[
    Path | None,
    typer.Option(
        "--against",
        metavar="RUN|FILE",
        help="Compare with another run or a file of outputs, by paired bootstrap.",
        autocompletion=completion.runs_and_files,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the outputs to this file, a line for each line."),
]


def register(app: typer.Typer) -> None:
    """Add ``regard evaluate`` to the command line."""
    app.command("evaluate", epilog=EPILOG)(evaluate)


def evaluate(
    run: Run,
    source: Source,
    targets: Targets = None,
    *,
    metric: Metric = "bleu,chrf",
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    coverage_penalty: CoveragePenalty = None,
    against: Against = None,
    output: Output = None,
    as_json: AsJson = False,
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
    engine: EngineName = None,
) -> None:
    """Translate a test set with a trained model and measure the outputs."""
    from regard.metrics.text import check_names, read_examples, score_texts
    from regard.runs.run_folder import RunFolder
    from regard.tasks.translation.config import translation_config

    _require_rival(against)
    names = [name.strip() for name in metric.split(",") if name.strip()]
    check_names(names)
    opening: dict[str, Any] = {"device": device, "threads": threads, "engine": engine}
    given = {"beam": beam, "length_penalty": length_penalty, "coverage_penalty": coverage_penalty}
    model = open_model(run, checkpoint=checkpoint, **opening)
    search = search_settings(model.search, nbest=1, **given)
    examples = read_examples(source, targets or (), tokenizer=model.target.config)
    began = time.perf_counter()
    texts = _translate(model, examples, search, "translating")
    seconds = time.perf_counter() - began
    outputs = [texts[line] for line in examples.sources]
    if output is not None:
        _write_outputs(output, outputs)
    language = translation_config(RunFolder.open(run)).data.target_language
    scores = [score_texts(name, texts, examples, language=language) for name in names]
    which = checkpoint_name(run, checkpoint)
    others = _rival_outputs(against, examples, given, opening) if against else None
    differences = _compare(names, outputs, others, examples, language)
    if as_json:
        described = _as_json(scores, examples, search, which, seconds)
        print(json.dumps(described | _differences_as_json(against, differences), indent=2))
    else:
        _print_scores(scores, examples, search, which, seconds)
        _print_differences(against, differences)


def _require_rival(against: Path | None) -> None:
    """Raise ModelError, before anything is translated, if there is nothing to compare with."""
    if against is not None and not against.exists():
        raise ModelError(
            f"there is neither a run nor a file {against}",
            where="--against",
            help="name a run folder, or a file with an output a line",
        )


def _translate(model: Translator, examples: EvaluationSet, search: SearchConfig, doing: str) -> dict[str, str]:
    """Translate each distinct source once; return the output of each."""
    distinct = list(dict.fromkeys(examples.sources))
    with progress(doing, len(distinct)) as advance:
        found = model.translate(distinct, search=search, done=advance)
    return {line: one.text for line, one in zip(distinct, found, strict=True)}


def _rival_outputs(against: Path, examples: EvaluationSet, given: dict[str, Any], opening: dict[str, Any]) -> list[str]:
    """Return another system's outputs, read from a file or decoded by another run with the same options."""
    from regard.data.corpora import read_lines

    if not against.is_dir():
        return list(read_lines(against))
    model = open_model(against, checkpoint=None, **opening)
    search = search_settings(model.search, nbest=1, **given)
    texts = _translate(model, examples, search, f"translating by {against.name}")
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


def _print_scores(
    scores: list[MetricScore], examples: EvaluationSet, search: SearchConfig, which: str, seconds: float
) -> None:
    width = max(len(score.metric) for score in scores)
    for score in scores:
        print(f"{score.metric:<{width}}  {score.value:6.2f}  {score.signature}")
    lines, items = len(examples.sources), len(set(examples.sources))
    print(f"{lines:,} lines, beam {search.beam}, checkpoint {which}, {seconds:.1f} s")
    if items < lines:
        print(
            f"{items:,} distinct sources: for wer and per, lines with the same source are one item with several "
            "references; for the other metrics each line stands by itself"
        )


def _as_json(
    scores: list[MetricScore], examples: EvaluationSet, search: SearchConfig, which: str, seconds: float
) -> dict[str, object]:
    return {
        "scores": {
            each.metric: {
                "value": each.value,
                "signature": each.signature,
                "lower_is_better": each.lower_is_better,
            }
            for each in scores
        },
        "lines": len(examples.sources),
        "distinct_sources": len(set(examples.sources)),
        "checkpoint": which,
        "search": search.model_dump(mode="json", exclude_none=True),
        "seconds": round(seconds, 3),
    }
