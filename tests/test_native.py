"""Kernels in C: products, norms, attention against their formulas, for every instruction set of this machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from regard.models.copying import Pointed, mixture
from regard.native import runner as runners
from regard.native.beam import MAX_BEST
from regard.native.call import Tables
from regard.native.library import Library, find
from regard.native.program import FilledHeads, Format, Program, Region, fill, filled, filled_heads
from regard.native.runner import Runner, int32

quickest = find(choice="").library
if quickest is None:
    pytest.skip(f"needs the kernels: {find(choice='').reason}", allow_module_level=True)
SETS = quickest.sets
quick = settings(max_examples=12)
every_set = pytest.mark.parametrize("name", SETS)


def kernels(name: str) -> Library:
    found = find(choice=name).library
    assert found is not None and found.set == name
    return found


def ran(program: Program, rows: Tensor, at: Region, *, threads: int = 1, **given: Any) -> Tensor:
    """The records after a program whose first features are these."""
    runner = Runner(program, threads)
    record = runner.prepare(len(rows))
    record[:, at.first : at.first + rows.shape[1]] = rows
    for name, value in given.items():
        setattr(runner.batch, name, value)
    runner.run(len(rows), longest=given["cells"].array[0].columns if "cells" in given else len(rows))
    return record[:, : program.features]


def product(name: str, format: Format, x: Tensor, weight: Tensor, bias: Tensor | None, **how: Any) -> Tensor:
    program = Program(kernels(name), format)
    at, out = program.allocate(x.shape[1]), program.allocate(len(weight))
    program.product(at, out, weight, bias, **how)
    return ran(program, x, at)[:, out.first : out.first + len(weight)]


def drawn(*shape: int, seed: int = 1, spread: float = 1.0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * spread


def counted(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The product in 8 bits: rounded to whole numbers, multiplied exactly, scaled once."""
    a, b = x.numpy(), weight.numpy()
    a_most = np.maximum(np.abs(a).max(1, keepdims=True), np.float32(1e-30))
    b_most = np.maximum(np.abs(b).max(1, keepdims=True), np.float32(1e-30))
    a_whole = np.rint(a * (np.float32(127) / a_most)).astype(np.int64)
    b_whole = np.rint(b / b_most * np.float32(127)).astype(np.int64)
    scale = (b_most / np.float32(127)).T * (a_most / np.float32(127))
    return torch.from_numpy((a_whole @ b_whole.T).astype(np.float32) * scale) + bias


@every_set
@quick
@given(
    rows=st.integers(1, 70),
    inputs=st.integers(1, 150) | st.sampled_from([64, 192]),  # of which tiles take multiples of 64 alone
    outputs=st.integers(1, 150),
    seed=st.integers(0, 99),
    spread=st.sampled_from([0.0, 1e-20, 1.0, 1e20]),
)
def test_products_in_8_bits_are_exact(
    name: str, rows: int, inputs: int, outputs: int, seed: int, spread: float
) -> None:
    x = drawn(rows, inputs, seed=seed, spread=spread)
    weight = drawn(outputs, inputs, seed=seed + 1, spread=1e37 if spread == 1e-20 else 1.0)
    bias = drawn(outputs, seed=seed + 2)
    assert torch.equal(product(name, "int8", x, weight, bias), counted(x, weight, bias))


