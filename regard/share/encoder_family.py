"""Encoders of ``transformers`` with Regard's layers: pre-norm, a norm after the last layer, none after the embedding.

The other encoders of transformers normalize embeddings. Heads of these classes have one more dense layer than
Regard's. The export makes it an identity:

- The layer is before tanh, which is the identity near 0. It becomes δ I, and W / δ follows:
  tanh(δ x) / δ = x − O(δ² x³). With δ = 2⁻¹² the error is less than the rounding of float32.
- The layer is before an activation f and a norm. It becomes 64 I with a shift c for which f(64 x + c) = 64 x + c.
  This holds for all outputs x of a norm, whose entries are at most √width in size. The next norm removes 64 and c.
  This norm gets the weight and bias of Regard's last norm, and the encoder's last norm has weight 1 and bias 0. The ε
  of one norm is lost, a relative difference of ε / 2.
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
SHIFT = 20.0  # above it every activation of ``PLAIN`` except relu2 is the identity in float32

Names = Iterator[tuple[str, str]]  # name of the foreign tensor or module, name in Regard


@dataclass(frozen=True, kw_only=True)
class EncoderFamily:
    """An encoder of transformers with its three heads.

    Args:
        kind: ``model_type`` in config.json.
        classes: prefix of the names of its classes.
        prefix: prefix of the names of its tensors.
        layer: number → names of a layer's tensors.
        last: name of the last norm, after the prefix.
        masked: names of the masked head: the modules dense, norm and output, and the bias.
        classifier: names of the modules that predict a class from the first position: before tanh, and after it.
        first: row of the position table for the first position.
        extra: encoder → tensors that only transformers has.
        reasons: encoder → the reasons why the class cannot represent it, each with the setting that changes it.
        config: encoder → the keys of config.json that only this class has.
    """

    kind: str
    classes: str
    prefix: str
    layer: Callable[[int], Names]
    last: str
    masked: tuple[str, str, str, str]
    classifier: tuple[str, str]
    first: int
    extra: Callable[[TransformerEncoderConfig], dict[str, Tensor]]
    reasons: Callable[[TransformerEncoderConfig], dict[str, str]]
    config: Callable[[TransformerEncoderConfig], dict[str, Any]]

    def obstacles(self, encoder: TransformerEncoderConfig) -> dict[str, str]:
        """Return the reasons why the class cannot represent an encoder, with the setting that changes each, or ""."""
        return _shared_reasons(encoder) | self.reasons(encoder)


def keys_that_fit(encoder: TransformerEncoderConfig) -> tuple[EncoderFamily | None, dict[str, str]]:
    """Return the family of an encoder; if no family fits, None and the reasons against the closest one."""
    candidates = [(family, family.obstacles(encoder)) for family in FAMILIES]
    family, reasons = min(candidates, key=lambda candidate: len(candidate[1]))
    return (family if not reasons else None), reasons


def _shared_reasons(encoder: TransformerEncoderConfig) -> dict[str, str]:
    fields = type(encoder).model_fields
    newer = [
        key
        for key in sorted(fields.keys() - KNOWN - {"from", "frozen"})
        if getattr(encoder, key) != fields[key].default
    ]
    head_width = encoder.width // encoder.heads
    standard_heads = encoder.width % encoder.heads == 0 and {
        encoder.key_width or head_width,
        encoder.value_width or head_width,
    } == {head_width}
    reasons = {
        "its sub-layers are post-norm": ("model.norm=pre", encoder.norm != "pre"),
        f"its normalization is {encoder.normalization}": (
            "model.normalization=layer", encoder.normalization != "layer",
        ),
        f"its mixer is {encoder.mixer.kind}, not dot": ("model.mixer=dot", encoder.mixer.kind != "dot"),
        "its attention has options that transformers lacks": ("", encoder.mixer.kind == "dot"
                                                  and encoder.mixer != MixerConfig(bias=encoder.mixer.bias)),
        f"it uses {', '.join(newer)}": ("", bool(newer)),
        "its heads share keys, or their width is not the model width / the number of heads": (
            f"model.heads={encoder.heads}", not standard_heads or (encoder.key_heads or encoder.heads) != encoder.heads,
        ),
    }  # fmt: skip
    return {reason: key for reason, (key, holds) in reasons.items() if holds}


def _norm(foreign: str, own: str) -> Names:
    for part in ("weight", "bias"):
        yield f"{foreign}.{part}", f"{own}.{part}"


def layer_names(number: int, *, around_attention: str, around_feed_forward: str) -> Names:
    """Yield the names of a layer's tensors, with the names of the norms around attention and feed-forward."""
    foreign, own = f"encoder.layer.{number}", f"encoder.layers.{number}"
    yield from _norm(f"{foreign}.{around_attention}", f"{own}.around_mixer.norm")
    for part in ("query", "key", "value"):
        yield from _norm(f"{foreign}.attention.self.{part}", f"{own}.mixer.attention.{part}")
    yield from _norm(f"{foreign}.attention.output.dense", f"{own}.mixer.attention.output")
    yield from _norm(f"{foreign}.{around_feed_forward}", f"{own}.around_feed_forward.norm")
    yield from _norm(f"{foreign}.intermediate.dense", f"{own}.feed_forward.up")
    yield from _norm(f"{foreign}.output.dense", f"{own}.feed_forward.down")


