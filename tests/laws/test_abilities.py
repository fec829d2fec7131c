"""An ability that is denied is one that is missing: a mechanism cannot escape a law by saying that it is not meant."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch

from regard.attention import kernel
from regard.attention.contract import Abilities
from regard.testing import MECHANISM_LAWS, Draw, MechanismCase
from regard.testing.attention_scene import scene

from .cases import MECHANISMS, MIXERS, mechanism_case, mixer_case

TRIALS = 12
# What to claim instead of what, and the law that then finds out. Not here: ``causal``, which of a mechanism that keeps
# where it looked says how it may be used, and ``may_see_nothing``, which few draws come upon.
CLAIMS: dict[str, tuple[Any, Any, str]] = {
    "order_free": (False, True, "order_free"),
    "normalized": (False, True, "normalized"),
    "differentiable": (False, True, "differentiable"),
    "weights": (False, True, "weighted"),
    "values_only": (False, True, "weighted"),
    "stream": ("none", "exact", "chunk"),
}


def denials() -> list[Any]:
    found = []
    for name in MECHANISMS:
        case = mechanism_case(name)
        for ability, (denied, _, _) in CLAIMS.items():
            if getattr(case.mechanism.can(), ability) == denied:
                found.append(pytest.param(name, ability, id=f"{name}-{ability}"))
    return found


def claiming(case: MechanismCase, ability: str, claimed: Any) -> MechanismCase:
    able: Abilities = replace(case.mechanism.can(), **{ability: claimed})
    case.mechanism.can = lambda: able  # type: ignore[method-assign]
    return case


@pytest.mark.parametrize(("name", "ability"), denials())
def test_who_denies_an_ability_and_claims_it_is_caught(name: str, ability: str) -> None:
    _, claimed, wanted = CLAIMS[ability]
    case = claiming(mechanism_case(name), ability, claimed)
    (law,) = [each for each in MECHANISM_LAWS if each.name == wanted]
    assert law.applies(case)
    for trial in range(TRIALS):
        try:
            law.check(case, Draw(random.Random(trial)))
        except AssertionError:
            return
    raise AssertionError(f"{name} has this ability: it must not deny it")


@pytest.mark.parametrize("name", MIXERS)
def test_a_mixer_whose_columns_see_each_other_does_not_say_that_they_are_independent(name: str) -> None:
    """No law of mixers asks it: of one that claims it, the gradient from column to column is zero."""
    case = mixer_case(name)
    x = torch.randn(2, 4, case.width, dtype=torch.float64, requires_grad=True)
    span = Draw(random.Random(0)).full_span(2, 4, packed=False, placed=False)
    one = span._replace(valid=torch.ones(2, 4, dtype=torch.bool), segment=torch.zeros(2, 4, dtype=torch.int64))
    output = case.run(x, one).output
    (gradient,) = torch.autograd.grad(output[:, 3].square().sum(), x)
    assert not (case.mixer.can().order_free and bool(gradient[:, :3].any()))


@torch.no_grad()
@pytest.mark.parametrize("name", MECHANISMS)
def test_who_goes_by_way_of_the_kernels_says_that_it_has_a_fused_path(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, chosen = mechanism_case(name), []
    choose = kernel.choose
    monkeypatch.setattr(kernel, "choose", lambda *given, **named: chosen.append(1) or choose(*given, **named))
    scene(case, Draw(random.Random(0))).attend(case)
    assert bool(chosen) == case.mechanism.can().fused
