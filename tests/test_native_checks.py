"""What the kernels are not to be called with is refused before memory is touched, and so is a strange library."""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.native.beam import MAX_BEST, BeamRows
from regard.native.call import Tables
from regard.native.library import ABI, Beam, NativeMatrix, Operation, Pass, RowBatch, ShortAttention, Table, find
from regard.native.memory import MatrixMemory
from regard.native.program import FilledHeads, Program, Region
from regard.native.runner import Runner, int32

kernels = find(choice="").library
needs_kernels = pytest.mark.skipif(kernels is None, reason=f"needs the kernels: {find(choice='').reason}")
ROWS, TYPES, TIMES, COLUMNS, SLOTS, PLACES, POSITIONS = 4, 21, 9, 6, 3, 2, 8
SIZES = FilledHeads(2, 1, 16, 32)


def program() -> Program:
    """A program that reads all that a call may have."""
    assert kernels is not None
    made = Program(kernels, "float32")
    x, query = made.allocate(16), made.allocate(32)
    key, value, out = made.allocate(16), made.allocate(32), made.allocate(64)
    made.embed(torch.randn(TYPES, 16), x)
    made.position(torch.randn(POSITIONS, 16), x)
    made.rotate(query, torch.randn(POSITIONS + 1, 8), 2)
    made.keep(key, value, SIZES, 0)
    made.keep(key, value, SIZES, 1)
    made.attend(query, out, SIZES, 1)
    made.attend(query, out, SIZES, 0, source=True)
    made.attend_rows(query, key, out, SIZES)
    made.head(x, torch.randn(TYPES, 16), None)
    return made


def layer(*shape: int) -> tuple[Tensor, Tensor]:
    return torch.zeros(*shape, 16), torch.zeros(*shape, 32)


def given() -> dict[str, Any]:
    return {
        "token": int32([0, TYPES - 1, 3, 4]),
        "time": int32([0, POSITIONS - 1, 3, 4]),
        "slot": int32([0, SLOTS - 1, 1, 0]),
        "place": int32([0, PLACES - 1, 0, 1]),
        "history": torch.zeros(SLOTS, PLACES, TIMES, dtype=torch.int16),
        "begin": int32([0, 0, 2, 2]),
        "end": int32([2, 2, 4, 4]),
        "length": int32([COLUMNS, 0, 3, 1]),
        "cells": [layer(SLOTS, 1, TIMES, PLACES) for _ in range(2)],
        "sources": [layer(SLOTS, 1, COLUMNS)],
        "best": 3,
        "suppressed": int32([2]),
        "requested": int32([-1, TYPES - 1, 0, 5]),
        "value": torch.zeros(ROWS, 3),
        "best_type": torch.zeros(ROWS, 3, dtype=torch.int32),
        "requested_value": torch.zeros(ROWS),
        "log_p": None,
    }


def call(changed: dict[str, Any], rows: int = ROWS, longest: int = TIMES, ahead: int = 1) -> Runner:
    runner = Runner(program(), 1)
    for name, value in (given() | changed).items():
        tables = name in ("cells", "sources") and value is not None
        setattr(runner.batch, name, Tables(value) if tables else value)
    runner.run(rows, longest, [0, 2], ahead=ahead)
    return runner


def at(name: str, where: int, number: int) -> tuple[str, dict[str, Any]]:
    numbers = given()[name].clone()
    numbers.view(-1)[where] = number
    return f"{name} {number} at {where}", {name: numbers}


