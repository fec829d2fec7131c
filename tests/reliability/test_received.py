"""TOML and JSON that somebody wrote to do harm: one clear error, in little memory."""

from __future__ import annotations

import os
import tomllib
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config.toml_layers import parse_override
from regard.core import untrusted_files
from regard.core.untrusted_files import parse_json, parse_toml, read_bytes, read_records
from regard.data.reading import CorpusConfig, parse_json_pair
from regard.errors import ConfigError, DataError
from regard.runs.config import load_config

CONFIGS = {
    "a key of 20,000 parts": ("a." * 20_000 + "a = 1", "nested"),
    "a quoted key of 20,000 parts": ('"a".' * 20_000 + "a = 1", "nested"),
    "a header of 20,000 parts": ("[" + "a . " * 20_000 + "a]", "nested"),
    "a key of 2,000 parts in a table": ("x = {" + "a." * 2_000 + "a = 1}", "nested"),
    "lists in lists": ("x = " + "[" * 50_000, "nested"),
    "a few lists in lists": ("x = " + "[" * 60 + "]" * 60, "nested"),
    "tables in tables": ("x = " + "{a = " * 5_000, "nested"),
    "a number of 5,000 digits": ("seed = " + "9" * 5_000, "digits"),
    "more than a config": ("#" * (1 << 18) + "\n", "262,144 bytes"),
    "3,000 unknown keys": ("\n".join(f"k{number} = 1" for number in range(3_000)), None),
    "a line of blanks": (" " * 50_000 + "\n", None),
    "a line in a string that looks like a header": ('x = """\n[' + " " * 50_000 + '\n"""', None),
    "a value of 100,000 letters": ('[data]\ntrain = []\n[model]\nwidth = "' + "a" * 100_000 + '"', "width cannot be"),
    "a key of 100,000 letters": ("[data]\ntrain = []\n[model]\n" + "a" * 100_000 + " = 1", "unknown key"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_meant_to_do_harm_is_refused_in_little_memory(tmp_path: Path, name: str) -> None:
    text, why = CONFIGS[name]
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError) as caught:
            load_config(path)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
    assert why is None or why in str(caught.value)
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize(
    "override",
    ["a." * 5_000 + "a=1", "train.lr=" + "[" * 5_000, "x=" + "[" * 60 + "]" * 60, "seed=" + "9" * 5_000],
)
def test_an_override_meant_to_do_harm_is_refused(override: str) -> None:
    with pytest.raises(ConfigError, match="--set") as caught:
        parse_override(override)
    assert len(str(caught.value)) < 1_000


def test_numbers_of_an_override_are_plain_digits() -> None:
    assert parse_override("data.train.²=1")[0] == ("data", "train", "²")
    assert parse_override("data.train.1.weight=2")[0] == ("data", "train", 1, "weight")


def test_a_mapping_is_no_deeper_than_a_file() -> None:
    nested: dict[str, object] = {}
    for _ in range(5_000):
        nested = {"a": nested}
    with pytest.raises(ConfigError, match="nested"):
        load_config(nested)


TOML = st.lists(
    st.sampled_from(
        ["a", "b-1", ".", " ", "=", '"', "'", '"""', "'''", "\\", "#", "\n", "[", "]", "{", "}", ",", "1", "1.5", "é"]
    ),
    max_size=30,
).map("".join)


@given(TOML)
def test_depth_is_counted_of_keys_and_of_nothing_else(text: str) -> None:
    """What the library reads is read, and nothing else: ``parse_toml`` refuses by depth alone."""

    def outcome(parse: Callable[[str], object]) -> object:
        try:
            return parse(text)
        except tomllib.TOMLDecodeError:
            return "no TOML"

    assert outcome(parse_toml) == outcome(tomllib.loads)


@pytest.mark.parametrize("value", ['"{}"', "'{}'", '"""\n{}"""', "'''{}'''", '"\\"{}"', "1 # {}"])
def test_dots_in_values_are_no_depth(value: str) -> None:
    found = parse_toml("x = " + value.format("a." * 100) + "\ny = 2")
    assert found["y"] == 2 and found["x"]


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 60 + "]" * 60, '{"a":' * 100_000, "9" * 5_000, "", "\udfff"])
def test_json_that_is_none_or_too_deep_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text)
    config = CorpusConfig(source=Path("x.jsonl"))
    if text:
        with pytest.raises(DataError, match="is not JSON"):
            parse_json_pair(text, config, where="x.jsonl:3")


def test_a_path_with_a_zero_in_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="null character"):
        load_config({"data": {"train": [{"source": "a\0b", "target": "c"}]}})


def test_nothing_but_regular_files_up_to_a_size_is_read(tmp_path: Path) -> None:
    pipe, large, folder = tmp_path / "pipe", tmp_path / "large", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    large.write_bytes(b"12345")
    assert read_bytes(large, 5) == b"12345"
    with pytest.raises(ValueError, match="4 bytes"):
        read_bytes(large, 4)
    for path in (pipe, folder, Path("/dev/zero"), tmp_path / "none"):
        with pytest.raises(OSError):
            read_bytes(path, 5)
        with pytest.raises(OSError):
            list(read_records(path))


def test_records_are_lines_of_a_bounded_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted_files, "LINE", 4)
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"ab\n12345678\n\ncde\nf")
    assert list(read_records(path)) == [(1, b"ab\n"), (3, b"\n"), (4, b"cde\n"), (5, b"f")]
    monkeypatch.setattr(untrusted_files, "RECORDS", 3)
    assert list(read_records(path)) == [(1, b"ab\n")]
