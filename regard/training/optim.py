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
from regard.models.hidden_matrices import hidden_matrices
from regard.training.muon import HiddenMatrix, Muon
from regard.training.row_parts import cut_like, own_rows, rows_like, total_norm

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
    """The learning rate of update ``step``, counted from 1.

    ``noam``: learning_rate · width^-0.5 · min(step^-0.5, step · warmup^-1.5) (Vaswani et al. 2017, Eq. 3), a factor
    of 1 in the paper; its peak, at step = warmup, is (width · warmup)^-0.5. ``inverse-sqrt``: the same shape with
    the peak ``learning_rate``. ``linear``: up to the peak, then down to 0 at
    ``last_step``. ``constant``: up, then flat. ``halving``: the same for ``halve_after`` updates, then half as much
    at once and after every ``halve_every`` (Luong et al. 2015, §4.1: "after 5 epochs, we begin to halve the learning
    rate every epoch").
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
        raise ValueError("a linear schedule needs to know the last step")
    return max(0.0, (last_step - step) / max(last_step - warmup, 1)) if step > warmup else 1.0


def _halvings(step: int, after: int, every: int | None) -> int:
    if every is None:
        raise ValueError("a halving schedule needs to know after how many updates to halve")
    return 0 if step <= after else 1 + (step - after - 1) // every


# What an optimizer keeps of a parameter from its first update on.
KEPT: dict[str, tuple[str, ...]] = {
    "adam": ("step", "exp_avg", "exp_avg_sq"),
    "adamw": ("step", "exp_avg", "exp_avg_sq"),
    "adadelta": ("step", "square_avg", "acc_delta"),
    "sgd": (),
    "muon": ("momentum_buffer",),
    "frozen": (),
}
FROZEN = "frozen"  # the kind of a parameter that does not learn


class Optimizer:
    """Adam, AdamW, Adadelta, plain SGD, or Muon beside AdamW, whose weights and moments are float32.

    (Kingma & Ba 2015; Loshchilov & Hutter 2019; Zeiler 2012, with ρ ``rho``; Jordan et al. 2024.) ``muon`` is for the
    ``hidden_matrices`` of the model; AdamW takes the rest, at the same rate and decay.

    A model that computes in bfloat16 gets its parameters by rounding the master weights after every update; a
    float32 model's parameters are the master weights. ``average`` is an exponential moving average of them.

    Of parameters that are cut over ranks it keeps, and is given the gradients of, the rows that this rank holds.
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
    ) -> None:
        self.names = [name for name, _ in model.named_parameters()]
        self.parameters = [parameter for _, parameter in model.named_parameters()]
        self.buffers = kept_buffers(model)
        self._sound = [buffer.clone() for buffer in self.buffers.values()]
        self._rounded = [p.dtype == torch.bfloat16 for p in self.parameters]
        self.masters = [own_rows(p) if p.dtype != torch.bfloat16 else p.detach().float() for p in self.parameters]
        self.clip_norm, self.ema = clip_norm, ema
        self.average = [m.detach().clone() for m in self.masters] if ema is not None else []
        # The rate is set anew at every step; fused: one pass over each tensor.
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
        self.kinds = [each if p.requires_grad else FROZEN for each, p in zip(used, self.parameters, strict=True)]
        self.inner = {
            each: makers[each]([m for m, own in zip(self.masters, self.kinds, strict=True) if own == each])
            for each in dict.fromkeys(self.kinds)
            if each != FROZEN
        }

    def _matrices(self, stacked: Mapping[str, int]) -> list[HiddenMatrix]:
        """Hidden matrices by master weight: what is ``stacked``, in the number format that the model computes in."""
        every = zip(self.names, self.masters, self.parameters, strict=True)
        return [
            HiddenMatrix(master, stacked[name], p.dtype, p)
            for name, master, p in every
            if name in stacked and p.requires_grad
        ]

    def step(self, learning_rate: float, gradients: Sequence[Tensor] | None = None) -> float:
        """One update from ``gradients``, by parameter, or from those that ``backward`` left, which are then dropped.

        Given ones are used up: laid out as the parameters, at least float32. Returns their norm before clipping.

        A norm that is not finite changes nothing but drops the gradients: the caller decides what to do. Buffers that
        the model kept meanwhile, as BatchNorm does, are then again as they were after the update before.
        """
        if gradients is None:
            left = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
            gradients = [own_rows(g.float() if g.dtype == torch.bfloat16 else g) for g in left]
        wide = list(gradients)
        self._drop_gradients()
        value = total_norm(wide, self.parameters)
        if not math.isfinite(value):
            self._move_buffers(self._sound, list(self.buffers.values()))
            return value
        if self.clip_norm is not None and value > self.clip_norm:
            torch._foreach_mul_(wide, self.clip_norm / value)
        for master, gradient in zip(self.masters, wide, strict=True):
            master.grad = gradient
        for inner in self.inner.values():
            for group in inner.param_groups:
                group["lr"] = learning_rate
            inner.step()
        self._drop_gradients()
        self._publish()
        self._move_buffers(list(self.buffers.values()), self._sound)
        if self.ema is not None:
            with torch.no_grad():
                torch._foreach_lerp_(self.average, [m.detach() for m in self.masters], 1 - self.ema)
        return value

    def skip(self) -> float:
        """Drop the gradients of an update that must not be made. Returns its norm, which is not a number."""
        self._drop_gradients()
        self._move_buffers(self._sound, list(self.buffers.values()))
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
        """The float32 weights by name: the moving average where there is one, else the master weights.

        With them go the buffers that the model keeps, as they are.
        """
        every = zip(self.names, self.average or self.masters, self.parameters, strict=True)
        return {name: cut_like(tensor.detach(), p) for name, tensor, p in every} | self.buffers

    def tensors(self) -> dict[str, Tensor]:
        """Everything beside ``weights`` that must survive a restart, by name."""
        named: dict[str, Tensor] = {}
        for name, master, kind, p in zip(self.names, self.masters, self.kinds, self.parameters, strict=True):
            if self.average:
                named[f"master.{name}"] = cut_like(master.detach(), p)
            for key, value in self._state(kind, master).items():
                if isinstance(value, Tensor):  # SGD without momentum keeps a None
                    named[f"{key}.{name}"] = value if key == "step" else cut_like(value, p)
        return named

    def begin_with(self, weights: Mapping[str, Tensor]) -> None:
        """Take another run's ``weights``, and nothing that an optimizer has kept of them."""
        self.load(weights, {f"master.{name}": weights[name] for name in self.names} if self.average else {})

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor], named: Mapping[str, Tensor]) -> None:
        """Take back what ``weights`` and ``tensors`` gave, in whole tensors.

        Raises KeyError where a name is missing, and ValueError where a tensor is of another shape or kind of number.
        """
        for name, master, kind, p in zip(self.names, self.masters, self.kinds, self.parameters, strict=True):
            wanted = torch.empty(p.shape, dtype=master.dtype, device="meta")
            _require_alike(name, weights[name], wanted)
            if self.average:
                _require_alike(f"master.{name}", named[f"master.{name}"], wanted)
            begun = any(f"{key}.{name}" in named for key in KEPT[kind])  # all of it, or none before the first update
            for key in KEPT[kind] if begun else ():
                like = torch.zeros(()) if key == "step" else wanted
                _require_alike(f"{key}.{name}", named[f"{key}.{name}"], like)
        for name, buffer in self.buffers.items():
            _require_alike(name, weights[name], buffer)
        for name, buffer in self.buffers.items():
            buffer.copy_(weights[name])
        self._move_buffers(list(self.buffers.values()), self._sound)
        every = zip(self.names, self.masters, self.kinds, self.parameters, strict=True)
        for index, (name, master, kind, p) in enumerate(every):
            if self.average:
                self.average[index].copy_(rows_like(weights[name], p))
            master.copy_(rows_like(named[f"master.{name}"] if self.average else weights[name], p))
            kept = {key: named[f"{key}.{name}"] for key in KEPT[kind] if f"{key}.{name}" in named}
            state = self._state(kind, master)
            state.clear()
            for key, value in kept.items():
                state[key] = (value if key == "step" else rows_like(value, p)).to(master.device, copy=True)
        self._publish()

    def _state(self, kind: str, master: Tensor) -> dict[str, Any]:
        """The tensors that the optimizer of that kind keeps of a master weight."""
        found: dict[str, Any] = {} if kind == FROZEN else self.inner[kind].state[master]
        return found

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The model computes with the moving average inside the block; with none, nothing changes."""
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


def _require_alike(name: str, found: Tensor, wanted: Tensor) -> None:
    """Before it is copied, which would stretch a smaller one, or handed to Adam, which trusts it."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        there, here = (f"{list(each.shape)} in {each.dtype}" for each in (found, wanted))
        raise ValueError(f"{name} is {there}, not {here}")


def make_optimizer(model: nn.Module, settings: TrainConfig) -> Optimizer:
    """Optimizer of a model by the settings of its training."""
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
    )
