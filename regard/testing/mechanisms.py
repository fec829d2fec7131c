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
    """Run every law that applies and return the names; AssertionError names the law that fails.

    ``mechanism``: the mechanism to test; a copy in float64 is used.
    ``heads``: number of heads. ``query_width``, ``key_width``, ``value_width``: features per head.
    ``trials``: random inputs a law. ``seed``: of the first trial; the next ones count on.
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
    """Queries in any pieces, carrying the state, equal one pass."""
    made = scene(case, draw, queries=5)
    whole, state, parts = made.attend(case), made.start(case), []
    for columns in draw.pieces(made.query.shape[2]):
        part = made.piece(columns).attend(case, state)
        state = part.state
        parts.append(part)
    valid = made.query_span.valid[:, None, :, None].to(torch.float64)
    same(torch.cat([part.context for part in parts], 2) * valid, whole.context * valid, "contexts")
    weights = torch.cat([part.weights for part in parts if part.weights is not None], 2)
    assert whole.weights is not None, "no weights in spite of need_weights"
    same(weights * valid, whole.weights * valid, "weights")
    same_state(state, whole.state, "last state")


@law(MECHANISM_LAWS)
def idle(case: MechanismCase, draw: Draw) -> None:
    """Padded queries leave the state alone."""
    made = scene(case, draw, causal=False)
    first, rest = made.piece(slice(0, 1)), made.piece(slice(1, None))
    padded = rest._replace(query_span=rest.query_span._replace(valid=torch.zeros_like(rest.query_span.valid)))
    before = first.attend(case).state
    expected = [leaf.clone() for leaf in leaves(before)]
    same_state(padded.attend(case, before).state, tuple(expected), "state after padding")


@law(MECHANISM_LAWS)
def reorder(case: MechanismCase, draw: Draw) -> None:
    """forward(x[rows], select(state, rows)) == forward(x, state)[rows], after a first piece."""
    made = scene(case, draw, causal=False)
    rows = draw.rows(len(made.query))
    first, rest = made.piece(slice(0, 1)), made.piece(slice(1, None))
    expected = rest.attend(case, first.attend(case).state)
    actual = rest.of(rows).attend(case, select(first.attend(case).state, rows))
    same(actual.context, expected.context[rows], "contexts of selected rows")


@law(MECHANISM_LAWS)
def repeated(case: MechanismCase, draw: Draw) -> None:
    """A state repeated n times serves n copies of every row, neighbors together."""
    made, times = scene(case, draw, causal=False), draw.integer(1, 3)
    rows = torch.arange(len(made.query)).repeat_interleave(times)
    first, rest = made.piece(slice(0, 1)), made.piece(slice(1, None))
    expected = rest.attend(case, first.attend(case).state)
    actual = rest.of(rows).attend(case, repeat(first.attend(case).state, times))
    same(actual.context, expected.context[rows], "contexts of repeated rows")


@law(MECHANISM_LAWS)
def joined(case: MechanismCase, draw: Draw) -> None:
    """Rows of two batches, of different numbers of keys, go on as one batch."""
    batches = [scene(case, draw, causal=False, queries=3, rows=2) for _ in range(2)]
    length = min(made.query.shape[2] for made in batches)
    firsts = [made.piece(slice(0, 1)) for made in batches]
    rests = [made.piece(slice(1, length)) for made in batches]
    expected = [rest.attend(case, first.attend(case).state) for rest, first in zip(rests, firsts, strict=True)]
    keys = max(made.key.shape[2] for made in batches)
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
    same(actual.context, torch.cat([each.context for each in expected]), "contexts of joined rows")


@law(MECHANISM_LAWS)
def batched(case: MechanismCase, draw: Draw) -> None:
    """A row of a padded batch gives what it gives alone; values in padded keys do not matter."""
    made = scene(case, draw)
    whole = made.attend(case)
    for row in range(len(made.query)):
        queries, keys = int(made.query_span.valid[row].sum()), int(made.key_span.valid[row].sum())
        one = made.of(torch.tensor([row]))
        alone = Scene(
            one.query[:, :, :queries],
            one.key[:, :, :keys],
            one.value[:, :, :keys],
            Span(one.query_span.start, one.query_span.valid[:, :queries]),
            Span(one.key_span.start, one.key_span.valid[:, :keys]),
            one.mask,
        )
        same(whole.context[row, :, :queries], alone.attend(case).context[0], f"row {row} of the batch, alone")


@law(MECHANISM_LAWS, applies=lambda case: case.mechanism.can().causal)
def causal(case: MechanismCase, draw: Draw) -> None:
    """∂ context_i / ∂ key_j and ∂ value_j are exactly 0 for j > i, and ∂ value_j not for all j ≤ i."""
    made = scene(case, draw, causal=True)._replace(mask=Padding() & Causal())
    key, value = made.key.requires_grad_(), made.value.requires_grad_()
    context = made.attend(case).context
    for i in range(context.shape[2]):
        gradients = _gradients(context[:, :, i].square().sum(), (key, value))
        for name, gradient in zip(("key", "value"), gradients, strict=True):
            assert not gradient[:, :, i + 1 :].any(), f"query {i} sees a later {name}"
        assert gradients[1][:, :, : i + 1].any(), f"query {i} sees no value at all"


@law(MECHANISM_LAWS)
def empty(case: MechanismCase, draw: Draw) -> None:
    """A query that may see no key has weights 0, context 0 and gradient 0, and changes no other query."""
    made = scene(case, draw, causal=False)
    matrix = torch.zeros(made.query.shape[2], made.key.shape[2], dtype=torch.float64)
    matrix[0] = -torch.inf
    unseeing = made._replace(
        mask=Padding() & Matrix(matrix),
        query=made.query.requires_grad_(),
        key=made.key.requires_grad_(),
        value=made.value.requires_grad_(),
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
    """The weights are those that made the context, 0 where the mask forbids, and negative only where that is promised.

    Where more than values is summed by them, the context is still as linear in the values.
    """
    made = scene(case, draw)
    context, weights, _ = made.attend(case)
    assert weights is not None, "no weights in spite of need_weights"
    beside = 0.0 if case.mechanism.can().values_only else made._replace(value=0 * made.value).attend(case).context
    same(torch.einsum("bhts,bhsv->bhtv", weights, made.value) + beside, context, "Σ α v")
    assert not weights[~made.bound().sdpa().expand_as(weights)].any(), "weight where the mask forbids"
    assert case.mechanism.can().signed or not (weights < 0).any(), "negative weights"
    key = case.mechanism.prepare(made.key)
    silent = case.mechanism(made.query, key, made.value, made.bound(), made.start(case))
    valid = made.query_span.valid[:, None, :, None].to(torch.float64)  # padded queries may see anything, or nothing
    same(silent.context * valid, context * valid, "context without need_weights")


class _Doubled(nn.Module):
    """Stands in for dropout: what a weight that is kept with probability ½ is multiplied by."""

    def forward(self, weights: Tensor) -> Tensor:
        return 2 * weights


@law(MECHANISM_LAWS)
def dropped(case: MechanismCase, draw: Draw) -> None:
    """Dropout of weights stands between weights and values: in training alone, and unseen by weights and state."""
    made = scene(case, draw)
    other = replace(case, mechanism=copy.deepcopy(case.mechanism))
    other.mechanism.drop_weights(_Doubled())
    expected = made.attend(case)
    same(made.attend(other).context, expected.context, "context in evaluation")
    other.mechanism.train()
    key = other.mechanism.prepare(made.key)
    silent = other.mechanism(made.query, key, made.value, made.bound(), made.start(other))
    seen = made.attend(other)
    for context in (silent.context, seen.context):
        same(context, 2 * expected.context, "context of doubled weights")
    if expected.weights is not None and seen.weights is not None:
        same(seen.weights, expected.weights, "weights that come out")
    same_state(seen.state, expected.state, "state")


@law(MECHANISM_LAWS, applies=lambda case: case.mechanism.can().weights)
def normalized(case: MechanismCase, draw: Draw) -> None:
    """Weights sum to 1 where that is promised; to 1 at most, and less somewhere, where it is not.

    Only a mechanism that ``may_see_nothing`` may have weights 0 alone where the mask allows a key.
    """
    made = scene(case, draw)
    weights = made.attend(case).weights
    assert weights is not None
    total = weights.sum(-1)[made.bound().dense().any(2)[:, None].expand(weights.shape[:3])]
    if case.mechanism.can().normalized:
        total = total[total != 0] if case.mechanism.can().may_see_nothing else total
        same(total, torch.ones_like(total), "sum of weights")
    else:
        assert (total <= 1 + 1e-12).all(), "weights sum to more than 1"
        assert (total < 1 - 1e-9).any(), "weights sum to 1, which is not what this mechanism promises"


@law(MECHANISM_LAWS)
def unseen(case: MechanismCase, draw: Draw) -> None:
    """NaN in padded keys and values changes neither context nor gradient of the reference, not by a bit."""
    made = scene(case, draw, causal=False)

    def run(fill: float) -> list[Tensor]:
        hidden = ~made.key_span.valid[:, None, :, None]
        query = made.query.clone().requires_grad_()
        key, value = (x.masked_fill(hidden, fill).requires_grad_() for x in (made.key.detach(), made.value.detach()))
        context = made._replace(query=query, key=key, value=value).attend(case).context
        return [context, *_gradients(context.square().sum(), (query, key, value))]

    for clean, dirty in zip(run(0.0), run(float("nan")), strict=True):
        assert torch.equal(clean, dirty), "NaN behind the mask leaks"


@law(MECHANISM_LAWS, applies=lambda case: case.mechanism.can().differentiable)
def differentiable(case: MechanismCase, draw: Draw) -> None:
    """Gradients of the inputs and of every parameter agree with finite differences."""
    made = scene(case, draw, rows=2, queries=2)
    whole = _Prepared(case.mechanism)
    names = [name for name, _ in whole.named_parameters()]
    parameters = [p.detach().clone().requires_grad_() for p in whole.parameters()]
    bound, state = made.bound(), made.start(case)

    def context(query: Tensor, key: Tensor, value: Tensor, *given: Tensor) -> Tensor:
        attended: Attended = torch.func.functional_call(
            whole, dict(zip(names, given, strict=True)), (query, key, value, bound, state)
        )
        return attended.context

    inputs = [x.clone().requires_grad_() for x in made[:3]]
    agree = torch.autograd.gradcheck(context, (*inputs, *parameters), fast_mode=True, raise_exception=False)
    assert agree, "gradients differ from finite differences"


class _Prepared(nn.Module):
    """A mechanism that prepares the keys it is given: every parameter in one call."""

    def __init__(self, mechanism: Mechanism) -> None:
        super().__init__()
        self.mechanism = mechanism

    def forward(self, query: Tensor, key: Tensor, value: Tensor, bound: Bound, state: State) -> Attended:
        attended: Attended = self.mechanism(query, self.mechanism.prepare(key), value, bound, state)
        return attended


@law(MECHANISM_LAWS)
def grouped(case: MechanismCase, draw: Draw) -> None:
    """Fewer key heads serve neighboring heads: the same as each key head written out for its group."""
    made = scene(case, draw)
    shared = made._replace(key=made.key[:, :1], value=made.value[:, :1])
    copied = made._replace(
        key=shared.key.expand(-1, case.heads, -1, -1), value=shared.value.expand(-1, case.heads, -1, -1)
    )
    same(shared.attend(case).context, copied.attend(case).context, "one key head for all")
    if case.heads % 2 == 0 and not list(case.mechanism.parameters()):
        doubled = replace(case, heads=2 * case.heads)
        wide = made._replace(query=torch.cat([made.query, made.query.flip(1)], 1))
        written = wide._replace(key=made.key.repeat_interleave(2, 1), value=made.value.repeat_interleave(2, 1))
        same(wide.attend(doubled).context, written.attend(doubled).context, "two heads a key head")


@law(MECHANISM_LAWS, applies=lambda case: case.mechanism.can().fused)
def fused(case: MechanismCase, draw: Draw) -> None:
    """Every path of the kernel gives the reference's context and gradients, empty rows included."""
    made = scene(case, draw)
    matrix = torch.zeros(made.query.shape[2], made.key.shape[2], dtype=torch.float64)
    matrix[draw.integer(0, made.query.shape[2] - 1)] = -torch.inf
    made = made._replace(mask=made.mask & Matrix(matrix))

    def run(path: str) -> list[Tensor]:
        inputs = [x.detach().clone().requires_grad_() for x in made[:3]]
        with kernel(path):  # type: ignore[arg-type]
            context = case.mechanism(*inputs, made.bound(), made.start(case)).context
        return [context, *torch.autograd.grad(context.square().sum(), inputs)]

    expected = run("reference")
    for path in ("softmax", "sdpa"):
        for actual, wanted in zip(run(path), expected, strict=True):
            same(actual, wanted, f"the {path} path")


