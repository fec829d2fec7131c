"""Our side of the talk with a peer: cases, the weights that correspond, one process for all cases of a peer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.attention.contract import Mechanism

from ...tolerances import within

__all__ = ["Case", "Pair", "Peer", "Unseen", "check", "compared", "looking", "needs_peers", "ways"]

ROOT = Path(__file__).resolve().parents[3]
PYTHON = ROOT / ".envs" / "peers" / "bin" / "python"
needs_peers = pytest.mark.skipif(not PYTHON.exists(), reason="no .envs/peers: scripts/peers makes it")

Way = Literal["theirs", "ours"]  # whose weights both have


class Pair(NamedTuple):
    """Where a peer's weight is in ours: a parameter, and how it is cut and laid out anew to be the peer's.

    ``share`` below 1: several of the peer's weights together are this one, which is their sum. Parameters of ours
    that no pair names are 0.
    """

    parameter: nn.Parameter
    pick: Callable[[Tensor], Tensor] = lambda parameter: parameter
    share: float = 1.0


class Unseen(NamedTuple):
    """A weight of the peer that we have none of, since it changes nothing: its gradient must be 0."""

    shape: tuple[int, ...] = (1,)


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One class of a peer, ``kind``, beside what we have for it.

    ``pairs`` says where each of the peer's weights is in ours, ``run`` gives the peer's outputs by our means.
    ``single``: the peer computes in single precision, whatever it is given.
    """

    name: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    ours: Callable[[], nn.Module]
    pairs: Callable[[nn.Module], Mapping[str, Pair | Unseen]] | None = None  # None: neither has weights
    inputs: Callable[[], dict[str, Tensor]]
    run: Callable[..., dict[str, Tensor]]  # (ours, **inputs)
    single: bool = False


class Peer(NamedTuple):
    """A runner (a module of this folder) and the cases put to it."""

    runner: str
    cases: tuple[Case, ...]


class Asked(NamedTuple):
    ours: nn.Module
    inputs: dict[str, Tensor]
    answer: dict[str, Tensor]


class Difference(NamedTuple):
    what: str
    ours: Tensor
    theirs: Tensor


@contextmanager
def looking(ours: nn.Module) -> Iterator[list[Tensor]]:
    """The weights of every call of a mechanism within, with their gradients, which ``observe`` leaves out."""
    weights: list[Tensor] = []
    mechanism = next(module for module in ours.modules() if isinstance(module, Mechanism))
    handles = [
        mechanism.register_forward_pre_hook(
            lambda _, given, named: (given, {**named, "need_weights": True}), with_kwargs=True
        ),
        mechanism.register_forward_hook(lambda _, given, attended: weights.append(attended.weights)),
    ]
    try:
        yield weights
    finally:
        for handle in handles:
            handle.remove()


def ways(peer: Peer) -> list[Any]:
    """Every case, in both precisions where the peer has them, with their weights and with ours."""
    return [
        pytest.param(case, dtype, way, id=_name(case, dtype, way))
        for case in peer.cases
        for dtype in ((torch.float32,) if case.single else (torch.float32, torch.float64))
        for way in (("theirs", "ours") if case.pairs else ("theirs",))
    ]


def _name(case: Case, dtype: torch.dtype, way: Way) -> str:
    return f"{case.name}-{str(dtype).removeprefix('torch.')}-{way}"


@cache
def answered(peer: Peer) -> dict[str, Asked] | str:
    """All cases of a peer, put to one process: its imports take seconds. What it said where it failed."""
    asked: dict[str, tuple[nn.Module, dict[str, Tensor]]] = {}
    cases, given = {}, {}
    for parameter in ways(peer):
        case, dtype, way = parameter.values
        name = _name(case, dtype, way)
        torch.manual_seed(2)
        with _made_in(dtype):
            ours, inputs = case.ours(), case.inputs()
            pairs = _pairs(case, ours)
            _scramble(pairs, ours)
            weights = {name: _theirs(pair) for name, pair in pairs.items()}
        asked[name] = ours, inputs
        cases[name] = {"kind": case.kind, "options": case.options, "dtype": str(dtype).removeprefix("torch.")}
        given |= {f"{name} input {key}": tensor for key, tensor in inputs.items()}
        given |= {f"{name} weight {key}": tensor for key, tensor in weights.items() if way == "ours"}
    answer = _ask(peer.runner, cases, given)
    if isinstance(answer, str):
        return answer
    return {name: Asked(*pair, _part(answer, f"{name} ")) for name, pair in asked.items()}


