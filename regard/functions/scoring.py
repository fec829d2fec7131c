"""Scores of given outputs, as a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from regard.errors import ConfigError
from regard.functions.opening import RunPath, load_options, open_model
from regard.tasks.language_model.scoring import TextScore


@overload
def score(
    run: RunPath, texts: Sequence[str], targets: None = None, *, prompt: str | None = None, stride: int | None = None,
    checkpoint: str | None = None, device: str | None = None, threads: int | None = None,
) -> list[TextScore]: ...  # fmt: skip


@overload
def score(
    run: RunPath, texts: Sequence[str], targets: Sequence[str], *, checkpoint: str | None = None,
    device: str | None = None, threads: int | None = None,
) -> list[list[float]]: ...  # fmt: skip


def score(
    run: RunPath, texts: Sequence[str], targets: Sequence[str] | None = None, *, prompt: str | None = None,
    stride: int | None = None, checkpoint: str | None = None, device: str | None = None, threads: int | None = None,
) -> list[Any]:  # fmt: skip
    """Return log P of each target given its source, or of each text: ``regard.score("runs/m30k", ["A"], ["Ein"])``.

    Args:
        run: the run folder of a translation or language model.
        texts: the sources, or the texts of a language model.
        targets: the target of each source.
        prompt: score each text as the continuation of this one.
        stride: the number of tokens between two windows of a long text. Default: the context of the model.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        threads: the number of CPU threads. Default: all.

    Returns:
        For pairs, the log-probabilities of the tokens of each target, in nats; for texts, a score with ``nll``,
        ``tokens`` and ``bits_per_byte``.

    Raises:
        ConfigError: if the task of the run has no such scores, or targets are missing or do not apply.
    """
    model: Any = open_model(run, (), load_options(checkpoint, device, threads))
    task = model.origin.run.task
    if task.scores is None:
        raise ConfigError(f"a {task.name} model does not score texts", where=str(run))
    if task.scores == "texts":
        if targets is not None:
            raise ConfigError("a language model scores one list of texts", where="targets")
        return [model.score(text, prompt=prompt, stride=stride) for text in texts]
    if targets is None or prompt is not None or stride is not None:
        raise ConfigError(
            "a translation model scores sources with their targets", help="regard.score(run, sources, targets)"
        )
    scores: list[list[float]] = model.score(list(texts), list(targets))
    return scores
