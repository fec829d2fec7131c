"""ESPnet's attentions (nets/pytorch_backend/rnn/attentions.py) over several steps with padding."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

import pytest
import torch
from torch import Tensor, nn

from regard.attention.contract import Encoded, Mechanism, RowMap
from regard.attention.heads import AttentionReader, MultiHead
from regard.attention.mechanisms.additive import Additive
from regard.attention.mechanisms.coverage import Coverage
from regard.attention.mechanisms.coverage_location_aware import CoverageLocationAware
from regard.attention.mechanisms.forward import Forward
from regard.attention.mechanisms.location_aware import LocationAware
from regard.attention.mechanisms.location_aware_2d import LocationAware2D
from regard.attention.mechanisms.location_recurrent import LocationRecurrent
from regard.attention.mechanisms.multi_resolution import MultiResolution
from regard.attention.mechanisms.tanh_dot import TanhDot
from regard.attention.span import Span

from .peers.asking import Case, Pair, Peer, Unseen, check, looking, needs_peers, ways

SOURCE, QUERY, INNER, HEADS, VALUE, CHANNELS, REACH = 7, 8, 5, 3, 4, 2, 3  # eprojs, dunits, adim, …, aconv_filts
OWN = dict(query_width=QUERY, key_width=SOURCE, width=INNER, learned=("query", "key", "bias"))
FILTERS = dict(channels=CHANNELS, reach=REACH)
ONE = dict(eprojs=SOURCE, dunits=QUERY, att_dim=INNER)
CONVOLVED = dict(aconv_chans=CHANNELS, aconv_filts=REACH)
MANY = dict(eprojs=SOURCE, dunits=QUERY, aheads=HEADS, att_dim_k=INNER, att_dim_v=VALUE)


def inputs() -> dict[str, Tensor]:
    return {"query": torch.randn(3, 4, QUERY), "source": torch.randn(3, 6, SOURCE), "length": torch.tensor([6, 3, 5])}


def run(ours: AttentionReader, query: Tensor, source: Tensor, length: Tensor) -> dict[str, Tensor]:
    """As a decoder asks its reader, all queries at once."""
    valid = torch.arange(source.shape[1]) < length[:, None]
    rows = RowMap.of(torch.arange(len(query)), len(query))
    memory = ours.prepare(Encoded(source, source, source[:, 0], Span.of(valid)))
    asking = Span.of(torch.ones(query.shape[:2], dtype=torch.bool))
    with looking(ours) as weights:
        read = ours(query, asking, memory, rows, ours.start(memory, rows))
    return {"context": read.output, "weights": weights[0]}


def one(mechanism: Mechanism, *, project: Collection[str] = (), key_width: int | None = None) -> AttentionReader:
    """A single head that reads the encoder's states themselves."""
    heads = MultiHead(
        QUERY,
        heads=1,
        mechanism=mechanism,
        memory_width=SOURCE,
        project=project,
        bias=project,
        key_width=key_width,
    )
    return AttentionReader(heads)


def many(mechanism: Mechanism) -> AttentionReader:
    heads = MultiHead(
        QUERY,
        heads=HEADS,
        mechanism=mechanism,
        key_width=INNER,
        value_width=VALUE,
        memory_width=SOURCE,
        bias=("query",),
    )
    return AttentionReader(heads)


def of_many(**options: object) -> dict[str, object]:
    return dict(heads=HEADS, query_width=INNER, key_width=INNER, learned=(), **options)


def single_pairs(ours: AttentionReader) -> dict[str, Pair | Unseen]:
    mechanism = ours.attention.mechanism
    if isinstance(mechanism, TanhDot):
        sides = {"mlp_dec": ours.attention.query, "mlp_enc": ours.attention.key}
        return {f"{name}.{kind}": Pair(getattr(x, kind)) for name, x in sides.items() for kind in ("weight", "bias")}
    content = mechanism.content
    pairs: dict[str, Pair | Unseen] = {
        "mlp_enc.weight": Pair(content.key_weight, lambda p: p[0]),
        "mlp_enc.bias": Pair(content.bias, lambda p: p[0]),
        "mlp_dec.weight": Pair(content.query_weight, lambda p: p[0]),
        "gvec.weight": Pair(content.vector),
        "gvec.bias": Unseen(),  # softmax does not see what all energies have in common
    }
    if isinstance(mechanism, Coverage):
        pairs["mlp_enc.bias"] = Pair(content.bias, lambda p: p[0], share=0.25)
        pairs["wvec.bias"] = Pair(content.bias, lambda p: p[0], share=0.75)
        pairs["wvec.weight"] = Pair(mechanism.coverage_weight, lambda p: p[0, :, None])
    if hasattr(mechanism, "location_weight"):
        pairs["mlp_att.weight"] = Pair(mechanism.location_weight, lambda p: p[0])
    if hasattr(mechanism, "filters"):
        pairs["loc_conv.weight"] = Pair(mechanism.filters.weight, lambda p: p[:, None])
    if isinstance(mechanism, LocationRecurrent):
        pairs["att_lstm.weight_ih"] = Pair(mechanism.input_weight, lambda p: p[0])
        pairs["att_lstm.weight_hh"] = Pair(mechanism.hidden_weight, lambda p: p[0])
    return pairs


