"""Laws of fields: properties on which training, prediction and inspection rely, for any input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import torch

from regard.core.field import ContinuedField, EncodedRow, EncodedRows, Field, InputBatch, VisitDraws
from regard.errors import RegardError
from regard.testing.codec_case import CodecCase, equal_values
from regard.testing.draw import Draw
from regard.testing.law import Law, law, run_laws

FIELD_LAWS: list[Law] = []
VISITS = 4  # visits of each row


class FieldCase(CodecCase):
    """A field with training rows.

    Attributes:
        make: returns the field before learning.
        rows: inputs of its ``value``; at least five, with different values.
        config: config of the run, if ``learn`` and ``open`` read it.
        folder: temporary folder, removed with the case.
    """

    @cached_property
    def field(self) -> Field:
        field: Field = self.make().learn(self.run, self.values, lambda message: None)
        return field

    @cached_property
    def encoded(self) -> EncodedRows:
        return self.field.encode(self.values)

    @cached_property
    def choices(self) -> list[list[EncodedRow]]:
        """Each encoded row with the variants of its value."""
        rows, variants = _by_value(self.encoded), self.field.variants(self.values)
        return [[row, *more] for own, more in zip(rows, variants, strict=True) for row in own]

    def positions(self, row: EncodedRow) -> int:
        """Return the number of positions of a row that a network reads. A field whose rows hold more overrides it."""
        return len(row)


def _by_value(encoded: EncodedRows) -> list[list[EncodedRow]]:
    """Return the rows of each value."""
    rows = iter(encoded.rows)
    counts = encoded.counts if encoded.counts is not None else [1] * len(encoded.rows)
    return [list(islice(rows, count)) for count in counts]


def check_field(
    make: Callable[[], Field], rows: Sequence[Any], *, config: Any = None, trials: int = 3, seed: int = 0
) -> list[str]:
    """Check every law of a field.

    Args:
        make: returns the field before learning.
        rows: inputs of its ``value``; at least five, of different lengths.
        config: config of the run, as far as ``learn`` and ``open`` read it.
        trials: number of trials of each law.
        seed: seed of the first trial.

    Returns:
        The names of the laws.

    Raises:
        AssertionError: a law is violated; the message names the first one.
    """
    return run_laws(FIELD_LAWS, FieldCase(make, rows, config), trials=trials, seed=seed)


@law(FIELD_LAWS)
def parsing_gives_the_value_of_a_row(case: FieldCase, draw: Draw) -> None:
    """``text`` is one line that ``parse`` reads as the same value; ``accept`` accepts the value in Python."""
    for value in case.values:
        text = case.field.text(value)
        assert not {"\n", "\r"} & set(text), f"the text of a value has several lines: {text!r}"
        try:
            read = [case.field.accept(value), *(case.field.parse(text + end) for end in ("", "\n", "\r\n"))]
        except RegardError as error:
            raise AssertionError(f"the value of a row is rejected: {error}") from error
        assert all(equal_values(other, value) for other in read), f"parsing {text!r} gives another value"


@law(FIELD_LAWS)
def opened_is_as_learned(case: FieldCase, draw: Draw) -> None:
    """A field opened from saved codecs has the same sizes, rows, variants and labels."""
    learned, opened = case.field, case.make().open(case.run)
    assert dict(opened.sizes) == dict(learned.sizes), "the sizes of an opened field differ"
    assert equal_values(opened.encode(case.values), case.encoded), "an opened field encodes differently"
    assert equal_values(opened.variants(case.values), learned.variants(case.values)), "its variants differ"
    for row in case.encoded.rows:
        assert opened.labels(row) == learned.labels(row), "an opened field labels positions differently"


@law(FIELD_LAWS)
def encoding_does_not_depend_on_neighbors(case: FieldCase, draw: Draw) -> None:
    """A value has the same row and variants alone as among others, and encoding is deterministic."""
    order = draw.source.sample(range(len(case.values)), draw.integer(2, len(case.values)))
    together = case.field.encode([case.values[number] for number in order])
    variants = case.field.variants([case.values[number] for number in order])
    rows = _by_value(together)
    for position, number in enumerate(order):
        separate = case.field.encode([case.values[number]])
        assert equal_values(separate.rows, rows[position]), "the row of a value depends on the other values"
        assert separate.truncated[0] == together.truncated[position], (
            "truncation of a value depends on the other values"
        )
        (own,) = case.field.variants([case.values[number]])
        assert equal_values(own, variants[position]), "the variants of a value depend on the other values"


@law(FIELD_LAWS)
def padding_adds_nothing(case: FieldCase, draw: Draw) -> None:
    """The valid positions of a padded row are the positions of its parts, for any other rows in the batch.

    The positions of a packed row follow those of the previous rows.
    """
    field, rows = case.field, case.encoded.rows
    order = draw.rows(len(rows)).tolist()
    padded = field.pad([rows[number] for number in order])
    if field.packed:
        _require_packed(field, [rows[number] for number in order], padded)
        return
    assert hasattr(padded, "values") and hasattr(padded, "valid"), "a field that is not packed pads its rows"
    assert padded.valid.dtype == torch.bool, "valid is not a mask"
    assert padded.values.shape[: padded.valid.dim()] == padded.valid.shape, "values and valid differ in shape"
    for position, number in enumerate(order):
        expected = torch.from_numpy(np.concatenate(field.parts(rows[number])))
        actual = padded.values[position][padded.valid[position]]
        assert torch.equal(actual, expected.to(actual.dtype)), "the valid positions are not those of the row"
        own = field.unpad(rows[number], padded.valid[position].double())
        assert own.tolist() == [1.0] * case.positions(rows[number]), (
            "unpad returns other positions than those of the row"
        )


def _require_packed(field: Any, rows: Sequence[EncodedRow], batch: InputBatch) -> None:
    """Check that each position of the rows occurs once in a batch, and that digests and sizes match the rows."""
    positions = torch.arange(sum(map(len, rows)))
    own = [field.unpad(row, values) for row, values in zip(rows, batch.by_row(positions), strict=True)]
    assert [*map(len, own)] == [*map(len, rows)], "unpad returns other positions than those of the row"
    assert torch.equal(torch.cat(own), positions), "the positions of the rows are not one after the other"
    assert batch.answered is None, "a packed row has one answer"
    digests = {field.digest(row) for row in rows}
    different = [
        row for position, row in enumerate(rows) if not any(equal_values(row, other) for other in rows[:position])
    ]
    assert len(digests) == len(different), "digests do not distinguish rows exactly by content"
    assert "\n" not in field.describe(rows), "the description of rows has several lines"


@law(FIELD_LAWS)
def prediction_reads_what_training_read(case: FieldCase, draw: Draw) -> None:
    """A continued value is encoded like the same positions before its last item in training."""
    field = case.field
    if not isinstance(field, ContinuedField):
        return
    for value, rows in zip(case.values, _by_value(case.encoded), strict=True):
        prefix, whole = field.continued([value[:-1]]), field.continued([value])
        assert equal_values(whole.rows, field.continued([value, value]).rows[1:]), "the row depends on other values"
        assert len(whole.rows) == len(whole.truncated) == 1, "a continued value has several rows"
        (row,) = prefix.rows
        trained = np.concatenate(rows) if rows else row
        assert equal_values(row, trained[-len(row) :]), "a continued value is encoded differently than in training"
        assert prefix.truncated[0] or len(row) == len(trained), "a continued value is truncated"


@law(FIELD_LAWS)
def each_position_has_a_label(case: FieldCase, draw: Draw) -> None:
    """``labels`` has one text for each position of a row, and of each of its parts."""
    for row in case.encoded.rows:
        for part in (row, *case.field.parts(row)):
            labels = case.field.labels(part)
            assert len(labels) == len(part), f"{len(part)} positions have {len(labels)} labels"
            assert all(isinstance(label, str) for label in labels), "a label is not a text"


@law(FIELD_LAWS)
def windows_divide_each_part(case: FieldCase, draw: Draw) -> None:
    """The windows of a part cover it without overlap, and each begins and ends as the part does."""
    field = case.field
    if field.packed:
        return
    for part in (part for row in case.encoded.rows for part in field.parts(row)):
        windows = field.windows(part)
        assert equal_values(np.concatenate(windows), part), "the windows of a part are not the part"
        ends = [(window[:1], window[-1:]) for window in windows]
        assert all(equal_values(own, (part[:1], part[-1:])) for own in ends), "a window lacks its first or last symbol"
        if field.window is None:
            assert len(windows) == 1, "a part without a limit has several windows"
        else:
            assert len(windows) <= field.max_windows, "a row has more windows than its limit"
            assert max(map(len, windows)) <= field.window, "a window is longer than the network reads at once"


@law(FIELD_LAWS)
def the_first_visit_has_the_encoded_row(case: FieldCase, draw: Draw) -> None:
    """``augment`` at visit 0 is the identity."""
    for index, rows in enumerate(case.choices):
        visited = case.field.augment(rows, VisitDraws(draw.integer(0, 9), index, 0))
        assert equal_values(visited, case.encoded.rows[index]), "visit 0 has another row than the encoded one"


@law(FIELD_LAWS)
def augmenting_is_a_function_of_seed_index_and_visit(case: FieldCase, draw: Draw) -> None:
    """The row of a visit does not depend on other visits or random draws; it can be padded and labeled normally."""
    seed, visits = draw.integer(0, 9), range(1, 1 + VISITS)
    before = deepcopy(case.choices)

    def rows_of(visit: int) -> list[EncodedRow]:
        return [case.field.augment(rows, VisitDraws(seed, index, visit)) for index, rows in enumerate(case.choices)]

    first = [deepcopy(rows_of(visit)) for visit in visits]
    np.random.default_rng().random()
    torch.rand(3)
    again = [rows_of(visit) for visit in reversed(visits)][::-1]
    assert equal_values(again, first), "the row of a visit depends on more than the seed, the index and the visit"
    assert equal_values(case.choices, before), "augmenting changes the encoded rows"
    for row in (row for rows in first for row in rows):
        assert len(case.field.labels(row)) == len(row), "the row of a visit cannot be labeled"
        assert type(row) is type(before[0][0]), "the row of a visit has another type"
        if isinstance(row, np.ndarray):
            assert row.dtype == before[0][0].dtype, "the row of a visit has another type of numbers"