@every_set
def test_the_greatest_sums_in_8_bits_are_exact(name: str) -> None:
    """All numbers at their ends, of both signs: nothing saturates, and no sum overflows."""
    for rows, inputs in ((2, 64), (2, 2**17), (40, 2**14)):
        weight = torch.tensor([[1.0], [-1.0]]).expand(2, inputs)
        wanted = torch.full((2,), 127.0 * 127 * inputs) * torch.tensor([1 / 127]) ** 2
        found = product(name, "int8", weight.repeat(rows // 2, 1), weight, None)
        assert torch.equal(found, found[:2].repeat(rows // 2, 1))
        assert found[0, 0] == found[1, 1] == -found[0, 1] == -found[1, 0]
        torch.testing.assert_close(found[0], wanted * torch.tensor([1.0, -1.0]))


@every_set
@quick
@given(rows=st.integers(1, 70), inputs=st.integers(1, 150), outputs=st.integers(1, 150), seed=st.integers(0, 99))
def test_products_in_float32(name: str, rows: int, inputs: int, outputs: int, seed: int) -> None:
    x, weight = drawn(rows, inputs, seed=seed), drawn(outputs, inputs, seed=seed + 1)
    bias = drawn(outputs, seed=seed + 2)
    wanted = (x.double() @ weight.double().t() + bias).float()
    torch.testing.assert_close(product(name, "float32", x, weight, bias), wanted, rtol=1e-5, atol=3e-5)


@every_set
@pytest.mark.parametrize("format", ["float32", "int8"])
def test_a_row_does_not_depend_on_those_beside_it(name: str, format: Format) -> None:
    """To the bit, whatever the number of rows that are computed together."""
    x, weight, bias = drawn(13, 50), drawn(70, 50, seed=2), drawn(70, seed=3)
    whole = product(name, format, x, weight, bias, activation="gelu")
    for count in range(1, 8):
        assert torch.equal(
            product(name, format, x[3 : 3 + count], weight, bias, activation="gelu"), whole[3 : 3 + count]
        )


@every_set
@pytest.mark.parametrize("width", [1, 17, 48])
def test_a_norm_of_numbers_far_from_zero(name: str, width: int) -> None:
    """What fills a vector up counts for nothing, not even where it is subtracted again."""
    x = drawn(9, width) + 1000
    program = Program(kernels(name), "float32")
    at, out = program.allocate(filled(width)), program.allocate(filled(width))
    program.norm(at, out, torch.ones(width), torch.zeros(width), 1e-5, groups=1)
    found = ran(program, fill(x), at)[:, out.first : out.first + width]
    torch.testing.assert_close(found, functional.layer_norm(x.double(), (width,)).float(), rtol=2e-3, atol=2e-3)


ACTIVATED: dict[Any, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "relu2": lambda x: torch.relu(x) ** 2,
    "gelu": functional.gelu,
    "gelu-tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "swish": functional.silu,
    "sigmoid": torch.sigmoid,
}
RANGE = torch.cat([torch.linspace(-12, 12, 61), torch.tensor([-200.0, -88.0, -0.0, 1e-30, 88.0, 200.0])])[None]


@every_set
@pytest.mark.parametrize("activation", ACTIVATED)
def test_activations(name: str, activation: Any) -> None:
    found = product(name, "float32", RANGE, torch.eye(RANGE.shape[1]), None, activation=activation)
    torch.testing.assert_close(found, ACTIVATED[activation](RANGE), rtol=2e-6, atol=1e-6)


@every_set
@pytest.mark.parametrize("format", ["float32", "int8"])
def test_products_add(name: str, format: Format) -> None:
    x, weight = drawn(3, 32), drawn(32, 32, seed=2)
    program = Program(kernels(name), format)
    at, out = program.allocate(32), program.allocate(32)
    program.copy(at, out)
    program.product(at, out, weight, add=True)
    alone = product(name, format, x, weight, None)
    torch.testing.assert_close(ran(program, x, at)[:, 32:64], x + alone, rtol=1e-6, atol=1e-6)


@every_set
@quick
@given(rows=st.integers(1, 9), width=st.integers(1, 70), groups=st.integers(1, 3), layer=st.booleans())
def test_norms(name: str, rows: int, width: int, groups: int, layer: bool) -> None:
    x = drawn(rows, groups, width, spread=3) + 1
    gains, bias = drawn(width, seed=2), drawn(width, seed=3) if layer else None
    program = Program(kernels(name), "float32")
    at, out = program.allocate(groups * filled(width)), program.allocate(groups * filled(width))
    program.norm(at, out, gains, bias, 1e-5, groups=groups)
    found = ran(program, fill(x).flatten(1), at)[:, out.first :].unflatten(1, (groups, -1))
    wanted = functional.layer_norm(x, (width,), gains, bias) if layer else functional.rms_norm(x, (width,), gains, 1e-5)
    torch.testing.assert_close(found[..., :width], wanted, rtol=1e-4, atol=1e-5)
    assert not found[..., width:].any(), "the filling stays zero"


@every_set
def test_lookups_and_turns(name: str) -> None:
    table, places = drawn(9, 20), drawn(7, 20, seed=2)
    angles, heads, half = drawn(7, 5, seed=3), 2, 5
    program = Program(kernels(name), "float32")
    out, turned = program.allocate(20), program.allocate(2 * 16)
    program.embed(table, out)
    program.position(places, out)
    program.rotate(turned, angles, heads)
    x = drawn(4, heads, 12, seed=4)
    token, time = int32([0, 8, 3, 3]), int32([6, 0, 2, 5])
    found = ran(program, fill(x).flatten(1), turned, token=token, time=time)
    torch.testing.assert_close(found[:, :20], table[token] + places[time])
    angle = angles[time][:, None]
    pair = torch.view_as_complex(x[..., : 2 * half].unflatten(-1, (half, 2)).contiguous())
    wanted = torch.view_as_real(pair * torch.polar(torch.ones_like(angle), angle)).flatten(-2)
    back = found[:, turned.first :].unflatten(1, (heads, 16))
    torch.testing.assert_close(back[..., :10], wanted, rtol=1e-5, atol=1e-6)
    assert torch.equal(back[..., 10:12], x[..., 10:12])


@every_set
def test_gates_and_mixtures(name: str) -> None:
    x = drawn(5, 48)
    one, two, three = x.split(16, 1)
    for add, wanted in (
        (lambda program, a, b, c: program.glu(a, b, c, "swish"), functional.silu(one) * two),
        (lambda program, a, b, c: program.gate(a, c), three * torch.sigmoid(one)),
        (lambda program, a, b, c: program.mix(a, b, c, 0.3, -2.0), 0.3 * one - 2 * two),
        (lambda program, a, b, c: program.copy(b, c), two),
    ):
        program = Program(kernels(name), "float32")
        at = program.allocate(48)
        add(program, at.part(0, 16), at.part(16, 16), at.part(32, 16))
        torch.testing.assert_close(ran(program, x, at)[:, 32:64], wanted, rtol=1e-6, atol=1e-6)


def attended(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """(heads, width) to (columns, key heads, width)."""
    key, value = (x.repeat_interleave(len(query) // x.shape[1], 1) for x in (key, value))
    return torch.einsum("hc,chv->hv", torch.einsum("hw,chw->hc", query, key).softmax(-1), value)


@every_set
@quick
@given(
    width=st.integers(1, 70),
    value_width=st.integers(1, 140),
    key_heads=st.integers(1, 3),
    share=st.integers(1, 2),
    times=st.integers(1, 40),
    half=st.booleans(),
    seed=st.integers(0, 99),
)
def test_attention_to_cells_of_a_history(
    name: str, width: int, value_width: int, key_heads: int, share: int, times: int, half: bool, seed: int
) -> None:
    """Each row writes its cell, then attends to those of its history, whichever place they lie in."""
    heads, slots, places, rows = key_heads * share, 3, 2, 4
    sizes = FilledHeads(heads, key_heads, filled(width), filled(value_width))
    program = Program(kernels(name), "float32")
    query, key = program.allocate(heads * sizes.width), program.allocate(key_heads * sizes.width)
    value, out = program.allocate(key_heads * sizes.value_width), program.allocate(heads * sizes.value_width)
    program.embed(torch.zeros(1, 16), program.allocate(16))  # a token's cell is that of its row from then on
    program.keep(key, value, sizes, 0)
    program.attend(query, out, sizes, 0)
    kept = torch.float16 if half else torch.float32
    cells = [fill(drawn(slots, key_heads, times, places, each, seed=seed)).to(kept) for each in (width, value_width)]
    own = [fill(drawn(rows, each, w, seed=seed + at)) for at, (each, w) in enumerate(
        ((heads, width), (key_heads, width), (key_heads, value_width)))]  # fmt: skip
    draw = torch.Generator().manual_seed(seed)
    history = torch.randint(0, places, (slots, places, times), dtype=torch.int16, generator=draw)
    time = torch.randint(0, times, (rows,), dtype=torch.int32, generator=draw)
    slot, place = int32([2, 0, 2, 1]), int32([0, 1, 1, 0])
    found = ran(
        program, torch.cat([each.flatten(1) for each in own], 1), query, time=time, slot=slot, place=place,
        history=history, cells=Tables([(cells[0], cells[1])]), token=int32([0] * rows),
    )[:, out.first : out.first + out.width].unflatten(1, (heads, -1))  # fmt: skip
    for row in range(rows):
        at = int(slot[row])
        seen = history[at, place[row], : time[row] + 1].long()
        assert seen[-1] == place[row], "its own cell is its own"
        columns = torch.arange(len(seen))
        keys, values = (table[at].movedim(0, 2)[columns, seen] for table in cells)
        assert torch.equal(keys[-1], own[1][row].to(kept)) and torch.equal(values[-1], own[2][row].to(kept))
        wanted = attended(own[0][row], keys.float(), values.float())
        torch.testing.assert_close(found[row], wanted, rtol=1e-4, atol=1e-5)


@every_set
def test_floats_of_16_bits_are_those_of_the_standard(name: str) -> None:
    """All of them are read, and floats between, beyond and below them are rounded to them as torch does it."""
    every = torch.arange(2**16, dtype=torch.int32).to(torch.uint16).view(torch.float16)
    between = every.float() * (1 + torch.linspace(-1e-3, 1e-3, len(every)))
    sizes = FilledHeads(1, 1, 16, 64)
    program = Program(kernels(name), "float32")
    query, key, value = program.allocate(16), program.allocate(16), program.allocate(64)
    out = program.allocate(64)
    program.keep(key, value, sizes, 0)
    program.attend(query, out, sizes, 0)
    for x in (every.float(), between, torch.tensor([65519.9, 65520.0, 1e38, 2.9e-8, 3e-8]).repeat(64)):
        x = x[: len(x) // 64 * 64].view(-1, 64)
        rows = len(x)
        table = torch.zeros(rows, 1, 1, 16, dtype=torch.float16), torch.zeros(rows, 1, 1, 64, dtype=torch.float16)
        given = torch.cat([torch.zeros(rows, 32), x], 1)
        slot = torch.arange(rows, dtype=torch.int32)
        found = ran(program, given, query, time=slot * 0, slot=slot, cells=Tables([table]))
        assert torch.equal(table[1].flatten().nan_to_num(7), x.half().flatten().nan_to_num(7))
        read = found[:, out.first : out.first + 64].flatten()
        assert torch.equal(read.nan_to_num(7), x.half().float().flatten().nan_to_num(7))


@every_set
@quick
@given(
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=5),
    width=st.integers(1, 40),
    threads=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_attention_within_a_sequence_and_to_a_source(
    name: str, lengths: list[int], width: int, threads: int, seed: int
) -> None:
    sizes = FilledHeads(2, 1, filled(width), filled(width))
    program = Program(kernels(name), "float32")
    query, own = program.allocate(2 * sizes.width), program.allocate(2 * sizes.width)
    out, read = program.allocate(2 * sizes.width), program.allocate(2 * sizes.width)
    program.attend_rows(query, own, out, sizes)
    program.attend(query, read, sizes, 0, source=True)
    rows, columns = sum(lengths), 17
    queries = fill(drawn(rows, 2, width, seed=seed))
    key, value = (fill(drawn(rows, 1, width, seed=seed + at)) for at in (1, 2))
    tables = [fill(drawn(2, 1, columns, width, seed=seed + at)) for at in (3, 4)]
    ends = torch.tensor(lengths).cumsum(0)
    sentence = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    slot, length = (sentence % 2).int(), (sentence * 7 % (columns + 1)).int()
    runner = Runner(program, threads)
    runner.prepare(rows)[:, : 4 * sizes.width] = torch.cat([queries, key, value], 1).flatten(1)
    batch = runner.batch
    batch.begin, batch.end = (ends - torch.tensor(lengths))[sentence].int(), ends[sentence].int()
    batch.slot, batch.length, batch.sources = slot, length, Tables([(tables[0], tables[1])])
    runner.run(rows, 20, [0, *ends.tolist()])
    found = runner.prepare(rows)
    for row in range(rows):
        from_, to = int(ends[sentence[row]]) - lengths[sentence[row]], int(ends[sentence[row]])
        wanted = attended(queries[row], key[from_:to], value[from_:to])
        torch.testing.assert_close(found[row][out.first : read.first].view(2, -1), wanted, rtol=1e-4, atol=1e-5)
        keys, values = (table[slot[row], :, : length[row]].movedim(0, 1) for table in tables)
        wanted = attended(queries[row], keys, values)
        torch.testing.assert_close(
            found[row][read.first : read.first + read.width].view(2, -1), wanted, rtol=1e-4, atol=1e-5
        )


@every_set
@pytest.mark.parametrize("types", [1, 5, 20, 64, 67])
@pytest.mark.parametrize("size", [1.0, 30.0])
def test_best_types_are_as_probable_as_among_all_types(name: str, types: int, size: float) -> None:
    """Also where types are fewer than a vector's numbers, and where logits are large."""
    program = Program(kernels(name), "float32")
    at, weight = program.allocate(16), size * drawn(types, 16)
    program.head(at, weight, None)
    runner, x = Runner(program, 1), drawn(3, 16, seed=2)
    runner.prepare(3)[:, :16] = x
    batch = runner.batch
    best = min(types, MAX_BEST)
    batch.best, batch.value, batch.best_type = best, torch.empty(3, best), torch.empty(3, best, dtype=torch.int32)
    value, found = batch.value, batch.best_type
    runner.run(3, 1)
    wanted, order = (x.double() @ weight.double().T).log_softmax(-1).sort(-1, descending=True)
    torch.testing.assert_close(value.double(), wanted[:, :best], rtol=2e-6, atol=2e-5 * size)
    assert torch.equal(found.long(), order[:, :best])


@every_set
@quick
@given(
    lengths=st.lists(st.integers(0, 20), min_size=1, max_size=7),
    types=st.sampled_from([5, 20, 64, 67, 300]),
    best=st.integers(1, 12),
    beam=st.integers(1, 3),
    threads=st.integers(1, 3),
    half=st.booleans(),
    gate=st.sampled_from([-200.0, 0.0, 3.0, 40.0]),
    few=st.booleans(),  # the pieces of a source are of few types
    together=st.booleans(),  # threads share few rows
    seed=st.integers(0, 99),
)
def test_outputs_copy_what_a_pointer_attends_to(
    name: str, lengths: list[int], types: int, best: int, beam: int, threads: int, half: bool, gate: float, few: bool,
    together: bool, seed: int,
) -> None:  # fmt: skip
    """log P of all types, of the best ones, and of the one that is asked for, as ``mixture`` computes them."""
    rows, columns, best = len(lengths) * beam, 21, min(best, types - 2)
    program = Program(kernels(name), "float32")
    at, own, out = program.allocate(16), program.allocate(16), program.allocate(16)
    weight = 3 * drawn(types, 16, seed=seed)
    program.point(at, out, FilledHeads(1, 1, 16, 16), 0)
    program.mix(own, out, own, 1, 1)
    program.head(at, weight, None, own)
    draw = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 3 if few else types, (len(lengths), columns), dtype=torch.int32, generator=draw)
    tables = [drawn(len(lengths), 1, columns, width, seed=seed + width) for width in (16, 1)]
    key, value = (fill(x).to(torch.float16 if half else torch.float32) for x in tables)
    x, gates = drawn(rows, 16, seed=seed + 1), gate + drawn(rows, 1, seed=seed + 2)
    slot = torch.arange(len(lengths)).flip(0).repeat_interleave(beam)
    length = torch.tensor(lengths)[slot]
    asked = tokens[slot, 0].clone()

    seen = torch.arange(columns) < length[:, None]
    energy = torch.einsum("rw,rcw->rc", x.double(), key[slot, 0].double()).masked_fill(~seen, -math.inf)
    weights = energy.softmax(-1).nan_to_num()
    logit = (weights * value[slot, 0, :, 0].double()).sum(-1) + gates[:, 0].double()
    wanted = mixture(x.double() @ weight.double().T, Pointed(logit, weights, tokens[slot].long()))

    for count in (0, best):
        runner = Runner(program, threads)
        runner.prepare(rows)[:, :32] = fill(torch.cat([x, gates], 1))
        batch = runner.batch
        batch.slot, batch.length = slot.int(), length.int()
        batch.sources = Tables([(key, value, tokens[:, None, :, None].contiguous())])
        log_p = torch.empty(rows, filled(types))
        found, token = torch.empty(rows, count), torch.empty(rows, count, dtype=torch.int32)
        batch.best, batch.log_p = count, log_p
        batch.value, batch.best_type, batch.requested_value = found, token, torch.empty(rows)
        batch.suppressed, batch.requested, one = int32([1, 2]), asked, batch.requested_value
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runners, "MIN_SHARED_BYTES", 0 if together else 2**30)
            runner.run(rows, columns)
        if not count:
            torch.testing.assert_close(log_p[:, :types].double(), wanted, rtol=2e-5, atol=1e-4)
            continue
        torch.testing.assert_close(one.double(), wanted.gather(1, asked[:, None].long())[:, 0], rtol=2e-5, atol=1e-4)
        order = wanted.index_fill(1, torch.tensor([1, 2]), -math.inf).sort(-1, descending=True)
        torch.testing.assert_close(found.double(), order.values[:, :count], rtol=2e-5, atol=1e-4)
        assert all(len(set(row)) == count for row in token.tolist())
        torch.testing.assert_close(wanted.gather(1, token.long()), found.double(), rtol=2e-5, atol=1e-4)


@every_set
def test_of_equally_probable_types_the_first_is_the_best_copied_or_not(name: str) -> None:
    """Two pieces with a fourth each, in the other order; what is left are types of an eighth."""
    program = Program(kernels(name), "float32")
    at, gate, out = program.allocate(16), program.allocate(16), program.allocate(16)
    program.point(at, out, FilledHeads(1, 1, 16, 16), 0)
    program.mix(gate, out, gate, 1, 1)
    program.head(at, torch.zeros(4, 16), None, gate)
    table = torch.zeros(1, 1, 2, 16)
    for best in (1, 2, 4):
        for tokens, wanted, shares in (([3, 1], [1, 3, 0, 2], [3, 3, 1, 1]), ([3, 3], [3, 0, 1, 2], [5, 1, 1, 1])):
            runner = Runner(program, 1)
            runner.prepare(1).zero_()
            batch = runner.batch
            batch.slot, batch.length = int32([0]), int32([2])
            batch.sources = Tables([(table, table, int32(tokens).view(1, 1, 2, 1))])
            value, token = torch.empty(1, best), torch.empty(1, best, dtype=torch.int32)
            batch.best, batch.value, batch.best_type = best, value, token
            runner.run(1, 2)
            assert token[0].tolist() == wanted[:best]
            torch.testing.assert_close(value.exp()[0], torch.tensor(shares[:best]) / 8)


@every_set
@pytest.mark.parametrize("format", ["float32", "int8"])
def test_the_best_types_are_types(name: str, format: Format) -> None:
    """As many as there are, with some suppressed: places that nothing is left for hold no number beyond the types."""
    program = Program(kernels(name), format)
    at = program.allocate(16)
    program.head(at, drawn(20, 16), None)
    for best in (20, 32):
        runner = Runner(program, 1)
        runner.prepare(3)[:, :16] = drawn(3, 16, seed=2)
        batch = runner.batch
        value, found = torch.empty(3, best), torch.empty(3, best, dtype=torch.int32)
        batch.best, batch.value, batch.best_type, batch.suppressed = best, value, found, int32([0, 7])
        runner.run(3, 1)
        assert (found >= 0).all() and (found < 20).all()
        assert (value[:, :18] > -math.inf).all() and (value[:, 18:] == -math.inf).all()


@every_set
@pytest.mark.parametrize("format", ["float32", "int8"])
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_stays_in_its_row(name: str, format: Format, number: float) -> None:
    """Of a record, of weights: results that are no numbers, of no other row, and types that there are."""
    program = Program(kernels(name), format)
    at, normed, inner = program.allocate(20), program.allocate(20), program.allocate(40)
    program.norm(at, normed, torch.ones(20), torch.zeros(20), 1e-5)
    program.product(normed, inner, drawn(40, 20), None, activation="gelu")
    program.head(inner, drawn(50, 40), None)
    x = drawn(7, 20)
    results = []
    for each in (x, x.index_put((torch.tensor(4), torch.tensor(3)), torch.tensor(number))):
        runner = Runner(program, 1)
        runner.prepare(7)[:, :20] = each
        value, found = torch.empty(7, 5), torch.empty(7, 5, dtype=torch.int32)
        batch = runner.batch
        batch.best, batch.value, batch.best_type = 5, value, found
        runner.run(7, 1)
        results.append((value, found))
    (clean, types), (value, found) = results
    others = [0, 1, 2, 3, 5, 6]
    assert torch.equal(value[others], clean[others]) and torch.equal(found[others], types[others])
    assert value[4].isnan().all() and (found[4] >= 0).all() and (found[4] < 50).all()
    broken = drawn(20, 20).index_put((torch.tensor(4), torch.tensor(3)), torch.tensor(number))
    out = product(name, format, x, broken, None)
    assert out[:, others].isfinite().all() and not out[:, 4].isfinite().any()


def test_sets_agree() -> None:
    """Products in 8 bits to the bit; whatever is computed in float32 within rounding."""
    x, weight, bias = drawn(70, 130), drawn(200, 130, seed=2), drawn(200, seed=3)
    whole = [product(name, "int8", x, weight, bias, activation="relu") for name in SETS]
    assert all(torch.equal(each, whole[0]) for each in whole)
    floats = [product(name, "float32", x, weight, bias, activation="gelu") for name in SETS]
    for each in floats:
        torch.testing.assert_close(each, floats[0], rtol=1e-5, atol=1e-5)


def test_heads_are_filled_one_by_one() -> None:
    x = drawn(6, 2)
    found = filled_heads(x, 2)
    assert torch.equal(found[[0, 1, 2, 16, 17, 18]], x) and not found[3:16].any()
