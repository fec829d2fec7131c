"""Learning rates by their formulas, and Adam as its authors and torch have it."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from regard.training.optim import Optimizer, schedule

WIDTH, WARMUP = 512, 4000


def small_model() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def set_gradients(model: nn.Module, scale: float = 1.0) -> list[Tensor]:
    """Random gradients; returns copies."""
    for parameter in model.parameters():
        parameter.grad = scale * torch.randn_like(parameter)
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def test_noam_peaks_at_the_end_of_warm_up() -> None:
    rate = schedule("noam", learning_rate=1.0, warmup=WARMUP, width=WIDTH)
    values = [rate(step) for step in range(1, 4 * WARMUP)]
    assert 1 + values.index(max(values)) == WARMUP
    assert max(values) == pytest.approx((WIDTH * WARMUP) ** -0.5, rel=1e-12)
    assert max(values) == pytest.approx(7e-4, rel=0.01)  # the base model's, as everybody quotes it


def test_noam_rises_in_a_line_and_falls_with_the_root() -> None:
    rate = schedule("noam", learning_rate=2.0, warmup=WARMUP, width=WIDTH)
    for step in (1, 17, WARMUP - 1):
        assert rate(step + 1) - rate(step) == pytest.approx(2 * WIDTH**-0.5 * WARMUP**-1.5, rel=1e-9)
    for step in (WARMUP, 4 * WARMUP, 100 * WARMUP):
        assert rate(step) * math.sqrt(step) == pytest.approx(2 * WIDTH**-0.5, rel=1e-12)
        slope = (rate(step + 1) - rate(step)) / rate(step)
        assert slope == pytest.approx(-0.5 / step, rel=1e-3)


def test_inverse_square_root_is_noam_by_its_peak() -> None:
    noam = schedule("noam", learning_rate=1.0, warmup=WARMUP, width=WIDTH)
    rate = schedule("inverse-sqrt", learning_rate=(WIDTH * WARMUP) ** -0.5, warmup=WARMUP)
    for step in (1, 100, WARMUP, WARMUP + 1, 10 * WARMUP):
        assert rate(step) == pytest.approx(noam(step), rel=1e-12)


def test_linear_ends_at_zero_and_constant_does_not_end() -> None:
    linear = schedule("linear", learning_rate=0.4, warmup=10, last_step=50)
    assert [linear(step) for step in (5, 10, 30, 50)] == pytest.approx([0.2, 0.4, 0.2, 0.0])
    constant = schedule("constant", learning_rate=0.4, warmup=10)
    assert [constant(step) for step in (5, 10, 10_000)] == pytest.approx([0.2, 0.4, 0.4])


def test_halving_halves_after_so_many_updates_and_every_so_many_more() -> None:
    rate = schedule("halving", learning_rate=1.0, warmup=0, halve_after=5, halve_every=2)
    assert [rate(step) for step in range(1, 11)] == [1] * 5 + [0.5] * 2 + [0.25] * 2 + [0.125]
    with pytest.raises(ValueError, match="requires halve_every"):
        schedule("halving", learning_rate=1.0, warmup=0)(1)


@pytest.mark.parametrize("kind", ["adadelta", "sgd"])
def test_the_optimizers_of_recurrent_models_go_on_where_they_were_saved(kind: str) -> None:
    """One update by hand each; then saved, loaded into another model, and one more: the same numbers."""
    model, other = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    ours, again = (Optimizer(each, kind=kind, rho=0.9, epsilon=1e-4) for each in (model, other))
    first = float(model.weight.detach())
    ours.step(0.5, [torch.tensor([[2.0]])])
    # Zeiler 2012: E[g²] = 0.1 · 2², Δ = −√ε / √(E[g²] + ε) · g.
    by = {"sgd": 2.0, "adadelta": math.sqrt(1e-4) / math.sqrt(0.1 * 4 + 1e-4) * 2.0}[kind]
    assert float(model.weight.detach()) == pytest.approx(first - 0.5 * by, rel=1e-5)
    again.load(ours.weights(), ours.tensors())
    for optimizer in (ours, again):
        optimizer.step(0.5, [torch.tensor([[-1.0]])])
    assert torch.equal(model.weight, other.weight)
    assert {name.rpartition(".")[0] for name in ours.tensors()} == (
        {"step", "square_avg", "acc_delta"} if kind == "adadelta" else set()
    )


@pytest.mark.parametrize(("kind", "lost"), [("adam", "exp_avg.weight"), ("adadelta", "acc_delta.weight")])
def test_moments_are_there_whole_or_not_at_all(kind: str, lost: str) -> None:
    model = nn.Linear(1, 1, bias=False)
    ours = Optimizer(model, kind=kind)
    ours.step(0.5, [torch.tensor([[2.0]])])
    whole = ours.tensors()
    with pytest.raises(KeyError):
        ours.load(ours.weights(), {name: tensor for name, tensor in whole.items() if name != lost})
    with pytest.raises(ValueError, match=lost.replace(".", r"\.")):
        ours.load(ours.weights(), whole | {lost: torch.zeros(3)})


def test_no_warm_up_begins_at_the_peak() -> None:
    assert schedule("inverse-sqrt", learning_rate=0.4, warmup=0)(1) == pytest.approx(0.4)


@pytest.mark.parametrize(("kind", "theirs"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_equals_torch(kind: str, theirs: type[torch.optim.Adam], decay: float) -> None:
    ours_model, their_model = small_model(), small_model()
    their_model.load_state_dict(ours_model.state_dict())
    ours = Optimizer(ours_model, kind=kind, betas=(0.8, 0.9), epsilon=1e-6, weight_decay=decay)
    reference = theirs(their_model.parameters(), betas=(0.8, 0.9), eps=1e-6, weight_decay=decay, foreach=False)
    for rate in (0.1, 0.05, 0.2):
        gradients = set_gradients(ours_model)
        for parameter, gradient in zip(their_model.parameters(), gradients, strict=True):
            parameter.grad = gradient
        reference.param_groups[0]["lr"] = rate
        reference.step()
        ours.step(rate)
    for mine, other in zip(ours_model.parameters(), their_model.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


def test_first_step_has_the_length_of_the_rate() -> None:
    """Bias correction makes m/√v the gradient's sign at step 1 (Kingma & Ba 2015, §2.1)."""
    model = small_model()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = Optimizer(model)
    gradients = set_gradients(model)
    optimizer.step(0.01)
    for was, now, gradient in zip(before, model.parameters(), gradients, strict=True):
        torch.testing.assert_close(now.detach(), was - 0.01 * gradient.sign(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("scale", "clipped"), [(100.0, True), (1e-4, False)])
def test_clipping_scales_the_whole_gradient_and_reports_the_norm_before(scale: float, clipped: bool) -> None:
    one, two = small_model(), small_model()
    two.load_state_dict(one.state_dict())
    ours, plain = Optimizer(one, clip_norm=1.0, epsilon=1.0), Optimizer(two, epsilon=1.0)
    gradients = set_gradients(one, scale)
    norm = math.sqrt(sum(float(gradient.double().square().sum()) for gradient in gradients))
    assert (norm > 1) == clipped
    for parameter, gradient in zip(two.parameters(), gradients, strict=True):
        parameter.grad = gradient / max(norm, 1.0)
    assert ours.step(0.1) == pytest.approx(norm, rel=1e-5)
    plain.step(0.1)
    for mine, other in zip(one.parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-7)


def test_an_update_that_is_not_made_leaves_no_trace_in_what_the_model_keeps() -> None:
    """BatchNorm has by then seen a batch that is not finite, and would never forget it."""
    model = nn.Sequential(nn.BatchNorm1d(3))
    optimizer = Optimizer(model)
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step(0.1)
    before = {name: tensor.clone() for name, tensor in optimizer.buffers.items()}
    assert int(before["0.num_batches_tracked"]) == 1
    model(torch.full((4, 3), math.nan))
    optimizer.skip()
    assert all(torch.equal(before[name], tensor) for name, tensor in optimizer.buffers.items())
    model(torch.full((4, 3), math.inf)).sum().backward()
    assert not math.isfinite(optimizer.step(0.1))
    assert all(torch.equal(before[name], tensor) for name, tensor in optimizer.buffers.items())


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_changes_nothing_and_is_dropped(poison: float) -> None:
    model = small_model()
    optimizer = Optimizer(model, ema=0.5)
    set_gradients(model)
    optimizer.step(0.1)
    before = {name: tensor.clone() for name, tensor in (optimizer.weights() | optimizer.tensors()).items()}
    set_gradients(model)
    next(model.parameters()).grad[0, 0] = poison  # type: ignore[index]
    assert not math.isfinite(optimizer.step(0.1))
    after = optimizer.weights() | optimizer.tensors()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_moving_average_by_its_formula() -> None:
    model = small_model()
    optimizer = Optimizer(model, ema=0.75)
    expected = [parameter.detach().double() for parameter in model.parameters()]
    for _ in range(4):
        set_gradients(model)
        optimizer.step(0.1)
        expected = [0.75 * e + 0.25 * p.detach().double() for e, p in zip(expected, model.parameters(), strict=True)]
    for average, parameter, wanted in zip(optimizer.weights().values(), model.parameters(), expected, strict=True):
        torch.testing.assert_close(average.double(), wanted, rtol=1e-6, atol=1e-7)
        assert not torch.allclose(average, parameter)


def test_inside_averaged_the_model_is_the_average_and_afterwards_itself_again() -> None:
    model = small_model()
    optimizer = Optimizer(model, ema=0.9)
    set_gradients(model)
    optimizer.step(0.1)
    trained = [parameter.detach().clone() for parameter in model.parameters()]
    with pytest.raises(KeyboardInterrupt), optimizer.averaged():
        for parameter, average in zip(model.parameters(), optimizer.weights().values(), strict=True):
            assert torch.equal(parameter, average)
        raise KeyboardInterrupt
    assert all(torch.equal(was, now) for was, now in zip(trained, model.parameters(), strict=True))


def test_master_weights_learn_what_bfloat16_cannot_hold() -> None:
    """A hundred steps of 1e-4 from 1 are 1e-2; in bfloat16 1 - 1e-4 is 1 again."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    model = model.to(torch.bfloat16)
    optimizer = Optimizer(model)
    for _ in range(100):
        model.weight.grad = torch.ones_like(model.weight)
        optimizer.step(1e-4)
    (master,) = optimizer.weights().values()
    assert master.dtype == torch.float32
    assert float(master) == pytest.approx(0.99, abs=1e-4)
    assert torch.equal(model.weight, master.bfloat16())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("ema", [None, 0.9])
def test_what_is_stored_is_all_there_is(dtype: torch.dtype, ema: float | None) -> None:
    """A second model takes it over in the middle and goes on bit for bit."""
    one, two = small_model().to(dtype), small_model().to(dtype)
    first, second = Optimizer(one, ema=ema), Optimizer(two, ema=ema)
    set_gradients(one)
    first.step(0.1)
    second.load(first.weights(), first.tensors())
    for parameter, gradient in zip(two.parameters(), set_gradients(one), strict=True):
        parameter.grad = gradient
    assert first.step(0.1) == second.step(0.1)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    theirs = second.weights() | second.tensors()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in (first.weights() | first.tensors()).items())


def test_what_was_loaded_is_a_copy() -> None:
    """Else the first update would change the checkpoint that a roll-back wants."""
    model = small_model()
    optimizer = Optimizer(model)
    set_gradients(model)
    optimizer.step(0.1)
    weights = {name: tensor.clone() for name, tensor in optimizer.weights().items()}
    named = {name: tensor.clone() for name, tensor in optimizer.tensors().items()}
    kept = {name: tensor.clone() for name, tensor in (weights | named).items()}
    optimizer.load(weights, named)
    set_gradients(model)
    optimizer.step(0.1)
    assert all(torch.equal((weights | named)[name], tensor) for name, tensor in kept.items())


@pytest.mark.gpu
def test_a_checkpoint_from_the_cpu_goes_on_on_the_accelerator() -> None:
    model = small_model().cuda()
    optimizer = Optimizer(model)
    set_gradients(model)
    optimizer.step(0.1)
    weights, named = ({k: v.cpu() for k, v in part.items()} for part in (optimizer.weights(), optimizer.tensors()))
    optimizer.load(weights, named)
    set_gradients(model)
    assert math.isfinite(optimizer.step(0.1))
