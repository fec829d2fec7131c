"""Evaluation of a translation's run: a test set decoded by the search of the run, and metrics of the outputs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from regard.config.explain import explain
from regard.config.settings import SearchConfig, override_search
from regard.core.task import Advance, MetricTable
from regard.metrics.rouge import ROUGE
from regard.metrics.text import EvaluationSet, check_names, evaluate, read_examples, score_texts
from regard.runs.run_folder import RunFolder
from regard.tasks.evaluation import Evaluation
from regard.tasks.translation.config import translation_config
from regard.tasks.translation.extracts import EXTRACTS, copied_share
from regard.tasks.translation.translator import Translator, load
from regard.training.ranks import Peers

__all__ = ["evaluate_files", "measured", "translated"]


def evaluate_files(
    run: RunFolder,
    files: Sequence[Path],
    metrics: Sequence[str],
    *,
    checkpoint: str | None = None,
    device: str | None = None,
    **search: Any,
) -> Evaluation:
    """The metrics of a run over SOURCE and TARGET files, or one .tsv or .jsonl. ConfigError for an unknown metric."""
    check_names(metrics)
    model = load(run.path, checkpoint=checkpoint, device=device)
    try:
        settings = override_search(model.search, **({"nbest": 1} | search))
    except ValidationError as error:
        raise explain(error, SearchConfig, (), ()) from error
    examples = read_examples(files[0], files[1:], tokenizer=model.target.config)
    began = time.perf_counter()
    texts = translated(model, examples, settings)
    seconds = time.perf_counter() - began
    return measured(run, metrics, examples, texts, settings, checkpoint=checkpoint, seconds=seconds)


def translated(
    model: Translator,
    examples: EvaluationSet,
    search: SearchConfig,
    done: Advance = lambda count: None,
    peers: Peers | None = None,
) -> dict[str, str]:
    """The output of each distinct source, translated once: by one of the ``peers``, told to all of them."""
    distinct = list(dict.fromkeys(examples.sources))
    rank, world = (0, 1) if peers is None else (peers.rank, peers.world)
    texts = [one.text for one in model.translate(distinct[rank::world], search=search, done=done)]
    parts = [texts] if peers is None else [json.loads(part) for part in peers.gather(json.dumps(texts).encode())]
    return {line: parts[at % world][at // world] for at, line in enumerate(distinct)}


def measured(
    run: RunFolder,
    metrics: Sequence[str],
    examples: EvaluationSet,
    texts: dict[str, str],
    search: SearchConfig,
    *,
    checkpoint: str | None,
    seconds: float,
) -> Evaluation:
    """The metrics of outputs; with ROUGE, those of extracts beside them."""
    language = translation_config(run).data.target_language
    scores = [score_texts(name, texts, examples, language=language) for name in metrics]
    return Evaluation(
        figures={score.metric: score.value for score in scores},
        signatures={score.metric: score.signature for score in scores},
        sums={"distinct_sources": len(texts)},
        tables=_beside_extracts(metrics, examples, texts, language),
        settings=search.model_dump(mode="json", exclude_none=True),
        examples=len(examples.sources),
        checkpoint=str(run.weights_path(checkpoint)),
        seconds=seconds,
        outputs=[texts[line] for line in examples.sources],
    )


def _beside_extracts(
    metrics: Sequence[str], examples: EvaluationSet, texts: dict[str, str], language: str | None
) -> dict[str, MetricTable]:
    """ROUGE of the model's summaries and of sentences of the texts, and how many of their words stand in the text."""
    names = [name for name in metrics if name in ROUGE]
    if not names:
        return {}
    rows: list[tuple[str | int | float, ...]] = []
    extracts = {name: lambda text, of=of: of(text, language) for name, of in EXTRACTS.items()}
    for title, summary in {"this model": texts.__getitem__, **extracts}.items():
        outputs = [summary(source) for source in examples.sources]
        values = [evaluate(name, outputs, examples.references).value for name in names]
        rows.append((title, *values, copied_share(examples.sources, outputs)))
    references = [own[0] for own in examples.references]
    rows.append(("references", *("" for _ in names), copied_share(examples.sources, references)))
    return {"extracts": MetricTable(("summary", *names, "copied words"), tuple(rows))}
