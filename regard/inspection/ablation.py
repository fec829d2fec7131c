"""Head ablation: the change of an output's log-probability when one head is switched off, a causal measure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.contract import Attended, Mechanism
from regard.attention.observe import mechanisms
from regard.data.tokenizers.tokenizer import END
from regard.tasks.translation.translator import Translator


def ablation(
    translator: Translator, source: Sequence[int], target: Sequence[int], *, heads: Mapping[str, int], ended: bool
) -> dict[str, Tensor]:
    """Return the change of log P(output | source) if the context of a head is 0, by attention and for each head.

    In nats; negative if the head helped this output. One pass for each attention, with one row for each head (Michel et
    al. 2019, "Are sixteen heads really better than one?", §2.3, for one sentence).

    Args:
        translator: the model.
        source: piece ids of the sentence.
        target: piece ids of the output.
        heads: number of heads of each attention by name.
        ended: whether the output includes the end symbol.
    """
    with translator.observed() as model:
        whole = _log_probability(translator, model, [source], [target], ended)
        changes = {}
        parts = mechanisms(model)
        for name, rows in heads.items():  # by ``heads``, because a score inside a mechanism is not an attention
            with _without(parts[name], rows):
                changes[name] = _log_probability(translator, model, [source] * rows, [target] * rows, ended) - whole
    return changes


@contextmanager
def _without(mechanism: Mechanism, heads: int) -> Iterator[None]:
    """Set the context of head h to 0 in row h of each batch inside the block."""

    def hook(module: nn.Module, positional: Any, attended: Attended) -> Attended:
        factor = 1 - torch.eye(heads, dtype=attended.context.dtype, device=attended.context.device)
        return attended._replace(context=attended.context * factor[:, :, None, None])

    handle = mechanism.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _log_probability(
    translator: Translator, model: Any, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], ended: bool
) -> Tensor:
    log_p = translator.log_probabilities(sources, targets, model=model)
    output = torch.tensor([*targets[0], END], device=log_p.device)
    pieces = log_p.gather(-1, output.expand(len(sources), -1)[..., None]).squeeze(-1)
    return (pieces if ended else pieces[:, :-1]).sum(1).cpu()
