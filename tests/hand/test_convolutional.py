"""ConvS2S: what it sees, what its scaling is for, and its parts in numbers that a pencil can check."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from regard.attention.contract import Encoded, Mixed, Reader, RowMap
from regard.attention.heads import AttentionReader, MultiHead
from regard.attention.mechanisms.dot import Dot
from regard.attention.observe import observe
from regard.attention.positions.absolute import LearnedPosition
from regard.attention.span import Span
from regard.errors import ConfigError
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.convolutional import build as build_convolutional
from regard.models.convolutional.decoder import ConvolutionalLayer, ConvolutionalReader
from regard.models.convolutional.encoder import CenteredConvolution, ConvolutionalEncoder
from regard.models.convolutional.gated_convolution import Convolution, GatedConvolution, scale_gradient
from regard.models.input import Embedded, TokenInput

TYPES = 11


def model(**options: object) -> nn.Module:
    torch.manual_seed(0)
    given = {"kind": "convolutional", "width": 16, "heads": 1, "dropout": 0.0, "longest": 64, **options}
    return build(ModelConfig(**given), source_types=TYPES, target_types=TYPES).double().eval()


def close(actual: Tensor, expected: object, tolerance: float = 1e-12) -> None:
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def tokens(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, TYPES, shape, generator=torch.Generator().manual_seed(seed))


# Weight normalization


def test_weight_normalization_by_hand() -> None:
    """v = (3, 4), ‖v‖ = 5, g = 10: W = (6, 8); x = (1, ½) gives 10."""
    convolution = Convolution(2, 1).double()
    with torch.no_grad():
        convolution.direction.copy_(torch.tensor([3.0, 4.0]).view(1, 2, 1))
        convolution.length.fill_(10.0)
    close(convolution.weight.flatten(), [6.0, 8.0])
    close(convolution(torch.tensor([[[1.0, 0.5]]], dtype=torch.float64)), [[[10.0]]])


@pytest.mark.parametrize("kernel", [1, 3])
def test_weight_normalization_is_that_of_torch(kernel: int) -> None:
    """Values and gradients of all three tensors, against torch's parametrization of ``nn.Conv1d``."""
    mine, theirs = Convolution(4, 6, kernel=kernel).double(), nn.Conv1d(4, 6, kernel).double()
    torch.nn.utils.parametrizations.weight_norm(theirs)
    weight = theirs.parametrizations.weight
    with torch.no_grad():
        mine.length.mul_(1.5)
        weight.original0.copy_(mine.length[:, None, None])
        weight.original1.copy_(mine.direction)
        theirs.bias.copy_(mine.bias)
    x = torch.randn(2, 7, 4, dtype=torch.float64)
    ours, reference = mine(x), theirs(x.transpose(1, 2)).transpose(1, 2)
    close(ours, reference.detach())
    ours.square().sum().backward()
    reference.square().sum().backward()
    close(mine.direction.grad, weight.original1.grad)
    close(mine.length.grad, weight.original0.grad.flatten())
    close(mine.bias.grad, theirs.bias.grad)


def test_how_long_a_direction_is_changes_nothing() -> None:
    """So a gradient step cannot lengthen W by accident: ∂L/∂v is orthogonal to v."""
    convolution, x = Convolution(3, 5, kernel=2).double(), torch.randn(1, 4, 3, dtype=torch.float64)
    before = convolution(x)
    before.square().sum().backward()
    along = (convolution.direction.grad * convolution.direction).sum((1, 2))
    close(along.detach(), torch.zeros(5))
    with torch.no_grad():
        convolution.direction.mul_(7.0)
    close(convolution(x).detach(), before.detach())


# What it sees


def reached(outputs: Tensor, inputs: Tensor, at: int) -> list[int]:
    """Columns of ``inputs`` that column ``at`` of ``outputs`` depends on."""
    (gradient,) = torch.autograd.grad(outputs[:, at].square().sum(), inputs, retain_graph=True)
    return gradient.abs().sum((0, 2)).nonzero().flatten().tolist()


@pytest.mark.parametrize("kernel, layers", [(1, 2), (3, 1), (3, 3), (5, 2)])
def test_the_encoder_sees_one_plus_layers_times_kernel_less_one(kernel: int, layers: int) -> None:
    """As many positions on the left as on the right, no more (Gehring et al. 2017, §3.2)."""
    encoder = model(encoder={"blocks": [[8, kernel, layers]]}).encoder
    embedded, valid = torch.randn(1, 21, 16, dtype=torch.float64, requires_grad=True), torch.ones(1, 21).bool()
    encoder.embedding = Given(embedded)
    states = encoder(tokens(1, 21), Span.of(valid)).states
    reach = layers * (kernel - 1) // 2
    assert reached(states, embedded, 10) == list(range(10 - reach, 10 + reach + 1))
    assert 2 * reach + 1 == 1 + layers * (kernel - 1)


