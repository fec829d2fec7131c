"""Products of the fast engines: which kernels compute them, and that those in 8 bits are exact or refused."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.engine.packed import Int8Linear, PackedMatrix
from regard.engine.processor import TOO_SLOW, bfloat16_in_hardware, int8_obstacle, judge

HERE = "ALL"  # the instructions that this processor has


@pytest.fixture(scope="module")
def kernels() -> dict[tuple[str, str], dict[str, Any]]:
    """By instruction set and engine, what ``tests/kernels.py`` found; of oneDNN's sets those below this processor's."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this build of torch has no oneDNN")
    lesser = ["AVX512_CORE", "AVX2"] if platform.machine() == "x86_64" else []
    command = [sys.executable, "-m", "tests.kernels", HERE, *lesser]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {(each["instructions"], each["engine"]): each for each in found}


def test_no_engine_computes_by_a_kernel_that_is_only_for_reference(kernels: Any) -> None:
    """oneDNN has a kernel for anything, thousands of times as slow, and says so only if it is asked."""
    assert kernels[HERE, "float32"]["kernels"], "nothing was heard of oneDNN"
    assert bool(kernels[HERE, "int8"]["kernels"]) is (kernels[HERE, "int8"]["obstacle"] is None)
    slow = {key: each["kernels"] for key, each in kernels.items() if any("ref" in name for name in each["kernels"])}
    assert slow == {}


@pytest.mark.parametrize("instructions", ["AVX512_CORE", "AVX2"])
def test_without_vnni_8_bits_are_refused(kernels: Any, instructions: str) -> None:
    """Its sums of two products of a number without and one with a sign end at 32767, and oneDNN does not tell."""
    if (instructions, "int8") not in kernels:
        pytest.skip("not an x86 processor")
    assert "overflow" in kernels[instructions, "int8"]["obstacle"]


@pytest.mark.skipif(not torch.cpu._is_vnni_supported(), reason="needs AVX-512 with VNNI")
def test_with_vnni_8_bits_are_computed(kernels: Any) -> None:
    found = kernels[HERE, "int8"]
    assert found["obstacle"] is None
    assert all("vnni" in name or "amx" in name for name in found["kernels"])


def test_this_processor_is_judged_as_a_process_of_its_own_judges(kernels: Any) -> None:
    assert int8_obstacle() == kernels[HERE, "int8"]["obstacle"]


DRAWN: dict[str, Callable[[torch.Generator, tuple[int, int]], Tensor]] = {
    "all": lambda draw, shape: torch.full(shape, 127),
    "least": lambda draw, shape: torch.full(shape, -128),
    "signs": lambda draw, shape: torch.randint(0, 2, shape, generator=draw) * 254 - 127,
    "any": lambda draw, shape: torch.randint(-128, 128, shape, generator=draw),
}


@pytest.mark.parametrize("rows", [1, 2, 17, 64])
@pytest.mark.parametrize(("enter", "leave"), [(8, 3), (33, 40), (250, 77), (1024, 256)])
@pytest.mark.parametrize("weights", ["all", "signs", "any"])
def test_sums_of_8_bits_are_exact(rows: int, enter: int, leave: int, weights: str) -> None:
    if int8_obstacle() is not None:
        pytest.skip("8-bit products are not exact on this processor")
    draw = torch.Generator().manual_seed(rows)
    weight = DRAWN[weights](draw, (leave, enter)).clamp(-127, 127)
    weight[:, 0] = 127  # of scale 1
    found = Int8Linear(PackedMatrix(weight.float()))
    for x in (make(draw, (rows, enter)) for make in DRAWN.values()):
        wanted = x.double() @ weight.double().T  # exact: far below 2^53
        assert torch.equal(found.integer_product(x.to(torch.int8)), wanted.float())


def exact(weight: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: (x.double() @ weight.double().T).float()


def saturating(weight: Tensor) -> Callable[[Tensor], Tensor]:
    """As processors without VNNI: numbers without a sign by those with one, summed by twos in 16 bits."""

    def product(x: Tensor) -> Tensor:
        pairs = ((x.long() + 128)[:, None] * weight.long()).unflatten(-1, (-1, 2)).sum(-1)
        return (pairs.clamp(-(1 << 15), (1 << 15) - 1).sum(-1) - 128 * weight.long().sum(1)).float()

    return product


def of_another_zero_point(weight: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: exact(weight)(x + 1)


def rounded(weight: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: exact(weight)(x).bfloat16().float()


def wrong_for_many(weight: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: exact(weight)(x) + (len(x) > 16)


def the_last_left_out(weight: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: exact(weight[:, :-1])(x[:, :-1])


def times(*seconds: float) -> Callable[[Callable[[], object]], float]:
    """Of the product in 8 bits, then of that in float32."""
    left = iter(seconds)
    return lambda call: next(left)


@pytest.mark.parametrize("pack", [saturating, of_another_zero_point, rounded, wrong_for_many, the_last_left_out])
def test_a_wrong_product_is_noticed(pack: Any) -> None:
    assert "overflow" in (judge(pack, times(1.0, 1.0)) or "")


@pytest.mark.parametrize(("relative", "told"), [(0.2, False), (TOO_SLOW - 1, False), (TOO_SLOW + 1, True)])
def test_a_slow_product_is_noticed(relative: float, told: bool) -> None:
    found = judge(exact, times(relative, 1.0))
    assert (found is not None and "quick kernel" in found) is told


@pytest.mark.parametrize(
    ("supported", "machine", "avx512_bf16", "amx", "hardware"),
    [
        (False, "x86_64", True, True, False),  # oneDNN was told to leave it
        (True, "x86_64", False, False, False),  # AVX-512 alone
        (True, "x86_64", True, False, True),
        (True, "AMD64", False, True, True),
        (True, "aarch64", False, False, True),
    ],
)
def test_bfloat16_is_in_hardware_or_emulated(
    monkeypatch: pytest.MonkeyPatch, supported: bool, machine: str, avx512_bf16: bool, amx: bool, hardware: bool
) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: supported)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512_bf16)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    assert bfloat16_in_hardware() is hardware
