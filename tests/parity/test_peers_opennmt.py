"""OpenNMT-py's global attention within our Luong decoder, its attention of convolutional decoders, its average."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.attention.contract import Encoded, Mechanism, Mixed, RowMap
from regard.attention.heads import AttentionReader, MultiHead
from regard.attention.mechanisms.additive import Additive
from regard.attention.mechanisms.dot import Dot
from regard.attention.mechanisms.general import General
from regard.attention.span import Span
from regard.models.convolutional.decoder import ConvolutionalLayer, ConvolutionalReader
from regard.models.convolutional.gated_convolution import GatedConvolution
from regard.models.input import TokenInput
from regard.models.recurrent.cells import LSTM
from regard.models.recurrent.decoder_memory import LearnedState
from regard.models.recurrent.decoders import LuongDecoder
from regard.models.recurrent.stack import Layers, Stack
from regard.models.transformer.average_attention import AverageAttention
from regard.models.transformer.norms import normalization

from .peers.asking import Case, Pair, Peer, check, looking, needs_peers, ways

WIDTH, QUERIES = 6, 4
LENGTH = torch.tensor([5, 2, 4])


class Given(Stack):
    """Cells whose hidden states are given."""

    hidden: Tensor

    def run(self, x: Tensor, length: Tensor, state: Layers) -> tuple[Tensor, Layers]:
        return self.hidden, state


def reader(mechanism: Mechanism) -> MultiHead:
    """One head that reads the states themselves."""
    return MultiHead(WIDTH, heads=1, mechanism=mechanism, project=())


def encoded(states: Tensor, embedded: Tensor, length: Tensor) -> Encoded:
    return Encoded(states, embedded, states[:, 0], Span.of(torch.arange(states.shape[1]) < length[:, None]))


def decoder(mechanism: Mechanism) -> LuongDecoder:
    cells = Given([LSTM(WIDTH, WIDTH)])
    embedding = TokenInput(nn.Parameter(torch.zeros(4, WIDTH))).configure(scale=1.0)
    return LuongDecoder(embedding, cells, AttentionReader(reader(mechanism)), LearnedState(WIDTH, cells))


def luong(ours: LuongDecoder, query: Tensor, source: Tensor, length: Tensor) -> dict[str, Tensor]:
    """The decoder as it is, but for its cells."""
    ours.cells.hidden = query
    memory = ours.prepare(encoded(source, source, length))
    tokens = torch.zeros(query.shape[:2], dtype=torch.int64)
    with looking(ours) as weights:
        features = ours(
            tokens, Span.without_padding(tokens), memory, ours.start(memory, torch.arange(len(query)))
        ).features
    return {"features": features, "weights": weights[0][:, 0]}


class Output(nn.Module):
    """OpenNMT's "mlp": additive attention whose output layer has a bias and no tanh, unlike Luong's."""

    def __init__(self, mechanism: Mechanism) -> None:
        super().__init__()
        self.reader = AttentionReader(reader(mechanism))
        self.combine = nn.Linear(2 * WIDTH, WIDTH)


def bahdanau(ours: Output, query: Tensor, source: Tensor, length: Tensor) -> dict[str, Tensor]:
    sentences, rows = encoded(source, source, length), RowMap.of(torch.arange(len(query)), len(query))
    memory = ours.reader.prepare(sentences)
    span = Span.of(torch.ones(query.shape[:2], dtype=torch.bool))
    with looking(ours) as weights:
        read = ours.reader(query, span, memory, rows, ours.reader.start(memory, rows)).output
    return {"features": ours.combine(torch.cat([read, query], 2)), "weights": weights[0][:, 0]}


def inputs() -> dict[str, Tensor]:
    return {"query": torch.randn(3, QUERIES, WIDTH), "source": torch.randn(3, 5, WIDTH), "length": LENGTH}


def general(ours: LuongDecoder) -> dict[str, Pair]:
    return {
        "linear_in.weight": Pair(ours.reader.attention.mechanism.weight, lambda p: p[0].T),
        "linear_out.weight": Pair(ours.combine.weight),
    }


def mlp(ours: Output) -> dict[str, Pair]:
    content = ours.reader.attention.mechanism.content
    return {
        "linear_context.weight": Pair(content.key_weight, lambda p: p[0]),
        "linear_query.weight": Pair(content.query_weight, lambda p: p[0]),
        "linear_query.bias": Pair(content.bias, lambda p: p[0]),
        "v.weight": Pair(content.vector),
        "linear_out.weight": Pair(ours.combine.weight),
        "linear_out.bias": Pair(ours.combine.bias),
    }


class GivenMixer(GatedConvolution):
    """A convolution whose output is given."""

    mixed: Tensor

    def forward(self, x: Tensor, span: Span, state: Tensor) -> Mixed:
        return Mixed(self.mixed, state)


def layer() -> ConvolutionalLayer:
    """The layer, but for its convolution; its maps are plain, and what was read is added as it is."""
    mixer = GivenMixer(WIDTH, kernel=1)
    made = ConvolutionalLayer(
        mixer, ConvolutionalReader(AttentionReader(reader(Dot(scale=1.0)))), width=WIDTH, embedding=WIDTH
    )
    made.query, made.context = nn.Linear(WIDTH, WIDTH), nn.Identity()
    return made


def convolved(
    ours: ConvolutionalLayer, embedded: Tensor, mixed: Tensor, states: Tensor, source: Tensor, length: Tensor
) -> dict[str, Tensor]:
    """Of ((z + c)·√½ + h)·√½ with h = 0 the context c, which ours multiplies by √S."""
    ours.mixer.mixed = mixed
    sentences, rows = encoded(states, source, length), RowMap.of(torch.arange(len(mixed)), len(mixed))
    memory = ours.reader.prepare(sentences)
    span = Span.of(torch.ones(mixed.shape[:2], dtype=torch.bool))
    state = (ours.mixer.start(len(mixed)), ours.reader.start(memory, rows))
    with looking(ours) as weights:
        out, _ = ours(torch.zeros_like(mixed), embedded, span, memory, rows, state)
    return {"context": (2 * out - mixed) / length[:, None, None].sqrt(), "weights": weights[0][:, 0]}


def columns() -> dict[str, Tensor]:
    return {"x": torch.randn(2, 7, WIDTH)}


def averaged(ours: AverageAttention, x: Tensor) -> dict[str, Tensor]:
    return {"output": ours(x, Span.of(torch.ones(x.shape[:2], dtype=torch.bool)), ours.start(len(x))).output}


def attention(kind: str, **parts: object) -> Case:
    options = dict(dim=WIDTH, attn_type=kind)
    return Case(name=f"GlobalAttention, {kind}", kind="GlobalAttention", options=options, inputs=inputs, **parts)


PEER = Peer(
    "opennmt",
    (
        attention(
            "dot",
            ours=lambda: decoder(Dot(scale=1.0)),
            pairs=lambda ours: {"linear_out.weight": Pair(ours.combine.weight)},
            run=luong,
        ),
        attention(
            "general",
            ours=lambda: decoder(General(heads=1, query_width=WIDTH, key_width=WIDTH)),
            pairs=general,
            run=luong,
        ),
        attention(
            "mlp",
            ours=lambda: Output(
                Additive(heads=1, query_width=WIDTH, key_width=WIDTH, learned=("query", "key", "bias"))
            ),
            pairs=mlp,
            run=bahdanau,
        ),
        Case(
            name="ConvMultiStepAttention",
            kind="ConvMultiStepAttention",
            options=dict(input_size=WIDTH),
            ours=layer,
            pairs=lambda ours: {
                "linear_in.weight": Pair(ours.query.weight),
                "linear_in.bias": Pair(ours.query.bias),
            },
            inputs=lambda: {
                "embedded": torch.randn(3, QUERIES, WIDTH),
                "mixed": torch.randn(3, QUERIES, WIDTH),
                "states": torch.randn(3, 5, WIDTH),
                "source": torch.randn(3, 5, WIDTH),
                "length": LENGTH,
            },
            run=convolved,
        ),
        Case(
            name="AverageAttention",
            kind="AverageAttention",
            options=dict(model_dim=WIDTH, dropout=0.0),
            ours=lambda: AverageAttention(WIDTH),
            pairs=lambda ours: {
                "gating_layer.weight": Pair(ours.gate.weight),
                "gating_layer.bias": Pair(ours.gate.bias),
            },
            inputs=columns,
            run=averaged,
            single=True,
        ),
        Case(
            name="RMSNorm",
            kind="RMSNorm",
            options=dict(hidden_size=WIDTH),
            ours=lambda: normalization("rms", WIDTH),
            pairs=lambda ours: {"weight": Pair(ours.weight)},
            inputs=columns,
            run=lambda ours, x: {"output": ours(x)},
            single=True,
        ),
    ),
)


@needs_peers
@pytest.mark.parametrize(("case", "dtype", "way"), ways(PEER))
def test_opennmt(case, dtype, way):
    check(PEER, case, dtype, way)