@pytest.mark.parametrize("kernel, layers", [(1, 2), (2, 2), (3, 3)])
def test_the_decoder_sees_as_many_all_of_them_past(kernel: int, layers: int) -> None:
    parts = model(decoder={"blocks": [[8, kernel, layers]]})
    embedded = torch.randn(1, 16, 16, dtype=torch.float64, requires_grad=True)
    parts.decoder.embedding = Given(embedded)
    source = tokens(1, 5)
    target = tokens(1, 16)
    features = parts(source, Span.without_padding(source), target, Span.without_padding(target))
    assert reached(features, embedded, 12) == list(range(12 - layers * (kernel - 1), 13))


class Given(nn.Module):
    """Embeddings that are simply given."""

    def __init__(self, embedded: Tensor) -> None:
        super().__init__()
        self.embedded = embedded

    def forward(self, tokens: Tensor, span: Span) -> Embedded:
        return Embedded(self.embedded, span)


def test_a_padded_source_is_read_as_it_is_alone() -> None:
    """The width of the batch is nothing to a sentence: padding is zero before each convolution."""
    encoder = model(encoder={"blocks": [[8, 3, 2], [12, 5, 2]]}).encoder
    source, lengths = tokens(3, 9), [9, 4, 1]
    valid = torch.arange(9) < torch.tensor(lengths)[:, None]
    whole = encoder(source, Span.of(valid))
    for row, length in enumerate(lengths):
        alone = encoder(source[row : row + 1, :length], Span.of(torch.ones(1, length).bool()))
        close(whole.states[row, :length].detach(), alone.states[0].detach())
        close(whole.final[row].detach(), alone.final[0].detach())


# What the scaling is for


def growth(factor: float) -> list[float]:
    """Variance after each of 20 layers over that at the start; ``factor`` multiplies each sum in √½'s place."""
    torch.manual_seed(0)
    start = torch.randn(8, 40, 64) * 0.1  # as embeddings start
    x, valid, found = start, torch.ones(8, 40).bool(), []
    for _ in range(20):
        x = CenteredConvolution(64, 64, kernel=3)(x, valid) / math.sqrt(0.5) * factor
        found.append(float(x.detach().var() / start.var()))
    return found


def test_variance_stays_as_it_is_with_depth() -> None:
    """The point of √½ and of N(0, 4/(k c)): within a quarter over 20 layers, where plain sums grow a millionfold."""
    scaled, plain = growth(math.sqrt(0.5)), growth(1.0)
    assert all(0.8 < value < 1.25 for value in scaled)
    assert plain[-1] > 1e6


def test_how_weights_start() -> None:
    """N(0, 4(1−p)/(k c)) before a gate, N(0, (1−p)/c) behind dropout, N(0, 1/c) else; N(0, 0.1²) for embeddings."""
    torch.manual_seed(0)
    parts = build(ModelConfig(preset="convs2s-small", longest=256, dropout=0.25), source_types=400, target_types=400)
    expected = {
        parts.encoder.layers[1].convolution.weight: 4 * 0.75 / (3 * 256),
        parts.decoder.layers[2].mixer.convolution.weight: 4 * 0.75 / (3 * 256),
        parts.encoder.input_proj.weight: 0.75 / 256,
        parts.encoder.output_proj.weight: 1 / 256,
        parts.decoder.layers[0].query.weight: 1 / 256,
        parts.encoder.embedding.weight: 0.01,
        parts.encoder.embedding.position.table: 0.01,
    }
    for weight, variance in expected.items():
        assert float(weight.detach().var()) == pytest.approx(variance, rel=0.03)


def test_gradients_of_the_states_are_divided_by_twice_the_readers() -> None:
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    scaled = scale_gradient(x, 1 / 6)
    assert torch.equal(scaled, x)
    scaled.sum().backward()
    close(x.grad, [1 / 6] * 3)
    plain, divided = state_gradient(scaling=False), state_gradient(scaling=True)
    close(divided, plain / (2 * 3), 1e-10)


def state_gradient(*, scaling: bool) -> Tensor:
    """∂L/∂ states of an encoder that three layers read."""
    decoder = model(decoder={"blocks": [[8, 2, 3]]}).decoder
    states, embedded = (torch.randn(2, 5, 16, dtype=torch.float64, generator=seeded(at)) for at in (1, 2))
    states.requires_grad_()
    encoded = Encoded(states, embedded, states.mean(1), Span.of(torch.ones(2, 5).bool()))
    memory = decoder.prepare(encoded) if scaling else tuple(layer.reader.prepare(encoded) for layer in decoder.layers)
    inputs = tokens(2, 4)
    decoded = decoder(inputs, Span.without_padding(inputs), memory, decoder.start(memory, torch.arange(2)))
    decoded.features.square().sum().backward()
    assert states.grad is not None
    return states.grad


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# Reading