@contextmanager
def _made_in(dtype: torch.dtype) -> Iterator[None]:
    """New tensors are of this number format."""
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def _scramble(pairs: Mapping[str, Pair | Unseen], ours: nn.Module) -> None:
    """No weight that the peer has stays at 0 or 1, where a swap would not show."""
    named = {id(pair.parameter) for pair in pairs.values() if isinstance(pair, Pair)}
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.4 if id(parameter) in named else 0.0)


def _pairs(case: Case, ours: nn.Module) -> Mapping[str, Pair | Unseen]:
    return case.pairs(ours) if case.pairs else {}


def _theirs(pair: Pair | Unseen) -> Tensor:
    if isinstance(pair, Unseen):
        return torch.randn(pair.shape)
    return pair.pick(pair.parameter.detach()) * pair.share


def _take(pairs: Mapping[str, Pair | Unseen], given: Mapping[str, Tensor]) -> None:
    """Their weights into ours."""
    seen = {name: pair for name, pair in pairs.items() if isinstance(pair, Pair)}
    with torch.no_grad():
        for pair in seen.values():
            pair.parameter.zero_()
        for name, pair in seen.items():
            place = pair.pick(torch.arange(pair.parameter.numel()).view_as(pair.parameter))
            pair.parameter.view(-1)[place.flatten()] += given[name].flatten()


def _ask(runner: str, cases: Mapping[str, Any], given: dict[str, Tensor]) -> dict[str, Tensor] | str:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
        save_file({key: tensor.clone().contiguous() for key, tensor in given.items()}, folder / "given.safetensors")
        command = [str(PYTHON), "-m", f"tests.parity.peers.{runner}", str(folder)]
        told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
        if told.returncode:
            return f"the runner {runner} failed:\n{told.stderr[-3000:]}"
        return load_file(folder / "answer.safetensors")


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}


def compared(peer: Peer, case: Case, dtype: torch.dtype, way: Way) -> list[Difference]:
    """Ours beside theirs: every output, and the gradient of the sum of their squares for every input and weight."""
    told = answered(peer)
    if isinstance(told, str):
        raise RuntimeError(told)
    ours, inputs, answer = told[_name(case, dtype, way)]
    pairs = _pairs(case, ours)
    if pairs.keys() != _part(answer, "weight ").keys():
        raise AssertionError(f"the peer has other weights: {sorted(_part(answer, 'weight '))}")
    _take(pairs, _part(answer, "weight "))
    inputs = {name: x.detach().clone().requires_grad_(x.is_floating_point()) for name, x in inputs.items()}
    with _made_in(dtype):
        outputs = case.run(ours, **inputs)
    found = [Difference(f"output {name}", outputs[name], theirs) for name, theirs in _part(answer, "output ").items()]
    gradients = _part(answer, "gradient ")
    if not gradients:
        return found
    loss = torch.stack([output.square().sum() for output in outputs.values()]).sum()
    asked = {name: x for name, x in inputs.items() if x.requires_grad}
    parameters = list(ours.parameters())
    got = torch.autograd.grad(loss, [*asked.values(), *parameters], allow_unused=True, materialize_grads=True)
    mine = dict(zip(asked, got, strict=False))
    by_parameter = {id(p): gradient for p, gradient in zip(parameters, got[len(asked) :], strict=True)}
    for name, pair in pairs.items():
        if isinstance(pair, Unseen):
            mine[name] = torch.zeros_like(gradients[name])
        else:
            mine[name] = pair.pick(by_parameter[id(pair.parameter)])
    return found + [Difference(f"gradient {name}", mine[name], theirs) for name, theirs in gradients.items()]


def check(peer: Peer, case: Case, dtype: torch.dtype, way: Way) -> None:
    """Within the table of tolerances: 1e-5 in single precision, 1e-10 in double."""
    differences = compared(peer, case, dtype, way)
    assert any(what.startswith("output") for what, _, _ in differences), "nothing was compared"
    for what, ours, theirs in differences:
        assert what.startswith("gradient") or theirs.any(), f"{what} is nothing but zeros"
        law = "gradient" if what.startswith("gradient") and dtype == torch.float32 else "value"
        try:
            torch.testing.assert_close(ours, theirs, **within(dtype, path="foreign", law=law))
        except AssertionError as difference:
            raise AssertionError(f"{what}: {difference}") from None
