"""Global and local attention against its table, against Longformer, and where it must be plain attention."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.attention import global_local_kernel
from regard.attention.global_local_kernel import (
    Neighborhood,
    attend_neighbors,
    attend_neighbors_reference,
    visible,
)
from regard.attention.heads import MultiHead, SelfAttention
from regard.attention.mask import Padding
from regard.attention.mechanisms.dot import Dot
from regard.attention.span import Span
from regard.core.reference_mode import reference_mode
from regard.errors import ConfigError
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.transformer.global_local import GlobalLocal

from ..laws.cases import FEW, other_mixer
from ..test_long_attention import Largest

SMALL = {"MIN_BLOCK": 2, "MAX_BLOCK": 3, "MAX_WEIGHTS": 50}


def close(actual: Tensor, expected: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def spans(length: int, *valid: int) -> Span:
    return Span.of(torch.arange(length) < torch.tensor(valid)[:, None])


def mixer(**options: object) -> GlobalLocal:
    torch.manual_seed(1)
    found = other_mixer("global-local", causal=False, **options)
    assert isinstance(found, GlobalLocal)
    return found.double()


def test_the_table_of_a_window_and_two_kinds_of_others() -> None:
    """Column 0 global, steps of two columns, one of them to each side; column 6 is padding."""
    is_global = torch.tensor([[True] + [False] * 6])
    table = visible(Neighborhood(1, 2), spans(7, 6).valid, is_global)[0].int()
    assert table[1:6].tolist() == [
        [1, 1, 0, 1, 0, 0, 0],
        [1, 0, 1, 0, 1, 0, 0],
        [1, 1, 0, 1, 0, 1, 0],
        [1, 0, 1, 0, 1, 0, 0],
        [1, 0, 0, 1, 0, 1, 0],
    ]


@settings(FEW, max_examples=40)
@given(st.data())
def test_by_blocks_it_is_the_table(data: st.DataObject) -> None:
    """Values and gradients, in float64: any length, padding, global columns, dilation, random blocks, labels."""
    draw = data.draw
    length, radius, dilation = draw(st.integers(1, 14)), draw(st.integers(1, 5)), draw(st.integers(1, 3))
    around = Neighborhood(radius, dilation, draw(st.integers(0, 2)) if dilation == 1 else 0, draw(st.integers(0, 9)))
    torch.manual_seed(draw(st.integers(0, 99)))
    valid = torch.arange(length) < torch.randint(0, length + 1, (2, 1))
    is_global = (torch.rand(2, length) < 0.2) & valid
    inputs = [torch.randn(2, 2, length, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    if k := draw(st.integers(0, 2)):
        inputs.append(torch.randn(2, 2 * k + 2, 4, dtype=torch.float64, requires_grad=True))
    upstream, found = torch.randn(2, 2, length, 4, dtype=torch.float64), []
    with patch.multiple(global_local_kernel, **SMALL):
        for attend in (attend_neighbors, attend_neighbors_reference):
            labels = inputs[3] if k else None
            context = attend(*inputs[:3], valid, is_global, around, scale=0.5, labels=labels)
            context = context * valid[:, None, :, None]
            found.append((context, *torch.autograd.grad(context, inputs, upstream)))
    for one, other in zip(*found, strict=True):
        close(one, other)


@pytest.mark.parametrize("options", [{}, {"labels": 1}, {"random": 1}, {"dilation": 2}, {"separate": False}], ids=str)
def test_the_mixer_is_its_textbook(options: dict[str, object]) -> None:
    found = mixer(radius=2, first=2, **options)
    x, span = torch.randn(2, 11, 8, dtype=torch.float64), spans(11, 11, 7)
    with patch.multiple(global_local_kernel, **SMALL):
        by_blocks = found(x, span, ()).output
        with reference_mode():
            by_table = found(x, span, ()).output
    close(by_blocks * span.valid[..., None], by_table * span.valid[..., None])


def plain(found: GlobalLocal, names: tuple[str, str, str]) -> SelfAttention:
    """Attention everywhere, with these projections of ours."""
    attention = MultiHead(8, heads=2, mechanism=Dot()).double()
    for part, name in zip((attention.query, attention.key, attention.value), names, strict=True):
        part.weight = getattr(found, name).weight
    attention.output.weight = found.output.weight
    return SelfAttention(attention, mask=Padding())


def test_with_a_window_over_everything_it_is_attention_everywhere() -> None:
    x, span = torch.randn(2, 9, 8, dtype=torch.float64), spans(9, 9, 4)
    found = mixer(radius=9, first=0)
    expected = plain(found, ("query", "key", "value"))(x, span, ()).output
    close(found(x, span, ()).output * span.valid[..., None], expected * span.valid[..., None])


def test_where_all_is_global_it_is_attention_everywhere_by_the_other_projections() -> None:
    """No long part, n_l = 0 in ETC's words."""
    x, span = torch.randn(2, 9, 8, dtype=torch.float64), spans(9, 9, 4)
    found = mixer(radius=1, first=9)
    expected = plain(found, ("global_query", "global_key", "global_value"))(x, span, ()).output
    close(found(x, span, ()).output * span.valid[..., None], expected * span.valid[..., None])


