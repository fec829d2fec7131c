"""Windows for scoring a text: each scored token is in exactly one of them, after enough context."""

from __future__ import annotations

import numpy as np

from regard.data.packs import cut_documents
from regard.errors import ConfigError
from regard.tasks.language_model.scoring import Window


def score_windows(targets: int, prompt: int, context: int, stride: int | None) -> list[Window]:
    """Return the scoring windows of a text, divided as in evaluation.

    Windows are counted from the beginning of a text without a prompt. With a prompt they are counted from its end:
    scored tokens then see the maximum of the prompt.

    Args:
        targets: number of tokens after BEGIN.
        prompt: number of the first targets that are not scored.
        context: length of a window.
        stride: offset between windows; the context if None.

    Raises:
        ConfigError: the stride is below 1 or exceeds the context.
    """
    stride = context if stride is None else stride
    if not 1 <= stride <= context:
        why = f"the stride is between 1 and {context}, the window length"
        raise ConfigError(f"invalid stride {stride}", where="stride", why=why)
    if prompt:
        pieces = cut_documents(np.array([targets]), np.array([prompt]), context=context, stride=stride)
        cut = (tuple(map(int, piece[1:])) for piece in zip(*pieces, strict=True))
        return [(begin, end + 1 - counted, end + 1) for begin, end, counted in cut]
    windows, done = list[Window](), 0
    for begin in range(0, max(targets - context, 0) + stride, stride):
        end = min(begin + context, targets)
        windows.append((begin, done + 1, end + 1))
        done = end
    return windows
