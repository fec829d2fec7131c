"""Text metrics: BLEU, chrF and TER of sacreBLEU, error rates for pronunciation, and ROUGE for summaries.

Every score has a signature of its computation; only scores with equal signatures are comparable.

    bleu         sacreBLEU on plain text, cased, with its own tokenizer
    bleu-tok-lc  BLEU on tokenized, lowercased text, as in papers; the text must already be tokenized
    chrf, ter    sacreBLEU
    exact        percentage of outputs that equal one of their references, ignoring white space
    wer          percentage of items whose output equals none of their references: the *word* error rate of the
        literature on pronunciation, in which an item is a word (not the edit rate of speech recognition)
    per          phoneme error rate: 100 × edits to the nearest reference / its tokens, over all items
    rouge-1, -2, -l  mean F1 over outputs of words, pairs of words, the longest common subsequence
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from regard.core import VERSION
from regard.core.installation import extra_command
from regard.core.wording import did_you_mean, pluralize
from regard.data.reading import CorpusConfig, read_pairs
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import ConfigError, DataError

OUTPUT_METRICS = ("bleu", "chrf")  # that evaluation computes unless others are named
ROUGE = {"rouge-1": "rouge1", "rouge-2": "rouge2", "rouge-l": "rougeL"}  # Regard's names to those of the library


class MetricScore(NamedTuple):
    """The value of one metric."""

    metric: str
    value: float  # percent
    signature: str  # how it was computed
    lower_is_better: bool


class EvaluationSet(NamedTuple):
    """A test set: sources, and one or more references for each."""

    sources: list[str]
    references: list[list[str]]

    def by_source(self) -> EvaluationSet:
        """Return one item per distinct source, in order of first appearance, with the references of all its lines."""
        grouped: dict[str, list[str]] = {}
        for source, references in zip(self.sources, self.references, strict=True):
            known = grouped.setdefault(source, [])
            known += [reference for reference in dict.fromkeys(references) if reference not in known]
        return EvaluationSet(list(grouped), list(grouped.values()))


def evaluate(
    metric: str, outputs: Sequence[str], references: Sequence[Sequence[str]], *, language: str | None = None
) -> MetricScore:
    """Compute one metric of ``outputs``, each against its own references.

    Args:
        metric: name of the metric.
        outputs: one output per item.
        references: one or more references per item.
        language: target language, for sacreBLEU.

    Raises:
        ConfigError: the metric is unknown.
        DataError: there is nothing to score, or an item has no reference.
    """
    check_names([metric])
    if not outputs:
        raise DataError("the test set is empty")
    if len(outputs) != len(references) or not all(references):
        raise DataError(
            f"each output needs one or more references: found {pluralize(len(outputs), 'output')} "
            f"and references of {pluralize(len(references), 'item')}"
        )
    sums, signature = _measured(metric, outputs, references, language)
    return MetricScore(metric, metric_value(metric, sums), signature, METRICS[metric].lower_is_better)


def metric_sums(
    metric: str, outputs: Sequence[str], references: Sequence[Sequence[str]], *, language: str | None = None
) -> list[float]:
    """Return the sums of which a metric is a ratio; the sums of parts of a test set add up.

    These are sacreBLEU's sufficient statistics (n-gram counts and lengths; edits and words), (equal, items) for exact,
    (errors, items) for wer, (edits, tokens) for per, and (sum of F1, items) for ROUGE.
    """
    return _measured(metric, outputs, references, language)[0]


def metric_value(metric: str, sums: Sequence[float]) -> float:
    """Return the metric, in percent, for the sums over a test set. DataError if the denominator is 0."""
    if metric in SACREBLEU:
        from sacrebleu import metrics

        kind, options = SACREBLEU[metric]  # the tokenizer no longer matters
        return float(getattr(metrics, kind)(**options)._compute_score_from_stats(list(sums)).score)
    errors, total = sums
    if not total:
        raise DataError("the references contain no tokens")
    return 100 * errors / total


def _measured(
    metric: str, outputs: Sequence[str], references: Sequence[Sequence[str]], language: str | None
) -> tuple[list[float], str]:
    """Return the sums and the signature."""
    if metric not in SACREBLEU:
        sums = _summed(item_counts(metric, outputs, references))
        return sums, _signature(metric.upper(), references)
    with sacrebleu_parts(metric, references, language) as (scorer, streams):
        sums = _summed(scorer._extract_corpus_statistics(list(outputs), streams))
        return sums, f"{scorer._compute_score_from_stats(list(sums)).name}|{scorer.get_signature()}"


def _summed(counts: Sequence[Sequence[float]]) -> list[float]:
    """Add the counts in the order of the items, as sacreBLEU does."""
    return [sum(column) for column in zip(*counts, strict=True)]


def check_names(names: Sequence[str]) -> None:
    """Raise ConfigError for unknown metrics; called before decoding."""
    unknown = [name for name in names if name not in METRICS]
    if unknown or not names:
        why, meant = f"the metrics are {', '.join(METRICS)}", [did_you_mean(name, METRICS) for name in unknown]
        what = f"unknown metric {', '.join(unknown)}" if unknown else "no metric named"
        raise ConfigError(what, why=why, help=next(filter(None, meant), None))


def read_examples(source: Path, targets: Sequence[Path] = (), *, tokenizer: TokenizerConfig) -> EvaluationSet:
    """Read a test set: a .tsv or .jsonl file, or a source file and one file per reference.

    Joiners of references are removed, as in outputs. DataError, with file and line, if the files are not parallel.
    """
    sources: list[str] = []
    references: list[list[str]] = []
    for number, target in enumerate(targets or [None]):
        pairs = [(left, right) for _, left, right in read_pairs(CorpusConfig(source=source, target=target))]
        if number == 0:
            sources, references = [left for left, _ in pairs], [[] for _ in pairs]
        for known, (_, right) in zip(references, pairs, strict=True):
            known.append(tokenizer.remove_joiners(right))
    return EvaluationSet(sources, references)


def score_texts(
    name: str, texts: Mapping[str, str], examples: EvaluationSet, *, language: str | None = None
) -> MetricScore:
    """Compute one metric of ``texts``, the outputs by distinct source: by item for wer and per, otherwise by line."""
    items = examples.by_source() if METRICS[name].by_source else examples
    return evaluate(name, [texts[source] for source in items.sources], items.references, language=language)


def item_counts(
    metric: str, outputs: Sequence[str], references: Sequence[Sequence[str]]
) -> Sequence[tuple[float, float]]:
    """Return (errors, total) of each item.

    For wer, errors are 0 or 1 of 1, ignoring white space; for exact, equal outputs are 1. For per, they are the edits
    to the nearest reference, of its tokens; among references with equal edits, the longest counts. For ROUGE, (F1, 1).
    """
    if metric in ROUGE:
        return rouge_counts(metric, outputs, references)
    count = {"exact": _equal_outputs, "wer": _word_errors, "per": _token_errors}[metric]
    return [
        count(output.split(), [reference.split() for reference in accepted])
        for output, accepted in zip(outputs, references, strict=True)
    ]


def _equal_outputs(output: list[str], references: Sequence[list[str]]) -> tuple[int, int]:
    return int(output in references), 1


def _word_errors(output: list[str], references: Sequence[list[str]]) -> tuple[int, int]:
    return int(output not in references), 1


def _token_errors(output: list[str], references: Sequence[list[str]]) -> tuple[int, int]:
    edits, length = min((edit_distance(output, reference), -len(reference)) for reference in references)
    return edits, -length


def edit_distance(left: Sequence[str], right: Sequence[str]) -> int:
    """Return the Levenshtein distance: insertions, deletions and substitutions have cost 1. O(|l|·|r|)."""
    row = list(range(len(right) + 1))
    for number, one in enumerate(left, start=1):
        diagonal, row[0] = row[0], number
        for column, other in enumerate(right, start=1):
            diagonal, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, diagonal + (one != other))
    return row[-1]


def _signature(name: str, references: Sequence[Sequence[str]]) -> str:
    version = f"version:regard-{VERSION}"
    match_any = f"match:any|{version}"
    known = {"EXACT": match_any, "WER": match_any, "PER": f"match:nearest|tok:space|{version}"}
    how = known.get(name) or rouge_signature()
    counts = {len(accepted) for accepted in references}
    number = str(counts.pop()) if len(counts) == 1 else "var"
    return f"{name}|nrefs:{number}|{how}"


@contextmanager
def sacrebleu_parts(
    metric: str, references: Sequence[Sequence[str]], language: str | None
) -> Iterator[tuple[Any, Any]]:
    """Yield sacreBLEU's metric, and the references in its layout. ConfigError if it cannot compute the metric."""
    kind, options = SACREBLEU[metric]
    if metric == "bleu" and language:
        options = {**options, "trg_lang": language.lower().partition("-")[0]}
    max_references = max(map(len, references))
    streams = [
        [accepted[number] if number < len(accepted) else None for accepted in references]
        for number in range(max_references)
    ]
    try:
        from sacrebleu import metrics

        yield getattr(metrics, kind)(**options), streams
    except (ImportError, RuntimeError) as error:  # sacreBLEU's tokenizers of Japanese and Korean are separate packages
        raise ConfigError(
            f"sacreBLEU cannot compute {metric} for target language {language}",
            why=str(error).strip(),
            help="install the named package, or set data.target_language= (empty) and report this with the score",
        ) from error


