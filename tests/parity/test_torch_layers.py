"""Our layers against torch's own, with copied weights: values and gradients, in single and in double precision."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.attention.contract import Encoded, RowMap
from regard.attention.heads import PROJECTIONS, AttentionReader, MultiHead, SelfAttention
from regard.attention.kernel import kernel
from regard.attention.mask import Causal, Padding
from regard.attention.mechanisms.dot import Dot
from regard.attention.span import Span
from regard.models.transformer.feed_forward import FeedForward
from regard.models.transformer.layer import TransformerLayer
from regard.models.transformer.norms import PostNorm, PreNorm

from ..tolerances import Law, Within, within

WIDTH, HEADS, INNER = 16, 4, 24
FRAMES = {"post": PostNorm, "pre": PreNorm}
TARGET = torch.arange(5) < torch.tensor([[5], [3], [4]])
SOURCE = torch.arange(6) < torch.tensor([[2], [6], [4]])


def heads() -> MultiHead:
    return MultiHead(WIDTH, heads=HEADS, mechanism=Dot(), bias=PROJECTIONS)


def copy_attention(ours: MultiHead, theirs: nn.MultiheadAttention) -> None:
    weights, biases = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
    for linear, weight, bias in zip((ours.query, ours.key, ours.value), weights, biases, strict=True):
        linear.weight.copy_(weight)
        linear.bias.copy_(bias)
    ours.output.load_state_dict(theirs.out_proj.state_dict())


def copy_feed_forward(ours: FeedForward, theirs: nn.Module) -> None:
    ours.up.load_state_dict(theirs.linear1.state_dict())
    ours.down.load_state_dict(theirs.linear2.state_dict())


def encoder_pair(norm: str) -> tuple[TransformerLayer, nn.TransformerEncoderLayer]:
    theirs = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, 0.0, batch_first=True, norm_first=norm == "pre")
    frames = tuple(FRAMES[norm](WIDTH, dropout=0.0) for _ in range(2))
    ours = TransformerLayer(SelfAttention(heads(), mask=Padding()), None, FeedForward(WIDTH, INNER), frames)
    scramble(theirs)
    with torch.no_grad():
        copy_attention(ours.mixer.attention, theirs.self_attn)
        copy_feed_forward(ours.feed_forward, theirs)
        ours.around_mixer.norm.load_state_dict(theirs.norm1.state_dict())
        ours.around_feed_forward.norm.load_state_dict(theirs.norm2.state_dict())
    return ours, theirs


def decoder_pair(norm: str) -> tuple[TransformerLayer, nn.TransformerDecoderLayer]:
    theirs = nn.TransformerDecoderLayer(WIDTH, HEADS, INNER, 0.0, batch_first=True, norm_first=norm == "pre")
    frames = tuple(FRAMES[norm](WIDTH, dropout=0.0) for _ in range(3))
    mixer = SelfAttention(heads(), mask=Causal() & Padding())
    ours = TransformerLayer(mixer, AttentionReader(heads()), FeedForward(WIDTH, INNER), frames)
    scramble(theirs)
    with torch.no_grad():
        copy_attention(ours.mixer.attention, theirs.self_attn)
        copy_attention(ours.reader.attention, theirs.multihead_attn)
        copy_feed_forward(ours.feed_forward, theirs)
        ours.around_mixer.norm.load_state_dict(theirs.norm1.state_dict())
        ours.around_reader.norm.load_state_dict(theirs.norm2.state_dict())
        ours.around_feed_forward.norm.load_state_dict(theirs.norm3.state_dict())
    return ours, theirs


def scramble(module: nn.Module) -> None:
    """No parameter stays at 0 or 1, where a swap would not show."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.4)


def run_ours(layer: TransformerLayer, x: Tensor, source: Tensor) -> Tensor:
    span, rows = Span.of(TARGET), RowMap.of(torch.arange(3), 3)
    memory = layer.reader.prepare(Encoded(source, source, source[:, 0], Span.of(SOURCE)))
    state = layer.start(3, memory, rows)
    return layer(x, span, memory, rows, state)[0]