WRONG: dict[str, dict[str, Any]] = dict(
    [
        at("token", 1, TYPES),
        at("token", 3, -1),
        at("token", 0, 2**31 - 1),
        at("time", 1, POSITIONS),  # beyond the table of positions
        at("time", 1, -1),
        at("slot", 1, SLOTS),
        at("slot", 2, -1),
        at("place", 1, PLACES),
        at("place", 1, -1),
        at("history", 7, PLACES),
        at("history", SLOTS * PLACES * TIMES - 1, -1),
        at("begin", 3, -1),
        at("end", 0, ROWS + 1),
        at("length", 2, COLUMNS + 1),
        at("length", 2, -1),
        at("requested", 2, TYPES),
        at("requested", 2, -2),
    ]
)
LISTS = ("token", "time", "slot", "place", "begin", "end", "length", "requested", "requested_value")
for each in LISTS:
    WRONG |= {
        f"{each} of another type": {each: given()[each].double()},
        f"{each} with a row too few": {each: given()[each][1:].contiguous()},
        f"{each} with a dimension more": {each: given()[each][None]},
        f"{each} not contiguous": {each: given()[each].repeat_interleave(2)[::2]},
        f"{each} on no device": {each: given()[each].to("meta")},
    }
for each in sorted({*LISTS, "cells", "sources", "value", "best_type"} - {"requested"}):
    WRONG[f"no {each}"] = {each: None}
WRONG |= {
    "history of fewer slots": {"history": given()["history"][:2].contiguous()},
    "history of fewer places": {"history": given()["history"][:, :1].contiguous()},
    "history of fewer times": {"history": given()["history"][:, :, :7].contiguous()},
    "history of another type": {"history": given()["history"].int()},
    "history without slots": {"history": given()["history"][0]},
    "history not contiguous": {"history": given()["history"].transpose(0, 2).contiguous().transpose(0, 2)},
    "times beyond the cells": {"cells": [layer(SLOTS, 1, 7, PLACES) for _ in range(2)]},
    "times beyond the cells of one layer": {"cells": [layer(SLOTS, 1, TIMES, PLACES), layer(SLOTS, 1, 7, PLACES)]},
    "slots beyond the cells": {"cells": [layer(2, 1, TIMES, PLACES) for _ in range(2)]},
    "slots beyond the sources": {"sources": [layer(2, 1, COLUMNS)]},
    "places beyond the cells": {"cells": [layer(SLOTS, 1, TIMES, 1) for _ in range(2)], "history": None},
    "too few layers": {"cells": [layer(SLOTS, 1, TIMES, PLACES)]},
    "no layers": {"sources": []},
    "cells of other heads": {"cells": [layer(SLOTS, 2, TIMES, PLACES) for _ in range(2)]},
    "keys of another width": {"sources": [(torch.zeros(SLOTS, 1, COLUMNS, 32), torch.zeros(SLOTS, 1, COLUMNS, 32))]},
    "values of another width": {"sources": [(torch.zeros(SLOTS, 1, COLUMNS, 16), torch.zeros(SLOTS, 1, COLUMNS, 16))]},
    "keys and values of two shapes": {"sources": [(layer(SLOTS, 1, COLUMNS)[0], layer(SLOTS, 1, COLUMNS - 1)[1])]},
    "tables of another type": {"sources": [tuple(x.double() for x in layer(SLOTS, 1, COLUMNS))]},
    "tables of two types": {"sources": [(layer(SLOTS, 1, COLUMNS)[0].half(), layer(SLOTS, 1, COLUMNS)[1])]},
    "tables not contiguous": {"sources": [tuple(x.transpose(0, 2) for x in layer(COLUMNS, 1, SLOTS))]},
    "tables that are one row": {"sources": [tuple(x[:1].expand(SLOTS, 1, -1, -1) for x in layer(1, 1, COLUMNS))]},
    "tables of three dimensions": {"sources": [tuple(x[0] for x in layer(SLOTS, 1, COLUMNS))]},
    "too many best types": {
        "best": MAX_BEST + 1,
        "value": torch.zeros(ROWS, MAX_BEST + 1),
        "best_type": torch.zeros(ROWS, MAX_BEST + 1, dtype=torch.int32),
    },
    "less than no best types": {"best": -1},
    "room for fewer best types": {"value": torch.zeros(ROWS, 2)},
    "room for the types of fewer rows": {"best_type": torch.zeros(ROWS - 1, 3, dtype=torch.int32)},
    "types as long numbers": {"best_type": torch.zeros(ROWS, 3, dtype=torch.int64)},
    "suppressed as long numbers": {"suppressed": torch.tensor([2])},
    "no room for log-probabilities": {"best": 0},
    "room without filling for log-probabilities": {"best": 0, "log_p": torch.zeros(ROWS, TYPES)},
}


