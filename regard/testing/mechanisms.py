"""Laws of attention mechanisms."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.attention.contract import Attended, Mechanism
from regard.attention.kernel import kernel
from regard.attention.mask import Bound, Causal, Matrix, Padding
from regard.attention.span import Span
from regard.core.state import State, join, leaves, repeat, select
from regard.testing.attention_scene import MechanismCase, Scene, scene
from regard.testing.draw import Draw
from regard.testing.law import Law, law, ready, reloaded, run_laws, same, same_state

MECHANISM_LAWS: list[Law] = []


def check_mechanism(
    mechanism: Mechanism,
    *,
    heads: int = 2,
    query_width: int = 4,
    key_width: int = 4,
    value_width: int = 3,
    trials: int = 4,
    seed: int = 0,
) -> list[str]:
    """Check every applicable law of a mechanism; return their names.

    Args:
        mechanism: the mechanism; a copy in float64 is tested.
        heads: number of heads.
        query_width: query features per head.
        key_width: key features per head.
        value_width: value features per head.
        trials: random inputs per law.
        seed: seed of the first trial; later trials count up.

    Raises:
        AssertionError: a law is violated; the message names it.
    """
    case = MechanismCase(
        mechanism=ready(mechanism),
        heads=heads,
        query_width=query_width,
        key_width=key_width,
        value_width=value_width,
    )
    return run_laws(MECHANISM_LAWS, case, trials=trials, seed=seed)


@law(MECHANISM_LAWS, applies=lambda case: case.mechanism.can().stream == "exact")
def chunk(case: MechanismCase, draw: Draw) -> None:
    """Queries in any pieces with carried state give the same result as one pass."""
    drawn = scene(case, draw, queries=5)
    whole, state, parts = drawn.attend(case), drawn.start(case), []
    for positions in draw.pieces(drawn.query.shape[2]):
        part = drawn.piece(positions).attend(case, state)
        state = part.state
        parts.append(part)
    valid = drawn.query_span.valid[:, None, :, None].to(torch.float64)
    same(torch.cat([part.context for part in parts], 2) * valid, whole.context * valid, "contexts")
    weights = torch.cat([part.weights for part in parts if part.weights is not None], 2)
    assert whole.weights is not None, "no weights in spite of need_weights"
    same(weights * valid, whole.weights * valid, "weights")
    same_state(state, whole.state, "last state")


@law(MECHANISM_LAWS)
def idle(case: MechanismCase, draw: Draw) -> None:
    """Padded queries do not change the state."""
    drawn = scene(case, draw, causal=False)
    first, rest = drawn.piece(slice(0, 1)), drawn.piece(slice(1, None))
    padded = rest._replace(query_span=rest.query_span._replace(valid=torch.zeros_like(rest.query_span.valid)))
    before = first.attend(case).state
    expected = [leaf.clone() for leaf in leaves(before)]
    same_state(padded.attend(case, before).state, tuple(expected), "state after padding")


@law(MECHANISM_LAWS)
def reorder(case: MechanismCase, draw: Draw) -> None:
    """forward(x[rows], select(state, rows)) == forward(x, state)[rows], after a first piece."""
    drawn = scene(case, draw, causal=False)
    rows = draw.rows(len(drawn.query))
    first, rest = drawn.piece(slice(0, 1)), drawn.piece(slice(1, None))
    expected = rest.attend(case, first.attend(case).state)
    actual = rest.of(rows).attend(case, select(first.attend(case).state, rows))
    same(actual.context, expected.context[rows], "contexts of selected rows")


@law(MECHANISM_LAWS)
def repeated(case: MechanismCase, draw: Draw) -> None:
    """A state repeated n times serves n copies of every row, next to each other."""
    drawn, times = scene(case, draw, causal=False), draw.integer(1, 3)
    rows = torch.arange(len(drawn.query)).repeat_interleave(times)
    first, rest = drawn.piece(slice(0, 1)), drawn.piece(slice(1, None))
    expected = rest.attend(case, first.attend(case).state)
    actual = rest.of(rows).attend(case, repeat(first.attend(case).state, times))
    same(actual.context, expected.context[rows], "contexts of repeated rows")


@law(MECHANISM_LAWS)
def joined(case: MechanismCase, draw: Draw) -> None:
    """Rows of two batches, with different numbers of keys, continue as one batch."""
    batches = [scene(case, draw, causal=False, queries=3, rows=2) for _ in range(2)]
    length = min(drawn.query.shape[2] for drawn in batches)
    firsts = [drawn.piece(slice(0, 1)) for drawn in batches]
    rests = [drawn.piece(slice(1, length)) for drawn in batches]
    expected = [rest.attend(case, first.attend(case).state) for rest, first in zip(rests, firsts, strict=True)]
    keys = max(drawn.key.shape[2] for drawn in batches)
    together = Scene(
        torch.cat([rest.query for rest in rests]),
        torch.cat([_padded(rest.key, keys, draw) for rest in rests]),
        torch.cat([_padded(rest.value, keys, draw) for rest in rests]),
        join([rest.query_span for rest in rests]),
        Span.of(torch.cat([_padded_valid(rest.key_span.valid, keys) for rest in rests])),
        Padding(),
    )
    state = join([first.attend(case).state for first in firsts])
    actual = together.attend(case, state)
    same(actual.context, torch.cat([attended.context for attended in expected]), "contexts of joined rows")


@law(MECHANISM_LAWS)
def batched(case: MechanismCase, draw: Draw) -> None:
    """A row of a padded batch gives the same result as alone; values of padded keys do not matter."""
    drawn = scene(case, draw)
    whole = drawn.attend(case)
    for row in range(len(drawn.query)):
        queries, keys = int(drawn.query_span.valid[row].sum()), int(drawn.key_span.valid[row].sum())
        one = drawn.of(torch.tensor([row]))
        separate = Scene(
            one.query[:, :, :queries],
            one.key[:, :, :keys],
            one.value[:, :, :keys],
            Span(one.query_span.start, one.query_span.valid[:, :queries]),
            Span(one.key_span.start, one.key_span.valid[:, :keys]),
            one.mask,
        )
        same(whole.context[row, :, :queries], separate.attend(case).context[0], f"row {row} of the batch, alone")


@law(MECHANISM_LAWS, applies=lambda case: case.mechanism.can().causal)
def causal(case: MechanismCase, draw: Draw) -> None:
    """∂ context_i / ∂ key_j and ∂ value_j are exactly 0 for j > i, and ∂ value_j is not 0 for all j ≤ i."""
    drawn = scene(case, draw, causal=True)._replace(mask=Padding() & Causal())
    key, value = drawn.key.requires_grad_(), drawn.value.requires_grad_()
    context = drawn.attend(case).context
    for i in range(context.shape[2]):
        gradients = _gradients(context[:, :, i].square().sum(), (key, value))
        for name, gradient in zip(("key", "value"), gradients, strict=True):
            assert not gradient[:, :, i + 1 :].any(), f"query {i} sees a later {name}"
        assert gradients[1][:, :, : i + 1].any(), f"query {i} sees no value at all"


@law(MECHANISM_LAWS)
def empty(case: MechanismCase, draw: Draw) -> None:
    """A query without visible keys has weights 0, context 0 and gradient 0, and affects no other query."""
    drawn = scene(case, draw, causal=False)
    matrix = torch.zeros(drawn.query.shape[2], drawn.key.shape[2], dtype=torch.float64)
    matrix[0] = -torch.inf
    unseeing = drawn._replace(
        mask=Padding() & Matrix(matrix),
        query=drawn.query.requires_grad_(),
        key=drawn.key.requires_grad_(),
        value=drawn.value.requires_grad_(),
    )
    attended = unseeing.attend(case)
    assert attended.weights is not None
    assert not attended.weights[:, :, 0].any(), "weights of an empty row"
    assert not attended.context[:, :, 0].any(), "context of an empty row"
    for gradient in _gradients(attended.context[:, :, 0].sum(), unseeing[:3]):
        assert not gradient.any(), "gradient of an empty row (NaN counts as one)"
    for gradient in _gradients(attended.context[:, :, 1:].sum(), unseeing[:3]):
        assert gradient.isfinite().all(), "gradient of the other rows"


@law(MECHANISM_LAWS, applies=lambda case: case.mechanism.can().weights)
def weighted(case: MechanismCase, draw: Draw) -> None:
    """The weights are those that produced the context, 0 where the mask forbids, and negative only if declared.

    If the context has terms other than weighted values, it is still linear in the values with these weights.
    """
    drawn = scene(case, draw)
    context, weights, _ = drawn.attend(case)
    assert weights is not None, "no weights in spite of need_weights"
    other_terms = (
        0.0 if case.mechanism.can().values_only else drawn._replace(value=0 * drawn.value).attend(case).context
    )
    same(torch.einsum("bhts,bhsv->bhtv", weights, drawn.value) + other_terms, context, "Σ α v")
    assert not weights[~drawn.bound().sdpa().expand_as(weights)].any(), "weight where the mask forbids"
    assert case.mechanism.can().signed or not (weights < 0).any(), "negative weights"
    key = case.mechanism.prepare(drawn.key)
    silent = case.mechanism(drawn.query, key, drawn.value, drawn.bound(), drawn.start(case))
    valid = drawn.query_span.valid[:, None, :, None].to(torch.float64)  # padded queries may see any keys, or none
    same(silent.context * valid, context * valid, "context without need_weights")


class _Doubled(nn.Module):
    """Replacement for dropout: the factor 2 of a weight that is kept with probability ½."""

    def forward(self, weights: Tensor) -> Tensor:
        return 2 * weights


@law(MECHANISM_LAWS)
def dropped(case: MechanismCase, draw: Draw) -> None:
    """Dropout is applied between weights and values, only in training, and does not affect weights and state."""
    drawn = scene(case, draw)
    other = replace(case, mechanism=copy.deepcopy(case.mechanism))
    other.mechanism.drop_weights(_Doubled())
    expected = drawn.attend(case)
    same(drawn.attend(other).context, expected.context, "context in evaluation")
    other.mechanism.train()
    key = other.mechanism.prepare(drawn.key)
    silent = other.mechanism(drawn.query, key, drawn.value, drawn.bound(), drawn.start(other))
    seen = drawn.attend(other)
    for context in (silent.context, seen.context):
        same(context, 2 * expected.context, "context of doubled weights")
    if expected.weights is not None and seen.weights is not None:
        same(seen.weights, expected.weights, "returned weights")
    same_state(seen.state, expected.state, "state")


@law(MECHANISM_LAWS, applies=lambda case: case.mechanism.can().weights)
def normalized(case: MechanismCase, draw: Draw) -> None:
    """Weights sum to 1 if declared; otherwise to at most 1, and to less somewhere.

    Only a mechanism that ``may_see_nothing`` may have only zero weights although the mask allows a key.
    """
    drawn = scene(case, draw)
    weights = drawn.attend(case).weights
    assert weights is not None
    total = weights.sum(-1)[drawn.bound().dense().any(2)[:, None].expand(weights.shape[:3])]
    if case.mechanism.can().normalized:
        total = total[total != 0] if case.mechanism.can().may_see_nothing else total
        same(total, torch.ones_like(total), "sum of weights")
    else:
        assert (total <= 1 + 1e-12).all(), "weights sum to more than 1"
        assert (total < 1 - 1e-9).any(), "weights sum to 1, but the mechanism does not declare it"


@law(MECHANISM_LAWS)
def unseen(case: MechanismCase, draw: Draw) -> None:
    """NaN in padded keys and values changes no bit of the context and gradients of the reference implementation."""
    drawn = scene(case, draw, causal=False)

    def run(fill: float) -> list[Tensor]:
        hidden = ~drawn.key_span.valid[:, None, :, None]
        query = drawn.query.clone().requires_grad_()
        key, value = (x.masked_fill(hidden, fill).requires_grad_() for x in (drawn.key.detach(), drawn.value.detach()))
        context = drawn._replace(query=query, key=key, value=value).attend(case).context
        return [context, *_gradients(context.square().sum(), (query, key, value))]

    for clean, dirty in zip(run(0.0), run(float("nan")), strict=True):
        assert torch.equal(clean, dirty), "NaN behind the mask leaks"


@law(MECHANISM_LAWS, applies=lambda case: case.mechanism.can().differentiable)
def differentiable(case: MechanismCase, draw: Draw) -> None:
    """Gradients of the inputs and of every parameter match finite differences."""
    drawn = scene(case, draw, rows=2, queries=2)
    whole = _Prepared(case.mechanism)
    names = [name for name, _ in whole.named_parameters()]
    parameters = [p.detach().clone().requires_grad_() for p in whole.parameters()]
    bound, state = drawn.bound(), drawn.start(case)

    def context(query: Tensor, key: Tensor, value: Tensor, *values_of_parameters: Tensor) -> Tensor:
        attended: Attended = torch.func.functional_call(
            whole, dict(zip(names, values_of_parameters, strict=True)), (query, key, value, bound, state)
        )
        return attended.context

    inputs = [x.clone().requires_grad_() for x in drawn[:3]]
    agree = torch.autograd.gradcheck(context, (*inputs, *parameters), fast_mode=True, raise_exception=False)
    assert agree, "gradients differ from finite differences"


class _Prepared(nn.Module):
    """A mechanism that prepares its keys itself, so one call uses every parameter."""

    def __init__(self, mechanism: Mechanism) -> None:
        super().__init__()
        self.mechanism = mechanism

    def forward(self, query: Tensor, key: Tensor, value: Tensor, bound: Bound, state: State) -> Attended:
        attended: Attended = self.mechanism(query, self.mechanism.prepare(key), value, bound, state)
        return attended


@law(MECHANISM_LAWS)
def grouped(case: MechanismCase, draw: Draw) -> None:
    """Fewer key heads serve groups of neighboring heads, as if each key head were repeated for its group."""
    drawn = scene(case, draw)
    shared = drawn._replace(key=drawn.key[:, :1], value=drawn.value[:, :1])
    copied = drawn._replace(
        key=shared.key.expand(-1, case.heads, -1, -1), value=shared.value.expand(-1, case.heads, -1, -1)
    )
    same(shared.attend(case).context, copied.attend(case).context, "one key head for all")
    if case.heads % 2 == 0 and not list(case.mechanism.parameters()):
        doubled = replace(case, heads=2 * case.heads)
        wide = drawn._replace(query=torch.cat([drawn.query, drawn.query.flip(1)], 1))
        written = wide._replace(key=drawn.key.repeat_interleave(2, 1), value=drawn.value.repeat_interleave(2, 1))
        same(wide.attend(doubled).context, written.attend(doubled).context, "two heads per key head")


@law(MECHANISM_LAWS, applies=lambda case: case.mechanism.can().fused)
def fused(case: MechanismCase, draw: Draw) -> None:
    """Every path of the kernel has the context and gradients of the reference implementation, also for empty rows."""
    drawn = scene(case, draw)
    matrix = torch.zeros(drawn.query.shape[2], drawn.key.shape[2], dtype=torch.float64)
    matrix[draw.integer(0, drawn.query.shape[2] - 1)] = -torch.inf
    drawn = drawn._replace(mask=drawn.mask & Matrix(matrix))

    def run(path: str) -> list[Tensor]:
        inputs = [x.detach().clone().requires_grad_() for x in drawn[:3]]
        with kernel(path):  # type: ignore[arg-type]
            context = case.mechanism(*inputs, drawn.bound(), drawn.start(case)).context
        return [context, *torch.autograd.grad(context.square().sum(), inputs)]

    expected = run("reference")
    for path in ("softmax", "sdpa"):
        for actual, reference in zip(run(path), expected, strict=True):
            same(actual, reference, f"the {path} path")


@law(MECHANISM_LAWS, applies=lambda case: case.mechanism.can().order_free)
def order_free(case: MechanismCase, draw: Draw) -> None:
    """Queries in another order and at other positions have the same results in that order."""
    drawn = scene(case, draw, causal=False)
    order = torch.tensor(draw.source.sample(range(drawn.query.shape[2]), drawn.query.shape[2]))
    moved = drawn._replace(
        query=drawn.query[:, :, order], query_span=drawn.query_span._replace(start=drawn.query_span.start + 7)
    )
    same(moved.attend(case).context, drawn.attend(case).context[:, :, order], "queries in another order")


@law(MECHANISM_LAWS)
def saved(case: MechanismCase, draw: Draw) -> None:
    """All learned parameters are in the state dict, and are restored from a safetensors file."""
    drawn = scene(case, draw)
    again = replace(case, mechanism=reloaded(case.mechanism))
    assert torch.equal(drawn.attend(again).context, drawn.attend(case).context), "context after loading"


def _gradients(loss: Tensor, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the gradient of each input; 0 if the loss does not depend on it."""
    return torch.autograd.grad(loss, tuple(inputs), retain_graph=True, materialize_grads=True)


def _padded(x: Tensor, keys: int, draw: Draw) -> Tensor:
    return torch.cat([x, draw.tensor(*x.shape[:2], keys - x.shape[2], x.shape[3])], 2)


def _padded_valid(valid: Tensor, keys: int) -> Tensor:
    return torch.nn.functional.pad(valid, (0, keys - valid.shape[1]))
