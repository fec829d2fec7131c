"""Passes of training in C, against torch's own operations: for every instruction set of this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from regard.attention.norm import RootMeanSquareNorm
from regard.attention.positions.rotary import Rotary
from regard.core.reference_mode import reference_mode
from regard.models.cross_entropy import projected_cross_entropy
from regard.models.dropout import RECTIFIERS, Dropout, Rectifier
from regard.models.transformer.feed_forward import FeedForward
from regard.models.transformer.norms import PostNorm, PreNorm, Residual
from regard.native import loss, passes
from regard.native.library import Pass, find

quickest = find(choice="").library
if quickest is None:
    pytest.skip(f"needs the kernels: {find(choice='').reason}", allow_module_level=True)
FORMATS = (torch.float32, torch.bfloat16)
each_format = pytest.mark.parametrize("type", FORMATS, ids=str)


@pytest.fixture(params=quickest.sets, autouse=True)
def instructions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    found = find(choice=request.param).library
    monkeypatch.setattr(passes, "library", lambda: found)
    yield request.param


def threads_asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """By how many threads each pass is run from now on."""
    asked, kernels = list[int](), passes.library()
    assert kernels is not None
    run = kernels.run_pass

    def run_pass(given: Pass, threads: int = 1, team: int | None = None) -> None:
        asked.append(threads)
        run(given, threads, team)

    monkeypatch.setattr(kernels, "run_pass", run_pass)
    return asked


def drawn(*shape: int, type: torch.dtype = torch.float32, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(type)


def ran(function: Callable[[Tensor], Tensor], x: Tensor, upstream: Tensor) -> tuple[Tensor, Tensor]:
    """The result of a function of a tensor that is laid out as projections are, and the gradient of that tensor."""
    x = x.clone().requires_grad_()
    y = function(x)
    y.backward(upstream.to(y.dtype))
    assert x.grad is not None
    return y.detach(), x.grad


def by_torch(function: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch) -> Callable[[Tensor], Tensor]:
    """The function with torch's own operations, and with the same draws."""

    def computed(x: Tensor) -> Tensor:
        with monkeypatch.context() as patched:
            for module in ("attention.positions.rotary", "attention.norm", "models.dropout"):
                patched.setattr(f"regard.{module}.covers", lambda x: False)
            return function(x)

    return computed


def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passes that are run from now on."""
    kinds, run = [], passes.run
    monkeypatch.setattr(
        passes, "run", lambda given, numbers: (kinds.append(list(passes.KINDS)[given.kind]), run(given, numbers))
    )
    return kinds


@each_format
@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("width", [32, 96])
def test_rotation(layout: str, width: int, type: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bits of torch's operations; a gradient in bfloat16 is rounded once where theirs is rounded thrice."""
    rotary = Rotary(width, layout=layout)
    x, upstream = drawn(3, 7, 2, width, type=type), drawn(3, 2, 7, width, type=type, seed=2)
    for position in (torch.arange(7).expand(3, 7), torch.arange(21).view(3, 7) % 11):

        def rotated(x: Tensor, position: Tensor = position) -> Tensor:
            return rotary(x.transpose(1, 2), position)

        kinds = taken(monkeypatch)
        y, gradient = ran(rotated, x, upstream)
        assert kinds == ["rotate", "rotate"]
        wanted, wanted_gradient = ran(by_torch(rotated, monkeypatch), x, upstream)
        assert torch.equal(y, wanted)
        if type is torch.float32:
            assert torch.equal(gradient, wanted_gradient)
        torch.testing.assert_close(gradient, wanted_gradient, rtol=0.02, atol=0.02)


