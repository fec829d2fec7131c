"""Windows that a text is scored in: each token that counts does in one, with enough tokens before it."""

from __future__ import annotations

import numpy as np

from regard.data.packs import cut_documents
from regard.errors import ConfigError
from regard.tasks.language_model.scoring import Window


def score_windows(targets: int, prompt: int, context: int, stride: int | None) -> list[Window]:
    """Windows of a text of so many ``targets``, after BEGIN; ``prompt``: the first of them, which do not count.

    Cut as evaluation cuts: a text without a prompt from its beginning, one with a prompt from its end, so that what
    counts sees as much of the prompt as a window holds. ConfigError where windows would leave tokens out.
    """
    stride = context if stride is None else stride
    if not 1 <= stride <= context:
        why = f"windows of {context} tokens begin 1 to {context} apart"
        raise ConfigError(f"stride cannot be {stride}", where="stride", why=why)
    if prompt:
        pieces = cut_documents(np.array([targets]), np.array([prompt]), context=context, stride=stride)
        cut = (tuple(map(int, piece[1:])) for piece in zip(*pieces, strict=True))
        return [(begin, end + 1 - counted, end + 1) for begin, end, counted in cut]
    found, done = list[Window](), 0
    for begin in range(0, max(targets - context, 0) + stride, stride):
        end = min(begin + context, targets)
        found.append((begin, done + 1, end + 1))
        done = end
    return found
