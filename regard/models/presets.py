"""Sizes by name: what a paper had, and smaller ones that learn on two cores."""

from __future__ import annotations

from typing import Any

__all__ = ["PRESETS"]

# `base` and `big` are the paper's (Vaswani et al. 2017, Table 3), `rnnsearch` Bahdanau et al. 2015 (appendix A.2),
# `luong` Luong et al. 2015 (§4.1), `convs2s` the WMT model of Gehring et al. 2017 (§4.2).
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": dict(encoder_layers=4, decoder_layers=4, width=128, feed_forward=256, heads=4, dropout=0.3),
    "small": dict(encoder_layers=4, decoder_layers=4, width=256, feed_forward=1024, heads=4, dropout=0.2),
    "base": dict(encoder_layers=6, decoder_layers=6, width=512, feed_forward=2048, heads=8, dropout=0.1),
    "big": dict(encoder_layers=6, decoder_layers=6, width=1024, feed_forward=4096, heads=16, dropout=0.3),
}