class _Metric(NamedTuple):
    lower_is_better: bool
    by_source: bool  # lines with the same source are one item with several references


METRICS = {
    "bleu": _Metric(False, False),
    "bleu-tok-lc": _Metric(False, False),
    "chrf": _Metric(False, False),
    "ter": _Metric(True, False),
    "exact": _Metric(False, False),
    "wer": _Metric(True, True),
    "per": _Metric(True, True),
    **{name: _Metric(False, False) for name in ROUGE},
}

SACREBLEU: dict[str, tuple[str, dict[str, Any]]] = {
    "bleu": ("BLEU", {}),
    # `force` suppresses sacreBLEU's warning that the text looks tokenized, as it should be here.
    "bleu-tok-lc": ("BLEU", {"tokenize": "none", "lowercase": True, "force": True}),
    "chrf": ("CHRF", {}),
    "ter": ("TER", {}),
}


def rouge_counts(metric: str, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> list[tuple[float, float]]:
    """Return (F1, 1) of each output against its best-matching reference; words are stemmed (Porter).

    ``rouge-1`` and ``rouge-2`` compare words and pairs of words, ``rouge-l`` the longest common subsequence.
    """
    scorer, name = _scorer(), ROUGE[metric]
    return [
        (scorer[name].score_multi(list(accepted), output)[name].fmeasure, 1.0)
        for output, accepted in zip(outputs, references, strict=True)
    ]


def rouge_signature() -> str:
    """Return the part of the signature that describes the computation of ROUGE."""
    return f"stem:porter|mean:f1|version:rouge-score-{version('rouge-score')}"


@cache
def _scorer() -> dict[str, Any]:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise ConfigError(
            "ROUGE needs rouge-score", why="it is not installed", help=extra_command("summaries")
        ) from error
    return {name: RougeScorer([name], use_stemmer=True) for name in ROUGE.values()}
