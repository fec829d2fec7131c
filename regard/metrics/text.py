"""Metrics of text: BLEU, chrF and TER by sacreBLEU, and the word and phoneme error rates of pronunciation work.

Every score has a signature of how it was computed; only scores with equal signatures can be compared.

    bleu         sacreBLEU on plain text, cased, its own tokeniser
    bleu-tok-lc  BLEU on tokenised, lowercased text, as in papers; the text must be tokenised already
    chrf, ter    sacreBLEU
    wer          per cent of items whose output equals none of their references: the *word* error rate of the
                 literature on pronunciation, where an item is a word. (Not the edit rate of speech recognition.)
    per          the phoneme error rate: 100 × edits to the nearest reference / its tokens, over all items
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import regard
from regard.core.wording import did_you_mean
from regard.data.corpora import CorpusConfig, read_pairs
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.tasks.translation.translator import Translator

__all__ = [
    "METRICS",
    "EvaluationSet",
    "MetricScore",
    "check_names",
    "edit_distance",
    "error_counts",
    "evaluate",
    "read_examples",
    "sacrebleu_parts",
    "score_texts",
    "validation_metrics",
]


class MetricScore(NamedTuple):
    """The value of one metric."""

    metric: str
    value: float  # per cent
    signature: str  # how it was computed
    lower_is_better: bool


class EvaluationSet(NamedTuple):
    """A test set: sources, and one or more references for each."""

    sources: list[str]
    references: list[list[str]]

    def by_source(self) -> EvaluationSet:
        """One item for each distinct source, with the references of all its lines, in order of first appearance."""
        grouped: dict[str, list[str]] = {}
        for source, references in zip(self.sources, self.references, strict=True):
            known = grouped.setdefault(source, [])
            known += [reference for reference in dict.fromkeys(references) if reference not in known]
        return EvaluationSet(list(grouped), list(grouped.values()))


def evaluate(
    metric: str, outputs: Sequence[str], references: Sequence[Sequence[str]], *, language: str | None = None
) -> MetricScore:
    """One metric of ``outputs``, each against its own references; ``language`` is the target's, for sacreBLEU.

    Raises ConfigError for an unknown metric, DataError where there is nothing to score.
    """
    check_names([metric])
    if not outputs:
        raise DataError("there is nothing to score: the test set is empty")
    if len(outputs) != len(references) or not all(references):
        raise DataError(f"{len(outputs):,} outputs do not have one or more references each ({len(references):,} items)")
    if METRICS[metric].by_source:
        own = {"wer": word_error_rate, "per": token_error_rate}[metric]
        value, signature = own(outputs, references)
    else:
        value, signature = _sacrebleu(metric, outputs, references, language)
    return MetricScore(metric, value, signature, METRICS[metric].lower_is_better)


def check_names(names: Sequence[str]) -> None:
    """Raise ConfigError for an unknown metric; to be called before decoding."""
    unknown = [name for name in names if name not in METRICS]
    if unknown or not names:
        why, meant = f"the metrics are {', '.join(METRICS)}", [did_you_mean(name, METRICS) for name in unknown]
        what = f"there is no metric {', '.join(unknown) or 'named'}"
        raise ConfigError(what, why=why, help=next(filter(None, meant), None))


def read_examples(source: Path, targets: Sequence[Path] = (), *, tokenizer: TokenizerConfig) -> EvaluationSet:
    """Read a test set: a .tsv or .jsonl file, or a source file and one file per reference.

    References that were split into pieces with a joiner are joined, as outputs are. Raises DataError with file and line
    where the files are not parallel.
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


def validation_metrics(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    names: Sequence[str],
    interrupted: Callable[[], bool] = lambda: False,
    *,
    language: str | None = None,
) -> dict[str, float] | None:
    """Metric → value of the decoded ``sources`` against ``targets``, line by line; None when interrupted.

    Each distinct source is decoded once, by the translator's own search; without metrics nothing is decoded.

    Args:
        translator: the model.
        sources: one source a line.
        targets: one reference a line.
        names: the metrics.
        interrupted: called before every step; True stops the decoding.
        language: the target's language, for sacreBLEU.
    """
    if not names:
        return {}
    check_names(names)
    examples = EvaluationSet(list(sources), [[translator.target.config.remove_joiners(target)] for target in targets])
    distinct = list(dict.fromkeys(sources))
    try:
        found = translator.translate(distinct, interrupted=interrupted)
    except KeyboardInterrupt:
        if interrupted():
            return None
        raise
    texts = dict(zip(distinct, (each.text for each in found), strict=True))
    return {name: score_texts(name, texts, examples, language=language).value for name in names}


