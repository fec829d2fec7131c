"""Names of classes: their order, their numbers, and how they are reported."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from regard.data.labels import MAX_CLASSES, Labels
from regard.errors import DataError, ModelError


def made(counts: dict[str, int]) -> Labels:
    return Labels.of(Counter(counts), where="a.tsv", help="")


def test_labels_are_sorted_numbered_and_reported_by_their_shares() -> None:
    labels = made({"b": 1, "a": 6, "c": 3})
    assert labels == (("a", "b", "c"), (6, 1, 3)) and labels.numbers == {"a": 0, "b": 1, "c": 2}
    assert labels.describe() == "3: a 60.0%, c 30.0%, b 10.0%"
    many = made(dict.fromkeys("abcdefghi", 1))
    assert many.describe().startswith("9: a 11.1%") and many.describe().endswith("h 11.1% …")
    assert not made(dict.fromkeys("abcdefgh", 1)).describe().endswith("…")


@pytest.mark.parametrize(("number", "learnable"), [(0, False), (1, False), (2, True), (MAX_CLASSES, True),
                                                   (MAX_CLASSES + 1, False)])  # fmt: skip
def test_how_many_labels_can_be_learned(number: int, learnable: bool) -> None:
    counts = {f"{n:06}": 1 for n in range(number)}
    if learnable:
        assert len(made(counts).names) == number
    else:
        with pytest.raises(DataError, match=f"found {number:,} labels?; classification (needs|takes)"):
            made(counts)
    assert MAX_CLASSES == 10_000, "as docs say"


def test_saved_labels_are_opened_and_damaged_ones_refused(tmp_path: Path) -> None:
    path, labels = tmp_path / "labels.json", made({"ä": 2, "b": 1})
    labels.save(path)
    assert Labels.open(path) == labels
    with pytest.raises(ModelError, match="is missing"):
        Labels.open(tmp_path / "none.json")
    for damaged in (
        '{"labels": ["a", "a"], "counts": [1, 1]}', '{"labels": ["a", 1], "counts": [1, 1]}',
        '{"labels": ["a", "b"], "counts": [1, 0]}', '{"labels": ["a", "b"], "counts": [1, "2"]}',
        '{"labels": ["a", "b"], "counts": [1]}', '{"labels": ["a", "b"]}', "[]", "{",
    ):  # fmt: skip
        path.write_text(damaged)
        with pytest.raises(ModelError, match="labels"):
            Labels.open(path)


def test_an_unknown_label_is_named_with_its_place() -> None:
    numbers = made({"a": 1, "b": 1}).numbers
    assert numbers.of("b", "x:1") == 1
    with pytest.raises(DataError, match="'c' is unknown") as refused:
        numbers.of("c", "x:3")
    assert refused.value.where == "x:3"
    with pytest.raises(DataError) as refused:
        made(dict.fromkeys("abcdefghijkl", 1)).numbers.of("x", "x:3")
    assert refused.value.why == "the training labels are a, b, c, d, e, f, g, h, i, j", "ten of them"