def compare(ours: Tensor, theirs: Tensor, valid: Tensor, inputs: list[Tensor], pairs) -> None:
    """Values where they are valid; gradients of the inputs and of the copied parameters ``pairs``."""
    ours, theirs = ours * valid[..., None], theirs * valid[..., None]
    torch.testing.assert_close(ours, theirs, **near())
    one = torch.autograd.grad(ours.square().sum(), [*inputs, *(mine for mine, _ in pairs)])
    two = torch.autograd.grad(theirs.square().sum(), [*inputs, *(its for _, its in pairs)])
    for actual, expected in zip(one, two, strict=True):
        torch.testing.assert_close(actual, expected, **near("gradient"))


def near(law: Law = "value") -> Within:
    """In double precision a gradient may be no farther off than a value: 1e-10."""
    dtype = torch.get_default_dtype()
    return within(dtype, path="foreign", law="value" if dtype == torch.float64 else law)


@pytest.fixture(params=[torch.float32, torch.float64], ids=str, autouse=True)
def dtype(request):
    """What parameters and random numbers are made in."""
    torch.set_default_dtype(request.param)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(params=["reference", "softmax", "sdpa"], autouse=True)
def path(request):
    with kernel(request.param):
        yield


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_encoder_layer(norm):
    ours, theirs = encoder_pair(norm)
    x = torch.randn(3, 6, WIDTH, requires_grad=True)
    expected = theirs(x, src_key_padding_mask=~SOURCE)
    pairs = [
        (ours.mixer.attention.output.weight, theirs.self_attn.out_proj.weight),
        (ours.feed_forward.up.weight, theirs.linear1.weight),
        (ours.feed_forward.down.bias, theirs.linear2.bias),
        (ours.around_mixer.norm.weight, theirs.norm1.weight),
        (ours.around_feed_forward.norm.bias, theirs.norm2.bias),
    ]
    compare(ours(x, Span.of(SOURCE))[0], expected, SOURCE, [x], pairs)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_decoder_layer(norm):
    ours, theirs = decoder_pair(norm)
    x, source = (torch.randn(3, n, WIDTH, requires_grad=True) for n in (5, 6))
    expected = theirs(
        x,
        source,
        tgt_mask=torch.ones(5, 5).triu(1).bool(),
        tgt_key_padding_mask=~TARGET,
        memory_key_padding_mask=~SOURCE,
    )
    pairs = [
        (ours.mixer.attention.output.weight, theirs.self_attn.out_proj.weight),
        (ours.reader.attention.output.bias, theirs.multihead_attn.out_proj.bias),
        (ours.feed_forward.up.bias, theirs.linear1.bias),
        (ours.around_mixer.norm.bias, theirs.norm1.bias),
        (ours.around_reader.norm.weight, theirs.norm2.weight),
        (ours.around_feed_forward.norm.weight, theirs.norm3.weight),
    ]
    compare(run_ours(ours, x, source), expected, TARGET, [x, source], pairs)


def test_projection_gradients_are_torchs():
    ours, theirs = encoder_pair("post")
    x = torch.randn(3, 6, WIDTH)
    attention = ours.mixer.attention
    linears = [attention.query, attention.key, attention.value]
    (ours(x, Span.of(SOURCE))[0] * SOURCE[..., None]).square().sum().backward()
    (theirs(x, src_key_padding_mask=~SOURCE) * SOURCE[..., None]).square().sum().backward()
    stacked = torch.cat([linear.weight.grad for linear in linears])
    expected = theirs.self_attn.in_proj_weight.grad
    torch.testing.assert_close(stacked, expected, **near("gradient"))


def test_weights_of_every_head_are_torchs():
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    ours = heads()
    scramble(theirs)
    with torch.no_grad():
        copy_attention(ours, theirs)
    x, source = torch.randn(3, 5, WIDTH), torch.randn(3, 6, WIDTH)
    key, value = ours.keys_values(source)
    bound = Padding().bind(Span.of(TARGET), Span.of(SOURCE))
    weights = ours.mechanism(ours.queries(x), key, value, bound, need_weights=True).weights
    context = ours(ours.queries(x), key, value, bound).output
    expected, expected_weights = theirs(
        x, source, source, key_padding_mask=~SOURCE, need_weights=True, average_attn_weights=False
    )
    torch.testing.assert_close(weights, expected_weights, **near())
    torch.testing.assert_close(context, expected, **near())
