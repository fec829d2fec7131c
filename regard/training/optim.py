"""Learning-rate schedules, and optimizers over float32 master weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.config.settings import TrainConfig
from regard.core.tensors import kept_buffers
from regard.training.adapted_names import AdaptedNames
from regard.training.layer_rates import LayerRates, split_groups
from regard.training.muon import HiddenMatrix, Muon, hidden_matrices
from regard.training.row_parts import own_rows, rows_like, shard_like, total_norm

Schedule = Callable[[int], float]


def schedule(
    kind: str,
    *,
    learning_rate: float,
    warmup: int,
    width: int = 512,
    last_step: int | None = None,
    halve_after: int | None = None,
    halve_every: int | None = None,
) -> Schedule:
    """Return the learning rate as a function of the update ``step``, counted from 1.

    - ``noam``: learning_rate · width^-0.5 · min(step^-0.5, step · warmup^-1.5) (Vaswani et al. 2017, Eq. 3), in the
      paper with learning_rate = 1; its peak, at step = warmup, is learning_rate · (width · warmup)^-0.5.
    - ``inverse-sqrt``: the same shape with the peak ``learning_rate``.
    - ``linear``: rises to the peak, then falls to 0 at ``last_step``.
    - ``constant``: rises, then is constant.
    - ``halving``: constant for ``halve_after`` updates, then halved at once and after every ``halve_every`` (Luong et
      al. 2015, §4.1: "after 5 epochs, we begin to halve the learning rate every epoch").
    """
    warmup = max(warmup, 1)

    def rise(step: int) -> float:
        return min(1.0, step / warmup)

    shapes: dict[str, Schedule] = {
        "noam": lambda step: width**-0.5 * min(step**-0.5, step * warmup**-1.5),
        "inverse-sqrt": lambda step: rise(step) * math.sqrt(warmup / max(step, warmup)),
        "linear": lambda step: rise(step) * _fall(step, warmup, last_step),
        "constant": rise,
        "halving": lambda step: rise(step) * 0.5 ** _halvings(step, halve_after or 0, halve_every),
    }
    shape = shapes[kind]
    return lambda step: learning_rate * shape(step)


def _fall(step: int, warmup: int, last_step: int | None) -> float:
    if last_step is None:
        raise ValueError("the linear schedule requires last_step")
    return max(0.0, (last_step - step) / max(last_step - warmup, 1)) if step > warmup else 1.0


def _halvings(step: int, after: int, every: int | None) -> int:
    if every is None:
        raise ValueError("the halving schedule requires halve_every")
    return 0 if step <= after else 1 + (step - after - 1) // every


# State of an optimizer for a parameter, from its first update on.
STATE_KEYS: dict[str, tuple[str, ...]] = {
    "adam": ("step", "exp_avg", "exp_avg_sq"),
    "adamw": ("step", "exp_avg", "exp_avg_sq"),
    "adadelta": ("step", "square_avg", "acc_delta"),
    "sgd": (),
    "muon": ("momentum_buffer",),
    "frozen": (),
}
FROZEN = "frozen"  # kind of parameters that are not trained


class Optimizer:
    """Adam, AdamW, Adadelta, SGD, or Muon together with AdamW; weights and moments are float32.

    (Kingma & Ba 2015; Loshchilov & Hutter 2019; Zeiler 2012, with ρ ``rho``; Jordan et al. 2024.) ``muon`` updates the
    ``hidden_matrices`` of the model; AdamW updates the others, with the same rate and decay.

    The parameters of a bfloat16 model are the master weights, rounded after every update; those of a float32 model are
    the master weights themselves. ``average`` is their exponential moving average.

    For parameters that are sharded over ranks, all state and gradients are this rank's rows.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        kind: str = "adam",
        betas: tuple[float, float] = (0.9, 0.98),
        epsilon: float = 1e-9,
        rho: float = 0.95,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        clip_norm: float | None = None,
        ema: float | None = None,
        layer_decay: float = 1.0,
        unfreeze_every: int | None = None,
    ) -> None:
        self.names = [name for name, _ in model.named_parameters()]
        self.parameters = [parameter for _, parameter in model.named_parameters()]
        self.adapted = AdaptedNames(model)
        self.buffers = kept_buffers(model)
        self._last_buffers = [buffer.clone() for buffer in self.buffers.values()]
        self._rounded = [p.dtype == torch.bfloat16 for p in self.parameters]
        self.masters = [own_rows(p) if p.dtype != torch.bfloat16 else p.detach().float() for p in self.parameters]
        self.clip_norm, self.ema = clip_norm, ema
        self.average = [m.detach().clone() for m in self.masters] if ema is not None else []
        # The rate is set at every step. fused: one pass over each tensor.
        common: dict[str, Any] = dict(lr=0.0, weight_decay=weight_decay)
        moments: dict[str, Any] = dict(betas=betas, eps=epsilon, fused=True)
        makers: dict[str, Callable[[list[Tensor]], torch.optim.Optimizer]] = {
            "adam": lambda masters: torch.optim.Adam(masters, **common, **moments),
            "adamw": lambda masters: torch.optim.AdamW(masters, **common, **moments),
            "adadelta": lambda masters: torch.optim.Adadelta(masters, **common, rho=rho, eps=epsilon),
            "sgd": lambda masters: torch.optim.SGD(masters, **common, fused=True),
            "muon": lambda _: Muon(self._matrices(stacked), momentum=momentum, weight_decay=weight_decay),
        }
        stacked = hidden_matrices(model) if kind == "muon" else {}
        used = [kind if kind != "muon" or name in stacked else "adamw" for name in self.names]
        self.kinds = [name if p.requires_grad else FROZEN for name, p in zip(used, self.parameters, strict=True)]
        self.layers = LayerRates(self.names, decay=layer_decay, unfreeze_every=unfreeze_every)
        self.inner = {
            name: makers[name]([m for m, own in zip(self.masters, self.kinds, strict=True) if own == name])
            for name in dict.fromkeys(self.kinds)
            if name != FROZEN
        }
        split_groups(self.inner.values(), self.masters, self.layers.factors)

    def _matrices(self, stacked: Mapping[str, int]) -> list[HiddenMatrix]:
        """Return the hidden matrices, by master weight, with the number format in which the model computes."""
        every = zip(self.names, self.masters, self.parameters, strict=True)
        return [
            HiddenMatrix(master, stacked[name], p.dtype, p)
            for name, master, p in every
            if name in stacked and p.requires_grad
        ]

    def step(
        self, learning_rate: float, gradients: Sequence[Tensor] | None = None, *, number: int | None = None
    ) -> float:
        """Make one update and return the norm of the gradients before clipping.

        ``gradients``: by parameter; by default, the gradients of ``backward``, which are then dropped. Given gradients
        are modified; they must be at least float32 and have the memory layout of the parameters, except those of
        frozen parameters, which are ignored. ``number``: of the update, from 1, by which layers are unfrozen; None:
        all are.

        If the norm is not finite, no weight changes and the gradients are dropped; the caller decides how to proceed.
        Buffers that the passes have updated, as in BatchNorm, are restored to their values after the previous update.
        """
        if gradients is None:
            alike = [p if p.requires_grad else p.new_empty(0) for p in self.parameters]
            grads = [p.grad for p in self.parameters]
            accumulated = [torch.zeros_like(p) if g is None else g for g, p in zip(grads, alike, strict=True)]
            gradients = [own_rows(g.float() if g.dtype == torch.bfloat16 else g) for g in accumulated]
        own_gradients, trained = list(gradients), self.layers.trained(number)
        self._drop_gradients()
        for index, is_trained in enumerate(trained):
            if not is_trained:  # as if the parameter did not exist: it changes neither the norm nor its moments
                own_gradients[index] = torch.zeros_like(own_gradients[index])
        norm = total_norm(own_gradients, self.parameters)
        if not math.isfinite(norm):
            self._move_buffers(self._last_buffers, list(self.buffers.values()))
            return norm
        if self.clip_norm is not None and norm > self.clip_norm:
            torch._foreach_mul_(own_gradients, self.clip_norm / norm)
        for master, gradient, kind, is_trained in zip(self.masters, own_gradients, self.kinds, trained, strict=True):
            master.grad = gradient if is_trained and kind != FROZEN else None
        for inner in self.inner.values():
            for group in inner.param_groups:
                group["lr"] = learning_rate * group["factor"]
            inner.step()
        self._drop_gradients()
        self._publish()
        self._move_buffers(list(self.buffers.values()), self._last_buffers)
        if self.ema is not None:
            with torch.no_grad():
                torch._foreach_lerp_(self.average, [m.detach() for m in self.masters], 1 - self.ema)
        return norm

    def skip(self) -> float:
        """Drop the gradients of an update that must not be made. Returns NaN as its norm."""
        self._drop_gradients()
        self._move_buffers(self._last_buffers, list(self.buffers.values()))
        return math.nan

    @torch.no_grad()
    def _move_buffers(self, source: list[Tensor], target: list[Tensor]) -> None:
        for one, other in zip(source, target, strict=True):
            other.copy_(one)

    def _drop_gradients(self) -> None:
        for tensor in (*self.parameters, *self.masters):
            tensor.grad = None

    @torch.no_grad()
    def _publish(self) -> None:
        for parameter, master, rounded in zip(self.parameters, self.masters, self._rounded, strict=True):
            if rounded:
                parameter.copy_(master)

    def weights(self) -> dict[str, Tensor]:
        """Return the float32 weights by name: the moving average if there is one, otherwise the master weights.

        Low-rank adapters are merged; persistent buffers of the model are included.
        """
        return self.adapted.merged(self._weights()) | self.buffers

    def _weights(self) -> dict[str, Tensor]:
        every = zip(self.names, self.average or self.masters, self.parameters, strict=True)
        return {name: shard_like(tensor.detach(), p) for name, tensor, p in every}

    def tensors(self) -> dict[str, Tensor]:
        """Return all other tensors that a restart needs, by name."""
        named = self.adapted.parts(self._weights())
        for name, master, kind, p in zip(self.names, self.masters, self.kinds, self.parameters, strict=True):
            if self.average:
                named[f"master.{name}"] = shard_like(master.detach(), p)
            for key, value in self._state(kind, master).items():
                if isinstance(value, Tensor):  # SGD without momentum has a None
                    named[f"{key}.{name}"] = value if key == "step" else shard_like(value, p)
        return named

    def begin_with(self, weights: Mapping[str, Tensor]) -> None:
        """Start from initial ``weights`` of the model's parameters and buffers, without optimizer state."""
        self._load(weights, {f"master.{name}": weights[name] for name in self.names} if self.average else {})

    def load(self, weights: Mapping[str, Tensor], named: Mapping[str, Tensor]) -> None:
        """Load full tensors that ``weights`` and ``tensors`` returned.

        Raises KeyError for a missing name, and ValueError for another shape or number format.
        """
        self._load(self.adapted.restored(weights, named), named)

    @torch.no_grad()
    def _load(self, weights: Mapping[str, Tensor], named: Mapping[str, Tensor]) -> None:
        for name, master, kind, p in zip(self.names, self.masters, self.kinds, self.parameters, strict=True):
            expected = torch.empty(p.shape, dtype=master.dtype, device="meta")
            _require_alike(name, weights[name], expected)
            if self.average:
                _require_alike(f"master.{name}", named[f"master.{name}"], expected)
            has_state = any(
                f"{key}.{name}" in named for key in STATE_KEYS[kind]
            )  # all keys, or none before the first update
            for key in STATE_KEYS[kind] if has_state else ():
                like = torch.zeros(()) if key == "step" else expected
                _require_alike(f"{key}.{name}", named[f"{key}.{name}"], like)
        for name, buffer in self.buffers.items():
            _require_alike(name, weights[name], buffer)
        for name, buffer in self.buffers.items():
            buffer.copy_(weights[name])
        self._move_buffers(list(self.buffers.values()), self._last_buffers)
        every = zip(self.names, self.masters, self.kinds, self.parameters, strict=True)
        for index, (name, master, kind, p) in enumerate(every):
            if self.average:
                self.average[index].copy_(rows_like(weights[name], p))
            master.copy_(rows_like(named[f"master.{name}"] if self.average else weights[name], p))
            saved_state = {key: named[f"{key}.{name}"] for key in STATE_KEYS[kind] if f"{key}.{name}" in named}
            state = self._state(kind, master)
            state.clear()
            for key, value in saved_state.items():
                state[key] = (value if key == "step" else rows_like(value, p)).to(master.device, copy=True)
        self._publish()

    def _state(self, kind: str, master: Tensor) -> dict[str, Any]:
        """Return the optimizer's state of a master weight."""
        state: dict[str, Any] = {} if kind == FROZEN else self.inner[kind].state[master]
        return state

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Let the model compute with the moving average inside the block; without one, nothing changes."""
        if not self.average:
            yield
            return
        trained = [master.detach().clone() for master in self.masters]
        try:
            self._put(self.average)
            yield
        finally:
            self._put(trained)

    @torch.no_grad()
    def _put(self, weights: list[Tensor]) -> None:
        for master, weight in zip(self.masters, weights, strict=True):
            master.copy_(weight)
        self._publish()


def _require_alike(name: str, actual: Tensor, expected: Tensor) -> None:
    """Raise ValueError if a tensor differs in form: copying would broadcast it, and Adam does not check it."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        actual_form, expected_form = (f"{list(tensor.shape)} in {tensor.dtype}" for tensor in (actual, expected))
        raise ValueError(f"{name} is {actual_form}, not {expected_form}")


def make_optimizer(model: nn.Module, settings: TrainConfig) -> Optimizer:
    """Return the optimizer of a model for the settings of its training."""
    return Optimizer(
        model,
        kind=settings.optimizer,
        betas=settings.betas,
        epsilon=settings.epsilon,
        rho=settings.rho,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        clip_norm=settings.clip_norm,
        ema=settings.ema,
        layer_decay=settings.layer_decay,
        unfreeze_every=settings.unfreeze_every,
    )
