"""Training for an export: the automatic choice can be exported, and other settings are refused with all reasons."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.errors import ConfigError
from regard.share.export_format import export_format
from regard.share.export_target import ExportTarget
from regard.tasks.find_config import find_config

WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "runs", "over", "grass", "two", "birds"]
LINES = [" ".join(random.Random(number).choices(WORDS, k=7)) for number in range(120)]


def tagged(word: str) -> str:
    return f"{word}\t{'AB'[len(word) % 2]}\n"


FILES: dict[str, Callable[[], str]] = {
    "book.txt": lambda: "\n".join(LINES * 5),
    "pairs.tsv": lambda: "source\ttarget\n" + "".join(f"{line}\t{line[::-1]}\n" for line in LINES),
    "rows.csv": lambda: "text,label\n" + "".join(f"{line},{'ab'[n % 2]}\n" for n, line in enumerate(LINES)),
    "graphs.jsonl": lambda: "".join(
        json.dumps({"edges": [[0, n % 3 + 1], [1, 2]], "label": "ab"[n % 2]}) + "\n" for n in range(60)
    ),
    "sessions.csv": lambda: (
        "session_id,item_id\n"
        + "".join(f"{number},{word}\n" for number, line in enumerate(LINES) for word in line.split())
    ),
    "series.csv": lambda: (
        "date,load\n" + "".join(f"2020-01-{1 + n // 24:02d} {n % 24:02d}:00,{n % 7}\n" for n in range(600))
    ),
    "tags.conll": lambda: "\n".join(
        "".join(f"{word}\t{'AB'[len(word) % 2]}\n" for word in line.split()) for line in LINES
    ),
}
CASES = [
    ("book.txt", [], "transformers"), ("book.txt", ["task=masked"], "transformers"), ("pairs.tsv", [], "ctranslate2"),
    ("pairs.tsv", [], "marian"), ("pairs.tsv", [], "onnx"), ("rows.csv", [], "transformers"),
    ("tags.conll", [], "transformers"), ("rows.csv", [], "onnx"), ("tags.conll", [], "onnx"),
    ("graphs.jsonl", [], "onnx"), ("sessions.csv", ["task=next-item"], "onnx"), ("series.csv", [], "onnx"),
    ("book.txt", ["task=masked"], "onnx"), ("book.txt", [], "gguf"), ("rows.csv", [], "sentence-transformers"),
]  # fmt: skip


def written(folder: Path, name: str) -> str:
    (folder / name).write_text(FILES[name]())
    return str(folder / name)


@pytest.mark.parametrize(("name", "overrides", "to"), CASES)
def test_the_automatic_choice_can_be_exported(name: str, overrides: list[str], to: str, tmp_path: Path) -> None:
    file, log = written(tmp_path, name), list[str]()
    free = find_config([file], [], overrides)
    config = find_config([file], [], overrides, log=log.append, target=ExportTarget(to))
    format = export_format(to, config, "here")
    assert format.obstacles(config) == []
    assert (format.obstacles(free) != []) == any(line.startswith(f"for {to}: ") for line in log)


def test_settings_of_the_user_stay_and_are_refused_with_all_reasons(tmp_path: Path) -> None:
    file = written(tmp_path, "rows.csv")
    overrides = ["model.pooling=mean", "model.activation=swiglu"]
    with pytest.raises(ConfigError) as caught:
        find_config([file], [], overrides, target=ExportTarget("transformers"))
    message = str(caught.value)
    assert "its pooling is mean" in message and "swiglu" in message and "--for transformers" in message
    with pytest.raises(ConfigError, match="a model from text to text"):
        find_config([file], [], [], target=ExportTarget("marian"))


def test_an_unknown_format_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown format 'onx'(.|\n)*did you mean onnx"):
        find_config([written(tmp_path, "rows.csv")], [], [], target=ExportTarget("onx"))
