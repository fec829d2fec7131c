"""Reasons why a Transformer's layer has no fast implementation: only exactly equivalent parts are accepted."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from torch import nn

from regard.attention.heads import PROJECTIONS, AttentionReader, MultiHead, SelfAttention
from regard.attention.mask import Causal, Mask, Padding, Window
from regard.attention.mechanisms.dot import Dot
from regard.models.copying import Copying
from regard.models.transformer.feed_forward import FeedForward, GatedFeedForward
from regard.models.transformer.layer import TransformerLayer
from regard.models.transformer.norms import PostNorm, PreNorm, Residual

HEADS = {f"{name}.{kind}" for name in PROJECTIONS for kind in ("weight", "bias")}
HEADS |= {"query_norm.weight", "key_norm.weight", "context_norm.weight", "gate.weight", "mechanism.bias.table"}
KNOWN = {
    "": {"start_mix"},
    "mixer.attention.": HEADS,
    "reader.attention.": HEADS,
    "feed_forward.": {f"{name}.{kind}" for name in ("up", "down", "gate") for kind in ("weight", "bias")},
}


def layer_obstacle(
    layer: TransformerLayer, reader: type[AttentionReader] | None, biases: tuple[type[nn.Module], ...] = (),
    *, windows: bool = False, own: Collection[Mask] = (Causal(), Padding()),
) -> str | None:  # fmt: skip
    """Return the reason why a layer has no fast implementation, or None.

    Only exact classes are accepted, because a subclass may compute something else.

    Args:
        layer: the layer.
        reader: the class of its source attention, or None.
        biases: supported classes of attention biases.
        windows: support self-attention that is restricted to a window.
        own: the masks of self-attention.
    """
    mixer = layer.mixer
    if type(layer) is not TransformerLayer or type(mixer) is not SelfAttention:
        return "a layer has a mixer other than self-attention"
    if type(layer.reader) is not (reader or type(None)):
        return "a layer has a reader other than encoder-decoder attention"
    if not _serves(mixer.mask, own, windows=windows):
        return "its self-attention is restricted"
    if (reason := _attention_obstacle(mixer.attention, biases)) is not None:
        return reason
    if isinstance(layer.reader, AttentionReader):
        if set(layer.reader.mask.conjuncts()) != {Padding()}:
            return "its attention to the source is restricted"
        if (reason := _attention_obstacle(layer.reader.attention, ())) is not None:
            return reason
    if type(layer.feed_forward) not in (FeedForward, GatedFeedForward):
        return f"its feed-forward is a {type(layer.feed_forward).__name__}"
    frames = [module for module in layer.children() if isinstance(module, Residual)]
    if not all(type(frame) in (PostNorm, PreNorm) for frame in frames):
        return "its residual frames are neither post-norm nor pre-norm"
    known = {prefix + name for prefix, names in KNOWN.items() for name in names}
    return unknown_parameters(layer, known, prefixes=("around_",))


def copying_obstacle(copying: nn.Module | None) -> str | None:
    """Return the reason why the pointer of a model has no fast implementation, or None."""
    return None if copying is None or type(copying) is Copying else f"its pointer is a {type(copying).__name__}"


def _serves(mask: Mask, own: Collection[Mask], *, windows: bool) -> bool:
    parts = mask.conjuncts()
    restricting = [part for part in parts if isinstance(part, Window)]
    if any(part.sinks for part in restricting):
        return False
    return set(own) == set(parts) - set(restricting) and len(restricting) <= windows


def _attention_obstacle(attention: MultiHead, biases: tuple[type[nn.Module], ...]) -> str | None:
    mechanism = attention.mechanism
    if type(mechanism) is not Dot or (mechanism.bias is not None and type(mechanism.bias) not in biases):
        return "its attention is not plain dot-product attention"
    projections = (getattr(attention, name) for name in PROJECTIONS)
    if type(attention) is not MultiHead or not all(type(x) is nn.Linear for x in projections):
        return "its attention lacks a projection"
    return None


def unknown_parameters(module: nn.Module, known: Iterable[str], *, prefixes: tuple[str, ...]) -> str | None:
    """Return the reason why ``module`` has no fast implementation if it has unknown parameters, else None."""
    names = {name for name, _ in module.named_parameters(remove_duplicate=False)} - set(known)
    unknown = sorted(name for name in names if not name.startswith(prefixes))
    return f"it has parameters that fast decoding does not support: {', '.join(unknown)}" if unknown else None
