"""Attention mechanisms of Regard as ``attn_implementation`` of models of transformers.

from regard.integrations.transformers import register

name = register("top-k", keep=8)
model = AutoModelForCausalLM.from_pretrained("…", attn_implementation=name)
"""

from __future__ import annotations

import importlib
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.catalog import MECHANISMS, build_mechanism
from regard.attention.contract import Mechanism
from regard.attention.mask import Matrix
from regard.attention.span import Span
from regard.core.wording import did_you_mean
from regard.errors import ConfigError

ATTRIBUTE = "regard_mechanism"  # of an attention module of transformers


class _Attention(NamedTuple):
    """The attention function of a kind with its options, as transformers calls it."""

    kind: str
    options: dict[str, Any]

    def __call__(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None,
        scaling: float | None = None, dropout: float = 0.0, **options: Any,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Return the context (batch, query, heads, width), and the weights if the model requests them.

        Args:
            module: the attention module.
            query: (batch, heads, query, width).
            key: (batch, key heads, key, width).
            value: (batch, key heads, key, width).
            attention_mask: (batch or 1, 1, query, key), true or 0 where a query may attend; None: causal.
            scaling: the factor of the energies that the model expects in place of 1/√width.
            dropout: the dropout probability of the weights in training.
            options: further arguments of transformers.
        """
        groups = query.shape[1] // key.shape[1]
        key, value = (table.repeat_interleave(groups, 1) for table in (key, value))
        mechanism = _mechanism(module, self.kind, self.options, query)
        mechanism.drop_weights(nn.Dropout(dropout))
        mechanism.train(module.training)
        if scaling is not None:
            query = query * (scaling * math.sqrt(query.shape[-1]))
        rows, _, length, _ = query.shape
        spans = (
            Span.without_padding(torch.zeros(rows, count, device=query.device)) for count in (length, key.shape[2])
        )
        bound = Matrix(torch.where(_allowed(attention_mask, query, key), 0.0, -torch.inf)).bind(*spans)
        weighted = bool(options.get("output_attentions"))
        attended = mechanism(query, mechanism.prepare(key), value, bound, need_weights=weighted)
        return attended.context.transpose(1, 2).contiguous(), attended.weights


def register(kind: str, *, name: str | None = None, **options: Any) -> str:
    """Make a mechanism available to transformers, with the mask functions that it needs.

    A mechanism with parameters of its own, such as ``general``, becomes a submodule of each attention at the first
    forward pass: run one before you create the optimizer or load weights.

    Args:
        kind: a kind of mechanism, such as ``dot`` or ``top-k``; see "Mechanisms".
        name: the name for ``attn_implementation``. Default: ``regard-KIND``.
        options: options of the mechanism, such as ``keep=8``.

    Returns:
        The name.

    Raises:
        ConfigError: if the mechanism does not exist, cannot be causal, or keeps a state from query to query.
    """
    if kind not in MECHANISMS:
        help = did_you_mean(kind, MECHANISMS)
        raise ConfigError(f"unknown mechanism {kind!r}", why=f"the mechanisms are {', '.join(MECHANISMS)}", help=help)
    mechanism = _built(kind, options, heads=2, width=4)
    if not mechanism.can().causal:
        why = "it depends on earlier queries, or reads later positions"
        raise ConfigError(f"{kind} cannot be the attention of such a model", why=why)
    name = name or f"regard-{kind}"
    library: Any = importlib.import_module("transformers")
    masks: Any = importlib.import_module("transformers.masking_utils")
    library.AttentionInterface.register(name, _Attention(kind, options))
    library.AttentionMaskInterface.register(name, masks.eager_mask)
    return name


def _mechanism(module: nn.Module, kind: str, options: dict[str, Any], query: Tensor) -> Mechanism:
    """Return the mechanism of an attention module, which is created at its first use."""
    known = getattr(module, ATTRIBUTE, None)
    if not isinstance(known, Mechanism):
        known = _built(kind, options, heads=query.shape[1], width=query.shape[-1]).to(query)
        module.add_module(ATTRIBUTE, known)
    return known


def _built(kind: str, options: dict[str, Any], *, heads: int, width: int) -> Mechanism:
    sizes = {"heads": heads, "query_width": width, "key_width": width, "value_width": width}
    return build_mechanism(kind, options, where="register", sizes=sizes)


def _allowed(mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor:
    """Return (batch, query, key): where a query may attend."""
    rows, length, keys = query.shape[0], query.shape[2], key.shape[2]
    if mask is None:
        position = torch.arange(keys, device=query.device)
        return (position <= position[keys - length :, None]).expand(rows, -1, -1)
    allowed = mask if mask.dtype == torch.bool else mask == 0
    return allowed[:, 0, :, :keys].expand(rows, length, keys)
