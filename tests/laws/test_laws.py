"""Every law over every thing it applies to: one test a pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.mechanisms.location import Location
from regard.testing import DECODER_LAWS, MECHANISM_LAWS, MIXER_LAWS, Draw, Law

from ..shape_checks import unchecked
from .cases import DECODERS, FEW, MECHANISMS, MIXERS, decoder_case, mechanism_case, mixer_case, packing_case


def pairs(names: Iterable[str], make: Callable[[str], Any], laws: list[Law]) -> pytest.MarkDecorator:
    found = []
    for name in names:
        case = make(name)
        found += [pytest.param(case, law, id=f"{name}-{law.name}") for law in laws if law.applies(case)]
    return pytest.mark.parametrize(("case", "law"), found)


checked: Counter[tuple[Any, str]] = Counter()


def check(case: Any, law: Law, source: Any, name: object = None) -> None:
    """Shapes are checked in the second example of each pair: the first is the least, and the others make its calls."""
    key = (name or id(case), law.name)
    with nullcontext() if checked[key] == 1 else unchecked():
        checked[key] += 1
        law.check(case, Draw(source))


@pairs(MECHANISMS, mechanism_case, MECHANISM_LAWS)
@FEW
@given(source=st.randoms(use_true_random=False))
def test_mechanism(case, law, source):
    check(case, law, source)


@pairs(MIXERS, mixer_case, MIXER_LAWS)
@FEW
@given(source=st.randoms(use_true_random=False))
def test_mixer(case, law, source):
    check(case, law, source)


@pairs(DECODERS, decoder_case, DECODER_LAWS)
@FEW
@given(source=st.randoms(use_true_random=False))
def test_decoder(case, law, source):
    check(case, law, source)


def _packs(name: str) -> bool:
    """Whether it streams as self-attention; location attention scores the numbers of columns, not their positions."""
    mechanism = mechanism_case(name).mechanism
    able = mechanism.can()
    return able.causal and able.stream == "exact" and not isinstance(mechanism, Location)


@pytest.mark.parametrize("kind", [*filter(_packs, MECHANISMS)])
@FEW
@given(source=st.randoms(use_true_random=False))
def test_every_mechanism_keeps_packed_documents_apart(kind, source):
    """In pieces, too: the cache knows the documents of its keys."""
    (law,) = [each for each in MIXER_LAWS if each.name == "packed"]
    check(packing_case(kind), law, source, kind)
