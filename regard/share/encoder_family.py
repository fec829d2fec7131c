"""Encoders of ``transformers`` whose layers are ours: norms before the parts, one after the last, none at first.

Its other encoders normalize embeddings, which ours do not. Heads of these classes have a dense layer more than ours:

- before tanh, which is the identity near 0: with δ I below it and W / δ above, tanh(δ x) / δ = x − O(δ² x³), δ = 2⁻¹²,
  less than the rounding of float32;
- before an activation f and a norm: with 64 I and a shift c so large that f(64 x + c) = 64 x + c for all that a norm
  can give (its entries are at most √width in size), and that norm takes 64 and c out again. So our last norm's gains
  and shifts stand in the head's norm, and the encoder's own has none. The ε of one norm is lost, ε / 2 of its variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.models.attention_config import MixerConfig
from regard.models.position_config import RotaryConfig
from regard.models.transformer.config import TransformerEncoderConfig
from regard.share.causal_family import KNOWN, PLAIN

SMALL_SLOPE = 2.0**-12
LARGE_SLOPE = 64.0
SHIFT = 20.0  # above it every activation of ``PLAIN`` but relu2 is the identity to float32

Names = Iterator[tuple[str, str]]  # name there, name here


@dataclass(frozen=True, kw_only=True)
class EncoderFamily:
    """One encoder there, with its three heads.

    Args:
        kind: ``model_type`` in config.json.
        classes: beginning of the names of its classes; ``prefix``: of its tensors.
        layer: number → names of a layer's modules.
        last: name of the last norm, after the prefix.
        masked: names of the modules of the masked head: dense, norm, output, and of its bias.
        classes_by: names of the modules that tell a class from the first column: before tanh, and after it.
        first: number of the row of the position table that the first column has; None where there need be no table.
        beside: encoder → tensors that only the class has.
        reasons: encoder → why it is none, by the ``--set`` that would make it one.
        config: encoder, columns → keys of config.json of its own.
    """

    kind: str
    classes: str
    prefix: str
    layer: Callable[[int], Names]
    last: str
    masked: tuple[str, str, str, str]
    classes_by: tuple[str, str]
    first: int
    beside: Callable[[TransformerEncoderConfig], dict[str, Tensor]]
    reasons: Callable[[TransformerEncoderConfig], dict[str, str]]
    config: Callable[[TransformerEncoderConfig], dict[str, Any]]

    def obstacles(self, side: TransformerEncoderConfig) -> dict[str, str]:
        """The reasons why an encoder is none of these, each with the setting that makes it one ("": there is none)."""
        return _shared(side) | self.reasons(side)


def keys_that_fit(side: TransformerEncoderConfig) -> tuple[EncoderFamily | None, dict[str, str]]:
    """The family of an encoder, or what keeps it from the nearest one."""
    found = [(family, family.obstacles(side)) for family in FAMILIES]
    family, reasons = min(found, key=lambda each: len(each[1]))
    return (family if not reasons else None), reasons


def _shared(side: TransformerEncoderConfig) -> dict[str, str]:
    fields = type(side).model_fields
    newer = [
        key for key in sorted(fields.keys() - KNOWN - {"from", "frozen"}) if getattr(side, key) != fields[key].default
    ]
    own = side.width // side.heads
    dealt = side.width % side.heads == 0 and {side.key_width or own, side.value_width or own} == {own}
    reasons = {
        "it normalizes after its parts": ("model.norm=pre", side.norm != "pre"),
        f"its normalization is {side.normalization}": ("model.normalization=layer", side.normalization != "layer"),
        f"its layers mix by {side.mixer.kind}": ("model.mixer=dot", side.mixer.kind != "dot"),
        "its attention has options of its own": ("", side.mixer.kind == "dot"
                                                  and side.mixer != MixerConfig(bias=side.mixer.bias)),
        f"it has {', '.join(newer)}": ("", bool(newer)),
        "its heads share keys, or are not as wide as the model divided by their number": (
            f"model.heads={side.heads}", not dealt or (side.key_heads or side.heads) != side.heads,
        ),
    }  # fmt: skip
    return {reason: key for reason, (key, holds) in reasons.items() if holds}


def _norm(there: str, here: str) -> Names:
    for part in ("weight", "bias"):
        yield f"{there}.{part}", f"{here}.{part}"


def _layer(number: int, *, before_attention: str, before_feed_forward: str) -> Names:
    there, here = f"encoder.layer.{number}", f"encoder.layers.{number}"
    yield from _norm(f"{there}.{before_attention}", f"{here}.around_mixer.norm")
    for part in ("query", "key", "value"):
        yield from _norm(f"{there}.attention.self.{part}", f"{here}.mixer.attention.{part}")
    yield from _norm(f"{there}.attention.output.dense", f"{here}.mixer.attention.output")
    yield from _norm(f"{there}.{before_feed_forward}", f"{here}.around_feed_forward.norm")
    yield from _norm(f"{there}.intermediate.dense", f"{here}.feed_forward.up")
    yield from _norm(f"{there}.output.dense", f"{here}.feed_forward.down")


def _sizes(side: TransformerEncoderConfig) -> dict[str, Any]:
    return {
        "hidden_size": side.width,
        "num_hidden_layers": side.layers,
        "num_attention_heads": side.heads,
        "intermediate_size": side.feed_forward,
        "hidden_dropout_prob": side.dropout,
        "attention_probs_dropout_prob": side.attention_dropout,
        "layer_norm_eps": side.normalization_epsilon or 1e-5,
    }


def _megatron_reasons(side: TransformerEncoderConfig) -> dict[str, str]:
    added = side.position.kind in ("learned", "sinusoidal", "none")
    reasons = {} if added else {f"its positions are {side.position.kind}": "model.position=learned"}
    if side.activation not in PLAIN:
        reasons[f"its activation is {side.activation}"] = "model.activation=gelu"
    return reasons


MEGATRON_BERT = EncoderFamily(
    kind="megatron-bert",
    classes="MegatronBert",
    prefix="bert.",
    layer=lambda number: _layer(number, before_attention="attention.ln", before_feed_forward="ln"),
    last="encoder.ln",
    masked=("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.decoder",
            "cls.predictions.decoder.bias"),
    classes_by=("bert.pooler.dense", "classifier"),
    first=0,
    beside=lambda side: {"bert.embeddings.token_type_embeddings.weight": torch.zeros(1, side.width)},
    reasons=_megatron_reasons,
    config=lambda side: _sizes(side) | {"hidden_act": PLAIN[side.activation], "type_vocab_size": 1},
)  # fmt: skip


def _esm_reasons(side: TransformerEncoderConfig) -> dict[str, str]:
    position, reasons = side.position, {}
    if position.kind not in ("rotary", "learned", "sinusoidal", "none"):
        reasons[f"its positions are {position.kind}"] = "model.position=rotary"
    if isinstance(position, RotaryConfig) and (side.width // side.heads) % 2:
        reasons["its rotary positions turn heads of an odd width"] = "model.position=learned"
    if side.activation != "gelu":
        reasons[f"its activation is {side.activation}"] = "model.activation=gelu"
    return reasons


def _esm_config(side: TransformerEncoderConfig) -> dict[str, Any]:
    rotary = isinstance(side.position, RotaryConfig)
    return _sizes(side) | {
        "position_embedding_type": "rotary" if rotary else "absolute",
        "rope_theta": side.position.base if isinstance(side.position, RotaryConfig) else 10000.0,
        "emb_layer_norm_before": False,
        "token_dropout": False,
    }


def _esm_beside(side: TransformerEncoderConfig) -> dict[str, Tensor]:
    """Frequencies of rotary positions, and a head that guesses contacts of a protein, which nothing here reads."""
    contacts = {"weight": torch.zeros(1, side.layers * side.heads), "bias": torch.zeros(1)}
    found = {f"esm.contact_head.regression.{part}": tensor for part, tensor in contacts.items()}
    if isinstance(side.position, RotaryConfig):
        even = torch.arange(0, side.width // side.heads, 2, dtype=torch.float32)
        found["esm.rotary_embeddings.inv_freq"] = side.position.base ** -(even / (side.width // side.heads))
    return found


ESM = EncoderFamily(
    kind="esm",
    classes="Esm",
    prefix="esm.",
    layer=lambda number: _layer(number, before_attention="attention.LayerNorm", before_feed_forward="LayerNorm"),
    last="encoder.emb_layer_norm_after",
    masked=("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias"),
    classes_by=("classifier.dense", "classifier.out_proj"),
    first=1,  # the row of padding comes first
    beside=_esm_beside,
    reasons=_esm_reasons,
    config=_esm_config,
)

FAMILIES = (MEGATRON_BERT, ESM)  # of those that can say a model the first writes it


def shift_of(width: int) -> Tensor:
    """The shift c of a masked head's dense layer."""
    return torch.full((width,), LARGE_SLOPE * math.sqrt(width) + SHIFT)
