"""Every law over every thing it applies to: one test a pair."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import pytest

from regard.attention.mechanisms.location import Location
from regard.testing import DECODER_LAWS, ENCODER_LAWS, MECHANISM_LAWS, MIXER_LAWS, Draw, Law

from ..shape_checks import unchecked
from .cases import DECODERS, MECHANISMS, MIXERS, decoder_case, mechanism_case, mixer_case, packing_case
from .encoder_cases import ENCODERS, encoder_case


def pairs(names: Iterable[str], make: Callable[[str], Any], laws: list[Law]) -> pytest.MarkDecorator:
    found = []
    for name in names:
        case = make(name)
        found += [pytest.param(case, law, name, id=f"{name}-{law.name}") for law in laws if law.applies(case)]
    return pytest.mark.parametrize(("case", "law", "name"), found)


EXAMPLES = 3  # of each law and case


class Least(random.Random):
    """A source whose every draw is the least there is: the smallest case."""

    def random(self) -> float:
        return 0.0

    def getrandbits(self, k: int, /) -> int:
        return 0


def check(case: Any, law: Law, name: str) -> None:
    """Check a law in the least example and in drawn ones; shapes in the second, since the others make its calls."""
    for example in range(EXAMPLES):
        source = random.Random(f"{name} {law.name} {example}") if example else Least()
        with nullcontext() if example == 1 else unchecked():
            law.check(case, Draw(source))


@pairs(MECHANISMS, mechanism_case, MECHANISM_LAWS)
def test_mechanism(case, law, name):
    check(case, law, name)


@pairs(MIXERS, mixer_case, MIXER_LAWS)
def test_mixer(case, law, name):
    check(case, law, name)


@pairs(DECODERS, decoder_case, DECODER_LAWS)
def test_decoder(case, law, name):
    check(case, law, name)


@pairs(ENCODERS, encoder_case, ENCODER_LAWS)
def test_encoder(case, law, name):
    check(case, law, name)


def _packs(name: str) -> bool:
    """Whether it streams as self-attention; location attention scores the numbers of columns, not their positions."""
    mechanism = mechanism_case(name).mechanism
    able = mechanism.can()
    return able.causal and able.stream == "exact" and not isinstance(mechanism, Location)


@pytest.mark.parametrize("kind", [*filter(_packs, MECHANISMS)])
def test_every_mechanism_keeps_packed_documents_apart(kind):
    """In pieces, too: the cache knows the documents of its keys."""
    (law,) = [each for each in MIXER_LAWS if each.name == "packed"]
    check(packing_case(kind), law, kind)