@needs_kernels
def test_a_right_call_is_run() -> None:
    call({})
    call({"best": 0, "log_p": torch.zeros(ROWS, 32)})
    call({"requested": None, "requested_value": None, "suppressed": None})
    call({"best": 64, "value": torch.zeros(ROWS, 64), "best_type": torch.zeros(ROWS, 64, dtype=torch.int32)})
    call({"sources": [tuple(x.half() for x in layer(SLOTS, 1, COLUMNS))]})
    call({}, rows=0)


@needs_kernels
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_call_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError):
        call(WRONG[wrong])


def several(steps: int) -> dict[str, Any]:
    """What is given for so many steps at once."""
    found = torch.zeros(steps, ROWS, dtype=torch.int32)
    return {
        "best": 1,
        "value": torch.zeros(steps, ROWS),
        "best_type": found,
        "requested": None,
        "requested_value": None,
    }


@needs_kernels
def test_several_steps_have_room_for_all_of_them() -> None:
    early = {"time": int32([0, POSITIONS - 3, 3, 4])}
    call(several(3) | early, ahead=3)
    early = {"time": int32([0, POSITIONS - 3, 3, 4])}  # a call advances it
    requested = [-1] * ROWS + [TYPES - 1] * ROWS + [0] * ROWS
    room = {"requested_value": torch.zeros(3 * ROWS)}
    call(several(3) | early | room | {"requested": int32(requested)}, ahead=3)
    early = {"time": int32([0, POSITIONS - 3, 3, 4])}
    for wrong in (
        several(3) | early | room | {"requested": int32([*requested[:-1], TYPES])},
        several(3) | early | room | {"requested": int32([*requested[:-1], -2])},
        several(3) | early | {"requested": int32(requested), "requested_value": torch.zeros(ROWS)},
        several(3),  # the last of them would be beyond the table of positions
        several(2) | early,
        several(3) | early | {"best_type": torch.zeros(ROWS, 3, dtype=torch.int32)},
        several(3) | early | {"requested": int32([0] * ROWS), "requested_value": torch.zeros(ROWS)},
        several(3) | early | {"best": 2},
        several(3) | early | {"every": 2},
    ):
        with pytest.raises(ValueError):
            call(wrong, ahead=3)


def beam(sentences: int, width: int, steps: int = 3, **changed: Tensor) -> dict[str, Any]:
    """What is given for so many steps of a beam."""
    total, least = torch.zeros(sentences, width, dtype=torch.float64), torch.zeros(sentences, dtype=torch.float64)
    made = replace(BeamRows.of(total, least, steps), **changed)
    return {"beam": made, "time": int32([0, POSITIONS - 3, 3, 4]), "requested": None, "requested_value": None}


@needs_kernels
def test_steps_of_a_beam_have_room_for_all_of_them() -> None:
    call(beam(2, 2), ahead=3)
    for wrong in (
        beam(2, 2) | {"time": given()["time"]},
        beam(3, 2),
        beam(1, 2),
        beam(2, 2, steps=2),
        beam(2, 2, total=torch.zeros(2, 2)),
        beam(2, 2, total=torch.zeros(4, dtype=torch.float64)),
        beam(2, 2, least=torch.zeros(1, dtype=torch.float64)),
        beam(2, 2, parent=torch.zeros(2, ROWS)),
        beam(2, 2, gain=torch.zeros(2, ROWS + 1)),
        beam(2, 2) | {"history": None},
        beam(2, 2) | {"requested": int32([0] * ROWS), "requested_value": torch.zeros(ROWS)},
        beam(2, 2) | {"value": torch.zeros(ROWS, 2)},
    ):
        with pytest.raises(ValueError):
            call(wrong, ahead=3)


