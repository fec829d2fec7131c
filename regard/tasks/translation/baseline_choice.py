"""The choice between a translation network and its baseline alone, by the outputs of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from regard.core.task import OutputBaseline
from regard.data.pairs import PairExamples
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import ConfigError
from regard.metrics.text import METRICS, metric_value
from regard.runs.baseline_choice import BaselineChoice
from regard.tasks.translation.baseline import are_short
from regard.tasks.translation.config import TranslationConfig
from regard.tasks.translation.measure import measure
from regard.tasks.translation.translator import Translator
from regard.training.baseline import jackknife

FEWEST, MOST = 20, 1000  # sources whose outputs are compared
Sums = npt.NDArray[np.float64]


def choose_baseline(
    config: TranslationConfig,
    model: Translator,
    baseline: OutputBaseline,
    examples: PairExamples,
    interrupted: Callable[[], bool],
) -> BaselineChoice | None:
    """Compare the outputs of the network with those of the baseline, source by source.

    The metric is ``train.best_by``. If that is the loss, it is ROUGE-L for targets that are much shorter than their
    sources, and chrF for others. The standard error is that of a delete-one-source jackknife (Efron and Stein 1981).

    Args:
        config: the config of the run.
        model: the trained network.
        baseline: the fitted baseline.
        examples: the validation pairs. Of more than ``MOST`` sources, sources at equal distances are compared.
        interrupted: returns whether to stop.

    Returns:
        The figures; None with fewer than ``FEWEST`` sources.

    Raises:
        KeyboardInterrupt: if ``interrupted`` returns true.
    """
    known = list(examples.by_source)
    number = min(len(known), MOST)
    if number < FEWEST:
        return None
    sources = [known[index * len(known) // number] for index in range(number)]
    translations = model.translate(sources, search=config.search, interrupted=interrupted)
    network = {source: one.text for source, one in zip(sources, translations, strict=True)}
    other = dict(zip(sources, baseline.outputs(sources), strict=True))
    target, language = model.target.config, config.data.target_language

    def sums(metric: str, outputs: Mapping[str, str]) -> Sums:
        return _sums_by_source(metric, outputs, examples, target, language)

    metric, own = _first_available(_metrics(config, examples, sources), lambda name: sums(name, network))
    values, left_out = zip(*(_values(metric, part) for part in (own, sums(metric, other))), strict=True)
    return BaselineChoice(
        metric=metric, sources=number, network=values[0], baseline=values[1],
        error=jackknife((left_out[0] - left_out[1]).tolist()), lower_is_better=METRICS[metric].lower_is_better,
    )  # fmt: skip


def _metrics(config: TranslationConfig, examples: PairExamples, sources: list[str]) -> list[str]:
    """Return the metric, and the one that replaces it if its library is missing."""
    if config.train.best_by != "loss":
        return [config.train.best_by]
    pairs = [examples.texts[examples.by_source[source][0]] for source in sources]
    return ["rouge-l", "chrf"] if are_short(*map(list, zip(*pairs, strict=True))) else ["chrf"]


def _first_available(metrics: list[str], sums: Callable[[str], Sums]) -> tuple[str, Sums]:
    """Return the first metric whose library is installed, and its sums."""
    for metric in metrics[:-1]:
        try:
            return metric, sums(metric)
        except ConfigError:
            pass
    return metrics[-1], sums(metrics[-1])


def _sums_by_source(
    metric: str, outputs: Mapping[str, str], examples: PairExamples, target: TokenizerConfig, language: str | None
) -> Sums:
    """Return (sources, sums) the sums of a metric over the pairs of each source."""

    def translate(sources: list[str]) -> list[str]:
        return [outputs[source] for source in sources]

    rows = []
    for source in outputs:
        pairs = np.array(examples.by_source[source], np.int64)
        rows.append(measure(examples, pairs, [metric], translate, target, language)[metric].numpy())
    return np.array(rows, np.float64)


def _values(metric: str, sums: Sums) -> tuple[float, Sums]:
    """Return the metric of all sources, and (sources,) the metric without each of them."""
    total = sums.sum(0)
    left_out = [metric_value(metric, (total - own).tolist()) for own in sums]
    return metric_value(metric, total.tolist()), np.array(left_out)
