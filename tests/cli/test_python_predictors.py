"""Predictors in Python programs: tables of other libraries, copies for other processes, classes for type checkers."""

from __future__ import annotations

import copy
import json
import pickle  # noqa: TID251 (a copy within the same program)
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.core.columns import columns_of
from regard.core.task_table import TASKS
from regard.errors import ConfigError, DataError

from .file_forms import rows_of

ROWS = 5
READING_ROWS = ("classification", "tagging", "next-item", "translation", "nodes", "links", "graphs")


def pandas_table(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


def polars_table(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("polars").DataFrame(columns)


def arrow_table(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("pyarrow").table(columns)


def dataset(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("datasets").Dataset.from_dict(columns)


LIBRARIES: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "dict": dict, "pandas": pandas_table, "polars": polars_table, "pyarrow": arrow_table, "datasets": dataset,
}  # fmt: skip


@pytest.mark.parametrize("kind", READING_ROWS)
def test_a_table_of_any_library_gets_the_outputs_of_its_rows(runs: dict[str, Path], kind: str) -> None:
    model, rows = regard.load(runs[kind]), rows_of(kind)
    answers = ("label", "tags") if kind == "links" else ("label", "tags", "target")
    columns = {name: cells[:ROWS] for name, cells in rows.columns.items() if name not in answers}
    lines = rows.inputs[:ROWS]
    if kind == "graphs":
        lines = [json.dumps(dict(zip(columns, cells, strict=True))) for cells in zip(*columns.values(), strict=True)]
    outputs = model([model.read(line) for line in lines])
    expected = [json.loads(model.write(output, json=True)) for output in outputs]
    for name, make in LIBRARIES.items():
        try:
            table = make(columns)
        except pytest.skip.Exception:
            continue
        mapped = model.map(table)
        assert type(mapped) is type(table), name
        read = columns_of(mapped)
        assert {column: read[column] for column in columns} == columns_of(table)
        added = read.keys() - columns.keys()
        assert added and all(column.startswith("predicted_") for column in added)
        for column in added:
            values = [output.get(column.removeprefix("predicted_")) for output in expected]
            assert read[column] == values, (name, column)


def test_the_column_of_the_inputs_may_be_named(runs: dict[str, Path]) -> None:
    model = regard.load(runs["classification"])
    table = {"id": [1, 2], "review": ["a fine film", "a dull film"]}
    expected = [output.label for output in model(table["review"])]
    assert model.map(table, "review")["predicted_label"] == expected
    with pytest.raises(DataError, match="no text with the key 'text'"):
        model.map(table | {"other": [1, 2]})


@pytest.mark.parametrize("kind", TASKS)
def test_a_representation_names_the_class_in_one_short_line(runs: dict[str, Path], kind: str) -> None:
    shown = repr(model := regard.load(runs[kind]))
    assert shown.startswith(f"{type(model).__name__}(") and len(shown) < 300 and "\n" not in shown


def test_a_wrong_row_of_a_table_is_named(runs: dict[str, Path]) -> None:
    model = regard.load(runs["classification"])
    with pytest.raises(DataError) as caught:
        model({"text": ["a fine film", None]})
    assert (caught.value.where, caught.value.what) == ("row 2 of the table", "the value of 'text' is null")
    with pytest.raises(DataError, match="differ in length"):
        model({"text": ["a"], "other": [1, 2]})


@pytest.mark.parametrize("kind", ["translation", "language-model", "classification", "links"])
def test_a_predictor_is_copied_and_pickled_by_its_run(runs: dict[str, Path], kind: str) -> None:
    model = regard.load(runs[kind], checkpoint="last", device="cpu")
    line = rows_of(kind).inputs[0] if kind != "language-model" else "to"
    seeded = {"seed": 1} if kind in ("translation", "language-model") else {}
    (output,) = model([model.read(line)], **seeded)
    expected = model.write(output, json=True)
    saved = pickle.dumps(model)
    assert len(saved) < 1_000, "the weights are in the copy"
    again = pickle.loads(saved)  # noqa: S301 (the bytes of the line above)
    for other in (again, copy.deepcopy(model), copy.copy(model)):
        (output,) = other([other.read(line)], **seeded)
        assert other.write(output, json=True) == expected
        assert other.origin.options == model.origin.options


def test_another_process_loads_the_predictor(runs: dict[str, Path], tmp_path: Path) -> None:
    model = regard.load(runs["classification"])
    (tmp_path / "model").write_bytes(pickle.dumps(model))
    program = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb'))('a fine film').label)"
    command = [sys.executable, "-c", program, str(tmp_path / "model")]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert printed.stdout.strip() == model("a fine film").label


def test_joblib_applies_a_predictor_in_processes(runs: dict[str, Path]) -> None:
    joblib = pytest.importorskip("joblib")
    model, texts = regard.load(runs["classification"]), ["a fine film", "a dull film"]
    found = joblib.Parallel(n_jobs=2)(joblib.delayed(model)(text) for text in texts)
    assert [one.label for one in found] == [one.label for one in model(texts)]


@pytest.mark.filterwarnings("ignore")  # of those libraries
def test_dask_and_spark_apply_a_predictor_in_processes(runs: dict[str, Path]) -> None:
    model, texts = regard.load(runs["classification"]), ["a fine film", "a dull film"] * 2
    expected = [output.label for output in model(texts)]
    bag = pytest.importorskip("dask.bag").from_sequence(texts, npartitions=2).map_partitions(model)
    assert [one.label for one in bag.compute(scheduler="processes", num_workers=2)] == expected
    sql = pytest.importorskip("pyspark.sql")
    spark = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    label = sql.functions.udf(lambda text: model(text).label)
    frame = spark.createDataFrame([(text,) for text in texts], ["text"]).select(label("text").alias("label"))
    assert [row.label for row in frame.collect()] == expected
    assert spark.sparkContext.parallelize(texts).mapPartitions(model).map(str).count() == len(texts)
    spark.stop()


def test_a_loader_with_a_class_returns_that_class_or_refuses(runs: dict[str, Path]) -> None:
    assert isinstance(regard.load(runs["translation"], regard.Translator), regard.Translator)
    named = regard.load(runs["classification"], regard.SupervisedPredictor[regard.Classification])
    assert isinstance(named, regard.SupervisedPredictor)
    with pytest.raises(ConfigError, match="is a SupervisedPredictor, not a Translator"):
        regard.load(runs["classification"], regard.Translator)


def test_a_predictor_built_by_hand_reads_no_tables(runs: dict[str, Path]) -> None:
    loaded = regard.load(runs["classification"], regard.SupervisedPredictor[regard.Classification])
    model = type(loaded)(loaded.net, loaded.codec, loaded.config)
    with pytest.raises(ConfigError, match="cannot read tables"):
        model.map({"text": ["a fine film"]})
