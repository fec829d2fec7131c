"""Small JSON files of a run: what was saved is opened; what is missing or damaged is named, with the remedy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.answers.number_scale import Scale
from regard.core.codec_files import open_codec_file, save_codec_file
from regard.errors import ModelError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=9,
)


@given(JSON)
def test_any_value_is_opened_as_it_was_saved(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "codecs" / "value.json"
    save_codec_file(path, value)
    assert open_codec_file(path, lambda saved: saved) == value


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b"[]", b"{}", b'{"numbers": 3}', b"[" * 100, b'{"numbers": [1e400]}']
)
def test_a_damaged_file_is_a_failure_of_the_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "numbers.json"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"the codec numbers\.json is damaged") as refused:
        open_codec_file(path, lambda saved: [int(number) for number in saved["numbers"]])
    assert refused.value.where == str(path) and refused.value.why and refused.value.help


def test_a_missing_file_is_not_called_damaged(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"scale\.json is missing"):
        Scale.open(tmp_path / "scale.json")


def test_a_file_above_its_limit_is_not_read(tmp_path: Path) -> None:
    save_codec_file(tmp_path / "numbers.json", list(range(1000)))
    with pytest.raises(ModelError, match="damaged") as refused:
        open_codec_file(tmp_path / "numbers.json", list, limit=1000)
    assert "1,000 bytes" in str(refused.value.why)


@pytest.mark.parametrize("wrong", [(math.nan, 1.0), (0.0, 0.0), (0.0, math.inf)])
def test_a_scale_is_finite_and_above_zero(tmp_path: Path, wrong: tuple[float, float]) -> None:
    path = tmp_path / "scale.json"
    Scale(1.5, 2.0).save(path)
    assert Scale.open(path) == Scale(1.5, 2.0)
    Scale(*wrong).save(path)
    with pytest.raises(ModelError, match="damaged"):
        Scale.open(path)