def test_the_reader_by_hand() -> None:
    """Two of three source columns count. d · z = ln 3 and 0: weights 3/4 and 1/4 of (z + e)√½, times √2."""
    reader = ConvolutionalReader(AttentionReader(MultiHead(2, heads=1, mechanism=Dot(scale=1.0), project=()))).double()
    states = torch.tensor([[[math.log(3), 0.0], [0.0, 5.0], [9.0, 9.0]]], dtype=torch.float64)
    embedded = torch.tensor([[[1.0, 4.0], [0.0, 3.0], [9.0, 9.0]]], dtype=torch.float64)
    valid = torch.tensor([[True, True, False]])
    memory = reader.prepare(Encoded(states, embedded, states[:, 0], Span.of(valid)))
    rows = RowMap.of(torch.zeros(1, dtype=torch.int64), 1)
    query = torch.tensor([[[1.0, 0.0]]], dtype=torch.float64)
    read = reader(query, Span.of(torch.ones(1, 1).bool()), memory, rows, reader.start(memory, rows))
    close(read.output, [[[0.75 * (math.log(3) + 1), 0.75 * 4 + 0.25 * 8]]])


class Asked(Reader):
    """Answers 2 whatever it is asked, and remembers the question."""

    width = 1

    def prepare(self, encoded: Encoded) -> tuple[()]:
        return ()

    def start(self, memory: tuple[()], rows: RowMap) -> tuple[()]:
        return ()

    def forward(self, query: Tensor, span: Span, memory: tuple[()], rows: RowMap, state: tuple[()]) -> Mixed:
        self.query = query
        return Mixed(torch.full_like(query, 2.0), state)


@pytest.mark.parametrize("widens", [False, True])
@torch.no_grad()
def test_a_decoder_layer_by_hand(widens: bool) -> None:
    """Width 1, kernel 1, h = 3, g = 5. A = 2 · 3, B = ln 3: z = 6 · ¾. d = (W_d z + b_d + g)√½ with W_d = 2, b_d = 1.

    ((z + W_c c + b_c)√½ + h)√½ with W_c = 4, b_c = ½ and c = 2: every sum of two is scaled, the last one, too. Where h
    is as wide as another layer, R h stands in its place, with R = [7] and a bias.
    """
    reader = Asked()
    mixer = GatedConvolution(1, kernel=1)
    layer = ConvolutionalLayer(mixer, reader, width=1, embedding=1).double()
    if widens:
        layer.residual = Convolution(1, 1).double()
        set_map(layer.residual, 7.0, 0.25)
    mixer.convolution.direction.copy_(torch.tensor([2.0, 1.0]).view(2, 1, 1))
    mixer.convolution.length.copy_(torch.tensor([2.0, 0.0]))
    mixer.convolution.bias.copy_(torch.tensor([0.0, math.log(3)], dtype=torch.float64))
    set_map(layer.query, 2.0, 1.0)
    set_map(layer.context, 4.0, 0.5)
    h, g = (torch.full((1, 1, 1), value, dtype=torch.float64) for value in (3.0, 5.0))
    rows = RowMap.of(torch.zeros(1, dtype=torch.int64), 1)
    after, _ = layer(h, g, Span.of(torch.ones(1, 1).bool()), (), rows, (mixer.start(1), ()))
    z, half = 6 * 0.75, math.sqrt(0.5)
    close(reader.query, [[[(2 * z + 1 + 5) * half]]])
    close(after, [[[((z + 4 * 2 + 0.5) * half + (7 * 3 + 0.25 if widens else 3)) * half]]])


def set_map(one: Convolution, weight: float, bias: float) -> None:
    one.direction.fill_(1.0)
    one.length.fill_(weight)
    one.bias.fill_(bias)


@torch.no_grad()
def test_an_encoder_layer_by_hand() -> None:
    """(A σ(B) + x)√½ in the middle of three columns, of which the kernel takes 1, 10 and 100 times."""
    layer = CenteredConvolution(1, 1, kernel=3).double()
    weight = torch.tensor([[[1.0, 10.0, 100.0]], [[1.0, 1.0, 1.0]]])
    layer.convolution.direction.copy_(weight)
    layer.convolution.length.copy_(torch.tensor([math.sqrt(10101), 0.0], dtype=torch.float64))
    layer.convolution.bias.copy_(torch.tensor([0.0, math.log(3)], dtype=torch.float64))
    x = torch.tensor([[[1.0], [2.0], [3.0]]], dtype=torch.float64)
    expected = [[[(a * 0.75 + each) * math.sqrt(0.5)] for a, each in ((210, 1), (321, 2), (32, 3))]]
    close(layer(x, torch.ones(1, 3).bool()), expected)


