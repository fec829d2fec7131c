"""How good outputs are: BLEU, chrF and TER by sacreBLEU, and the word and phoneme error rates of pronunciation work.

Every score carries a signature that says how it was computed; two figures compare only where these are equal.

    bleu         sacreBLEU on plain text, cased, its own tokeniser
    bleu-tok-lc  BLEU of papers that print tokenised, lowercased figures: the text is taken as tokenised already
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
    """``value`` in per cent; ``signature`` says how it came about."""

    metric: str
    value: float
    signature: str
    lower_is_better: bool


class EvaluationSet(NamedTuple):
    """A test set: to each source one reference or more."""

    sources: list[str]
    references: list[list[str]]

    def by_source(self) -> EvaluationSet:
        """Lines of one source as one item with all their references, in the order of first appearance."""
        grouped: dict[str, list[str]] = {}
        for source, references in zip(self.sources, self.references, strict=True):
            known = grouped.setdefault(source, [])
            known += [reference for reference in dict.fromkeys(references) if reference not in known]
        return EvaluationSet(list(grouped), list(grouped.values()))


def evaluate(
    metric: str, outputs: Sequence[str], references: Sequence[Sequence[str]], *, language: str | None = None
) -> MetricScore:
    """One metric of ``outputs``, each against its own references. ``language`` of the target, for sacreBLEU.

    Raises ConfigError for an unknown metric, DataError where there is nothing to score.
    """
    check_names([metric])
    if not outputs:
        raise DataError("there is nothing to score: the test set is empty")
    if len(outputs) != len(references) or not all(references):
        raise DataError(f"{len(outputs):,} outputs do not face one reference or more each ({len(references):,} items)")
    if METRICS[metric].by_source:
        own = {"wer": word_error_rate, "per": token_error_rate}[metric]
        value, signature = own(outputs, references)
    else:
        value, signature = _sacrebleu(metric, outputs, references, language)
    return MetricScore(metric, value, signature, METRICS[metric].lower_is_better)


def check_names(names: Sequence[str]) -> None:
    """ConfigError for a metric that does not exist; asked before anything is decoded."""
    unknown = [name for name in names if name not in METRICS]
    if unknown or not names:
        why, meant = f"the metrics are {', '.join(METRICS)}", [did_you_mean(name, METRICS) for name in unknown]
        what = f"there is no metric {', '.join(unknown) or 'named'}"
        raise ConfigError(what, why=why, help=next(filter(None, meant), None))


def read_examples(source: Path, targets: Sequence[Path] = (), *, tokenizer: TokenizerConfig) -> EvaluationSet:
    """A test set from files: a .tsv or .jsonl, or a source and one file a reference.

    References of text that was cut into pieces before, with a joiner, are put together again as outputs are.
    Raises DataError with file and line for whatever is not parallel.
    """
    sources: list[str] = []
    references: list[list[str]] = []
    for number, target in enumerate(targets or [None]):
        pairs = [(left, right) for _, left, right in read_pairs(CorpusConfig(source=source, target=target))]
        if number == 0:
            sources, references = [left for left, _ in pairs], [[] for _ in pairs]
        for known, (_, right) in zip(references, pairs, strict=True):
            known.append(tokenizer.joined(right))
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
    """Decode ``sources`` and measure against ``targets``, a line each: metric -> value; None when interrupted.

    Each distinct source is decoded once, by the translator's own search. No names cost nothing.
    """
    if not names:
        return {}
    check_names(names)
    examples = EvaluationSet(list(sources), [[translator.target.config.joined(target)] for target in targets])
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
    """One metric of the output of each distinct source: by item for wer and per, by line for the others."""
    items = examples.by_source() if METRICS[name].by_source else examples
    return evaluate(name, [texts[source] for source in items.sources], items.references, language=language)


def error_counts(metric: str, outputs: Sequence[str], references: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """Errors of each item, and of how many: wer 0 or 1 of 1, per edits of the tokens of the nearest reference."""
    count = {"wer": _word_errors, "per": _token_errors}[metric]
    return [
        count(output.split(), [each.split() for each in own]) for output, own in zip(outputs, references, strict=True)
    ]


def word_error_rate(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, str]:
    """Per cent of items that equal none of their references, white space aside."""
    wrong = sum(errors for errors, _ in error_counts("wer", outputs, references))
    return 100 * wrong / len(outputs), _signature("WER", references, "match:any")


def token_error_rate(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[float, str]:
    """100 × edits / tokens of the nearest reference, summed over all items first.

    Nearest is the fewest edits, and of equally near ones the longest. Tokens stand between white space.
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
    """Insertions, deletions and substitutions from one to the other (Levenshtein), each of cost 1. O(|l|·|r|)."""
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
    """sacreBLEU's metric, and the references as it wants them; ConfigError where it cannot compute it."""
    kind, options = SACREBLEU[metric]
    if metric == "bleu" and language:
        options = {**options, "trg_lang": language.lower().partition("-")[0]}
    most = max(map(len, references))
    streams = [[own[number] if number < len(own) else None for own in references] for number in range(most)]
    try:
        from sacrebleu import metrics

        yield getattr(metrics, kind)(**options), streams
    except (ImportError, RuntimeError) as error:  # the tokenisers of Japanese and Korean come apart from sacreBLEU
        raise ConfigError(
            f"sacreBLEU cannot compute {metric} for target language {language}",
            why=str(error).strip(),
            help="install what it names, or set data.target_language= (nothing) and say so with the figure",
        ) from error


class _About(NamedTuple):
    lower_is_better: bool
    by_source: bool  # lines of one source are one item with several references


METRICS = {
    "bleu": _About(False, False),
    "bleu-tok-lc": _About(False, False),
    "chrf": _About(False, False),
    "ter": _About(True, False),
    "wer": _About(True, True),
    "per": _About(True, True),
}

SACREBLEU: dict[str, tuple[str, dict[str, Any]]] = {
    "bleu": ("BLEU", {}),
    # `force` only keeps sacreBLEU from warning that the text looks tokenised: here it should.
    "bleu-tok-lc": ("BLEU", {"tokenize": "none", "lowercase": True, "force": True}),
    "chrf": ("CHRF", {}),
    "ter": ("TER", {}),
}
