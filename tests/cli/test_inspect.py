"""``regard inspect``, and what a server says of its models to the page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from regard import cli, load
from regard import inspect as look
from regard.core.task import Data
from regard.data.corpus import Corpora, Corpus
from regard.data.pairs import PairExamples
from regard.inspection.page import FOLDER
from regard.runs.run_folder import RunFolder
from regard.server.keys import add_key
from regard.tasks.translation.codecs import open_codecs
from tests.data.earlier_heads import earlier_head

from .conftest import TinyRun
from .test_serve import serving

built = pytest.mark.skipif(not (FOLDER / "app.js").is_file(), reason="the page was not built: scripts/page")


@pytest.fixture(scope="module")
def url(tiny_run: TinyRun) -> Iterator[str]:
    with serving(str(tiny_run.path), "--threads", "1", "--timeout", "60") as (url, _):
        yield url


def run(*words: object) -> int:
    return cli.run([str(word) for word in words])


def inspect(url: str, **asked: Any) -> httpx.Response:
    return httpx.post(f"{url}/v1/inspect", json={"text": "c a b"} | asked, timeout=60)


def test_a_server_tells_what_python_tells(url: str, tiny_run: TinyRun) -> None:
    parts = ["ablation", "beam", "lens", "vectors"]
    told = inspect(url, include=parts).json()
    own = look(tiny_run.path, "c a b").document
    assert told["surfaces"] == own["surfaces"] and told["search"]["output"] == "C A B"
    assert set(told) == set(own) and [node["piece"] for node in told["beam"]] == [node["piece"] for node in own["beam"]]
    assert not set(parts) & set(inspect(url).json())


def test_a_head_that_copies_aligns_the_copy(url: str) -> None:
    found = inspect(url).json()["alignment"]
    assert {(target, source) for target, source, _ in found["links"]} >= {(0, 0), (1, 1), (2, 2)}, found
    assert "%" in found["why"]


def test_pieces_can_be_forced_and_checkpoints_looked_into(url: str) -> None:
    first = inspect(url, checkpoint="100").json()
    assert first["model"]["checkpoint"] == "100"
    other = first["surfaces"][1]["ids"][-2]
    forced = inspect(url, force=[other, other]).json()
    assert forced["surfaces"][1]["ids"][:2] == [other, other] and forced["search"]["forced"] == 2


def test_a_text_of_several_sentences_is_asked_one_by_one(url: str) -> None:
    found = [inspect(url, text="- a b\n- c é\n", sentence=number) for number in range(3)]
    for number, (source, unknown) in enumerate((("a b", []), ("c é", ["é"]))):
        document = found[number].json()
        assert (document["sentences"], document["sentence"]) == (["a b", "c é"], number)
        assert (document["text"], document["facts"]["unknown"]) == (source, unknown)
    assert found[2].status_code == 400 and "sentence 2 does not exist" in found[2].json()["error"]
    assert inspect(url, sentence=-1).status_code == 422


def test_the_command_says_that_there_are_more_sentences(tiny_run: TinyRun, capsys: pytest.CaptureFixture[str]) -> None:
    for options, text, told in (([], "a b", "2 sentences"), (["--sentence", "2"], "c é", "not in the vocabulary: é")):
        assert run("inspect", tiny_run.path, "a b\nc é", "--json", *options) == 0
        said = capsys.readouterr()
        assert json.loads(said.out)["text"] == text and told in said.err
    assert run("inspect", tiny_run.path, "a b", "--json", "--sentence", "2") == 2


def test_the_coverage_penalty_reaches_every_way_to_ask(
    url: str, tiny_run: TinyRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """Outputs lose what they did not look at: scores are lower, by the same numbers everywhere."""
    scores, text = [], "a a b b c c d"  # long enough that no output looks at all of it
    for given in ({}, {"coverage_penalty": 10.0}):
        answer = httpx.post(f"{url}/v1/translate", json={"text": text, "beam": 3, **given}).json()
        document = inspect(url, text=text, beam=3, **given).json()
        options = [part for key, value in given.items() for part in (f"--{key.replace('_', '-')}", str(value))]
        assert run("inspect", tiny_run.path, text, "--json", "--beam", "3", *options) == 0
        score = json.loads(capsys.readouterr().out)["search"]["score"]
        scores.append(score)
        assert pytest.approx(score) == document["search"]["score"] == answer["translations"][0]["score"]
    assert scores[1] < scores[0] - 1e-3


def test_details_of_a_model(url: str, tiny_run: TinyRun) -> None:
    found = httpx.get(f"{url}/v1/models/run").json()
    weights = found["weights"]
    assert weights["best"] == weights["400"] and len({weights[step] for step in ("100", "200", "300", "400")}) == 4
    assert found["examples"][0] in tiny_run.source.read_text(encoding="utf-8").splitlines()
    assert found["limits"] == {
        "characters": 5000, "pieces": 128, "beam": 10, "nbest": 10, "file_bytes": 131072,
        "files": [".txt", ".md", ".html", ".htm"],
    }  # fmt: skip
    assert found["checkpoints"] == ["100", "200", "300", "400", "best"] and found["checkpoint"] == "best"
    curves = {curve["name"]: curve["points"] for curve in found["curves"]}
    assert [step for step, _ in curves["validation loss"]] == [100, 200, 300, 400]
    assert curves["training loss"][0][1] > curves["training loss"][-1][1]
    assert httpx.get(f"{url}/v1/models/nobody").status_code == 404
    assert httpx.get(f"{url}/v1/models/..%2F..%2Fetc").status_code == 404


def test_another_output_than_the_best_can_be_looked_at(url: str) -> None:
    first, second = (inspect(url, nbest=3, candidate=number).json()["search"] for number in (0, 1))
    assert first["candidates"] == second["candidates"] and (first["candidate"], second["candidate"]) == (0, 1)
    assert [each["output"] for each in (first, second)] == [each["text"] for each in first["candidates"][:2]]


@pytest.mark.parametrize(
    ("asked", "status", "told"),
    [
        ({"text": "  "}, 400, "no text"),
        ({"text": "a " * 200}, 400, "too long"),
        ({"text": "a " * 4000}, 400, "exceeds"),
        ({"text": "\ud800"}, 400, "not Unicode"),
        ({"checkpoint": "../../x"}, 422, "checkpoint"),
        ({"checkpoint": "12345"}, 404, "12345"),
        ({"checkpoint": "²"}, 422, "checkpoint"),
        ({"force": [0]}, 400, "forced beginning is impossible"),
        ({"force": [10**12]}, 422, "force"),
        ({"beam": 11}, 400, "exceeds the limit of 10"),
        ({"candidate": 1, "nbest": 1}, 400, "candidate 1 does not exist"),
        ({"include": ["everything"]}, 422, "include"),
        ({"model": "nobody"}, 404, "nobody"),
    ],
)
def test_what_cannot_be_looked_into_is_told(url: str, asked: dict[str, Any], status: int, told: str) -> None:
    answer = httpx.post(f"{url}/v1/inspect", content=json.dumps({"text": "a b"} | asked).encode(), timeout=60,
                        headers={"content-type": "application/json"})  # fmt: skip
    assert answer.status_code == status and told in answer.json()["error"], answer.text


def test_scores_are_those_of_the_command(url: str, tiny_run: TinyRun) -> None:
    asked = {"sources": ["a b", "c"], "targets": ["A B", "D"]}
    found = httpx.post(f"{url}/v1/score", json=asked).json()["scores"]
    own = load(tiny_run.path).score(asked["sources"], asked["targets"])
    for each, pieces in zip(found, own, strict=True):
        assert each["pieces"] == pytest.approx(pieces, abs=1e-5) and each["log_probability"] == pytest.approx(
            sum(pieces), abs=1e-4
        )
    few = httpx.post(f"{url}/v1/score", json=asked | {"targets": ["A"]})
    assert few.status_code == 400 and "2 sources for 1 targets" in few.text
    long = httpx.post(f"{url}/v1/score", json={"sources": ["a"], "targets": ["A " * 600]})
    assert long.status_code == 413 and "/" not in long.json()["error"]


def test_an_example_has_a_fitting_length_and_no_piece_that_the_vocabulary_lacks(tiny_copy: TinyRun) -> None:
    folder, run = tiny_copy.path / "data" / "valid-0", RunFolder.open(tiny_copy.path)
    source = open_codecs(run).source
    for pairs, wanted in (
        ([source.encode(" ".join("abcdefgh" * 4)), source.encode("a b"), source.encode("c d e")], ["c d e", "a b"]),
        ([source.encode("c d e"), source.encode("a b c d e f")], ["a b c d e f", "c d e"]),
        ([[1, 4, 4, 4, 4, 4], [99, 4, 4, 4, 4, 4], source.encode("a b")], ["a b"]),
    ):
        write_corpus(folder, pairs)
        valid = PairExamples(Corpora([Corpus.open(folder)]), [1.0], tokens=100, seed=1)
        data = Data(valid, valid, open_codecs(run), {}, {})
        assert list(run.task.examples(run.config, data)) == wanted


def write_corpus(folder: Path, sources: list[list[int]]) -> None:
    """The sources of a prepared corpus in the stead of its own, with targets as long."""
    head = earlier_head(folder / "corpus.json")
    tokens = [piece for source in sources for piece in source]
    offsets = np.cumsum([0, *map(len, sources)], dtype=np.int64)
    for side in ("source", "target"):
        (folder / f"{side}.tokens").write_bytes(np.array(tokens, dtype=head["dtype"]).tobytes())
        (folder / f"{side}.offsets").write_bytes(offsets.tobytes())
        head[f"{side}_tokens"] = len(tokens)
    (folder / "lines").write_bytes(np.arange(1, len(sources) + 1, dtype=np.int64).tobytes())
    head["report"]["pairs"] = len(sources)
    (folder / "corpus.json").write_text(json.dumps(head), encoding="utf-8")


@built
def test_the_page_is_served_under_a_policy_that_lets_nothing_else_in(url: str) -> None:
    answer = httpx.get(url)
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    for path in re.findall(r'(?:src|href)="\.(/[^"]+)"', answer.text):
        assert httpx.get(url + path).status_code == 200
    assert not re.search(r'(src|href)="(https?:)?//', answer.text)


@built
def test_a_file_has_all_of_it_and_fetches_nothing(tiny_run: TinyRun, tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    assert run("inspect", tiny_run.path, "c </script> b", "--html", page, "--replay", "--against", tiny_run.path) == 0
    html = page.read_text(encoding="utf-8")
    bundle = json.loads(re.search(r'id="bundle">(.*?)</script>', html, re.DOTALL)[1])  # type: ignore[index]
    assert bundle["main"]["text"] == "c </script> b" and len(bundle["replay"]) == 4
    assert bundle["other"]["surfaces"] == bundle["main"]["surfaces"] and "vectors" in bundle["main"]
    assert "default-src 'none'" in html and not re.search(r'(src|href)="(?!data:)', html)


def test_arrays_and_json_need_no_page(tiny_run: TinyRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", tiny_run.path, "c a b", "--json", "--npz", tmp_path / "a.npz", "--beam", 2) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["search"]["output"] == "C A B" and document["search"]["settings"]["beam"] == 2
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        assert list(arrays["decoder.0.source"].shape) == document["attention"]["decoder.0.source"]["weights"]["shape"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--json"], "TEXT is missing"),
        (["x " * 200, "--json"], "too long"),
        (["", "--json"], "TEXT is missing"),
        (["a", "--replay"], "--replay requires --html"),
        (["a", "--json", "--checkpoint", "7"], "checkpoint"),
    ],
)
def test_what_cannot_be_inspected_is_told(
    tiny_run: TinyRun, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("inspect", tiny_run.path, *words) in (2, 4)
    assert told in capsys.readouterr().err


def test_looking_counts_against_a_quota(tiny_run: TinyRun, tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys.json", "one", requests_per_minute=None, characters=12)
    with serving(str(tiny_run.path), "--keys", str(tmp_path / "keys.json"), "--threads", "1") as (url, _):
        known = {"authorization": f"Bearer {key}"}
        asked = [httpx.post(f"{url}/v1/inspect", json={"text": "c a b"}, headers=known, timeout=60) for _ in range(3)]
        assert [answer.status_code for answer in asked] == [200, 200, 429] and "quota" in asked[2].text
        assert httpx.get(f"{url}/v1/models/run").status_code == 401
        assert httpx.get(f"{url}/v1/models/run", headers=known).status_code == 200


def test_a_checkpoint_that_was_opened_is_the_one_that_is_named(tiny_run: TinyRun) -> None:
    with serving(str(tiny_run.path), "--checkpoint", "100", "--threads", "1") as (url, _):
        assert httpx.get(f"{url}/v1/models/run").json()["checkpoint"] == "100"
        assert inspect(url).json()["model"]["checkpoint"] == "100"
        assert inspect(url, checkpoint="best").json()["model"]["checkpoint"] == "best"
    (tiny_run.path / "alignment.json").unlink(missing_ok=True)
