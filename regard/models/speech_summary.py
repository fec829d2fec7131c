"""One-line summary of a config of a model from frames to tokens. Imports no torch."""

from __future__ import annotations

from regard.models.speech_config import SpeechModelConfig


def speech_summary(config: SpeechModelConfig) -> str:
    """Return a one-line summary: ``transformer to recurrent, 4+1 layers, width 128, 4 frames joined, CTC 0.3``."""
    encoder, decoder = config.encoder, config.decoder
    kinds = dict.fromkeys([encoder.kind] if config.alone else [encoder.kind, decoder.kind])
    words = [" to ".join(kinds), f"{encoder.depth}+{decoder.depth} layers", f"width {encoder.width}"]
    joined = encoder.input.patch or encoder.input.subsample
    words += [f"{joined} frames joined"] if joined > 1 else []
    attention = getattr(decoder, "cross_attention", None)
    words += [] if attention is None or attention.kind == "dot" else [f"{attention.kind} attention"]
    words += ["CTC alone"] if config.alone else [f"CTC {config.ctc:g}"] if config.ctc else []
    return ", ".join([*words, f"dropout {encoder.dropout:g}"])
