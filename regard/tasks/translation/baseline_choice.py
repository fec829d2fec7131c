"""The choice between a translation network, its baseline alone and both, by their outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data.pairs import PairExamples
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import ConfigError
from regard.metrics.text import METRICS, metric_value
from regard.runs.baseline_choice import BaselineChoice, MemoryChoice
from regard.tasks.translation.baseline import TranslationBaseline, are_short
from regard.tasks.translation.config import TranslationConfig
from regard.tasks.translation.measure import measure
from regard.tasks.translation.translator import Translator
from regard.training.baseline import jackknife

FEWEST, MOST = 20, 1000  # sources whose outputs are compared
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # of the memory: least cosines
Sums = npt.NDArray[np.float64]


class _Values(NamedTuple):
    """The metric of all sources, and (sources,) the metric without each of them."""

    value: float
    left_out: Sums


def choose_baseline(
    config: TranslationConfig,
    model: Translator,
    baseline: TranslationBaseline,
    examples: PairExamples,
    interrupted: Callable[[], bool],
) -> BaselineChoice | None:
    """Compare the outputs of the network, of the baseline and of the network with memory, source by source.

    With memory, the output is the target of the nearest training source if its cosine reaches a threshold, and the
    network's otherwise. The threshold has the best metric on the same sources.

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
    nearest = baseline.nearest(sources)
    other = dict(zip(sources, baseline.outputs(sources), strict=True))
    recalled = {source: one.text for source, one in zip(sources, nearest, strict=True)}
    target, language = model.target.config, config.data.target_language

    def sums(metric: str, outputs: Mapping[str, str]) -> Sums:
        return _sums_by_source(metric, outputs, examples, target, language)

    metric, own = _first_available(_metrics(config, examples, sources), lambda name: sums(name, network))
    cosines = np.array([one.cosine for one in nearest])
    return _choice(metric, own, sums(metric, other), *_best_memory(metric, cosines, own, sums(metric, recalled)))


def _choice(metric: str, network: Sums, baseline: Sums, memory: _Values, threshold: float) -> BaselineChoice:
    """Return the figures of the three models, by their sums of each source."""
    value, without = _values(metric, network)
    value_alone, without_alone = _values(metric, baseline)
    choice = BaselineChoice(
        metric=metric, sources=len(network), network=value, baseline=value_alone,
        error=jackknife((without - without_alone).tolist()), lower_is_better=METRICS[metric].lower_is_better,
    )  # fmt: skip
    error = jackknife((memory.left_out - (without_alone if choice.is_baseline else without)).tolist())
    return choice.model_copy(update={"memory": MemoryChoice(threshold=threshold, value=memory.value, error=error)})


def _best_memory(metric: str, cosines: Sums, network: Sums, recalled: Sums) -> tuple[_Values, float]:
    """Return the figures of the best threshold, and the threshold."""
    tried = [
        (_values(metric, np.where(cosines[:, None] >= threshold, recalled, network)), threshold)
        for threshold in THRESHOLDS
    ]
    choose = min if METRICS[metric].lower_is_better else max
    return choose(tried, key=lambda one: one[0].value)


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


def _values(metric: str, sums: Sums) -> _Values:
    total = sums.sum(0)
    left_out = [metric_value(metric, (total - own).tolist()) for own in sums]
    return _Values(metric_value(metric, total.tolist()), np.array(left_out))
