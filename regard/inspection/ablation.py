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
    """By attention, per head: log P(output | source) with the head's context set to 0, minus that of the whole model.

    In nats; negative where the head helped this output. ``heads``: heads of each attention by name; ``ended``: True if
    the output includes the end symbol. One pass per attention, with one row a head (Michel et al. 2019, "Are sixteen
    heads really better than one?", §2.3, for one sentence).
    """
    with translator.observed() as model:
        whole = _log_probability(translator, model, [source], [target], ended)
        found = {}
        parts = mechanisms(model)
        for name, rows in heads.items():  # by ``heads``: a score inside a mechanism is no attention itself
            with _without(parts[name], rows):
                found[name] = _log_probability(translator, model, [source] * rows, [target] * rows, ended) - whole
    return found


@contextmanager
def _without(mechanism: Mechanism, heads: int) -> Iterator[None]:
    """A block in which row h of a batch gets a context of 0 from head h."""

    def hook(module: nn.Module, positional: Any, attended: Attended) -> Attended:
        kept = 1 - torch.eye(heads, dtype=attended.context.dtype, device=attended.context.device)
        return attended._replace(context=attended.context * kept[:, :, None, None])

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
    each = log_p.gather(-1, output.expand(len(sources), -1)[..., None]).squeeze(-1)
    return (each if ended else each[:, :-1]).sum(1).cpu()
