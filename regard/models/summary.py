"""One-line summary of a model config. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable

from regard.models.attention_config import MixerConfig
from regard.models.configuration import DecoderConfig, EncoderConfig, ModelConfig
from regard.models.recurrent.config import RecurrentEncoderConfig


def one_line_summary(config: ModelConfig) -> str:
    """Return a one-line summary of a model.

    For example ``transformer to recurrent, 4+1 layers, width 256, feed-forward 512, 4 heads, pre-norm``. It includes
    all differences from the Transformer's defaults: ``additive attention``, ``rotary positions``.
    """
    sides = [config.encoder, config.decoder]
    words = [" to ".join(dict.fromkeys(side.kind for side in sides))]
    words += [f"{config.encoder.depth}+{config.decoder.depth} layers", f"width {_both(map(_states, sides))}"]
    attending = [side for side in sides if side.kind == "transformer"]
    if attending:
        heads = _both(side.heads for side in attending)
        words += [
            f"feed-forward {_both(side.feed_forward for side in attending)}",
            f"{heads} head" if heads == "1" else f"{heads} heads",
            f"{_both(side.norm for side in attending)}-norm",
        ]
    words += _attention(config)
    words += dict.fromkeys(key for side in attending for key in side.newer_parts)
    words += ["copying"] if config.copying else []
    cells = dict.fromkeys(side.cell.kind for side in sides if side.kind == "recurrent")
    words += [f"{' and '.join(cells)} cells"] if cells else []
    return ", ".join([*words, f"dropout {_both(side.dropout for side in sides)}"])


def _states(side: EncoderConfig | DecoderConfig) -> int:
    """Return the features of a state, of both directions in a recurrent encoder."""
    return side.features if isinstance(side, RecurrentEncoderConfig) else side.width


def _both(values: Iterable[object]) -> str:
    """Return one value if both sides have it, else both: ``256 and 128``."""
    return " and ".join(dict.fromkeys(map(str, values)))


def _attention(config: ModelConfig) -> list[str]:
    """Return mixers and positions that differ from the Transformer's, or ``no attention`` to the source."""
    sides, decoder = (config.encoder, config.decoder), config.decoder
    mixers = {name: side.mixer for name, side in zip(("encoder", "decoder"), sides, strict=True)
              if side.kind == "transformer"}  # fmt: skip
    words = list(dict.fromkeys(_mixer(mixer, name) for name, mixer in mixers.items() if mixer.kind != "dot"))
    if decoder.kind == "recurrent" and decoder.order == "none":
        words.append("no attention")
    elif decoder.cross_attention.kind != "dot":
        words.append(f"{decoder.cross_attention.kind} attention")
    kinds = dict.fromkeys(side.position.kind for side in sides if side.kind != "recurrent")
    return [*words, *(f"{'no' if kind == 'none' else kind} positions" for kind in kinds if kind != "sinusoidal")]


def _mixer(mixer: MixerConfig, side: str) -> str:
    return f"{mixer.kind} self-attention" if mixer.is_attention else f"{mixer.kind} in the {side}"
