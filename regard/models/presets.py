"""Presets of encoder-decoders: those of papers, and smaller ones for two cores; keys of ``ModelConfig``."""

from __future__ import annotations

from typing import Any

# Bahdanau et al. 2015, appendix A.1.1 and A.1.2; n' is the decoder's width.
_BAHDANAU = dict(kind="gru", reset="before", update="renews", orthogonal=True)
_ALIGNING = dict(kind="additive", heads=1, project=[])
# Orthogonal as in Saxe et al. 2014; the paper's initialization, U(−0.1, 0.1), is model.init_uniform = 0.1.
_LUONG = dict(kind="lstm", orthogonal=True)
# Luong et al. 2015, §3.2: the best of its single models, D = 10.
_LOCAL = dict(kind="local-p", heads=1, project=[], window=10, score=dict(kind="general"))

# `base` and `big` are the paper's (Vaswani et al. 2017, Table 3), `rnnsearch` Bahdanau et al. 2015 (appendix A.2),
# `luong` Luong et al. 2015 (§4.1), `convs2s` the WMT model of Gehring et al. 2017 (§4.2).
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": dict(layers=4, width=128, feed_forward=256, heads=4, dropout=0.3),
    "small": dict(layers=4, width=256, feed_forward=1024, heads=4, dropout=0.2),
    "base": dict(layers=6, width=512, feed_forward=2048, heads=8, dropout=0.1),
    "big": dict(layers=6, width=1024, feed_forward=4096, heads=16, dropout=0.3),
    "rnnsearch": dict(
        kind="recurrent",
        encoder=dict(cell=_BAHDANAU, width=1000),
        decoder=dict(cell=_BAHDANAU, order="bahdanau", readout=500, cross_attention=_ALIGNING),
        layers=1,
        width=1000,
        embedding=620,
        dropout=0.0,
        share="none",
    ),
    "rnnsearch-small": dict(
        kind="recurrent",
        encoder=dict(cell=_BAHDANAU, width=256),
        decoder=dict(cell=_BAHDANAU, order="bahdanau", readout=256, cross_attention=_ALIGNING),
        layers=1,
        width=256,
        dropout=0.3,
    ),
    "luong": dict(
        kind="recurrent",
        encoder=dict(cell=_LUONG, bidirectional=False),
        decoder=dict(cell=_LUONG, order="luong", input_feeding=True, start="copied", cross_attention=_LOCAL),
        layers=4,
        width=1000,
        dropout=0.2,
        share="none",
    ),
    "luong-small": dict(
        kind="recurrent",
        encoder=dict(cell=_LUONG, bidirectional=False),
        decoder=dict(cell=_LUONG, order="luong", input_feeding=True, start="copied", cross_attention=_LOCAL),
        layers=2,
        width=256,
        dropout=0.3,
    ),
    "convs2s": dict(
        kind="convolutional",
        encoder=dict(blocks=[[512, 3, 9], [1024, 3, 4], [2048, 1, 2]]),
        decoder=dict(blocks=[[512, 3, 9], [1024, 3, 4], [2048, 1, 2]]),
        embedding=768,
        dropout=0.2,
    ),
    "convs2s-small": dict(
        kind="convolutional",
        encoder=dict(blocks=[[256, 3, 4]]),
        decoder=dict(blocks=[[256, 3, 3]]),
        width=256,
        dropout=0.2,
    ),
}
