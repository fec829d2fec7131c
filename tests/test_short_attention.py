"""Attention of training in one pass, against the textbook in 64 bits: for every instruction set of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from regard.attention import cpu_softmax
from regard.attention.cpu_softmax import attend_short
from regard.models.dropout import Dropout
from regard.native import passes, short_attention
from regard.native.library import find

quickest = find(choice="").library
if quickest is None:
    pytest.skip(f"needs the kernels: {find(choice='').reason}", allow_module_level=True)
FORMATS = (torch.float32, torch.bfloat16)
CLOSE = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
    torch.bfloat16: {"rtol": 0.02, "atol": 0.03},
}
each_format = pytest.mark.parametrize("type", FORMATS, ids=str)


@pytest.fixture(params=quickest.sets, autouse=True)
def instructions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    found = find(choice=request.param).library
    monkeypatch.setattr(passes, "library", lambda: found)
    yield request.param


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kinds of the passes that were run."""
    kinds: list[str] = []
    run = passes.run_heads
    monkeypatch.setattr(short_attention, "run_heads", lambda kind, *rest: (kinds.append(kind), run(kind, *rest)))
    return kinds


class Scene(NamedTuple):
    query: Tensor
    key: Tensor
    value: Tensor
    added: Tensor
    empty: Tensor | None
    upstream: Tensor


def drawn(*shape: int, type: torch.dtype, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(type)


def scene(
    batch: int, heads: int, queries: int, keys: int, width: int, value: int, type: torch.dtype, *, sees_nothing: bool
) -> Scene:
    """Heads of a place side by side, as projections lay them; a third of all pairs hidden, under a bias."""
    sizes = ((queries, width), (keys, width), (keys, value), (queries, value))
    made = [drawn(batch, n, heads, d, type=type, seed=i).transpose(1, 2) for i, (n, d) in enumerate(sizes)]
    hidden = torch.rand(batch, 1, queries, keys, generator=torch.Generator().manual_seed(4)) < 1 / 3
    hidden[..., 0] = False
    empty = None
    if sees_nothing:
        empty = torch.zeros(batch, queries, dtype=torch.bool)
        empty[0, -1] = True
        hidden[0, :, -1] = True
    added = drawn(1, heads, queries, keys, type=type, seed=5).masked_fill(hidden, torch.finfo(type).min)
    return Scene(*made[:3], added, empty, made[3])


def textbook(given: Scene, scale: float, kept: Tensor | None = None) -> tuple[Tensor, ...]:
    """Context and gradients of query, key and value in 64 bits."""
    query, key, value = (x.double().requires_grad_() for x in given[:3])
    weights = torch.softmax(scale * query @ key.transpose(2, 3) + given.added.double(), -1)
    if given.empty is not None:
        weights = weights.masked_fill(given.empty[:, None, :, None], 0)
    context = (weights if kept is None else weights * kept) @ value
    return context.detach(), *torch.autograd.grad(context, (query, key, value), given.upstream.double())


def computed(given: Scene, scale: float, dropping: Dropout | None = None, seed: int = 7) -> tuple[Tensor, ...]:
    inputs = [x.detach().requires_grad_() for x in given[:3]]
    torch.manual_seed(seed)
    query, key, value = inputs
    context = attend_short(query, key, value, given.added, given.empty, scale=scale, dropping=dropping)
    return context.detach(), *torch.autograd.grad(context, inputs, given.upstream)


@each_format
@pytest.mark.parametrize("sees_nothing", [False, True])
@pytest.mark.parametrize(
    "sizes",
    [
        (2, 2, 5, 7, 16, 32), (3, 1, 1, 1, 16, 16), (1, 3, 16, 16, 64, 64), (2, 2, 17, 33, 48, 80),
        (1, 1, 40, 3, 32, 16),
        (1, 2, 256, 250, 64, 64),
    ],
    ids=str,
)  # fmt: skip
def test_context_and_gradients(
    sizes: tuple[int, int, int, int, int, int], sees_nothing: bool, type: torch.dtype, calls: list[str]
) -> None:
    given = scene(*sizes, type, sees_nothing=sees_nothing)
    scale = sizes[4] ** -0.5
    found = computed(given, scale)
    assert calls == ["attend", "attend-back"]
    for one, wanted in zip(found, textbook(given, scale), strict=True):
        assert one.dtype is type
        torch.testing.assert_close(one.double(), wanted, **CLOSE[type])
    if sees_nothing:
        context, to_query, *_ = found
        assert not context[0, :, -1].any() and not to_query[0, :, -1].any()


@each_format
def test_dropout_of_weights_draws_as_everywhere(type: torch.dtype, calls: list[str]) -> None:
    """The same weights are dropped as by torch's operations, whose draws a test of dropout holds."""
    given, dropout = scene(3, 2, 9, 21, 32, 32, type, sees_nothing=True), Dropout(0.4)
    found = computed(given, 0.2, dropout)
    assert calls == ["attend", "attend-back"]
    torch.manual_seed(7)
    kept = dropout(torch.ones(3, 2, 9, 21))
    assert 0.3 < (kept == 0).double().mean() < 0.5
    for one, wanted in zip(found, textbook(given, 0.2, kept.double()), strict=True):
        torch.testing.assert_close(one.double(), wanted, **CLOSE[type])


@each_format
def test_operations_of_torch_give_the_same(type: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    given, dropout = scene(2, 4, 19, 30, 64, 64, type, sees_nothing=True), Dropout(0.1)
    found = computed(given, 0.125, dropout)
    monkeypatch.setattr(cpu_softmax, "covers_attention", lambda *_: False)
    for one, wanted in zip(found, computed(given, 0.125, dropout), strict=True):
        torch.testing.assert_close(one, wanted, **CLOSE[type])


@each_format
@pytest.mark.parametrize("added", ["batch", "heads", "query", "turned", "wide", "none"])
def test_mask_and_bias_may_serve_several(added: str, type: torch.dtype) -> None:
    """One row of the table for all of a batch, all heads, queries or keys, in any layout, and in 32 bits."""
    given = scene(3, 2, 6, 18, 16, 16, type, sees_nothing=False)
    table = {
        "batch": given.added[:1], "heads": given.added[:, :1], "query": given.added[:, :, :1],
        "turned": given.added.transpose(2, 3).contiguous().transpose(2, 3),
        "wide": given.added.float().clamp(min=-1e30), "none": torch.zeros(1, 1, 1, 18, dtype=type),
    }[added]  # fmt: skip
    given = given._replace(added=table)
    for one, wanted in zip(computed(given, 0.3), textbook(given, 0.3), strict=True):
        torch.testing.assert_close(one.double(), wanted, **CLOSE[type])


def test_any_layout_of_memory_will_do(calls: list[str]) -> None:
    """Features that do not lie side by side, one query for a whole batch, and gradients that are one number."""
    query = drawn(1, 2, 4, 32, type=torch.float32, seed=1).expand(3, -1, -1, -1)
    key, value = (drawn(3, 2, 32, 9, type=torch.float32, seed=i).transpose(2, 3) for i in (2, 3))
    upstream = torch.tensor(0.5).expand(3, 2, 4, 32)
    given = Scene(query, key, value, torch.zeros(1, 1, 1, 9), None, upstream)
    for one, wanted in zip(computed(given, 1.0), textbook(given, 1.0), strict=True):
        torch.testing.assert_close(one.double(), wanted, **CLOSE[torch.float32])
    assert calls == ["attend", "attend-back"]


@each_format
def test_numbers_are_the_same_by_one_thread_and_by_two(type: torch.dtype) -> None:
    given, dropout, threads = (
        scene(9, 3, 20, 40, 32, 32, type, sees_nothing=True),
        Dropout(0.2),
        torch.get_num_threads(),
    )
    found = []
    for count in (1, 2):
        torch.set_num_threads(count)
        try:
            found.append(computed(given, 0.3, dropout))
        finally:
            torch.set_num_threads(threads)
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))


