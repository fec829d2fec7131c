"""Embeddings: equal to the states of transformers by layer, and the same from Python, files and the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import Result

import regard as package
from regard.errors import ConfigError, DataError
from regard.inference.states import grouped, pooled
from regard.share.import_folder import import_folder
from tests.share.test_encoder_import import folder_of

TEXTS = ["the cat sat", "the cats on the mat .", "the"]


def test_pooling_is_over_the_positions_of_an_input() -> None:
    states = [torch.tensor([[1.0, 5.0], [3.0, 1.0]]), torch.zeros(0, 0)]
    expected = {"mean": [2, 3], "max": [3, 5], "first": [1, 5], "last": [3, 1]}
    for name, vector in expected.items():
        np.testing.assert_array_equal(pooled(states, name), [vector, [0, 0]])
    with pytest.raises(ConfigError, match="unknown pooling"):
        pooled(states, "sum")
    assert [len(one) for one in grouped([torch.zeros(2, 4), torch.zeros(3, 4)], [0, 2])] == [0, 5]


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_states_by_layer_are_those_of_transformers(tmp_path: Path, kind: str) -> None:
    theirs, reader = folder_of(kind, tmp_path / "theirs")
    model = package.load(import_folder(tmp_path / "theirs", tmp_path / "run").path)
    for text in TEXTS:
        read = reader(text, return_tensors="pt")
        with torch.no_grad():
            states = theirs.eval()(**read, output_hidden_states=True).hidden_states
        for layer in (*range(len(states)), -1, -2):
            expected = states[layer][0].mean(0).numpy()
            np.testing.assert_allclose(model.embed(text, layer=layer), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(model.embed(text, pooling="first"), states[-1][0, 0].numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(ConfigError, match="there is no layer 9"):
        model.embed("the cat", layer=9)


def test_one_input_has_one_vector_and_a_table_a_row_each(runs: dict[str, Path]) -> None:
    model = package.load(runs["classification"])
    vectors = model.embed({"text": ["a fine film", "a dull film"]})
    assert vectors.shape[0] == 2 and vectors.dtype == np.float32
    np.testing.assert_allclose(model.embed("a fine film"), vectors[0], rtol=1e-5, atol=1e-6)
    with pytest.raises(DataError) as caught:
        model.embed(["a fine film", 3])
    assert caught.value.where == "input 2"


def test_the_command_writes_the_vectors_of_python(
    runs: dict[str, Path], tmp_path: Path, regard: Callable[..., Result]
) -> None:
    texts = ["a fine film", "a dull film", "fine"]
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in texts))
    expected = package.load(runs["classification"]).embed(texts, layer=0, pooling="max")
    for source, input in ((["in.txt"], None), ([], (tmp_path / "in.txt").read_text())):
        files = [tmp_path / name for name in source]
        options: tuple[Any, ...] = ("-o", tmp_path / "out.npy", "--layer", "0", "--pooling", "max")
        result = regard("embed", runs["classification"], *files, *options, input=input)
        assert result.exit_code == 0 and "3 vectors of" in result.stdout
        np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, rtol=1e-6)
    np.testing.assert_allclose(
        package.embed(runs["classification"], tmp_path / "in.txt", layer=0, pooling="max"), expected, rtol=1e-6
    )
    parquet = pytest.importorskip("pyarrow.parquet")
    assert regard("embed", runs["classification"], tmp_path / "in.txt", "-o", tmp_path / "v.parquet").exit_code == 0
    column = parquet.read_table(tmp_path / "v.parquet")["embedding"].to_pylist()
    np.testing.assert_allclose(column, package.embed(runs["classification"], texts), rtol=1e-6)
    refused = regard("embed", runs["classification"], tmp_path / "in.txt", "-o", tmp_path / "v.txt")
    assert isinstance(refused.exception, ConfigError) and "the format of v.txt is unknown" in str(refused.exception)


def test_a_text_without_a_gap_has_a_vector(
    runs: dict[str, Path], tmp_path: Path, regard: Callable[..., Result]
) -> None:
    texts = [text.replace(package.load(runs["masked"], package.Filler).settings.blank, "a") for text in ("a b", "b")]
    expected = package.load(runs["masked"]).embed(texts)
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in texts))
    for files, input in (([tmp_path / "in.txt"], None), ([], "a b\nb\n")):
        assert regard("embed", runs["masked"], *files, "-o", tmp_path / "out.npy", input=input).exit_code == 0
        np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, rtol=1e-6)
    np.testing.assert_allclose(package.load(runs["masked"]).embed({"text": texts}), expected, rtol=1e-6)