def copied(sources: list[tuple[Tensor, ...]] | None, longest: int = COLUMNS, **changed: Any) -> None:
    """Run a program whose head copies tokens of the second layer of sources."""
    assert kernels is not None
    made = Program(kernels, "float32")
    x, gate, out = made.allocate(16), made.allocate(16), made.allocate(16)
    made.point(x, out, FilledHeads(1, 1, 16, 16), 1)
    made.head(x, torch.randn(TYPES, 16), None, gate)
    runner = Runner(made, 1)
    right = {name: given()[name] for name in ("slot", "length", "best", "value", "best_type")}
    for name, value in (right | {"sources": None if sources is None else Tables(sources)} | changed).items():
        setattr(runner.batch, name, value)
    runner.run(ROWS, longest)


@needs_kernels
def test_a_pointer_copies_types_that_there_are() -> None:
    table, wide = torch.zeros(SLOTS, 1, COLUMNS, 16), torch.zeros(SLOTS, 1, COLUMNS, 32)
    token = torch.full((SLOTS, 1, COLUMNS, 1), TYPES - 1, dtype=torch.int32)
    beyond, before = token.clone(), token.clone()
    beyond[2, 0, 5], before[2, 0, 5] = TYPES, -1
    copied([(table, table), (table, table, token)])
    copied([(table, table, beyond), (table, table, token)])  # of a layer that nothing points to
    copied([(table, table), (table, table, token)], best=0, log_p=torch.zeros(ROWS, 32))
    for wrong in (
        None,
        [(table, table, token)],
        [(table, table), (table, table)],
        [(table, table, token), (table, table)],
        [(table, table), (table, wide, token)],
        *([(table, table), (table, table, x)] for x in (beyond, before, token.long(), token[:, :, :5], token[:2])),
        [(table, table), (table, table, token.transpose(0, 2).contiguous().transpose(0, 2))],
    ):
        with pytest.raises(ValueError):
            copied(wrong)
    right: list[tuple[Tensor, ...]] = [(table, table), (table, table, token)]
    for changed in ({"length": None}, {"length": int32([COLUMNS + 1, 0, 0, 0])}, {"slot": int32([SLOTS, 0, 0, 0])}):
        with pytest.raises(ValueError):
            copied(right, **changed)
    with pytest.raises(ValueError, match="length 6 at index 0 is not between 0 and 5"):
        copied(right, longest=5)


