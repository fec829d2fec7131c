"""``regard inspect`` and ``regard.inspect`` of runs of other tasks: a language model, and a task of one's own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import regard
from regard import cli
from regard.core.figure import can_draw
from regard.inspection.page import FOLDER

from .conftest import TinyRun
from .test_serve import serving

TEXT = "the cat sat on the mat\nthe rat sat on the hat\n" * 40


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model of characters, trained for a moment."""
    folder = tmp_path_factory.mktemp("book")
    (folder / "book.txt").write_text(TEXT)
    small = ["model.layers=2", "model.width=16", "model.heads=2", "model.feed_forward=16", "train.steps=40",
             "data.context=24", "train.threads=1", "train.precision=float32", "model.dropout=0",
             "train.learning_rate=0.01"]  # fmt: skip
    given = [part for each in small for part in ("--set", each)]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert cli.run(["train", "book.txt", *given]) == 0
    return folder / "runs" / "book"


def run(*words: object) -> int:
    return cli.run([str(word) for word in words])


def test_json_and_arrays_are_what_python_has(book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", book, "the cat", "--json", "--npz", tmp_path / "a.npz") == 0
    document = json.loads(capsys.readouterr().out)
    found = regard.inspect(book, "the cat")
    assert document == found.document and found.attention["decoder.1.self"].shape == (2, 8, 8)
    assert document["model"]["name"] == "book" and document["model"]["task"] == "language-model"
    assert "".join(document["surfaces"][0]["pieces"]) == "the cat"
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        assert np.array_equal(arrays["decoder.1.self"], found.attention["decoder.1.self"].numpy())
        assert json.loads(str(arrays["document"]))["text"] == "the cat"


def test_the_terminal_has_probabilities_and_one_head(book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", book, "the\ncat", "--terminal", "--head", "decoder.0.self:1") == 0
    said = capsys.readouterr().out
    assert re.search(r"^t +\d+\.\d %  \S+ \d+\.\d %", said, re.MULTILINE) and "↵" in said
    assert "decoder.0.self, head 1\nrows: token just read" in said
    assert re.search(r"^ *0 <s> ██··", said, re.MULTILINE), "only itself is seen"
    assert run("inspect", book, "a", "--terminal") == 0
    assert "decoder.1.self, mean of 2 heads" in capsys.readouterr().out


@pytest.mark.skipif(not can_draw(), reason="matplotlib is not installed")
def test_a_picture_of_one_head_or_of_all(book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = ["--show", "attention", "--head", "decoder.0.self:1"]
    for options, title in ((head, "decoder.0.self, head 1"), (["--show", "heads"], "heads · book")):
        assert run("inspect", book, "the cat", "--svg", tmp_path / "a.svg", *options) == 0
        svg = (tmp_path / "a.svg").read_text(encoding="utf-8")
        assert title in svg and "input: the cat" in svg and "attention weight" in svg
        assert "a.svg" in capsys.readouterr().err
    assert run("inspect", book, "the cat", "--svg", tmp_path / "a.png") == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_the_terminal_draws_a_translation_too(tiny_run: TinyRun, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", tiny_run.path, "c a b", "--terminal", "--head", "decoder.0.source:0") == 0
    said = capsys.readouterr().out
    assert said.startswith("C A B\n") and re.search(r"^ *C +\d+\.\d %", said, re.MULTILINE) and "</s>" in said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--json"], "TEXT is missing"),
        (["x" * 3, "--json"], "its vocabulary has no piece for 'x'"),
        (["t" * 24, "--json"], "too long to inspect: 24 tokens"),
        (["t" * 10**5, "--json"], "too long to inspect"),
        (["the", "--json", "--beam", "2", "--sentence", "1"], "--beam, --sentence: only for translation runs"),
        (["the", "--html", "a.html", "--replay"], "--replay: only for translation runs"),
        (["the", "--engine", "int8"], "--engine: only for translation runs"),
        (["the", "--terminal", "--head", "decoder.0.selv:1"], "did you mean decoder.0.self?"),
        (["the", "--terminal", "--head", "decoder.0.self:2"], "it has 2 heads, counted from 0"),
        (["the", "--terminal", "--head", "decoder.0.self:²"], "has no head"),
        (["the", "--json", "--head", "decoder.0.self"], "--head requires --terminal or --svg"),
        (["the", "--json", "--show", "heads"], "--show requires --svg"),
        (["the", "--svg", "a.pdf"], "end it in .svg or .png"),
        (["the", "--svg", "a.svg", "--show", "graph"], "attention, heads"),
        (["the", "--svg", "a.svg", "--head", "decoder.0.self:2"], "it has 2 heads, counted from 0"),
        (["the", "--json", "--checkpoint", "7"], "checkpoint"),
    ],
)
def test_what_cannot_be_shown_is_told(
    book: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run("inspect", book, *words) in (2, 4)
    assert told in " ".join(capsys.readouterr().err.split()) and not list(tmp_path.iterdir())


def test_a_translation_is_not_set_against_another_task(
    book: Path, tiny_run: TinyRun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("inspect", tiny_run.path, "c a b", "--json", "--against", book) == 2
    assert "--against: only for translation runs" in capsys.readouterr().err


@pytest.mark.skipif(not (FOLDER / "app.js").is_file(), reason="the page was not built: scripts/page")
def test_a_file_has_all_of_it_and_fetches_nothing(book: Path, tmp_path: Path) -> None:
    assert run("inspect", book, "the cat", "--html", tmp_path / "a.html") == 0
    html = (tmp_path / "a.html").read_text(encoding="utf-8")
    bundle = json.loads(re.search(r'id="bundle">(.*?)</script>', html, re.DOTALL)[1])  # type: ignore[index]
    assert bundle["main"]["version"] == 2 and bundle["model"]["task"] == "language-model"
    assert "default-src 'none'" in html and not re.search(r'(src|href)="(?!data:)', html)


def test_a_task_of_ones_own_says_what_would_make_it_show_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from tests.laws import own_task

    kind, sample = f"{own_task.__name__}:TASK", own_task.sample(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_TASKS", kind)
    (tmp_path / "mean.toml").write_text(
        f'task = "{kind}"\ntrain = {{ steps = 2, threads = 1, precision = "float32" }}\n'
        f'[[data.train]]\nsource = "{sample["data"]["train"][0]["source"]}"\n'
    )
    assert run("train", "mean.toml", "--name", "mean") == 0
    capfd.readouterr()
    assert run("inspect", "runs/mean", "1 2", "--json") == 2
    said = capfd.readouterr().err
    assert "cannot be inspected" in said and "inspect(input) -> Observation" in said


def test_an_engine_is_for_what_decodes(own_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("serve", own_run, "--engine", "int8", "--port", "0") == 2
    assert "only translation and generation have engines" in capsys.readouterr().err


def test_a_served_language_model_is_looked_into(book: Path) -> None:
    with serving(str(book), "--threads", "1", "--timeout", "60", "--length-limit", "50") as (url, _):
        details = httpx.get(f"{url}/v1/models/book", timeout=60).json()
        assert details["task"] == "language-model" and details["limits"] == {
            "characters": 5000,
            "length": 50,
            "file_bytes": 128 * 1024,
        }
        assert details["checkpoints"] and details["curves"] and ["sizes", "16 types"] in details["parts"]
        asked: dict[str, Any] = {"text": "the cat"}
        told = httpx.post(f"{url}/v1/inspect", json=asked, timeout=60).json()
        assert told == regard.inspect(book, "the cat", include=[]).document
        for parts in (["lens"], ["ablation", "lens", "vectors"]):
            told = httpx.post(f"{url}/v1/inspect", json=asked | {"include": parts}, timeout=60).json()
            assert set(parts) <= set(told) and told == regard.inspect(book, "the cat", include=parts).document
        refused = httpx.post(f"{url}/v1/inspect", json=asked | {"include": ["lens", "beam"]}, timeout=60)
        assert refused.status_code == 400 and "include: only for translation models" in refused.json()["error"]
        assert details["about"] == "Continues a text." and details["examples"] == []  # no validation data
        step = details["checkpoints"][0]
        early = httpx.post(f"{url}/v1/inspect", json={"text": "the cat", "checkpoint": step}, timeout=60).json()
        assert early["model"]["checkpoint"] == step
        assert httpx.post(f"{url}/v1/inspect", json={"text": "the", "checkpoint": "999"}).status_code == 404
        assert "cannot translate" in httpx.post(f"{url}/v1/translate", json={"text": "a", "model": "book"}).text