def test_attention_is_seen_by_name_in_every_layer() -> None:
    parts = model(decoder={"blocks": [[8, 2, 3]]})
    source, target = tokens(2, 5), tokens(2, 4)
    with observe(parts) as seen:
        parts(source, Span.without_padding(source), target, Span.without_padding(target))
    assert list(seen) == ["decoder.0.source", "decoder.1.source", "decoder.2.source"]
    close(seen["decoder.1.source"].sum(-1), torch.ones(2, 1, 4))


# From a config


def test_the_models_of_the_paper_have_its_sizes() -> None:
    """15 layers on both sides for WMT English-German; 4 and 3 of width 256 for IWSLT."""
    with torch.device("meta"):
        large = build(ModelConfig(preset="convs2s"), source_types=9, target_types=9)
        small = build(ModelConfig(preset="convs2s-small"), source_types=9, target_types=9)
    for side in (large.encoder.layers, [layer.mixer for layer in large.decoder.layers]):
        shapes = [tuple(layer.convolution.direction.shape) for layer in side]
        assert shapes[0] == (1024, 512, 3)
        assert shapes[9:] == [(2048, 512, 3), *[(2048, 1024, 3)] * 3, (4096, 1024, 1), (4096, 2048, 1)]
        assert len(shapes) == 15
    assert large.decoder.width == large.encoder.width == 768
    assert (len(small.encoder.layers), len(small.decoder.layers), small.encoder.width) == (4, 3, 256)


def test_what_a_kind_means_is_said_in_the_config() -> None:
    """One unscaled head on the states themselves and learned positions, unless the config says otherwise."""
    config = ModelConfig(kind="convolutional", cross_attention="general")
    assert config.decoder.position.kind == "learned"
    assert (config.decoder.cross_attention.kind, config.decoder.cross_attention.heads) == ("general", 1)
    half = ModelConfig(kind="convolutional", cross_attention={"scale": 0.5}).decoder.cross_attention
    assert (half.kind, half.heads, half.project, half.options) == ("dot", 1, (), {"scale": 0.5})
    plain = ModelConfig(kind="convolutional").decoder.cross_attention
    assert (plain.kind, plain.heads, plain.project, plain.options) == ("dot", 1, (), {"scale": 1.0})
    assert ModelConfig(**config.model_dump()) == config
    mixed = ModelConfig(encoder={"kind": "convolutional"})
    assert (mixed.encoder.position.kind, mixed.decoder.position.kind) == ("learned", "sinusoidal")


@pytest.mark.parametrize("attention", ["general", {"kind": "dot", "heads": 4}, {"kind": "local-p", "window": 2}])
def test_other_mechanisms_read_in_its_place(attention: object) -> None:
    parts = model(cross_attention=attention, layers=1)
    source, target = tokens(2, 5), tokens(2, 4)
    features = parts(source, Span.without_padding(source), target, Span.without_padding(target))
    changed = parts(source.flip(1), Span.without_padding(source), target, Span.without_padding(target))
    assert features.isfinite().all()
    assert not torch.allclose(features, changed)


@pytest.mark.parametrize(
    "options, where, why",
    [
        ({"encoder": {"blocks": [[8, 4, 1]]}}, "model.encoder.blocks", "must be odd, got 4"),
        ({"cross_attention": {"kind": "dot", "heads": 3}}, "model.decoder.cross_attention", "do not divide"),
    ],
)
def test_what_cannot_be_built_says_why(options: dict[str, object], where: str, why: str) -> None:
    with pytest.raises(ConfigError) as error:
        model(**options)
    assert error.value.where == where
    assert why in str(error.value.why)


def test_states_and_embeddings_of_two_widths_cannot_be_added() -> None:
    config = ModelConfig(decoder={"kind": "convolutional"}, width=8, heads=1, feed_forward=8)
    with pytest.raises(ConfigError, match="cannot read this encoder"):
        build_convolutional.decoder(config.decoder, TokenInput(nn.Parameter(torch.zeros(5, 8))), states=12, summary=12)


def test_an_encoder_of_its_own_embedding() -> None:
    """The parts by themselves, as an author would put them together."""
    embedding = TokenInput(nn.Parameter(torch.randn(5, 6))).configure(LearnedPosition(6, longest=9), scale=1.0)
    encoder = ConvolutionalEncoder(
        embedding, [CenteredConvolution(4, 4, kernel=3)], width=6, first_width=4, last_width=4
    )
    encoded = encoder(torch.tensor([[1, 2, 3]]), Span.of(torch.ones(1, 3).bool()))
    assert torch.equal(encoded.embedded[0], embedding.weight[[1, 2, 3]] + embedding.position.table[:3])
    torch.testing.assert_close(encoded.final, encoded.states.mean(1))
