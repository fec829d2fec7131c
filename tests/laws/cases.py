"""Every mechanism, mixer and decoder there is, in sizes that a law takes milliseconds over."""

from __future__ import annotations

from collections.abc import Callable

import torch
from hypothesis import HealthCheck, settings
from torch import Tensor, nn

from regard.attention.catalog import MECHANISMS as CATALOG
from regard.attention.catalog import build_mechanism
from regard.attention.contract import Decoder, Mechanism, Mixer, Reader
from regard.attention.heads import PROJECTIONS, AttentionReader, MultiHead, SelfAttention
from regard.attention.mask import Causal, Global, Mask, Padding, Segments, VisibleUntil, Window
from regard.attention.mechanisms.additive import Additive
from regard.attention.mechanisms.coverage import Coverage
from regard.attention.mechanisms.coverage_location_aware import CoverageLocationAware
from regard.attention.mechanisms.dot import Dot
from regard.attention.mechanisms.forward import Forward
from regard.attention.mechanisms.general import General
from regard.attention.mechanisms.hard import Hard
from regard.attention.mechanisms.local_monotonic import LocalMonotonic
from regard.attention.mechanisms.local_predictive import LocalPredictive
from regard.attention.mechanisms.location import Location
from regard.attention.mechanisms.location_aware import LocationAware
from regard.attention.mechanisms.location_aware_2d import LocationAware2D
from regard.attention.mechanisms.location_recurrent import LocationRecurrent
from regard.attention.mechanisms.multi_resolution import MultiResolution
from regard.attention.mechanisms.shaw import Shaw
from regard.attention.positions.absolute import LearnedPosition, NoPosition, Position, SinusoidalPosition
from regard.attention.positions.distance_bias import Alibi, EnergyBias, T5CausalBias, T5TwoSidedBias
from regard.attention.positions.forgetting import ForgetGate, ForgettingBias
from regard.attention.positions.rotary import Rotary
from regard.attention.span import Span
from regard.models.attention_config import OTHER_MIXERS
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.convolutional.decoder import ConvolutionalDecoder, ConvolutionalLayer, ConvolutionalReader
from regard.models.convolutional.gated_convolution import GatedConvolution
from regard.models.input import Embedded, TokenInput
from regard.models.recurrent.cells import GRU, LSTM, Cell, Elman
from regard.models.recurrent.decoder_memory import CopiedState, LearnedState
from regard.models.recurrent.decoders import BahdanauDecoder, FixedContextDecoder, InputFeedingDecoder, LuongDecoder
from regard.models.recurrent.stack import Stack
from regard.models.transformer.average_attention import AverageAttention
from regard.models.transformer.feed_forward import FeedForward
from regard.models.transformer.layer import TransformerLayer
from regard.models.transformer.mixers import place_mixer
from regard.models.transformer.norms import PostNorm, PreNorm
from regard.models.transformer.ssru import SimpleRecurrent
from regard.models.transformer.transformer import TransformerDecoder
from regard.testing import DecoderCase, MechanismCase, MixerCase
from regard.testing.law import ready

__all__ = [
    "DECODERS", "FEW", "HEADS", "MECHANISMS", "MIXERS", "TYPES", "WIDTH", "bold", "decoder_case", "mechanism_case",
    "mixer_case",
]  # fmt: skip