def _sizes(encoder: TransformerEncoderConfig) -> dict[str, Any]:
    return {
        "hidden_size": encoder.width,
        "num_hidden_layers": encoder.layers,
        "num_attention_heads": encoder.heads,
        "intermediate_size": encoder.feed_forward,
        "hidden_dropout_prob": encoder.dropout,
        "attention_probs_dropout_prob": encoder.attention_dropout,
        "layer_norm_eps": encoder.normalization_epsilon or 1e-5,
    }


def _megatron_reasons(encoder: TransformerEncoderConfig) -> dict[str, str]:
    added = encoder.position.kind in ("learned", "sinusoidal", "none")
    reasons = {} if added else {f"its positions are {encoder.position.kind}": "model.position=learned"}
    if encoder.activation not in PLAIN:
        reasons[f"its activation is {encoder.activation}"] = "model.activation=gelu"
    return reasons


MEGATRON_BERT = EncoderFamily(
    kind="megatron-bert",
    classes="MegatronBert",
    prefix="bert.",
    layer=lambda number: layer_names(number, around_attention="attention.ln", around_feed_forward="ln"),
    last="encoder.ln",
    masked=("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.decoder",
            "cls.predictions.decoder.bias"),
    classifier=("bert.pooler.dense", "classifier"),
    first=0,
    extra=lambda encoder: {"bert.embeddings.token_type_embeddings.weight": torch.zeros(1, encoder.width)},
    reasons=_megatron_reasons,
    config=lambda encoder: _sizes(encoder) | {"hidden_act": PLAIN[encoder.activation], "type_vocab_size": 1},
)  # fmt: skip


def _esm_reasons(encoder: TransformerEncoderConfig) -> dict[str, str]:
    position, reasons = encoder.position, {}
    if position.kind not in ("rotary", "learned", "sinusoidal", "none"):
        reasons[f"its positions are {position.kind}"] = "model.position=rotary"
    if isinstance(position, RotaryConfig) and (encoder.width // encoder.heads) % 2:
        reasons["its rotary positions need an even head width"] = "model.position=learned"
    if encoder.activation != "gelu":
        reasons[f"its activation is {encoder.activation}"] = "model.activation=gelu"
    return reasons


def _esm_config(encoder: TransformerEncoderConfig) -> dict[str, Any]:
    rotary = isinstance(encoder.position, RotaryConfig)
    return _sizes(encoder) | {
        "position_embedding_type": "rotary" if rotary else "absolute",
        "rope_theta": encoder.position.base if isinstance(encoder.position, RotaryConfig) else 10000.0,
        "emb_layer_norm_before": False,
        "token_dropout": False,
    }


def _esm_extra(encoder: TransformerEncoderConfig) -> dict[str, Tensor]:
    """Return the frequencies of rotary positions and zeros for the protein contact head, which Regard does not have."""
    contacts = {"weight": torch.zeros(1, encoder.layers * encoder.heads), "bias": torch.zeros(1)}
    tensors = {f"esm.contact_head.regression.{part}": tensor for part, tensor in contacts.items()}
    if isinstance(encoder.position, RotaryConfig):
        even = torch.arange(0, encoder.width // encoder.heads, 2, dtype=torch.float32)
        tensors["esm.rotary_embeddings.inv_freq"] = encoder.position.base ** -(even / (encoder.width // encoder.heads))
    return tensors


ESM = EncoderFamily(
    kind="esm",
    classes="Esm",
    prefix="esm.",
    layer=lambda number: layer_names(number, around_attention="attention.LayerNorm", around_feed_forward="LayerNorm"),
    last="encoder.emb_layer_norm_after",
    masked=("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias"),
    classifier=("classifier.dense", "classifier.out_proj"),
    first=1,  # row 0 is padding
    extra=_esm_extra,
    reasons=_esm_reasons,
    config=_esm_config,
)

FAMILIES = (MEGATRON_BERT, ESM)  # the first that can represent a model writes it


def shift_of(width: int) -> Tensor:
    """Return the shift c of the dense layer in a masked head."""
    return torch.full((width,), LARGE_SLOPE * math.sqrt(width) + SHIFT)
