"""Tables with named columns, CSV and Parquet: what each task reads of them, what is proposed, and what is refused."""

from __future__ import annotations

import csv
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.task_table import locate
from regard.data.column_names import pair_columns
from regard.data.documents import Cut, read_documents
from regard.data.lint.check import lint
from regard.data.reading import CorpusConfig, FileCorpus, corpus_of_files, read_pairs
from regard.data.rows import Row, column_names, read_rows
from regard.data.sessions import ITEMS, SessionColumns, read_sessions
from regard.data.shared_files import FilesConfig
from regard.data.stream import TextConfig
from regard.errors import DataError, RegardError
from regard.tasks.classification.data_config import LabeledDataConfig
from regard.tasks.classification.labeled_text import read_labeled
from regard.tasks.find_config import find_config
from regard.tasks.tagging.config import TaggedDataConfig
from regard.tasks.tagging.task import read_tagged

Columns = dict[str, list[Any]]


def write(path: Path, columns: Columns) -> Path:
    """A table of these columns, of the kind that the path's name says."""
    if path.suffix == ".parquet":
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), path)
        return path
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow(" ".join(cell) if isinstance(cell, list) else cell for cell in row)
    return path


@pytest.fixture(params=["csv", "parquet"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return lambda columns: write(tmp_path / f"table.{request.param}", columns)


CELL = st.text(st.characters(exclude_characters="\r\x00\ufeff", exclude_categories=["Cs"]), max_size=6)


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=6))
def test_csv_gives_back_what_was_written(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    write(path, {"one": [one for one, _ in rows], "two": [two for _, two in rows]})
    assert [row.cells for row in read_rows(path, ["two", "one"])] == [{"one": one, "two": two} for one, two in rows]


def test_a_row_is_named_by_the_line_on_which_it_begins(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"two\nlines",a\n\nnext,b\nbad,c,d\n')
    rows = read_rows(path, ["text"])
    assert [next(rows), next(rows)] == [Row({"text": "two\nlines"}, path, 2), Row({"text": "next"}, path, 5)]
    with pytest.raises(DataError, match="3 cells") as caught:
        next(rows)
    assert caught.value.where == f"{path}:6"


@pytest.mark.parametrize(
    ("content", "told", "line"),
    [
        ('text,label\na,b\n"open,c\nd,e\n', "not valid CSV", 3),
        ('text,label\n"a"b,c\n', "not valid CSV", 2),
        ("text,label\na\n", "1 cell", 2),
        ("body,label\na,b\n", "no column 'text'", 1),
        ("text,text\na,b\n", "two columns", 1),
        (b"text,label\na,\xff\n", "UTF-8", 2),
    ],
)
def test_what_is_no_csv_is_named_by_its_line(tmp_path: Path, content: str | bytes, told: str, line: int) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=told) as caught:
        list(read_rows(path, ["text"]))
    assert caught.value.where == f"{path}:{line}"


def test_a_wrong_column_gets_the_nearest_name(table: Any) -> None:
    with pytest.raises(DataError, match=r"columns are Review, stars[\s\S]*did you mean 'Review'"):
        list(read_rows(table({"Review": ["a"], "stars": [1]}), ["reviews"]))


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_table_without_rows_is_named(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, {"text": [], "label": []})
    for read in (lambda: list(read_rows(path, ["text"])), lambda: find_config([str(path)], [], [])):
        with pytest.raises(DataError, match="no rows") as caught:
            read()
        assert caught.value.where == str(path)


def test_semicolons_and_tabs_separate_where_the_first_line_has_more_of_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text;label\na, b;c\n")
    (row,) = read_rows(tmp_path / "a.csv", ["text", "label"])
    assert row.cells == {"text": "a, b", "label": "c"}


@pytest.mark.parametrize("separator", ";,\t|")
def test_a_line_above_the_names_states_the_separator(tmp_path: Path, separator: str) -> None:
    """As spreadsheet programs write it. Lines are counted as the file has them."""
    lines = [f"sep={separator}", separator.join(("text", "label")), separator.join(("a: b", "c"))]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    (row,) = read_rows(tmp_path / "a.csv", ["text", "label"])
    assert row.cells == {"text": "a: b", "label": "c"} and row.number == 3


def test_what_is_no_parquet_is_refused(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(DataError, match="not valid Parquet"):
        column_names(tmp_path / "a.parquet")
    with pytest.raises(DataError, match="file not found"):
        column_names(tmp_path / "b.parquet")
    path = write(tmp_path / "c.parquet", {"text": arrow.array([b"bytes"])})
    with pytest.raises(DataError, match="unsupported value") as caught:
        list(read_rows(path, ["text"]))
    assert caught.value.where == f"{path}:1"


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(RegardError, match="need pyarrow"):
        column_names(tmp_path / "a.parquet")


def labeled(path: Path, **keys: object) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    data = LabeledDataConfig.model_validate({"train": [{"source": str(path)}], **keys})
    return [(each.texts, each.labels) for each in read_labeled(data.train, data)]


def test_labeled_texts(table: Any) -> None:
    path = table({"id": [1, 2], "label": ["no", "yes"], "text": ["a, b", "c"]})
    expected = [(("a, b",), ("no",)), (("c",), ("yes",))]
    assert labeled(path) == labeled(path, text="text", label="label") == labeled(path, text=3, label=2) == expected
    with pytest.raises(DataError, match="number 9"):
        labeled(path, text=9, label=2)


def test_a_column_a_label(table: Any) -> None:
    path = table({"text": ["a", "b", "c"], "toxic": [1, 0, 0], "obscene": [1, 1, 0]})
    found = labeled(path, text="text", label=["toxic", "obscene"], label_kind="several")
    assert [labels for _, labels in found] == [("toxic", "obscene"), ("obscene",), ()]
    path = table({"text": ["a"], "toxic": [1], "obscene": [2]})
    with pytest.raises(DataError, match="neither yes nor no"):
        labeled(path, text="text", label=["toxic", "obscene"], label_kind="several")


def test_lists_of_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"text": ["a", "b"], "labels": [["x", "y"], []]})
    assert labeled(path, text="text", label="labels", label_kind="several") == [(("a",), ("x", "y")), (("b",), ())]


