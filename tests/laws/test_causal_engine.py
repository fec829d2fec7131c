"""The fast decoder of language models gives the model's own numbers, whatever is done to its state."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from regard.core.state import join, leaves, repeat, select, truncate
from regard.engine.language_model import FastLanguageModel, obstacle
from regard.engine.native_language_model import PIECE, NativeLanguageModel
from regard.models.language_model import LanguageModel
from regard.native.library import find, library
from regard.native.program import Format
from regard.runs.config import load_config
from regard.tasks.language_model.task import TASK

pytestmark = pytest.mark.unchecked  # of models and searches the other laws check the same calls
TYPES = 23
LLAMA: dict[str, Any] = {
    "normalization": "rms",
    "activation": "swiglu",
    "position": {"kind": "rotary", "layout": "half"},
}
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "post": {"norm": "post", "position": "sinusoidal", "activation": "relu"},
    "llama": LLAMA | {"key_heads": 2},
    "one key head, an odd width of values": {"key_heads": 1, "value_width": 3, "attention_bias": True},
    "learned": {"position": {"kind": "learned", "longest": 60}, "attention_bias": True, "output_bias": True},
    "alibi": {"position": "alibi", "key_heads": 2, "activation": "relu2"},
    "t5": {"position": "t5", "share": "none"},
    "none, unscaled": {"position": "none", "mixer": {"kind": "dot", "scale": 1.0}},
    "newer": LLAMA | {"qk_norm": True, "context_norm": True, "attention_gate": True, "embedding_residual": True},
    "newer, no turn": {"position": "none", "qk_norm": True, "zero_output": True},
    "window": {"mixer": {"kind": "dot", "neighborhood": 4}},
    "window, alibi": {"mixer": {"kind": "dot", "neighborhood": 5}, "position": "alibi", "key_heads": 2},
}


def model_of(shape: dict[str, Any], dtype: torch.dtype = torch.float64) -> LanguageModel:
    torch.manual_seed(3)
    config = {"width": 16, "heads": 4, "feed_forward": 24, "layers": 2, "dropout": 0.1, "init_std": 0.4}
    whole = load_config({"task": "language-model", "data": {"train": [], "context": 32}, "model": config | shape})
    model = cast(LanguageModel, TASK.build(whole, {"types": TYPES}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.rand_like(parameter) * 0.3)  # no feature is like another, and no matrix is 0
    return model.to(dtype).eval()


@pytest.fixture(params=SHAPES)
def model(request: pytest.FixtureRequest) -> LanguageModel:
    return model_of(SHAPES[request.param])


def drawn(rows: int, length: int, draw: torch.Generator) -> Tensor:
    return torch.randint(0, TYPES, (rows, length), generator=draw)


needs_kernels = pytest.mark.skipif(library() is None, reason=f"needs the kernels: {find().reason}")


@torch.no_grad()
@pytest.mark.parametrize(
    ("form", "seed", "error"),
    [("torch", 0, 1e-10), ("torch", 1, 1e-10), pytest.param("native", 0, 1e-4, marks=needs_kernels)],
)
def test_it_computes_the_same_whatever_is_done_to_its_state(
    model: LanguageModel, form: str, seed: int, error: float
) -> None:
    """Random pieces, reorderings, copies, truncations and newcomers, beside the tokens of each row read anew."""
    model = model if form == "torch" else model.float()
    quick = FastLanguageModel(model) if form == "torch" else NativeLanguageModel(model, threads=2)
    draw = torch.Generator().manual_seed(seed)
    state, read = quick.start(3), [[], [], []]
    for step in range(10):
        pieces = drawn(len(read), 1 if step % 3 else int(torch.randint(1, 9, (1,), generator=draw)), draw)
        found, state = quick.step(pieces, state)
        read = [row + piece for row, piece in zip(read, pieces.tolist(), strict=True)]
        for row, tokens in enumerate(read):
            wanted, _ = model.step(torch.tensor([tokens]), model.start(1))
            torch.testing.assert_close(found[row], wanted[0, -pieces.shape[1] :], rtol=error, atol=error)
        assert state.length.tolist() == [len(row) for row in read]
        what = ["any", "repeat", "truncate", "join", "stay"][int(torch.randint(0, 5, (1,), generator=draw))]
        if what == "any" or len(read) > 5:
            rows = torch.randint(0, len(read), (1 + step % 4,), generator=draw)
            state, read = select(state, rows), [read[row] for row in rows]
        elif what == "repeat":
            state, read = repeat(state, 2), [row for row in read for _ in range(2)]
        elif what == "truncate":
            length = torch.tensor([max(len(row) - row_number, 0) for row_number, row in enumerate(read)])
            try:
                state = truncate(state, length)
            except TypeError as refusal:
                assert "cannot be truncated" in str(refusal) and "window" in str(refusal)
                assert any(table.window is not None for table in state.tables)
                continue
            read = [row[:kept] for row, kept in zip(read, length.tolist(), strict=True)]
        elif what == "join":
            piece = drawn(2, 1 + 2 * step, draw)
            state, read = join([state, quick.step(piece, quick.start(2))[1]]), read + piece.tolist()


@torch.no_grad()
def test_reduced_log_probabilities_are_those_of_the_last_token(model: LanguageModel) -> None:
    quick, tokens = FastLanguageModel(model), drawn(20, 5, torch.Generator().manual_seed(1))

    def reduce(log_p: Tensor, rows: slice) -> tuple[Tensor, ...]:
        return log_p.amax(-1), torch.arange(rows.start, rows.stop)

    wanted, _ = model.step(tokens, model.start(20))
    found, state = quick.chunked_step(tokens, quick.start(20), reduce)
    torch.testing.assert_close(found[0], wanted[:, -1].amax(-1), rtol=1e-10, atol=1e-10)
    assert found[1].tolist() == list(range(20)) and state.length.tolist() == [5] * 20


@torch.no_grad()
def test_no_rows_are_rows(model: LanguageModel) -> None:
    quick, none = FastLanguageModel(model), torch.empty(0, dtype=torch.int64)
    _, state = quick.step(drawn(3, 7, torch.Generator().manual_seed(1)), quick.start(3))
    for length in (1, 3):
        log_p, _ = quick.step(none.view(0, 1).expand(0, length), select(state, none))
        assert log_p.shape == (0, length, TYPES)


@torch.no_grad()
@needs_kernels
def test_the_kernels_read_a_long_prompt_piece_by_piece() -> None:
    """Longer than a piece and than a window, by one thread and by two, and the last column alone."""
    model = model_of({"position": "none", "mixer": {"kind": "dot", "neighborhood": 9}}, torch.float32)
    tokens = drawn(3, 200, torch.Generator().manual_seed(1))
    wanted, _ = model.step(tokens, model.start(3))
    for threads in (1, 2):
        quick = NativeLanguageModel(model, threads=threads)
        found, state = quick.step(tokens, quick.start(3))
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        assert all(table.slots <= 9 + 1 + PIECE for table in state.tables)
        (last,), _ = quick.chunked_step(tokens[:1], quick.start(1), lambda log_p, rows: (log_p,))
        torch.testing.assert_close(last, wanted[:1, -1], rtol=1e-4, atol=1e-4)


@torch.no_grad()
@needs_kernels
@pytest.mark.parametrize("format", ["float32", "int8"])
def test_a_row_of_the_kernels_is_the_same_in_any_company(format: Format) -> None:
    model = model_of(SHAPES["newer"], torch.float32)
    quick, lone = NativeLanguageModel(model, format=format, threads=2), NativeLanguageModel(model, format=format)
    tokens = drawn(9, 12, torch.Generator().manual_seed(1))
    together, _ = quick.step(tokens, quick.start(9))
    for row in range(9):
        state, found = lone.start(1), []
        for column in tokens[row : row + 1].split(1, 1):
            log_p, state = lone.step(column, state)
            found.append(log_p)
        assert torch.equal(torch.cat(found, 1)[0], together[row])


@torch.no_grad()
@pytest.mark.parametrize(
    ("engine", "error"), [("float32", 1e-5), ("bfloat16", 0.1), pytest.param("int8", 0.2, marks=needs_kernels)]
)
@pytest.mark.parametrize("rows", [1, 3])  # a row alone goes through products of its own
@pytest.mark.parametrize("shape", ["plain", "newer", "alibi", "t5"])
def test_packed_matrices_compute_the_same(engine: str, error: float, rows: int, shape: str) -> None:
    model = model_of(SHAPES[shape], torch.float32)
    tokens = drawn(rows, 12, torch.Generator().manual_seed(1))
    wanted, _ = model.step(tokens, model.start(rows))
    quick: Any = FastLanguageModel(model, dtype=getattr(torch, engine)) if engine != "int8" else None
    quick = quick or NativeLanguageModel(model, format="int8")
    first, state = quick.step(tokens[:, :6], quick.start(rows))
    steps = [first]
    for column in tokens[:, 6:].split(1, 1):
        log_p, state = quick.step(column, state)
        steps.append(log_p)
    found = torch.cat(steps, 1)
    assert found.dtype == torch.float32
    assert float((found - wanted).abs().mean()) < error
    assert model.head.weight.dtype == torch.float32, "the model is as it was"


@torch.no_grad()
def test_the_state_of_a_window_does_not_grow() -> None:
    """Neither that of the model itself, whose numbers are those of a single pass, nor that of its fast form."""
    model = model_of(SHAPES["window"])
    quick, draw = FastLanguageModel(model), torch.Generator().manual_seed(1)
    tokens = drawn(2, 90, draw)
    whole, _ = model.step(tokens, model.start(2))
    log_p, state = model.step(tokens[:, :11], model.start(2))
    pieces, own = [log_p], set()
    for column in tokens[:, 11:].split(1, 1):
        log_p, state = model.step(column, state)
        pieces.append(log_p)
        own.add(sum(leaf.numel() for leaf in leaves(state)))
    assert len(own) == 1
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=1e-10, atol=1e-10)
    _, state = quick.step(drawn(2, 11, draw), quick.start(2))
    sizes = set()
    for _ in range(30):
        _, state = quick.step(drawn(2, 1, draw), state)
        sizes.add(sum(table.key.numel() + table.value.numel() for table in state.tables))
    assert sizes == {2 * 2 * 2 * 16 * 5}  # layers, keys and values, rows, width, positions


class Forgetful(LanguageModel): ...


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ({"mixer": {"kind": "ssru"}}, "other than self-attention"),
        ({"mixer": {"kind": "differential"}}, "not plain dot-product attention"),
        ({"position": "shaw"}, "not plain dot-product attention"),
        ({"mixer": {"kind": "dot", "project": ["query", "key", "value"]}}, "lacks a projection"),
    ],
)
def test_what_it_cannot_serve_it_says(shape: dict[str, Any], told: str) -> None:
    model = model_of(shape)
    assert told in str(obstacle(model))
    with pytest.raises(ValueError, match=told):
        FastLanguageModel(model)


def test_what_it_does_not_know_it_does_not_leave_out() -> None:
    model = model_of({})
    assert obstacle(model) is None
    model.layers[1].mixer.attention.surprise = nn.Parameter(torch.ones(1))
    assert "mixer.attention.surprise" in str(obstacle(model))
    other = model_of({})
    other.surprise = nn.Linear(2, 2)
    assert "surprise.bias" in str(obstacle(other))
    model.__class__ = Forgetful
    assert "Forgetful" in str(obstacle(model))