@each_format
@pytest.mark.parametrize("gain_type", FORMATS, ids=str)
def test_norm_by_the_root_mean_square(
    type: torch.dtype, gain_type: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    norm = RootMeanSquareNorm(48, eps=0.1)
    norm.weight.data = drawn(48, type=gain_type, seed=3)
    for shape, turned in (((5, 30, 3, 48), True), ((5, 30, 48), False)):
        x, upstream = drawn(*shape, type=type), drawn(*shape, type=type, seed=2)
        upstream = upstream.transpose(1, 2) if turned else upstream

        def normed(x: Tensor, turned: bool = turned) -> Tensor:
            return norm(x.transpose(1, 2) if turned else x)

        kinds = taken(monkeypatch)
        norm.weight.grad = None
        y, gradient = ran(normed, x, upstream)
        assert kinds == ["root", "root-back"] and norm.weight.grad.dtype is gain_type
        wide = x.double().requires_grad_()
        gains = norm.weight.detach().double().requires_grad_()
        exact = wide * (wide.square().mean(-1, keepdim=True) + 0.1).rsqrt() * gains
        exact.backward((upstream.transpose(1, 2) if turned else upstream).double())
        assert wide.grad is not None and gains.grad is not None
        close = {"rtol": 1e-5, "atol": 1e-5} if type is torch.float32 else {"rtol": 0.01, "atol": 0.01}
        torch.testing.assert_close((y.transpose(1, 2) if turned else y).double(), exact.detach(), **close)
        torch.testing.assert_close(gradient.double(), wide.grad, **close)
        close = close if gain_type is torch.float32 else {"rtol": 0.01, "atol": 0.01}
        torch.testing.assert_close(norm.weight.grad.double(), gains.grad, **close)


@each_format
@pytest.mark.parametrize("after", [None, "relu", "relu2"])
@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5])
def test_dropout_has_the_bits_of_torchs_operations(
    probability: float, after: Rectifier | None, type: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropout, x, upstream = Dropout(probability), drawn(9, 16, 48, type=type), drawn(9, 16, 48, type=type, seed=2)
    x[0] = 0  # where a rectifier has no slope

    def dropped(x: Tensor) -> Tensor:
        torch.manual_seed(5)
        return dropout(x * 1, after)

    kinds = taken(monkeypatch)
    y, gradient = ran(dropped, x, upstream)
    assert kinds == (["drop", "drop-back"] if probability or after else [])
    wanted, wanted_gradient = ran(by_torch(dropped, monkeypatch), x, upstream)
    assert torch.equal(y, wanted) and torch.equal(gradient, wanted_gradient)
    assert (y == 0).any() or not (probability or after)


@pytest.mark.parametrize("probability", [0.0, 0.3])
@pytest.mark.parametrize("activation", RECTIFIERS.values(), ids=RECTIFIERS)
def test_a_feed_forward_in_bfloat16_sums_the_gradient_of_its_bias_on_the_way(
    activation: Callable[[Tensor], Tensor], probability: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All else has the bits of torch's own form, whose sum is the other within rounding."""
    part = FeedForward(32, 64, activation=activation, dropout=probability).bfloat16()
    x, upstream = drawn(4, 50, 32, type=torch.bfloat16), drawn(4, 50, 32, seed=2).bfloat16()

    def numbers() -> dict[str, Tensor]:
        part.zero_grad()
        torch.manual_seed(5)
        y, gradient = ran(part, x, upstream)
        return {name: weight.grad for name, weight in part.named_parameters()} | {"x": gradient, "y": y}

    kinds = taken(monkeypatch)
    found = numbers()
    assert kinds == ["drop", "drop-back"]
    monkeypatch.setattr(FeedForward, "_fuses_bias_gradient", lambda self, x: False)
    wanted = numbers()
    assert all(torch.equal(found[name], wanted[name]) for name in found if name != "up.bias")
    torch.testing.assert_close(found["up.bias"], wanted["up.bias"], rtol=0.008, atol=0.008)


@pytest.mark.parametrize("shape", [(3, 16, 5), (5, 3), (0, 16)])
@each_format
def test_a_sum_has_the_bits_of_torchs(
    shape: tuple[int, ...], type: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    total, x = drawn(*shape), drawn(*shape, type=type, seed=2)
    wanted, kinds = total + x, taken(monkeypatch)
    passes.add_to(total, x)
    assert torch.equal(total, wanted)
    assert kinds == (["add"] if type is torch.bfloat16 and total.numel() % 16 == 0 else [])
    lying = drawn(16, 32, seed=3).T  # summed by torch
    wanted = lying + drawn(32, 16, type=type)
    passes.add_to(lying, drawn(32, 16, type=type))
    assert torch.equal(lying, wanted)


@pytest.mark.parametrize("activation", [*RECTIFIERS.values(), torch.tanh])
def test_a_feed_forward_is_activated_once(
    activation: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    part = FeedForward(16, 32, activation=activation)
    x = drawn(2, 5, 16).requires_grad_()
    found = part(x)
    torch.testing.assert_close(found, part.down(activation(part.up(x))))
    with reference_mode():
        torch.testing.assert_close(part(x), found)


@each_format
def test_numbers_are_the_same_by_one_thread_and_by_two(type: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    rotary, norm, dropout = Rotary(64), RootMeanSquareNorm(64, eps=1e-6), Dropout(0.3)
    x, upstream = drawn(8, 160, 4, 64, type=type), drawn(8, 4, 160, 64, type=type, seed=2)
    bias = drawn(64, type=type, seed=3).requires_grad_()

    def computed(x: Tensor) -> Tensor:
        torch.manual_seed(5)
        return dropout(rotary(norm(x.transpose(1, 2)), torch.arange(160).expand(8, 160)), "relu", bias)  # not in it

    found, threads, asked = [], torch.get_num_threads(), threads_asked(monkeypatch)
    for count in (1, 2):
        torch.set_num_threads(count)
        norm.weight.grad, bias.grad = None, None
        try:
            found.append((*ran(computed, x, upstream), norm.weight.grad, bias.grad))
        finally:
            torch.set_num_threads(threads)
    assert asked == sorted(asked) and set(asked) == {1, 2}
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts the threads as Linux lists them")
def test_several_threads_are_those_of_torch() -> None:
    """Threads of one's own would wait for torch's, which spin for a while after each operation."""

    def there() -> int:
        """Those that no Python code of another test began."""
        return len(list(Path("/proc/self/task").iterdir())) - threading.active_count()

    x, threads = drawn(2, 4, 160, 64).requires_grad_(), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for _ in range(2):  # torch's own threads come with its first operation, forward and backward
            torch.randn(2**20, requires_grad=True).exp().sum().backward()
        before = there()
        assert before > 0
        RootMeanSquareNorm(64, eps=1e-6)(x).sum().backward()
        assert there() == before
    finally:
        torch.set_num_threads(threads)


def test_torch_computes_where_its_threads_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    x, threads = drawn(1, 2, 4, 32).requires_grad_(), torch.get_num_threads()
    monkeypatch.setattr(passes, "_team", lambda: None)
    taken = []
    for count in (1, 2):
        torch.set_num_threads(count)
        try:
            taken.append(passes.covers(x))
        finally:
            torch.set_num_threads(threads)
    assert taken == [True, False]


def test_what_is_no_training_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = taken(monkeypatch)
    norm, rotary, position = RootMeanSquareNorm(32, eps=1e-6), Rotary(32), torch.arange(4)[None]
    x = drawn(1, 2, 4, 32)
    norm.weight.requires_grad_(False)
    rotary(norm(x), position)
    wide = x.double().requires_grad_()
    rotary(wide, position)
    with torch.no_grad():
        norm(x.clone().requires_grad_())
    with reference_mode():
        Dropout(0.5)(rotary(norm(x.clone().requires_grad_()), position))
    Dropout(0.5)(x[..., :1].clone().requires_grad_())  # eight numbers fill no register
    Rotary(16)(x[..., :16].clone().requires_grad_(), position)  # nor do eight pairs
    assert kinds == []
    monkeypatch.setattr(passes, "library", lambda: None)
    assert not passes.covers(x.clone().requires_grad_())


@pytest.mark.parametrize(
    "part", [Rotary(32), RootMeanSquareNorm(32, eps=1e-6), Dropout(0.25)], ids=lambda x: type(x).__name__
)
def test_any_layout_of_memory_will_do(part: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    """Features that do not lie side by side, and gradients that are one number."""
    x = drawn(2, 4, 32, 6)

    def total(x: Tensor) -> Tensor:
        torch.manual_seed(5)
        turned = x.transpose(2, 3)
        return (part(turned, torch.arange(6).expand(2, 6)) if isinstance(part, Rotary) else part(turned)).sum()

    kinds = taken(monkeypatch)
    found = ran(total, x, torch.tensor(1.0))
    assert len(kinds) == 2
    for one, other in zip(found, ran(by_torch(total, monkeypatch), x, torch.tensor(1.0)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-4)


@each_format
@pytest.mark.parametrize("probability", [0.0, 0.3])
@pytest.mark.parametrize(("frame", "kind"), [(PostNorm, "layer"), (PreNorm, "layer"), (PreNorm, "none")])
def test_the_end_of_a_branch_is_dropout_sum_and_norm(
    frame: type[Residual], kind: str, probability: float, type: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is dropped, the sum and its gradients have the bits of torch's; the norm is near to it in 64 bits."""
    around = frame(48, dropout=probability, kind=kind, epsilon=0.1 if kind == "layer" else None)
    for at, parameter in enumerate(around.parameters()):
        parameter.data = drawn(48, seed=3 + at)
    x, part, upstream = (drawn(5, 30, 48, type=type, seed=at) for at in (6, 7, 8))

    def joined(by_kernels: bool, given: tuple[Tensor, Tensor]) -> list[Tensor]:
        torch.manual_seed(5)
        around.zero_grad()
        x, part = (each.clone().requires_grad_() for each in given)
        y = around.join(x, part) if by_kernels else around.add(x, around.dropout(part))
        y.backward(upstream.to(y.dtype))
        gradients = [each.grad for each in (x, part, *around.parameters())]
        return [y.detach(), *(each for each in gradients if each is not None)]

    kinds = taken(monkeypatch)
    around.to(type)
    found = joined(True, (x, part))
    normed = frame is PostNorm
    assert kinds == (["join", "join-back"] if probability or normed else ["join"])
    if not normed:
        with monkeypatch.context() as patched:
            patched.setattr("regard.models.dropout.covers", lambda x: False)
            wanted = joined(False, (x, part))
        assert all(torch.equal(one, two) for one, two in zip(found, wanted, strict=True))
        return
    around.double()
    wanted = joined(False, (x.double(), part.double()))
    close = {"rtol": 1e-5, "atol": 1e-5} if type is torch.float32 else {"rtol": 0.02, "atol": 0.06}
    assert len(found) == 5
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, **close)


@each_format
def test_a_layer_norm_alone(type: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    around = PreNorm(48, dropout=0.5)
    around.norm.weight.data, around.norm.bias.data = drawn(48, seed=3), drawn(48, seed=4)
    x, upstream = drawn(2, 70, 48, type=type), drawn(2, 70, 48, type=type, seed=2)
    kinds = taken(monkeypatch)
    found = ran(around.before, x, upstream)
    assert kinds == ["join", "join-back"]
    wanted = ran(around.norm.double(), x.double(), upstream.double())
    close = {"rtol": 1e-5, "atol": 1e-5} if type is torch.float32 else {"rtol": 0.02, "atol": 0.02}
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, **close)


@each_format
@pytest.mark.parametrize("types", [1, 11, 64, 1000])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_and_its_slope(
    smoothing: float, types: int, type: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits, target = 3 * drawn(70, types, type=type), torch.arange(70) * 7 % types
    exact = logits.double().requires_grad_()
    log_p = torch.log_softmax(exact, 1)
    nll, every = -log_p.gather(1, target[:, None])[:, 0], -log_p.sum(1)
    ((1 - smoothing) * nll + smoothing / types * every).sum().backward()
    kinds = taken(monkeypatch)
    found = loss.slope_in_place(logits, target, smoothing)
    assert kinds == ["loss"] and found is not None and exact.grad is not None
    torch.testing.assert_close(found.target.double(), nll.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.types.double(), every.detach(), rtol=1e-5, atol=1e-4)
    close = {"rtol": 1e-5, "atol": 1e-6} if type is torch.float32 else {"rtol": 0.01, "atol": 1e-4}
    torch.testing.assert_close(logits.double(), exact.grad, **close)


def test_a_target_beyond_the_types_writes_nowhere() -> None:
    for wrong in (-1, 7):
        features, weight = torch.zeros(3, 16, requires_grad=True), torch.zeros(7, 16)
        with pytest.raises(IndexError, match="targets must be between 0 and 6"):
            projected_cross_entropy(features, weight, torch.tensor([0, wrong, 1]), smoothing=0.1)


class OtherLinear(torch.nn.Linear):
    """A projection that may do something else with its bias."""


@pytest.mark.parametrize(
    ("projection", "inner", "type", "on_the_way"),
    [
        (torch.nn.Linear, 64, torch.bfloat16, True), (torch.nn.Linear, 64, torch.float32, False),
        (torch.nn.Linear, 63, torch.bfloat16, False), (OtherLinear, 64, torch.bfloat16, False),
    ],
)  # fmt: skip
def test_when_the_gradient_of_a_bias_is_summed_on_the_way(
    projection: type[torch.nn.Linear], inner: int, type: torch.dtype, on_the_way: bool
) -> None:
    """Never in the reference form, nor of a tensor in another format than the weights."""
    part = FeedForward(32, inner)
    part.up = projection(32, inner)
    part = part.to(type)
    x = torch.zeros(2, 8, 32, dtype=type, requires_grad=True)
    assert part._fuses_bias_gradient(x) == on_the_way
    with reference_mode():
        assert not part._fuses_bias_gradient(x)
    assert not part._fuses_bias_gradient(x.float() if type is torch.bfloat16 else x.bfloat16())