def test_tagged_sentences(table: Any) -> None:
    path = table({"tokens": [["a", "dog"], ["runs"]], "ner_tags": [["O", "B-X"], ["O"]]})
    data = TaggedDataConfig.model_validate({"train": [{"source": str(path)}]})
    assert [(each.tokens, each.tags) for each in read_tagged(data.train, data)] == [
        (("a", "dog"), ("O", "B-X")), (("runs",), ("O",)),
    ]  # fmt: skip
    path = table({"tokens": [["a"], ["b", "c"]], "tags": [["X"], ["Y"]]})
    with pytest.raises(DataError, match="found 1 tag for 2 tokens") as caught:
        list(read_tagged([*data.train], data))
    assert str(caught.value.where).startswith(f"{path}:")


def test_pairs(table: Any) -> None:
    path = table({"id": [1, 2], "target": ["ein Hund", "zwei"], "source": ["a dog", "two"]})
    expected = ["a dog", "ein Hund"], ["two", "zwei"]
    assert [[source, target] for _, source, target in read_pairs(CorpusConfig(source=path))] == [*expected]
    path = table({"en": ["a dog", "two"], "de": ["ein Hund", "zwei"]})
    assert [[source, target] for _, source, target in read_pairs(CorpusConfig(source=path))] == [*expected]
    corpus = corpus_of_files([path])
    assert corpus is not None and (corpus.source_key, corpus.target_key) == ("en", "de")
    with pytest.raises(DataError, match="no column 'fr'"):
        list(read_pairs(CorpusConfig(source=path, source_key="en", target_key="fr")))


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["Target", "source"], ("source", "Target")),
        (["pt-BR", "en"], ("pt-BR", "en")),
        (["en", "de", "fr"], None),
        (["text", "label"], None),
        (["text", "summary"], ("text", "summary")),
    ],
)
def test_names_tell_the_sides_of_a_pair(names: list[str], told: tuple[str, str] | None) -> None:
    assert pair_columns(names) == told