FEW = settings(max_examples=4, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
HEADS, WIDTH, TYPES, SUMMARY = 2, 8, 9, 5
PER_HEAD = WIDTH // HEADS
Sizes = dict[str, int]
VALUE = 3  # per head, where a law meets a mechanism by itself
SIZES: Sizes = {"heads": HEADS, "query_width": PER_HEAD, "key_width": PER_HEAD}
SINGLE: Sizes = {"heads": 1, "query_width": WIDTH, "key_width": WIDTH}


def location(sizes: Sizes) -> Mechanism:
    return LocationAware(**sizes, width=3, channels=2, reach=1)


def local(sizes: Sizes) -> Mechanism:
    return bold(LocalPredictive(General(**sizes), **sizes_of_query(sizes), window=2))


def sizes_of_query(sizes: Sizes) -> Sizes:
    return {"heads": sizes["heads"], "query_width": sizes["query_width"]}


def buckets(kind: type[EnergyBias], sizes: Sizes) -> EnergyBias:
    return bold(kind(sizes["heads"], buckets=8, distance=6))


def bold(module: nn.Module):
    """Parameters large enough that a law sees what they do."""
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module


MECHANISMS: dict[str, Callable[[Sizes], Mechanism]] = {
    "dot": lambda sizes: Dot(),
    "dot-unscaled": lambda sizes: Dot(scale=1.0),
    "general": lambda sizes: bold(General(**sizes)),
    "additive-projected": lambda sizes: bold(Additive(**sizes, learned=(), sharpening=2.0)),
    "additive-smooth": lambda sizes: bold(
        Additive(**sizes, width=3, learned=("query", "key", "bias"), normalize="sigmoid")
    ),
    "hard-general": lambda sizes: bold(Hard(General(**sizes), temperature=0.5)),
    "local-m-general": lambda sizes: bold(LocalMonotonic(General(**sizes), window=1)),
    "location-short": lambda sizes: bold(Location(**sizes_of_query(sizes), longest=2)),
    "local-p": local,
    "local-p-dot": lambda sizes: bold(LocalPredictive(Dot(scale=1.0), **sizes_of_query(sizes), window=1.5)),
    "location-aware": location,
    "location-aware-sharp": lambda sizes: LocationAware(**sizes, width=2, channels=1, reach=2, sharpening=2.0),
    "location-aware-smooth": lambda sizes: bold(
        LocationAware(**sizes, learned=(), channels=1, reach=1, normalize="sigmoid", initial="first")
    ),
    "location-aware-2d": lambda sizes: bold(LocationAware2D(**sizes, width=3, channels=2, reach=1, past=2)),
    "location-recurrent": lambda sizes: bold(LocationRecurrent(**sizes, width=3, channels=2, reach=1)),
    "multi-resolution": lambda sizes: bold(MultiResolution(**sizes, learned=(), channels=2, reach=2)),
    "coverage": lambda sizes: bold(Coverage(**sizes, width=3)),
    "coverage-location-aware": lambda sizes: bold(CoverageLocationAware(**sizes, width=3, channels=2, reach=1)),
    "forward": lambda sizes: bold(Forward(**sizes, width=3, channels=2, reach=1)),
}

MECHANISMS |= {
    "dot-alibi": lambda sizes: Dot(bias=Alibi()),
    "dot-t5": lambda sizes: Dot(bias=buckets(T5CausalBias, sizes)),
    "dot-t5-two-sided": lambda sizes: Dot(scale=1.0, bias=buckets(T5TwoSidedBias, sizes)),
    "shaw": lambda sizes: bold(Shaw(**sizes_of_query(sizes), value_width=VALUE, clip=2)),
    "shaw-keys": lambda sizes: bold(Shaw(**sizes_of_query(sizes), clip=1, values=False)),
}

for kind in CATALOG:  # a new line there is under the laws, in its default form, from the first day
    MECHANISMS.setdefault(kind, lambda sizes, kind=kind: build_mechanism(kind, {}, where=kind, sizes=sizes))


def heads(mechanism: Mechanism, *, key_heads: int | None = None, bias: bool = False, **more: bool) -> MultiHead:
    biased = PROJECTIONS if bias else ()
    return MultiHead(WIDTH, heads=HEADS, mechanism=mechanism, key_heads=key_heads, bias=biased, **more)


def attention(
    mask: Mask, *, kind: str = "dot", key_heads: int | None = None, rotary: Rotary | None = None
) -> SelfAttention:
    return SelfAttention(heads(MECHANISMS[kind](SIZES), key_heads=key_heads), mask=mask, rotary=rotary)


def shaw(mask: Mask) -> SelfAttention:
    return SelfAttention(heads(bold(Shaw(**sizes_of_query(SIZES), clip=2))), mask=mask)


def forgetting(mask: Mask, *, key_heads: int | None = None) -> SelfAttention:
    gate = bold(ForgetGate(WIDTH, HEADS))
    return SelfAttention(heads(Dot(bias=ForgettingBias()), key_heads=key_heads), mask=mask, forget=gate)


PACKED = Causal() & Padding() & Segments()  # the mask of documents packed into a row

MIXERS = {
    "self-attention": lambda: attention(Causal() & Padding()),
    "self-attention-general": lambda: attention(Causal() & Padding(), kind="general"),
    "self-attention-multi-query": lambda: attention(Causal() & Padding(), key_heads=1),
    "self-attention-window": lambda: attention(Causal() & Padding() & Window(2)),
    "self-attention-rotary": lambda: attention(Causal() & Padding(), rotary=Rotary(PER_HEAD)),
    "self-attention-rotary-half": lambda: attention(
        Causal() & Padding(), key_heads=1, rotary=Rotary(PER_HEAD, layout="half", base=10.0)
    ),
    "self-attention-alibi": lambda: attention(Causal() & Padding(), kind="dot-alibi"),
    "self-attention-t5": lambda: attention(Causal() & Padding(), kind="dot-t5"),
    "self-attention-shaw": lambda: shaw(Causal() & Padding()),
    "self-attention-forgetting": lambda: forgetting(Causal() & Padding(), key_heads=1),
    "self-attention-forgetting-window": lambda: forgetting(Causal() & Padding() & Window(2)),
    "packed-self-attention-forgetting": lambda: forgetting(PACKED),
    "self-attention-t5-encoder": lambda: attention(Padding(), kind="dot-t5-two-sided"),
    "self-attention-shaw-encoder": lambda: shaw(Padding()),
    "packed-self-attention": lambda: attention(PACKED, rotary=Rotary(PER_HEAD)),
    "packed-self-attention-window": lambda: attention(PACKED & Window(1)),
    "packed-self-attention-encoder": lambda: attention(Padding() & Segments() & Window(1)),
    "self-attention-global": lambda: attention(Causal() & Padding() & (Window(0) | Global())),
    "self-attention-visible-until": lambda: attention(Causal() & VisibleUntil()),
    "self-attention-normalized-gated": lambda: SelfAttention(
        heads(Dot(), key_heads=1, normalize=True, normalize_context=True, gated=True),
        mask=Causal() & Padding(),
        rotary=Rotary(PER_HEAD),
    ),
    "self-attention-sinks": lambda: attention(Causal() & Padding() & Window(1, sinks=2), rotary=Rotary(PER_HEAD)),
    "packed-self-attention-sinks": lambda: attention(PACKED & Window(1, sinks=1)),
    "self-attention-encoder": lambda: attention(Padding()),
    "self-attention-local-encoder": lambda: attention(Padding(), kind="local-p"),
    "self-attention-location-aware-encoder": lambda: attention(Padding(), kind="location-aware"),
    "gated-convolution": lambda: GatedConvolution(WIDTH, kernel=3),
    "gated-convolution-pointwise": lambda: GatedConvolution(WIDTH, kernel=1),
    "average-feed-forward": lambda: AverageAttention(WIDTH, inner=5),
    "packed-hashed": lambda: other_mixer("hashed", buckets=4, chunk=2, rounds=3),
    "packed-hashed-rotary": lambda: other_mixer("hashed", buckets=1, chunk=2, rotary=Rotary(PER_HEAD)),
    "hashed-chunks": lambda: other_mixer("hashed", buckets=[2, 2], chunk=2, rounds=2, nearest=False),
    "hashed-encoder": lambda: other_mixer("hashed", causal=False, buckets=4, chunk=2, rounds=3),
    "hashed-across-encoder": lambda: other_mixer("hashed", causal=False, buckets=4, chunk=2, across=True),
}


REMEMBERING = {"segment": 2, "memory": 2, "compressed": 2, "rate": 2}  # so small that laws go beyond them


def compressive(compression: str, **options: object) -> Mixer:
    return bold(other_mixer("compressive", compression=compression, **REMEMBERING | options))


def other_mixer(kind: str, *, causal: bool = True, rotary: Rotary | None = None, **options: object) -> Mixer:
    """Mixer of the table, as a stack of these cases would place it."""
    placed = {"width": WIDTH, "heads": 2, "causal": causal, "dropout": 0.0, "rotary": rotary}
    return place_mixer(kind, options, placed, where="mixer")


MIXERS |= {
    "linear-encoder": lambda: other_mixer("linear", causal=False),
    "linear-chunks": lambda: other_mixer("linear", chunk=3),
    "mamba2-chunks": lambda: other_mixer("mamba2", chunk=3, kernel=2),
    "global-local-encoder": lambda: other_mixer("global-local", causal=False, radius=1),
    "global-local-dilated": lambda: other_mixer("global-local", causal=False, radius=1, dilation=2, labels=2),
    "global-local-random": lambda: other_mixer("global-local", causal=False, radius=1, random=1, separate=False),
    "packed-global-local": lambda: other_mixer("global-local", radius=1),
    "global-local-sinks": lambda: other_mixer("global-local", radius=1, first=2),
    "segment-memory-small": lambda: bold(other_mixer("segment-memory", segment=2, memory=3)),
    "segment-memory-rotary": lambda: bold(other_mixer("segment-memory", rotary=Rotary(PER_HEAD), segment=2, memory=3)),
    "compressive-rotary": lambda: compressive("most-used", rotary=Rotary(PER_HEAD)),
    "segment-memory-none": lambda: bold(other_mixer("segment-memory", segment=3, memory=0)),
    "compressive-small": lambda: compressive("conv"),
    "compressive-restoring": lambda: compressive("dilated", reconstruction="autoencoding"),
    "compressive-most-used": lambda: compressive("most-used"),
    "compressive-max": lambda: compressive("max", memory=0),
}

for kind in OTHER_MIXERS:
    MIXERS.setdefault(kind, lambda kind=kind: other_mixer(kind))


def reader(kind: str) -> Reader:
    return AttentionReader(heads(MECHANISMS[kind](SIZES)))


def single_reader(kind: str) -> Reader:
    """One head over the states themselves, as Luong and Chorowski read them."""
    return AttentionReader(MultiHead(WIDTH, heads=1, mechanism=MECHANISMS[kind](SINGLE), project=()))


def embedding(position: Position) -> TokenInput:
    return TokenInput(nn.Parameter(torch.randn(TYPES, WIDTH))).configure(position)


class WaitK(TokenInput):
    """Tokens that may see ``k`` positions of the source more than precede them (Ma et al. 2019)."""

    k = 1

    def forward(self, inputs: Tensor, span: Span) -> Embedded:
        embedded = super().forward(inputs, span)
        limit = span.position + self.k
        if isinstance(span.visible_until, Tensor):  # whoever reads less than is heard
            limit = torch.minimum(limit, span.visible_until)
        return embedded._replace(span=span._replace(visible_until=limit))


def wait_k(read: type[AttentionReader] = AttentionReader) -> TransformerDecoder:
    """A decoder that starts before the source has ended."""
    decoder = transformer()
    decoder.embedding = WaitK(decoder.embedding.weight)
    for layer in decoder.stack:
        layer.reader = read(heads(Dot()), mask=Padding() & VisibleUntil())
    return decoder


def transformer(
    *,
    norm: str = "post",
    position: str = "sinusoidal",
    read: str = "dot",
    mixer: Callable[[], Mixer] = lambda: attention(Causal() & Padding()),
) -> TransformerDecoder:
    frame = {"post": PostNorm, "pre": PreNorm}[norm]
    positions: dict[str, Position] = {
        "sinusoidal": SinusoidalPosition(WIDTH, table=4),
        "learned": LearnedPosition(WIDTH, longest=16),
        "none": NoPosition(),
    }
    layers = [
        TransformerLayer(
            mixer(),
            reader(read),
            FeedForward(WIDTH, 2 * WIDTH),
            tuple(frame(WIDTH, dropout=0.0) for _ in range(3)),
        )
        for _ in range(2)
    ]
    last = nn.LayerNorm(WIDTH) if norm == "pre" else nn.Identity()
    return TransformerDecoder(embedding(positions[position]), layers, last)


CELLS: dict[str, Callable[[int, int], Cell]] = {
    "elman": Elman,
    "lstm": LSTM,
    "gru": GRU,
    "gru-renews": lambda in_width, width: GRU(in_width, width, update="renews"),
    "gru-before": lambda in_width, width: GRU(in_width, width, reset="before"),
    "gru-before-renews": lambda in_width, width: GRU(in_width, width, reset="before", update="renews"),
}


def words() -> TokenInput:
    return TokenInput(nn.Parameter(torch.randn(TYPES, 5)))


def stack(cell: str, in_width: int, layers: int) -> Stack:
    return Stack([CELLS[cell](in_width if number == 0 else WIDTH, WIDTH) for number in range(layers)])


def luong(kind: str, *, layers: int = 2, cell: str = "lstm") -> InputFeedingDecoder:
    cells = stack(cell, 5 + WIDTH, layers)
    return InputFeedingDecoder(words(), cells, single_reader(kind), LearnedState(SUMMARY, cells))


def luong_unfed(kind: str, *, layers: int = 2, cell: str = "lstm") -> LuongDecoder:
    cells = stack(cell, 5, layers)
    return LuongDecoder(words(), cells, single_reader(kind), LearnedState(SUMMARY, cells))


def luong_copying() -> InputFeedingDecoder:
    """Starts from the whole summary as it is."""
    cells = Stack([GRU(5 + SUMMARY, SUMMARY)])
    attention = MultiHead(SUMMARY, heads=1, mechanism=Dot(), memory_width=WIDTH)
    return InputFeedingDecoder(words(), cells, AttentionReader(attention), CopiedState(SUMMARY, cells))


def bahdanau(kind: str, *, layers: int = 1, cell: str = "gru-before-renews") -> BahdanauDecoder:
    cells = stack(cell, 5 + WIDTH, layers)
    return BahdanauDecoder(words(), cells, single_reader(kind), LearnedState(SUMMARY, cells), readout=WIDTH)


def unread(cell: str, *, layers: int = 1) -> FixedContextDecoder:
    cells = stack(cell, 5 + WIDTH, layers)
    return FixedContextDecoder(words(), cells, LearnedState(SUMMARY, cells), summary=SUMMARY)


def convolutional(*blocks: tuple[int, int], read: str = "dot-unscaled") -> ConvolutionalDecoder:
    """``blocks``: width and kernel of each layer."""
    layers, in_width = [], blocks[0][0]
    for width, kernel in blocks:
        mixer = GatedConvolution(width, kernel=kernel, in_width=in_width)
        layers.append(
            ConvolutionalLayer(
                mixer, ConvolutionalReader(single_reader(read)), width=width, embedding=WIDTH, in_width=in_width
            )
        )
        in_width = width
    position = LearnedPosition(WIDTH, longest=16)
    return ConvolutionalDecoder(embedding(position), layers, width=WIDTH, first_width=blocks[0][0], last_width=in_width)


def built(**settings: object) -> Decoder:
    """The decoder of a config, with whatever its layers share."""
    sizes = dict(encoder_layers=1, decoder_layers=2, width=WIDTH, heads=HEADS, feed_forward=6)
    decoder = build(ModelConfig(**sizes, **settings), source_types=TYPES, target_types=TYPES).decoder
    for module in decoder.modules():
        if isinstance(module, EnergyBias):  # T5's table starts at 0, which says nothing
            bold(module)
    return decoder


DECODERS = {
    "transformer": lambda: transformer(),
    "transformer-pre-learned": lambda: transformer(norm="pre", position="learned"),
    "transformer-multi-query-unplaced": lambda: transformer(
        position="none", mixer=lambda: attention(Causal() & Padding(), key_heads=1)
    ),
    "transformer-wait-k": lambda: wait_k(),
    "transformer-location-aware": lambda: transformer(read="location-aware"),
    "transformer-local-p": lambda: transformer(read="local-p"),
    "transformer-rotary": lambda: built(position="rotary", normalization="rms", norm="pre", activation="swiglu"),
    "transformer-rotary-half": lambda: built(position={"kind": "rotary", "layout": "half"}, key_heads=1),
    "transformer-newer-parts": lambda: built(
        position="rotary", norm="pre", activation="relu2", qk_norm=True, attention_gate=True, embedding_residual=True
    ),
    "transformer-value-embedding": lambda: built(value_embedding=True, key_heads=1, norm="pre"),
    "transformer-forgetting": lambda: built(encoder={"position": "rotary"}, decoder={"position": "forgetting"}),
    "transformer-alibi": lambda: built(position="alibi", normalization="batch", activation="gelu"),
    "transformer-t5": lambda: built(position={"kind": "t5", "buckets": 4, "distance": 5}, activation="geglu"),
    "transformer-shaw": lambda: built(position={"kind": "shaw", "clip": 2}, normalization="none", activation="glu"),
    "luong-local-p": lambda: luong("local-p"),
    "luong-local-m": lambda: luong("local-m-general", layers=1),
    "luong-location-aware": lambda: luong("location-aware", layers=1),
    "luong-location-recurrent": lambda: luong("location-recurrent", layers=1),
    "luong-forward": lambda: luong("forward", layers=1),
    "luong-dot": lambda: luong("dot-unscaled"),
    "luong-copying": lambda: luong_copying(),
    "luong-unfed": lambda: luong_unfed("general"),
    "luong-unfed-local-m": lambda: luong_unfed("local-m-general", cell="elman"),
    "luong-unfed-location-aware": lambda: luong_unfed("location-aware", layers=1, cell="gru-before"),
    "bahdanau": lambda: bahdanau("additive"),
    "bahdanau-lstm": lambda: bahdanau("local-m-general", layers=2, cell="lstm"),
    "unread-lstm": lambda: unread("lstm", layers=2),
    "unread-gru-before": lambda: unread("gru-before"),
    "convolutional": lambda: convolutional((WIDTH, 3), (WIDTH, 3)),
    "convolutional-wide": lambda: convolutional((WIDTH, 4), (WIDTH, 4)),
    "convolutional-widening": lambda: convolutional((5, 2), (7, 1)),
    "convolutional-location-aware": lambda: convolutional((WIDTH, 2), read="location-aware"),
    "transformer-ssru": lambda: transformer(mixer=lambda: SimpleRecurrent(WIDTH)),
    "transformer-average": lambda: transformer(mixer=lambda: AverageAttention(WIDTH)),
}


def mechanism_case(name: str) -> MechanismCase:
    torch.manual_seed(0)
    return MechanismCase(mechanism=ready(MECHANISMS[name](SIZES)), **SIZES, value_width=VALUE)


def mixer_case(name: str) -> MixerCase:
    torch.manual_seed(0)
    return MixerCase(mixer=ready(MIXERS[name]()), width=WIDTH, packs=name.startswith("packed"))


def packing_case(kind: str) -> MixerCase:
    """Causal self-attention of documents packed into a row, by that mechanism."""
    torch.manual_seed(0)
    mixer = shaw(PACKED) if kind == "shaw" else attention(PACKED, kind=kind)
    return MixerCase(mixer=ready(mixer), width=WIDTH, packs=True)


def decoder_case(name: str) -> DecoderCase:
    torch.manual_seed(0)
    return DecoderCase(decoder=ready(DECODERS[name]()), width=WIDTH, summary=SUMMARY, types=TYPES)