def score_texts(
    name: str, texts: Mapping[str, str], examples: EvaluationSet, *, language: str | None = None
) -> MetricScore:
    """One metric of ``texts``, the output of each distinct source: by item for wer and per, by line for others."""
    items = examples.by_source() if METRICS[name].by_source else examples
    return evaluate(name, [texts[source] for source in items.sources], items.references, language=language)


def error_counts(metric: str, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """(errors, total) of each item: for wer 0 or 1 of 1, for per edits of the tokens of the nearest reference."""
    count = {"wer": _word_errors, "per": _token_errors}[metric]
    return [
        count(output.split(), [each.split() for each in own]) for output, own in zip(outputs, references, strict=True)
    ]


def word_error_rate(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, str]:
    """Per cent of items that equal none of their references, ignoring white space, and the signature."""
    wrong = sum(errors for errors, _ in error_counts("wer", outputs, references))
    return 100 * wrong / len(outputs), _signature("WER", references, "match:any")


def token_error_rate(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, str]:
    """100 × edits / tokens of the nearest reference, both summed over all items, and the signature.

    The nearest reference has the fewest edits; of several, the longest. Tokens are separated by white space.
    """
    edits, tokens = map(sum, zip(*error_counts("per", outputs, references), strict=True))
    if not tokens:
        raise DataError("the references hold no tokens")
    return 100 * edits / tokens, _signature("PER", references, "match:nearest|tok:space")


def _word_errors(output: list[str], references: Sequence[list[str]]) -> tuple[int, int]:
    return int(output not in references), 1


def _token_errors(output: list[str], references: Sequence[list[str]]) -> tuple[int, int]:
    edits, length = min((edit_distance(output, each), -len(each)) for each in references)
    return edits, -length


def edit_distance(left: Sequence[str], right: Sequence[str]) -> int:
    """The Levenshtein distance: insertions, deletions and substitutions, each of cost 1. O(|l|·|r|)."""
    row = list(range(len(right) + 1))
    for number, one in enumerate(left, start=1):
        diagonal, row[0] = row[0], number
        for place, other in enumerate(right, start=1):
            diagonal, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, diagonal + (one != other))
    return row[-1]


def _signature(name: str, references: Sequence[Sequence[str]], how: str) -> str:
    counts = {len(accepted) for accepted in references}
    number = str(counts.pop()) if len(counts) == 1 else "var"
    return f"{name}|nrefs:{number}|{how}|version:regard-{regard.__version__}"


def _sacrebleu(
    metric: str, outputs: Sequence[str], references: Sequence[Sequence[str]], language: str | None
) -> tuple[float, str]:
    with sacrebleu_parts(metric, references, language) as (scorer, streams):
        value = scorer.corpus_score(list(outputs), streams)
        return float(value.score), f"{value.name}|{scorer.get_signature()}"


@contextmanager
def sacrebleu_parts(
    metric: str, references: Sequence[Sequence[str]], language: str | None
) -> Iterator[tuple[Any, Any]]:
    """sacreBLEU's metric and the references in its layout; ConfigError where it cannot compute the metric."""
    kind, options = SACREBLEU[metric]
    if metric == "bleu" and language:
        options = {**options, "trg_lang": language.lower().partition("-")[0]}
    most = max(map(len, references))
    streams = [[own[number] if number < len(own) else None for own in references] for number in range(most)]
    try:
        from sacrebleu import metrics

        yield getattr(metrics, kind)(**options), streams
    except (ImportError, RuntimeError) as error:  # sacreBLEU's tokenisers of Japanese and Korean are separate packages
        raise ConfigError(
            f"sacreBLEU cannot compute {metric} for target language {language}",
            why=str(error).strip(),
            help="install what it names, or set data.target_language= (nothing) and state so with the score",
        ) from error


class _Metric(NamedTuple):
    lower_is_better: bool
    by_source: bool  # lines with the same source are one item with several references


METRICS = {
    "bleu": _Metric(False, False),
    "bleu-tok-lc": _Metric(False, False),
    "chrf": _Metric(False, False),
    "ter": _Metric(True, False),
    "wer": _Metric(True, True),
    "per": _Metric(True, True),
}

SACREBLEU: dict[str, tuple[str, dict[str, Any]]] = {
    "bleu": ("BLEU", {}),
    # `force` suppresses sacreBLEU's warning that the text looks tokenised, as it should be here.
    "bleu-tok-lc": ("BLEU", {"tokenize": "none", "lowercase": True, "force": True}),
    "chrf": ("CHRF", {}),
    "ter": ("TER", {}),
}