def wide(given: Scene) -> Scene:
    return given._replace(**{name: getattr(given, name).double() for name in ("query", "key", "value", "upstream")})


@pytest.mark.parametrize(
    "change",
    [
        wide,
        lambda given: given._replace(query=given.query[..., :8], key=given.key[..., :8]),
        lambda given: given._replace(value=given.value[..., :8], upstream=given.upstream[..., :8]),
        lambda given: given._replace(added=given.added.clone().requires_grad_()),
    ],
    ids=["64 bits", "narrow heads", "narrow values", "a bias that is learned"],
)
def test_the_rest_is_left_to_torch(change: Callable[[Scene], Scene], calls: list[str]) -> None:
    given = change(scene(2, 2, 5, 7, 16, 16, torch.float32, sees_nothing=True))
    for one, wanted in zip(computed(given, 0.3), textbook(given, 0.3), strict=True):
        torch.testing.assert_close(one.double(), wanted, rtol=1e-4, atol=1e-4)
    assert calls == []


def test_without_gradients_and_beyond_the_longest_torch_computes(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = scene(1, 1, 6, 5, 16, 16, torch.float32, sees_nothing=False)
    with torch.no_grad():
        attend_short(*given[:5], scale=1.0)
    for longest, wanted in ((5, []), (6, ["attend", "attend-back"])):
        monkeypatch.setattr(short_attention, "MAX_LENGTH", longest)
        computed(given, 1.0)
        assert calls == wanted