def test_documents(table: Any) -> None:
    path = table({"text": ["one", " ", "two"], "id": [1, 2, 3]})
    documents = [(each.prompt, each.text) for each in read_documents(TextConfig(source=path), Cut("auto"))]
    assert documents == [("", "one"), ("", "two")]
    path = table({"prompt": ["1 + 1 ="], "completion": [" 2"]})
    (document,) = read_documents(TextConfig(source=path), Cut("auto"))
    assert document == ("1 + 1 =", " 2")


@pytest.mark.parametrize("columns", [{"items": [["3", "1"], ["2"]]}, {"user_id": [7, 9, 7], "item_id": [3, 2, 1]}])
def test_sessions(table: Any, columns: Columns) -> None:
    files = [FilesConfig(source=table(columns))]
    assert [row.cells[ITEMS] for row in read_sessions(files, SessionColumns())] == [("3", "1"), ("2",)]


MANY = range(40)
PROPOSED: list[tuple[str, Columns, str, dict[str, Any]]] = [
    ("classification", {"review": [f"a film {n}" for n in MANY], "sentiment": [n % 2 for n in MANY]},
     "columns review (text) and sentiment (label", {"text": ("review",), "label": "sentiment", "label_kind": "class"}),
    ("classification", {"premise": ["a b"] * 40, "hypothesis": ["c d"] * 40, "label": [n % 3 for n in MANY]},
     "encoded apart", {"text": ("premise", "hypothesis")}),
    ("classification", {"text": ["a b"] * 40, "score": [n / 7 for n in MANY]}, "numbers", {"label_kind": "number"}),
    ("classification", {"text": ["a b"] * 40, "toxic": [n % 2 for n in MANY], "rude": [n % 3 // 2 for n in MANY]},
     "several labels", {"label": ("toxic", "rude"), "label_kind": "several"}),
    ("tagging", {"tokens": [["a", "dog"]] * 3, "tags": [["X", "Y"]] * 3}, "columns tokens (words) and tags (tags)", {}),
    ("next-item", {"session": [1, 1], "item": [1, 2]}, "session and item", {}),
    ("translation", {"en": ["a b"] * 3, "de": ["c d"] * 3}, "3 pairs", {}),
    ("language-model", {"prompt": ["a b"] * 3, "completion": ["c d"] * 3}, "language model", {}),
    ("language-model", {"id": [1, 2, 3], "text": ["c d"] * 3}, "language model", {}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "columns", "told", "keys"), PROPOSED)
def test_columns_tell_the_task_and_it_is_said(
    tmp_path: Path, kind: str, columns: Columns, told: str, keys: dict[str, Any]
) -> None:
    said: list[str] = []
    config = find_config([str(write(tmp_path / "a.csv", columns))], [], [], log=said.append)
    assert config.task.kind == kind and told in " ".join(said)
    assert {key: getattr(config.data, key) for key in keys} == keys


def test_columns_with_other_names_are_told_by_hand(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", {"what": ["a b", "c"] * 20, "mark": ["good", "bad"] * 20})
    with pytest.raises(DataError, match=r"match no task[\s\S]*what, mark[\s\S]*--set data\.text"):
        find_config([str(path)], [], [])
    config = find_config([str(path)], [], ["data.text=what", "data.label=mark"])
    assert config.task.kind == "classification" and config.data.label == "mark"
    with pytest.raises(DataError, match="did you mean 'mark'"):
        find_config([str(path)], [], ["data.text=what", "data.label=marks"])


def test_json_lines_and_a_first_line_of_names_tell_it_too(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a b", "label": "x"}\n{"text": "c d", "label": "y"}\n' * 5)
    (tmp_path / "a.tsv").write_text("sentence\tlabel\n" + "a b\tx\nc d\ty\n" * 5)
    for name, text in (("a.jsonl", "text"), ("a.tsv", "sentence")):
        config = find_config([str(tmp_path / name)], [], [])
        assert config.task.kind == "classification" and config.data.text == (text,)


def test_an_empty_class_is_refused(tmp_path: Path) -> None:
    from regard.runs.run_folder import RunFolder

    path = write(tmp_path / "a.csv", {"text": ["a b", "c d"], "toxic": [1, 0], "rude": [0, 0]})
    keys = ["data.text=text", 'data.label=["toxic", "rude"]']
    run = RunFolder.create(tmp_path / "run", find_config([str(path)], [], keys))
    with pytest.raises(DataError, match="no example has the label 'rude'"):
        locate("classification").task().prepare(run, lambda line: None)


def test_the_lint_reads_tables_up_to_a_row_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("source,target\na dog,ein Hund\n,zwei\nthree\n")
    found = lint(FileCorpus(source=path))
    assert [(each.kind, each.line) for each in found.findings] == [("blank-side", 3), ("format", 4)]


@pytest.mark.parametrize("cell", [r"['\x']", r"['\ud800']", r"['\&']", r"['\N{no such letter}']"])
def test_a_list_that_python_cannot_read_is_named_by_its_line(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a\n" + "\"['b', 'c']\"\n" + f'"{cell}"\n')
    with pytest.raises(DataError, match="is not a list") as caught:
        list(read_rows(path, ["a"], lists=["a"]))
    assert caught.value.where == f"{path}:3"


@given(st.lists(st.one_of(st.text(st.characters(codec="utf-8"), max_size=8), st.integers(), st.floats(-1e4, 1e4))))
def test_a_list_of_python_is_read_as_python_reads_it(
    tmp_path_factory: pytest.TempPathFactory, items: list[str | int | float]
) -> None:
    texts = [each for each in items if isinstance(each, str) or "e" not in repr(each)]
    path = tmp_path_factory.mktemp("rows") / "x.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["a"], [repr(["first", *texts])]])
    (row,) = read_rows(path, ["a"], lists=["a"])
    assert row.cells["a"] == ("first", *map(str, texts))


@pytest.mark.parametrize("cell", ["['a'{}x]", "['a', {}x]", "['a'{}]", "['a',{}'b']"])
def test_the_time_of_a_list_does_not_grow_with_the_square_of_its_blanks(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text('a\n"' + cell.format(" " * 30_000) + '"\n')
    start = time.process_time()
    with suppress(DataError):
        list(read_rows(path, ["a"], lists=["a"]))
    assert time.process_time() - start < 2


def test_the_memory_of_a_list_is_in_proportion_to_its_cell(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a\n\"['a'" + ",1" * 100_000 + ']"\n')
    tracemalloc.start()
    try:
        assert [len(row.cells["a"]) for row in read_rows(path, ["a"], lists=["a"])] == [100_001]
        assert tracemalloc.get_traced_memory()[1] < 100 * path.stat().st_size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.conllu", "x.fasta"])
@pytest.mark.parametrize("number", [0, -1, 10**11, 10**30])
def test_a_number_that_is_of_no_column_is_refused(tmp_path: Path, name: str, number: int) -> None:
    path = tmp_path / name
    path.write_text("a,b\nc,d\n" if name.endswith("csv") else ">a\nb\n" if name.endswith("fasta") else "1\tb\n")
    with pytest.raises(DataError, match=f"invalid column number {number}"):
        list(read_rows(path, [number]))


def test_json_lines_are_documents_where_a_text_is_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    texts = [each.text for each in read_documents(TextConfig(source=tmp_path / "a.jsonl"), Cut("line"))]
    assert texts == ["one", "two"]
    (tmp_path / "a.conllu").write_text("1\tit\tit\tPRON\n")
    with pytest.raises(DataError, match="one word and tag per line"):
        list(read_documents(TextConfig(source=tmp_path / "a.conllu"), Cut("line")))
