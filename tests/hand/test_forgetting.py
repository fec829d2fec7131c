"""Forgetting attention by numbers that can be checked with a pencil, by its definition, and from a config."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention.heads import MultiHead, SelfAttention
from regard.attention.kernel import Kernel, kernel
from regard.attention.mask import Causal, Padding, Segments
from regard.attention.mechanisms.dot import Dot
from regard.attention.observe import observe
from regard.attention.positions.forgetting import ForgetGate, ForgettingBias
from regard.attention.span import Span
from regard.errors import ConfigError
from regard.models.build import build
from regard.models.configuration import ModelConfig

SIZES: dict[str, Any] = {"layers": 1, "width": 8, "heads": 2, "feed_forward": 12, "dropout": 0.0}
EMPTY = Span.of(torch.ones(1, 0, dtype=torch.bool))


def columns(length: int, rows: int = 1) -> Span:
    return Span.of(torch.ones(rows, length, dtype=torch.bool))


def forgetting(width: int = 4, *, packs: bool = False, gate: type[ForgetGate] = ForgetGate) -> SelfAttention:
    torch.manual_seed(3)
    mask = Causal() & Padding() & Segments() if packs else Causal() & Padding()
    heads = MultiHead(width, heads=2, mechanism=Dot(bias=ForgettingBias()))
    return SelfAttention(heads, mask=mask, forget=gate(width, 2))


def test_weights_are_products_of_the_gates_between() -> None:
    """Gates 1/3, 1/2 and 1/4, all energies 0: the third column weighs 1/2 · 1/4, 1/4 and 1, that is 1, 2 and 8 / 11."""
    gate = ForgetGate(1, 1)
    with torch.no_grad():
        gate.project.weight.fill_(1.0)
        gate.project.bias.zero_()
    x = torch.tensor([1 / 3, 1 / 2, 1 / 4]).logit()[None, :, None]
    span = gate(x, columns(3), EMPTY)
    nothing = torch.zeros(1, 1, 3, 2)
    attended = Dot(bias=ForgettingBias())(nothing, nothing, nothing, Causal().bind(span, span), need_weights=True)
    wanted = [[1, 0, 0], [1 / 3, 2 / 3, 0], [1 / 11, 2 / 11, 8 / 11]]
    torch.testing.assert_close(attended.weights[0, 0], torch.tensor(wanted))


def test_energies_are_those_of_the_definition() -> None:
    """softmax of q·k/√d + Σ_{l=j+1…i} log f_l, the double sum written out."""
    mixer, x = forgetting().double(), torch.randn(2, 5, 4, dtype=torch.float64)
    gates = torch.sigmoid(mixer.forget.project(x)).detach()  # type: ignore[union-attr]
    query, (key, _) = mixer.attention.queries(x), mixer.attention.keys_values(x)
    wanted = torch.full((2, 2, 5, 5), -math.inf, dtype=torch.float64)
    for row in range(2):
        for head in range(2):
            for i in range(5):
                for j in range(i + 1):
                    between = sum(math.log(gates[row, step, head]) for step in range(j + 1, i + 1))
                    wanted[row, head, i, j] = query[row, head, i] @ key[row, head, j] / math.sqrt(2) + between
    with observe(mixer) as seen:
        watched = mixer(x, columns(5, 2), mixer.start(2)).output
    (weights,) = seen.values()
    torch.testing.assert_close(weights, wanted.softmax(-1))
    torch.testing.assert_close(mixer(x, columns(5, 2), mixer.start(2)).output, watched)


PACK = columns(7)._replace(
    segment=torch.tensor([[0, 0, 0, 1, 1, 1, 1]]), given_position=torch.tensor([[0, 1, 2, 0, 1, 2, 3]])
)


def second_document(mixer: SelfAttention, first: Tensor, second: Tensor, cuts: list[int]) -> list[Tensor]:
    """Outputs of the second document, in pieces, and the gradients that it gives to the gates."""
    mixer.zero_grad()
    x, state, parts = torch.cat([first, second], 1), mixer.start(1), []
    for begin, end in zip([0, *cuts], [*cuts, 7], strict=True):
        mixed = mixer(x[:, begin:end], PACK.columns(begin, end), state)
        state = mixed.state
        parts.append(mixed.output)
    output = torch.cat(parts, 1)[:, 3:]
    output.square().sum().backward()
    return [output.detach(), *(each.grad.clone() for each in mixer.forget.parameters())]  # type: ignore[union-attr]


class Unparted(ForgetGate):
    """Sums over the whole row: equal in exact arithmetic, since what two columns share falls out of the difference."""

    def forward(self, x: Tensor, span: Span, past: Span) -> Span:
        summed = super().forward(x, span._replace(segment=()), past)
        return summed._replace(segment=span.segment)


@pytest.mark.parametrize("path", ["reference", "softmax", "sdpa"])
@pytest.mark.parametrize("cuts", [[], [2], [3], [5], [1, 4, 6]], ids=str)
def test_a_document_does_not_hear_of_the_one_before_it_in_any_bit(path: Kernel, cuts: list[int]) -> None:
    first, other = (100 * torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(n)) for n in (1, 2))
    second = torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(3))
    with kernel(path):
        mixer = forgetting(packs=True)
        found = [second_document(mixer, each, second, cuts) for each in (first, other)]
    assert all(torch.equal(one, another) for one, another in zip(*found, strict=True))


def test_sums_over_documents_would_be_heard_of() -> None:
    """What the test above would say of ``Unparted``: only rounding differs, so sums are compared themselves."""
    x = torch.randn(1, 7, 4, generator=torch.Generator().manual_seed(3))
    changed = torch.cat([100 * x[:, :3], x[:, 3:]], 1)
    for kind, alike in ((ForgetGate, True), (Unparted, False)):
        torch.manual_seed(3)
        gate = kind(4, 2)
        sums = [gate(each, PACK, EMPTY).decay[:, 3:] for each in (x, changed)]
        assert torch.equal(*sums) is alike
    assert torch.equal(
        ForgetGate.forward(gate, x, PACK, EMPTY).decay[:, 3:],
        ForgetGate.forward(gate, x[:, 3:], PACK.columns(3, 7), EMPTY._replace(segment=EMPTY.position)).decay,
    ), "as alone"


def test_neighbors_are_told_apart_far_from_the_start() -> None:
    """c is about −12,000 after 4,000 columns, where float32 knows no steps below 1/1000."""
    torch.manual_seed(0)
    gate = ForgetGate(2, 1)
    with torch.no_grad():
        gate.project.bias.fill_(-3.0)
    x = torch.randn(1, 4000, 2)
    span = gate(x, columns(4000), EMPTY)
    bound = Causal().bind(span.columns(3990, 4000), span)
    bias = ForgettingBias()(torch.zeros(1, 1, 10, 2), bound)[0, 0]
    wanted = torch.nn.functional.logsigmoid(gate.project(x))[0, 3990:, 0]
    torch.testing.assert_close(bias[range(10), range(3989, 3999)], wanted, rtol=1e-6, atol=0)


def test_gates_in_a_coarse_format_are_summed_in_a_fine_one() -> None:
    mixer = forgetting().bfloat16()
    mixed = mixer(torch.randn(1, 3, 4).bfloat16(), columns(3), mixer.start(1))
    assert mixed.state.span.decay.dtype == torch.float64 and mixed.output.dtype == torch.bfloat16


def test_it_is_a_kind_of_positions_of_a_side_that_does_not_look_ahead() -> None:
    model = build(
        ModelConfig.model_validate(SIZES | {"decoder": {"position": "forgetting"}}), source_types=9, target_types=9
    )
    assert isinstance(model.decoder.layers[0].mixer.forget, ForgetGate)
    assert model.decoder.layers[0].mixer.forget.project.bias.tolist() == [0, 0]
    assert (
        model.encoder.layers[0].mixer.forget is None and model.decoder.layers[0].reader.attention.mechanism.bias is None
    )
    for more, where in (
        ({"position": "forgetting"}, "model.encoder.position"),
        ({"decoder": {"position": "forgetting", "mixer": "general"}}, "model.decoder.mixer.kind"),
    ):
        with pytest.raises(ConfigError) as refused:
            build(ModelConfig.model_validate(SIZES | more), source_types=9, target_types=9)
        assert refused.value.where == where
    with pytest.raises(ValueError, match="causal mask"):
        SelfAttention(MultiHead(4, heads=2, mechanism=Dot()), mask=Padding(), forget=ForgetGate(4, 2))
