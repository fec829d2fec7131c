"""One-line summary of a model config. Imports no torch."""

from __future__ import annotations

from regard.models.configuration import ModelConfig

__all__ = ["one_line_summary"]


def one_line_summary(config: ModelConfig) -> str:
    """Summary such as ``transformer to recurrent, 4+1 layers, width 256, feed-forward 512, 4 heads, pre-norm``,
    with all that differs from the Transformer's defaults: ``additive attention``, ``rotary positions``."""
    sides = [config.encoder, config.decoder]
    kinds = " to ".join(dict.fromkeys(side.kind for side in sides))
    counts = (config.encoder_layers, config.decoder_layers)
    layers = [_layers(side.blocks if side.kind == "convolutional" else None, count)
              for side, count in zip(sides, counts, strict=True)]  # fmt: skip
    words = [kinds, f"{layers[0]}+{layers[1]} layers", f"width {config.width}"]
    if any(side.kind == "transformer" for side in sides):
        words += [f"feed-forward {config.feed_forward}", f"{config.heads} heads", f"{config.norm}-norm"]
    if config.decoder.kind == "transformer" and config.decoder.mixer is not None:
        words.append(f"{config.decoder.mixer.kind} in the decoder")
    words += _attention(config)
    cells = dict.fromkeys(side.cell.kind for side in sides if side.kind == "recurrent")
    words += [f"{' and '.join(cells)} cells"] if cells else []
    return ", ".join([*words, f"dropout {config.dropout}"])


def _attention(config: ModelConfig) -> list[str]:
    """Mechanisms and positions that differ from the Transformer's, and ``no attention`` where none reads the source."""
    sides, decoder = (config.encoder, config.decoder), config.decoder
    within = dict.fromkeys((side.self_attention or config.self_attention).kind for side in sides
                           if side.kind == "transformer")  # fmt: skip
    words = [f"{kind} self-attention" for kind in within if kind != "dot"]
    if decoder.kind == "recurrent" and decoder.order == "none":
        words.append("no attention")
    elif config.cross_attention.kind != "dot":
        words.append(f"{config.cross_attention.kind} attention")
    placed = any(side.kind != "recurrent" for side in sides) and config.position.kind != "sinusoidal"
    return [*words, *([f"{config.position.kind} positions"] if placed else [])]


def _layers(blocks: tuple[tuple[int, int, int], ...] | None, otherwise: int) -> int:
    return sum(layers for _, _, layers in blocks) if blocks else otherwise