def connected(layers: list[nn.Module], length: int, **columns: Tensor) -> Tensor:
    """Which output depends on which input after these layers."""
    x = torch.randn(1, length, 8, dtype=torch.float64, requires_grad=True)
    span, y = Span.of(torch.ones(1, length, dtype=torch.bool))._replace(**columns), x
    for layer in layers:
        y = y + layer(y, span, ()).output
    slopes = [torch.autograd.grad(each.sum(), x, retain_graph=True)[0][0] for each in y[0]]
    return torch.stack(slopes).abs().sum(2) > 0


@pytest.mark.parametrize("marked", [False, True])
def test_any_two_columns_are_connected_within_two_layers(marked: bool) -> None:
    layers = [mixer(radius=1, first=1), mixer(radius=1, first=1)]
    columns = {"is_global": (torch.arange(12) == 7)[None]} if marked else {}
    assert not connected(layers[:1], 12, **columns).all()
    assert connected(layers, 12, **columns).all()
    assert not connected([mixer(radius=1, first=0)] * 2, 12).all(), "no global column, no way"


class WindowOffByOne(GlobalLocal):
    """Sees one column too few on each side."""

    def __init__(self, width, **given):
        super().__init__(width, **given)
        self.around = self.around._replace(radius=self.around.radius - 1)


class GlobalUnseen(GlobalLocal):
    """Its global columns see all and are not seen."""

    def forward(self, x, span, state):
        marked = self._global(span)
        mixed = super().forward(x, span, state)
        with patch.object(self, "first", 0):
            unseen = super().forward(x, span, state)
        return mixed._replace(output=torch.where(marked[..., None], mixed.output, unseen.output))


class SeesPadding(GlobalLocal):
    """Looks at padding, too."""

    def forward(self, x, span, state):
        return super().forward(x, span._replace(valid=torch.ones_like(span.valid)), state)


@pytest.mark.parametrize("mutant", [WindowOffByOne, GlobalUnseen, SeesPadding])
def test_a_wrong_version_is_found_out_by_the_table(mutant: type[GlobalLocal]) -> None:
    torch.manual_seed(1)
    given = {"width": 8, "heads": 2, "causal": False, "radius": 2, "separate": False}
    right, wrong = GlobalLocal(**given).double(), mutant(**given).double()
    wrong.load_state_dict(right.state_dict())
    x, span = torch.randn(1, 12, 8, dtype=torch.float64), spans(12, 9)
    is_global = torch.arange(12)[None] == 0
    table = visible(Neighborhood(2), span.valid, is_global) | (is_global[..., None] & span.valid[:, None])
    query, key, value = (right._heads(part(x)) for part in (right.query, right.key, right.value))
    energy = (query @ key.transpose(2, 3) / 2).masked_fill(~table[:, None], -torch.inf)
    expected = right.output((energy.softmax(-1) @ value).transpose(1, 2).flatten(2))[:, :9]
    close(right(x, span, ()).output[:, :9], expected)
    assert (wrong(x, span, ()).output[:, :9] - expected).abs().max() > 1e-3