def head(parameter: nn.Parameter, n: int) -> Pair:
    """Head n's part of what stacks the heads in its rows."""
    return Pair(parameter, lambda p: p.unflatten(0, (HEADS, -1))[n])


def many_pairs(ours: AttentionReader) -> dict[str, Pair | Unseen]:
    heads = ours.attention
    return {"mlp_o.weight": Pair(heads.output.weight)} | dict(
        pair for n in range(HEADS) for pair in head_pairs(heads, n)
    )


def head_pairs(ours: MultiHead, n: int) -> Iterator[tuple[str, Pair | Unseen]]:
    mechanism = ours.mechanism
    yield f"mlp_q.{n}.bias", head(ours.query.bias, n)
    for name, projection in (("q", ours.query), ("k", ours.key), ("v", ours.value)):
        yield f"mlp_{name}.{n}.weight", head(projection.weight, n)
    if isinstance(mechanism, TanhDot):
        return
    yield f"gvec.{n}.weight", head(mechanism.content.vector, n)
    yield f"gvec.{n}.bias", Unseen()
    if isinstance(mechanism, LocationAware | MultiResolution):
        yield f"mlp_att.{n}.weight", Pair(mechanism.location_weight, lambda p: p[n])
    if isinstance(mechanism, LocationAware):
        yield (
            f"loc_conv.{n}.weight",
            Pair(mechanism.filters.weight, lambda p: p.unflatten(0, (HEADS, -1))[n, :, :, None]),
        )
    if isinstance(mechanism, MultiResolution):
        yield f"loc_conv.{n}.weight", Pair(mechanism.filters[n].weight, lambda p: p[:, :, None])


def case(kind: str, options: dict[str, object], ours) -> Case:
    pairs = many_pairs if options.keys() >= {"aheads"} else single_pairs
    return Case(name=kind, kind=kind, options=options, ours=ours, pairs=pairs, inputs=inputs, run=run)


PEER = Peer(
    "espnet",
    (
        case("AttDot", ONE, lambda: one(TanhDot(scale=2.0), project=("query", "key"), key_width=INNER)),
        case("AttAdd", ONE, lambda: one(Additive(heads=1, **OWN, sharpening=2.0))),
        case("AttLoc", ONE | CONVOLVED, lambda: one(LocationAware(heads=1, **OWN, **FILTERS, sharpening=2.0))),
        case(
            "AttLoc2D",
            ONE | CONVOLVED | dict(att_win=3),
            lambda: one(LocationAware2D(heads=1, **OWN, **FILTERS, past=3, sharpening=2.0)),
        ),
        case("AttLocRec", ONE | CONVOLVED, lambda: one(LocationRecurrent(heads=1, **OWN, **FILTERS, sharpening=2.0))),
        case("AttCov", ONE, lambda: one(Coverage(heads=1, **OWN, sharpening=2.0))),
        case(
            "AttCovLoc", ONE | CONVOLVED, lambda: one(CoverageLocationAware(heads=1, **OWN, **FILTERS, sharpening=2.0))
        ),
        case("AttForward", ONE | CONVOLVED, lambda: one(Forward(heads=1, **OWN, **FILTERS))),
        case("AttMultiHeadDot", MANY, lambda: many(TanhDot())),
        case("AttMultiHeadAdd", MANY, lambda: many(Additive(**of_many(sharpening=1 / math.sqrt(INNER))))),
        case("AttMultiHeadLoc", MANY | CONVOLVED, lambda: many(LocationAware(**of_many(sharpening=2.0, **FILTERS)))),
        case(
            "AttMultiHeadMultiResLoc",
            MANY | CONVOLVED,
            lambda: many(MultiResolution(**of_many(sharpening=1 / math.sqrt(INNER), **FILTERS))),
        ),
    ),
)


@needs_peers
@pytest.mark.parametrize(("case", "dtype", "way"), ways(PEER))
def test_espnet(case, dtype, way):
    check(PEER, case, dtype, way)
