"""Sliding windows with attention sinks: what they see, and a cache that stops growing."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError

from regard.attention.heads import MultiHead, SelfAttention
from regard.attention.mask import Causal, Padding, Window
from regard.attention.mechanisms.dot import Dot
from regard.attention.sink_cache import SinkCache
from regard.attention.span import Span
from regard.attention.structure import BandStructure
from regard.core.state import leaves
from regard.models.attention_config import MixerConfig
from regard.models.build import build
from regard.models.configuration import ModelConfig

SINKS = Causal() & Padding() & Window(2, sinks=2)


def test_the_first_and_the_last_are_seen() -> None:
    span = Span.of(torch.ones(1, 7, dtype=torch.bool))
    assert SINKS.bind(span, span).dense()[0].int().tolist() == [
        [1, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 1, 0, 0],
        [1, 1, 0, 1, 1, 1, 0],
        [1, 1, 0, 0, 1, 1, 1],
    ]
    assert SINKS.bind(span, span).structure() == BandStructure(2, 0, first=2)


def test_sinks_are_positions_not_columns() -> None:
    """Keys from position 1 on have one sink left among them."""
    keys = Span(torch.tensor([1]), torch.ones(1, 9, dtype=torch.bool))
    bound = Window(1, sinks=2).bind(Span(torch.tensor([5]), torch.ones(1, 3, dtype=torch.bool)), keys)
    assert bound.dense()[0, 0].int().tolist() == [1, 0, 0, 1, 1, 1, 0, 0, 0]
    structure = bound.structure()
    assert isinstance(structure, BandStructure) and structure.first == 1


@pytest.mark.parametrize("radius, sinks", [(2, 2), (1, 3), (5, 1)])
def test_the_cache_stops_growing_and_says_what_one_pass_says(radius: int, sinks: int) -> None:
    torch.manual_seed(1)
    mask = Causal() & Padding() & Window(radius, sinks=sinks)
    mixer = SelfAttention(MultiHead(4, heads=2, mechanism=Dot()), mask=mask).double()
    x, span = torch.randn(2, 90, 4, dtype=torch.float64), Span.of(torch.ones(2, 90, dtype=torch.bool))
    whole = mixer(x, span, mixer.start(2)).output
    state, sizes = mixer.start(2), []
    for at in range(90):
        mixed = mixer(x[:, at : at + 1], span.columns(at, at + 1), state)
        state = mixed.state
        torch.testing.assert_close(mixed.output, whole[:, at : at + 1], rtol=1e-12, atol=1e-12)
        sizes.append(sum(leaf.numel() for leaf in leaves(state)))
    assert isinstance(state, SinkCache) and state.first.key.shape[2] == sinks
    assert max(sizes[40:]) == max(sizes), "as large as ever"
    assert len(set(sizes[45:])) == 1, "and no larger later"


def test_sinks_need_a_neighborhood() -> None:
    with pytest.raises(ValidationError, match="sinks require a neighborhood"):
        MixerConfig(kind="dot", sinks=2)
    mixer = {"kind": "dot", "neighborhood": 4, "sinks": 2}
    model = build(ModelConfig(preset="tiny", decoder={"mixer": mixer}), source_types=9, target_types=9)
    (found,) = {part.mask for part in model.decoder.modules() if isinstance(part, SelfAttention)}
    assert Window(4, sinks=2) in found.conjuncts()


def test_a_cache_without_its_sinks_is_found_out() -> None:
    torch.manual_seed(1)
    mixer = SelfAttention(MultiHead(4, heads=2, mechanism=Dot()), mask=SINKS).double()
    x, span = torch.randn(1, 8, 4, dtype=torch.float64), Span.of(torch.ones(1, 8, dtype=torch.bool))
    state = mixer(x[:, :4], span.columns(0, 4), mixer.start(1)).state
    state = mixer(x[:, 4:6], span.columns(4, 6), state).state
    lost = state.first._replace(span=state.first.span.truncate(torch.zeros(1, dtype=torch.int64)))
    whole = mixer(x, span, mixer.start(1)).output[:, 6:]
    torch.testing.assert_close(mixer(x[:, 6:], span.columns(6, 8), state).output, whole, rtol=1e-12, atol=1e-12)
    assert (mixer(x[:, 6:], span.columns(6, 8), state._replace(first=lost)).output - whole).abs().max() > 1e-3


def test_a_saved_mixer_of_another_kind_has_no_key_of_self_attention() -> None:
    """A run's config is written whole; what is unset is left out, so that other mixers are built from it again."""
    config = ModelConfig(preset="tiny", decoder={"mixer": "ssru"})
    saved = config.model_dump(exclude_none=True)
    build(ModelConfig.model_validate(saved), source_types=9, target_types=9)