def test_random_blocks_hang_on_the_row_and_the_seed_alone() -> None:
    around = Neighborhood(2, random=3, seed=1)
    short, long = around.drawn(torch.tensor([100]), 4), around.drawn(torch.tensor([100, 4000]), 200)
    assert torch.equal(short[0], long[0, :4])
    assert int(short.max()) <= 100 // around.size and len(long[1].unique()) > 50
    assert not torch.equal(long, around._replace(seed=2).drawn(torch.tensor([100, 4000]), 200))


def test_no_tensor_grows_with_the_square_of_the_length() -> None:
    found, length = GlobalLocal(8, heads=2, causal=False, radius=4, first=2, random=1), 4096
    with Largest() as largest:
        found(torch.randn(1, length, 8), spans(length, length - 5), ()).output.sum().backward()
    assert 0 < largest.numbers < length**2 / 10


def test_it_is_longformers_self_attention() -> None:
    """LongformerSelfAttention of transformers with our weights: padding, and global columns here and there."""
    pytest.importorskip("transformers")
    from transformers import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    config = LongformerConfig(
        hidden_size=8, num_attention_heads=2, attention_window=[4], attention_probs_dropout_prob=0.0
    )  # fmt: skip
    theirs, ours = LongformerSelfAttention(config, 0).eval(), mixer(radius=2).float()
    with torch.no_grad():
        for name in ("query", "key", "value"):
            for one, other in ((name, name), (f"{name}_global", f"global_{name}")):
                getattr(theirs, one).weight.copy_(getattr(ours, other).weight)
                getattr(theirs, one).bias.zero_()
        ours.output.weight.copy_(torch.eye(8))
        x, span = torch.randn(2, 12, 8), spans(12, 12, 9)
        is_global = torch.zeros(2, 12, dtype=torch.bool)
        is_global[0, [0, 5]] = is_global[1, 3] = True
        asked = torch.where(is_global, 10000.0, torch.where(span.valid, 0.0, -10000.0))
        expected = theirs(
            x, attention_mask=asked, is_index_masked=asked < 0, is_index_global_attn=asked > 0, is_global_attn=True
        )[0]
        found = ours(x, span._replace(is_global=is_global), ()).output
    close(found * span.valid[..., None], expected * span.valid[..., None], 1e-5)


def test_each_layer_has_its_own_window_and_the_last_serves_the_rest() -> None:
    config = ModelConfig(
        preset="tiny", encoder={"mixer": {"kind": "global-local", "radius": [2, 8], "random": 1}, "layers": 3}
    )
    model = build(config, source_types=9, target_types=9)
    found = [part.around for part in model.encoder.modules() if isinstance(part, GlobalLocal)]
    assert [each.radius for each in found] == [2, 8, 8]
    assert len({each.seed for each in found}) == 3


@pytest.mark.parametrize(
    "side, options, complaint",
    [
        ("encoder", {"radius": 0}, "1 or more"),
        ("encoder", {"first": -1}, "0 or more"),
        ("encoder", {"random": 1, "dilation": 2}, "cannot be combined with dilation"),
        ("decoder", {"labels": 2}, "radius and first only"),
    ],
)
def test_what_cannot_be_built_says_why(side: str, options: dict[str, int], complaint: str) -> None:
    config = ModelConfig(preset="tiny", **{side: {"mixer": {"kind": "global-local", **options}}})
    with pytest.raises(ConfigError) as error:
        build(config, source_types=9, target_types=9)
    assert complaint in str(error.value.why)
