"""A law that catches nothing is no law: each of these wrong versions must be caught by the law named beside it."""

from __future__ import annotations

import random

import pytest
import torch

from regard.attention.mask import Padding, Segments
from regard.testing import (
    DECODER_LAWS,
    ENCODER_LAWS,
    MECHANISM_LAWS,
    MIXER_LAWS,
    DecoderCase,
    Draw,
    EncoderCase,
    MechanismCase,
    MixerCase,
)  # fmt: skip
from regard.testing.law import ready

from .cases import SIZES, SUMMARY, TYPES, WIDTH
from .mutants import decoders, encoders, mechanisms, mixers

TRIALS = 12


def caught(laws, name, case) -> bool:
    """Whether the law finds a counterexample among a few draws."""
    (law,) = [each for each in laws if each.name == name]
    assert law.applies(case), "the law would not even be asked"
    for trial in range(TRIALS):
        try:
            law.check(case, Draw(random.Random(trial)))
        except AssertionError:
            return True
    return False


def table(mutants):
    return pytest.mark.parametrize(
        ("make", "law"), [pytest.param(make, law, id=f"{name}-{law}") for name, (make, law) in mutants.items()]
    )


@table(mechanisms.MUTANTS)
def test_mechanism(make, law):
    torch.manual_seed(0)
    case = MechanismCase(mechanism=ready(make()), **SIZES, value_width=3)
    assert caught(MECHANISM_LAWS, law, case)


@table(mixers.MUTANTS)
def test_mixer(make, law):
    torch.manual_seed(0)
    mixer = ready(make())
    packs = Segments() in getattr(mixer, "mask", Padding()).conjuncts()
    assert caught(MIXER_LAWS, law, MixerCase(mixer=mixer, width=WIDTH, packs=packs))


@table(decoders.MUTANTS)
def test_decoder(make, law):
    torch.manual_seed(0)
    case = DecoderCase(decoder=ready(make()), width=WIDTH, summary=SUMMARY, types=TYPES)
    assert caught(DECODER_LAWS, law, case)


@table(encoders.MUTANTS)
def test_encoder(make, law):
    torch.manual_seed(0)
    encoder, draw_inputs = make()
    assert caught(ENCODER_LAWS, law, EncoderCase(encoder=ready(encoder), draw_inputs=draw_inputs))


@pytest.mark.parametrize(
    ("laws", "names"),
    [
        (MECHANISM_LAWS, {law for _, law in mechanisms.MUTANTS.values()}),
        (MIXER_LAWS, {law for _, law in mixers.MUTANTS.values()}),
        (ENCODER_LAWS, {law for _, law in encoders.MUTANTS.values()}),
        (DECODER_LAWS, {law for _, law in decoders.MUTANTS.values()}),
    ],
    ids=["mechanisms", "mixers", "encoders", "decoders"],
)
def test_every_law_catches_some_mutant(laws, names):
    assert {law.name for law in laws} == names
