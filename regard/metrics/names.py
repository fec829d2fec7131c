"""Names of the text metrics. Imports neither torch nor a metrics library."""

METRIC_NAMES = ("bleu", "bleu-tok-lc", "chrf", "ter", "wer", "per", "rouge-1", "rouge-2", "rouge-l")
