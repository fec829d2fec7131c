"""The task of translation, as training, validation and serving use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from regard.core.export_forms import PairForm
from regard.core.task import Card, Metric, Task
from regard.data.column_names import TEXTS, pair_columns
from regard.data.reading import read_pairs
from regard.data.rows import column_names
from regard.inference.decoding import Engine
from regard.metrics.text import METRICS
from regard.models.build import build
from regard.tasks.held_out_samples import validated_on
from regard.tasks.row_inputs import named_column, rows_of_one_column
from regard.tasks.translation.codecs import Codecs, open_run
from regard.tasks.translation.config import TranslationConfig
from regard.tasks.translation.engine_trials import PairTrials
from regard.tasks.translation.evaluation import TranslationTest
from regard.tasks.translation.example import example_sentence
from regard.tasks.translation.objective import compute_metrics, objective
from regard.tasks.translation.prepare import prepare
from regard.tasks.translation.translator import Translator


def _build(config: TranslationConfig, spec: Mapping[str, int]) -> nn.Module:
    return build(config.model, source_types=spec["source_types"], target_types=spec["target_types"])


def _predictor(net: Any, codecs: Codecs, config: TranslationConfig, *, engine: Engine | None = None) -> Translator:
    return Translator(
        net, codecs.source, codecs.target, config.search,
        max_length=config.data.max_length, crops=config.data.crops, language=config.data.target_language, engine=engine,
    )  # fmt: skip


def _sample(folder: Path) -> dict[str, Any]:
    """Write short sequences of letters, and the same sequences reversed."""
    words = [
        ["abcdef"[(start + step * index) % 6] for index in range(2 + start % 3)]
        for start in range(6)
        for step in (1, 5)
    ]
    lines = [" ".join(line) for line in words]
    (folder / "sample.tsv").write_text("".join(f"{line}\t{line[::-1]}\n" for line in lines), encoding="utf-8")
    corpus = {"source": str(folder / "sample.tsv")}
    return {
        "data": {"train": [corpus], "valid": [corpus], "tokenizer": {"kind": "word"}},
        "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2},
        "train": {"batch_tokens": 24},
    }


def _languages(config: TranslationConfig) -> list[str]:
    return [language for language in (config.data.source_language, config.data.target_language) if language]


def _held_out_samples(folder: Path, sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    contents = "a b c\tc b a\n", "f x e\tz z\nd\ta\nb b\tf q\n"
    return validated_on(sample, folder, "valid.tsv", contents)


def _read_sources(config: Any, path: Path, selected: Sequence[str | int]) -> Iterator[tuple[str, str]]:
    """Yield the name of each row and its source: see ``core.task.Task.row_inputs``."""
    sides = pair_columns(column_names(path))
    trained = [corpus.source_key for corpus in config.data.train] + ([] if sides is None else [sides[0]])
    return rows_of_one_column(path, named_column(path, selected, trained, TEXTS))


def _export_form(config: TranslationConfig) -> PairForm:
    corpora = (config.data.valid or config.data.train)[:1]
    return PairForm(texts=lambda: (source for corpus in corpora for _, source, _ in read_pairs(corpus)))


TASK = Task(
    name="translation",
    serves=frozenset({"translate"}),
    scores="pairs",
    reference_test=TranslationTest,
    open=open_run,
    prepare=prepare,
    build=_build,
    small_spec={"source_types": 8, "target_types": 8},
    objective=objective,
    predictor=_predictor,
    compute_metrics=compute_metrics,
    metrics={name: Metric(about.lower_is_better, by_predictor=True) for name, about in METRICS.items()},
    sample=_sample,
    held_out_samples=_held_out_samples,
    row_inputs=_read_sources,
    engine_trials=PairTrials,
    export_form=_export_form,
    sample_lines=("a b c", "f e d c", "b", ""),
    example=example_sentence,
    card=Card("translation", 'print(model("…").text)', "translate {run} < in.txt", _languages),
)