def seen(rows: int) -> dict[str, Any]:
    """Results of so many rows of all."""
    found = torch.zeros(rows, 3, dtype=torch.int32)
    asked = {"requested": int32([TYPES - 1] * rows), "requested_value": torch.zeros(rows)}
    return asked | {"every": ROWS // rows, "value": torch.zeros(rows, 3), "best_type": found}


@needs_kernels
def test_rows_that_are_seen_have_room_alone() -> None:
    call(seen(2))
    for wrong in (
        seen(2) | {"every": 1},
        seen(2) | {"every": 4},
        seen(2) | {"every": 3},
        seen(2) | {"every": 0},
        seen(2) | {"requested": int32([0] * ROWS)},
        seen(2) | {"requested": int32([0, TYPES])},
        seen(2) | {"best": 0, "log_p": torch.zeros(ROWS, 32)},
    ):
        with pytest.raises(ValueError):
            call(wrong)


@needs_kernels
def test_a_refusal_says_what_is_wrong_and_where() -> None:
    with pytest.raises(ValueError, match="token 21 at index 1 is not between 0 and 20"):
        call(WRONG["token 21 at 1"])
    with pytest.raises(ValueError, match=r"history must be torch.int16 .*, got torch.int32 \[3, 2, 9\] on cpu"):
        call(WRONG["history of another type"])


@needs_kernels
@pytest.mark.parametrize(
    ("rows", "longest"), [(-1, TIMES), (ROWS + 1, TIMES), (ROWS - 1, TIMES), (ROWS, 7), (ROWS, -1)]
)
def test_rows_and_columns_are_those_of_the_lists(rows: int, longest: int) -> None:
    with pytest.raises(ValueError):
        call({}, rows, longest)


@needs_kernels
def test_a_call_is_forgotten_when_it_is_over() -> None:
    runner = call({})
    with pytest.raises(ValueError, match="missing"):
        runner.run(ROWS, TIMES)


@needs_kernels
@pytest.mark.parametrize(
    "changed", [{"ring": -1}, {"ring": 8, "columns": 7}, {"bias": 7}, {"columns": 7}, {"ring": 7, "columns": 7}]
)  # places of tables that are written over, biases of fewer distances than columns
def test_rings_and_distances_lie_within_tables(changed: dict[str, int]) -> None:
    runner = Runner(program(), 1)
    for each, value in given().items():
        setattr(runner.batch, each, Tables(value) if each in ("cells", "sources") else value)
    table, bias = runner.batch.cells.array[1], torch.zeros(2, changed.get("bias", 0))
    for name, number in changed.items():
        if name == "bias":
            table.bias, table.distances = bias.data_ptr(), number
        else:
            setattr(table, name, number)
    if changed == {"ring": 7, "columns": 7}:  # full: written over from its begin
        runner.run(ROWS, TIMES)
        return
    with pytest.raises(ValueError):
        runner.run(ROWS, TIMES)


@needs_kernels
def test_threads_share_no_sequence() -> None:
    assert kernels is not None
    made = Program(kernels, "float32")
    query, key, out = made.allocate(32), made.allocate(48), made.allocate(64)
    made.attend_rows(query, key, out, SIZES)
    for cuts in ([0, 10, 12, 16], None, [0, 3, 6, 16]):
        runner = Runner(made, 2)
        runner.batch.begin, runner.batch.end = int32([0] * 10 + [10] * 6), int32([10] * 10 + [16] * 6)
        if cuts == [0, 10, 12, 16]:
            runner.run(16, 10, cuts)
        else:
            with pytest.raises(ValueError, match="share a sequence"):
                runner.run(16, 10, cuts)


BUILT: dict[str, Callable[[Program, Region], Any]] = {
    "a region beyond the record": lambda p, x: p.copy(x, Region(p.features - 16, 32)),
    "a region before the record": lambda p, x: p.copy(Region(-16, 32), x),
    "a region of no whole vectors": lambda p, x: p.mix(x, x, Region(0, 24), 1, 1),
    "embeddings of another width": lambda p, x: p.embed(torch.zeros(5, 16), x),
    "positions of another width": lambda p, x: p.position(torch.zeros(5, 48), x),
    "a product of other inputs": lambda p, x: p.product(x, p.allocate(16), torch.zeros(16, 48)),
    "a product of more outputs": lambda p, x: p.product(x, p.allocate(16), torch.zeros(17, 32)),
    "a product with another bias": lambda p, x: p.product(x, p.allocate(16), torch.zeros(16, 32), torch.zeros(15)),
    "a product into its inputs": lambda p, x: p.product(x, x, torch.zeros(32, 32)),
    "a product of too many inputs": lambda p, x: p.product(p.allocate(2**17 + 1), x, torch.zeros(1, 2**17 + 1)),
    "a norm of another width": lambda p, x: p.norm(x, x, torch.ones(16), None, 1e-5),
    "a norm of other groups": lambda p, x: p.norm(x, x, torch.ones(32), None, 1e-5, groups=2),
    "a norm with another bias": lambda p, x: p.norm(x, x, torch.ones(32), torch.ones(31), 1e-5),
    "a gate of another width": lambda p, x: p.glu(x, x, p.allocate(16), "swish"),
    "a gate beyond the record": lambda p, x: p.gate(Region(p.features - 16, 0), x),
    "angles wider than a head": lambda p, x: p.rotate(x, torch.zeros(5, 9), 2),
    "angles of no whole heads": lambda p, x: p.rotate(x, torch.zeros(5, 4), 3),
    "another table of another width": lambda p, x: p.set_table(p.position(torch.zeros(5, 32), x), torch.zeros(5, 16)),
    "another table of a stranger": lambda p, x: p.set_table(Operation(), torch.zeros(5, 32)),
    "keys beyond the record": lambda p, x: p.keep(Region(p.features, 16), x, SIZES, 0),
    "values beyond the record": lambda p, x: p.keep(x, Region(p.features - 16, 32), SIZES, 0),
    "queries beyond the record": lambda p, x: p.attend(Region(p.features - 16, 32), x, SIZES, 0),
    "a context beyond the record": lambda p, x: p.attend(x, Region(p.features - 32, 64), SIZES, 0),
    "a context over the queries": lambda p, x: p.attend(
        p.allocate(96).part(0, 32), Region(p.features - 80, 64), SIZES, 0
    ),
    "keys of rows beyond the record": lambda p, x: p.attend_rows(x, Region(96, 48), p.allocate(64), SIZES),
    "heads that share no keys evenly": lambda p, x: p.attend(
        p.allocate(48), p.allocate(96), FilledHeads(3, 2, 16, 32), 0
    ),
    "no heads": lambda p, x: p.keep(x, x, FilledHeads(0, 0, 16, 32), 0),
    "heads without filling": lambda p, x: p.attend_rows(x, x, p.allocate(64), FilledHeads(2, 1, 8, 32)),
    "a layer before the first": lambda p, x: p.keep(x, x, FilledHeads(1, 1, 16, 16), -1),
    "a head of another width": lambda p, x: p.head(x, torch.zeros(5, 48), None),
    "a pointer of two heads": lambda p, x: p.point(x, p.allocate(32), FilledHeads(2, 1, 16, 16), 0),
    "two pointers": lambda p, x: [p.point(x, p.allocate(16), FilledHeads(1, 1, 32, 16), layer) for layer in (0, 1)],
    "a pointer beyond the record": lambda p, x: p.point(x, Region(p.features, 16), FilledHeads(1, 1, 32, 16), 0),
    "a head that copies without a pointer": lambda p, x: p.head(x, torch.zeros(5, 32), None, x),
    "a head that leaves out the pointer": lambda p, x: [
        p.point(x, p.allocate(16), FilledHeads(1, 1, 32, 16), 0),
        p.head(x, torch.zeros(5, 32), None),
    ],
    "a gate beyond the records": lambda p, x: [
        p.point(x, p.allocate(16), FilledHeads(1, 1, 32, 16), 0),
        p.head(x, torch.zeros(5, 32), None, Region(p.features, 16)),
    ],
    "a head of no types": lambda p, x: p.head(x, torch.zeros(0, 32), None),
    "a format that there is not": lambda p, x: Program(p.library, "int4").product(x, x, torch.zeros(32, 32)),  # type: ignore[arg-type]
    "an activation that there is not": lambda p, x: p.product(
        x, p.allocate(32), torch.zeros(32, 32), activation="sine"
    ),  # type: ignore[arg-type]
}


@needs_kernels
@pytest.mark.parametrize("wrong", BUILT)
def test_a_wrong_operation_is_refused(wrong: str) -> None:
    assert kernels is not None
    made = Program(kernels, "int8")
    with pytest.raises(ValueError):
        BUILT[wrong](made, made.allocate(32))


@needs_kernels
def test_a_layer_is_kept_as_it_is_attended_to() -> None:
    assert kernels is not None
    made = Program(kernels, "float32")
    x, out = made.allocate(64), made.allocate(64)
    made.keep(x.part(0, 32), x.part(32, 32), FilledHeads(1, 1, 32, 32), 0)
    made.attend(x, out, FilledHeads(4, 1, 16, 16), 0)
    with pytest.raises(ValueError, match="layer 0 must be written and read with the same"):
        Runner(made, 1)


STRANGE = """
int regard_abi(void) {{ return {abi}; }}
long long regard_size(int what) {{ return (long long[]) {{{sizes}}}[what]; }}
const char *regard_set(int number) {{ return number ? 0 : "plain"; }}
int regard_run(void) {{ return 0; }}
int regard_run_ahead(void) {{ return 0; }}
int regard_run_beam(void) {{ return 0; }}
int regard_pass(void) {{ return 0; }}
int regard_pack(void) {{ return 0; }}
long long regard_wrong(void) {{ return 0; }}
void *regard_new_pool(void) {{ return 0; }}
void regard_free_pool(void) {{}}
"""
SIZE = [ctypes.sizeof(each) for each in (NativeMatrix, Operation, Table, RowBatch, Beam, Pass, ShortAttention)]


@pytest.mark.parametrize(
    ("abi", "sizes", "told"),
    [
        (ABI, SIZE, None),
        (ABI + 1, SIZE, "has another version"),
        (ABI, [*SIZE[:6], SIZE[6] + 8], "has another version"),
    ],
)
def test_a_library_of_another_version_is_refused(abi: int, sizes: list[int], told: str | None, tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="ziglang is not installed")
    source, path = tmp_path / "strange.c", tmp_path / "strange.so"
    source.write_text(STRANGE.format(abi=abi, sizes=", ".join(map(str, sizes))))
    command = [sys.executable, "-m", "ziglang", "cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(path)]
    subprocess.run(command, check=True)
    found = find(path, "")
    assert (found.library is not None) == (told is None)
    assert told is None or (found.reason is not None and told in found.reason)


@pytest.mark.parametrize("text", ["", "no library"])
def test_what_is_no_library_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "kernels.so"
    path.write_text(text)
    found = find(path, "")
    assert found.library is None and found.reason is not None and "cannot be loaded" in found.reason
    missing = find(tmp_path / "missing.so", "")
    assert missing.library is None and missing.reason is not None and "not built" in missing.reason


@needs_kernels
def test_a_set_that_the_processor_lacks_is_none() -> None:
    assert kernels is not None
    with pytest.raises(RuntimeError, match="cannot run in this process"):
        type(kernels)(kernels._loaded, "neon-dot" if "avx2" in kernels.sets else "avx2", ()).pack(0, 0, 0, 0, 0, 0, 0)


@needs_kernels
def test_nothing_is_beyond_infinity() -> None:
    """Programs that look nothing up take any column."""
    assert kernels is not None
    made = Program(kernels, "float32")
    x = made.allocate(16)
    made.copy(x, x)
    runner = Runner(made, 1)
    runner.prepare(2).fill_(math.inf)
    runner.run(2, 1)
    assert runner.prepare(2).isinf().all()


def test_matrices_lie_side_by_side_from_lines_of_the_cache_on() -> None:
    memory = MatrixMemory()
    pieces = [
        memory.zeros(size) for size in (100, 64, 40 * 2**20)
    ]  # the last is larger than what is asked for together
    assert [len(piece) for piece in pieces] == [100, 64, 40 * 2**20]
    assert not any(piece.any() for piece in pieces)
    assert not any(piece.data_ptr() % 64 for piece in pieces)
    assert pieces[1].data_ptr() - pieces[0].data_ptr() == 128
    pieces[0].fill_(1)
    assert not pieces[1].any()