@law(MECHANISM_LAWS, applies=lambda case: case.mechanism.can().order_free)
def order_free(case: MechanismCase, draw: Draw) -> None:
    """Queries in another order, at other positions, get the same answers in that order."""
    made = scene(case, draw, causal=False)
    order = torch.tensor(draw.source.sample(range(made.query.shape[2]), made.query.shape[2]))
    moved = made._replace(
        query=made.query[:, :, order], query_span=made.query_span._replace(start=made.query_span.start + 7)
    )
    same(moved.attend(case).context, made.attend(case).context[:, :, order], "queries in another order")


@law(MECHANISM_LAWS)
def saved(case: MechanismCase, draw: Draw) -> None:
    """All that the mechanism has learned is in its state dict, and comes back from a safetensors file."""
    made = scene(case, draw)
    again = replace(case, mechanism=reloaded(case.mechanism))
    assert torch.equal(made.attend(again).context, made.attend(case).context), "context after loading"


def _gradients(loss: Tensor, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Gradient of each input; 0 where the loss does not depend on it, as where a score ignores the keys."""
    return torch.autograd.grad(loss, tuple(inputs), retain_graph=True, materialize_grads=True)


def _padded(x: Tensor, keys: int, draw: Draw) -> Tensor:
    return torch.cat([x, draw.tensor(*x.shape[:2], keys - x.shape[2], x.shape[3])], 2)


def _padded_valid(valid: Tensor, keys: int) -> Tensor:
    return torch.nn.functional.pad(valid, (0, keys - valid.shape[1]))
