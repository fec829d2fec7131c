"""Recurrent cells, each as one layer in one direction: Elman, LSTM, and GRU in four variants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

Carried = tuple[Tensor, ...]  # of one layer, (rows, width) each: the hidden state, then the LSTM's cell
Step = Callable[[Tensor, Carried], Carried]


class Weights(NamedTuple):
    """Parameters of torch's layer: ``weight_ih_l0`` W, ``weight_hh_l0`` U, ``bias_ih_l0`` b, ``bias_hh_l0`` b'."""

    input: nn.Parameter
    recurrent: nn.Parameter
    input_bias: nn.Parameter
    recurrent_bias: nn.Parameter


class Cell(nn.Module, ABC):
    """One recurrent layer, from left to right, with the parameters of torch's module ``core`` in torch's layout.

    ``run`` takes whole sequences, through torch's fused module if that computes this cell. ``step_function`` processes
    one position at a time with the same parameters, for decoders whose next input depends on the last output.
    ``parts``: number of tensors that a row carries. ``gates``: number of blocks of ``width`` rows in a matrix.
    """

    gates: int
    parts: int = 1

    def __init__(self, core: nn.RNNBase) -> None:
        super().__init__()
        self.core, self.width = core, core.hidden_size

    @property
    def weights(self) -> Weights:
        return Weights(*self.core.all_weights[0])

    def start(self, rows: int) -> Carried:
        """Return the state before the first position: zeros."""
        return tuple(self.weights.recurrent.new_zeros(rows, self.width) for _ in range(self.parts))

    @abstractmethod
    def project_input(self, x: Float[Tensor, "*columns in_width"]) -> Float[Tensor, "*columns gates"]:
        """Return W x + b, the part of a step that depends on the input alone, for all positions in one product."""

    @abstractmethod
    def step_function(self) -> Step:
        """Return a function (projected (rows, gates), carried) → carried, valid within one pass."""

    @abstractmethod
    def run(
        self, x: Float[Tensor, "rows length in_width"], length: Int[Tensor, "rows"], carried: Carried
    ) -> tuple[Float[Tensor, "rows length width"], Carried]:
        """Return the hidden states of the first ``length`` positions of each row, and the last carried tensors."""

    @abstractmethod
    def add_forget_bias(self, bias: float) -> None:
        """Add ``bias`` to the bias of the gate that keeps the old state."""

    @torch.no_grad()
    def make_orthogonal(self) -> None:
        """Set the recurrent matrix of every gate to a random orthogonal one (Saxe et al. 2014)."""
        for block in self.weights.recurrent.chunk(self.gates):
            nn.init.orthogonal_(block)


class Elman(Cell):
    """h_t = tanh(W x_t + b + U h_{t−1} + b') (Elman 1990). Cost per step: width · (in_width + width)."""

    gates = 1

    def __init__(self, in_width: int, width: int) -> None:
        super().__init__(nn.RNN(in_width, width, batch_first=True))

    def project_input(self, x: Float[Tensor, "*columns in_width"]) -> Float[Tensor, "*columns gates"]:
        return linear(x, self.weights.input, self.weights.input_bias + self.weights.recurrent_bias)

    def step_function(self) -> Step:
        recurrent = self.weights.recurrent.t()
        return lambda projected, carried: (torch.tanh(torch.addmm(projected, carried[0], recurrent)),)

    def run(
        self, x: Float[Tensor, "rows length in_width"], length: Int[Tensor, "rows"], carried: Carried
    ) -> tuple[Float[Tensor, "rows length width"], Carried]:
        return _fused(self.core, x, length, carried)

    def add_forget_bias(self, bias: float) -> None:
        if bias:
            raise ValueError("forget_bias requires a cell with gates, which an Elman cell lacks")


class LSTM(Cell):
    """i, f, o = σ(W x_t + b + U h_{t−1} + b'), g = tanh(…), c_t = f ∘ c_{t−1} + i ∘ g, h_t = o ∘ tanh(c_t)

    (Hochreiter & Schmidhuber 1997, with Gers' forget gate; no peepholes). Blocks of the matrices: i, f, g, o. Carries
    h and c. Two biases, as in torch; a forget bias is added to one of them. Cost per step: 4 · width · (in_width +
    width).
    """

    gates, parts = 4, 2

    def __init__(self, in_width: int, width: int) -> None:
        super().__init__(nn.LSTM(in_width, width, batch_first=True))

    def project_input(self, x: Float[Tensor, "*columns in_width"]) -> Float[Tensor, "*columns gates"]:
        return linear(x, self.weights.input, self.weights.input_bias + self.weights.recurrent_bias)

    def step_function(self) -> Step:
        recurrent = self.weights.recurrent.t()

        def step(projected: Tensor, carried: Carried) -> Carried:
            hidden, cell = carried
            i, f, g, o = torch.addmm(projected, hidden, recurrent).chunk(4, 1)
            cell = torch.addcmul(torch.sigmoid(f) * cell, torch.sigmoid(i), torch.tanh(g))
            return torch.sigmoid(o) * torch.tanh(cell), cell

        return step

    def run(
        self, x: Float[Tensor, "rows length in_width"], length: Int[Tensor, "rows"], carried: Carried
    ) -> tuple[Float[Tensor, "rows length width"], Carried]:
        return _fused(self.core, x, length, carried)

    def add_forget_bias(self, bias: float) -> None:
        with torch.no_grad():
            self.weights.input_bias[self.width : 2 * self.width] += bias


class GRU(Cell):
    """r, z = σ(W x_t + b + U h_{t−1} + b'), a candidate n, and a mix of n and h_{t−1}; blocks r, z, n.

    ``reset``: "after" n = tanh(W x + b + r ∘ (U h + b')) (torch, cuDNN, Keras' default); "before" n = tanh(W x + b +
    U (r ∘ h) + b') (Cho et al. 2014, v3 Eq. 8; Bahdanau et al. 2015, A.1.1). They differ unless U is diagonal.
    ``update``: "keeps" h_t = z ∘ h_{t−1} + (1 − z) ∘ n (torch, Cho et al.); "renews" h_t = (1 − z) ∘ h_{t−1} + z ∘ n
    (Bahdanau et al., A.1.1). The second is the first with z's weights and biases negated, since 1 − σ(a) = σ(−a).

    Cost per step: 3 · width · (in_width + width). torch's fused module computes "after" with "keeps". The others run
    step by step, with one product for all inputs. Differs from the papers in: biases, one of which is redundant with
    "before".
    """

    gates = 3

    def __init__(
        self,
        in_width: int,
        width: int,
        *,
        reset: Literal["after", "before"] = "after",
        update: Literal["keeps", "renews"] = "keeps",
    ) -> None:
        super().__init__(nn.GRU(in_width, width, batch_first=True))
        self.reset, self.update = reset, update

    def project_input(self, x: Float[Tensor, "*columns in_width"]) -> Float[Tensor, "*columns gates"]:
        return linear(x, self.weights.input, self.weights.input_bias)

    def step_function(self) -> Step:
        # Split once per pass: the gradient of each split is as large as the whole matrix.
        sizes = [2 * self.width, self.width]
        gates, candidate = self.weights.recurrent.split(sizes)
        gates_bias, candidate_bias = self.weights.recurrent_bias.split(sizes)
        after, keeps = self.reset == "after", self.update == "keeps"

        def step(projected: Tensor, carried: Carried) -> Carried:
            (hidden,) = carried
            to_gates, to_candidate = projected.split(sizes, 1)
            r, z = torch.sigmoid(to_gates + linear(hidden, gates, gates_bias)).chunk(2, 1)
            recalled = (
                r * linear(hidden, candidate, candidate_bias)
                if after
                else linear(r * hidden, candidate, candidate_bias)
            )
            n = torch.tanh(to_candidate + recalled)
            return (torch.lerp(n, hidden, z) if keeps else torch.lerp(hidden, n, z),)

        return step

    def run(
        self, x: Float[Tensor, "rows length in_width"], length: Int[Tensor, "rows"], carried: Carried
    ) -> tuple[Float[Tensor, "rows length width"], Carried]:
        if self.reset == "after" and self.update == "keeps":
            return _fused(self.core, x, length, carried)
        step, states = self.step_function(), [carried[0]]
        for projected in self.project_input(x).unbind(1):
            states.extend(step(projected, (states[-1],)))
        hidden = torch.stack(states, 1)
        return hidden[:, 1:], (hidden[torch.arange(len(x), device=x.device), length],)

    def add_forget_bias(self, bias: float) -> None:
        with torch.no_grad():
            self.weights.input_bias[self.width : 2 * self.width] += bias if self.update == "keeps" else -bias


def _fused(
    core: nn.RNNBase,
    x: Float[Tensor, "rows length in_width"],
    length: Int[Tensor, "rows"],
    carried: Carried,
) -> tuple[Float[Tensor, "rows length width"], Carried]:
    """Run torch's fused module, packed if rows are padded, so each row stops at its length."""
    layered = tuple(part[None] for part in carried)
    before: Any = layered if len(layered) > 1 else layered[0]
    if bool((length == x.shape[1]).all()):
        outputs, after = core(x, before)
    else:
        # torch rejects empty rows: they run one step, whose effect is discarded below.
        packed = pack_padded_sequence(x, length.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        packed, after = core(packed, before)
        outputs, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
    has_input = (length > 0)[:, None]
    new_parts = after if isinstance(after, tuple) else (after,)
    return outputs, tuple(torch.where(has_input, new[0], old) for new, old in zip(new_parts, carried, strict=True))
