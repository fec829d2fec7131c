"""Corpora that are converted from what their authors publish: the text is the pinned one, or nothing is written."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import pickle  # noqa: TID251 - written here, and never loaded
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data.public import originals
from regard.data.public.catalog import PublicCorpus, PublicFile, corpora
from regard.data.public.fetch import copy, fetch
from regard.data.public.originals import convert, entries_of
from regard.errors import DataError

from .test_fetch import Server, server  # noqa: F401 - a fixture

EMAILS = {
    "train/b-b_inbox_2.subject": "Bye,\n  all\n\n@subject\nLeaving  now\n",
    "train/a-a_sent_1.subject": "Hello\tyou at a@subject.org\n\n@subject\nA  greeting\n",
    "dev/c-c_inbox_3.subject": "Ask me: é\n\n@subject\nQuestion\n\n@ann0\none\n\n@ann1\ntwo\n\n@ann2\nthree",
}
LINES = {
    "train.jsonl": '{"source": "Hello you at a@subject.org", "target": "A greeting", "name": "a-a_sent_1.subject"}\n'
    '{"source": "Bye, all", "target": "Leaving now", "name": "b-b_inbox_2.subject"}\n',
    "dev.jsonl": '{"source": "Ask me: é", "target": "Question", "ann0": "one", "ann1": "two", "ann2": "three", '
    '"name": "c-c_inbox_3.subject"}\n',
    "test.jsonl": "",
}


def packed(files: dict[str, str], *, root: str = "AESLC-615a/enron_subject_line/") -> bytes:
    """Return an archive with these files, and with others that do not count."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in (
            {f"{root}{name}": text for name, text in files.items()} | {"AESLC-615a/README.md": "x"}
        ).items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
        link = tarfile.TarInfo(f"{root}train/z-z_inbox_9.subject")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return buffer.getvalue()


def known(name: str, texts: dict[str, str]) -> PublicCorpus:
    """Return a corpus of the catalog with the checksums of these texts."""
    files = tuple(
        PublicFile(file, len(text.encode()), hashlib.sha256(text.encode()).hexdigest()) for file, text in texts.items()
    )
    return replace(corpora()[name], files=files)


def test_mails_of_an_archive_are_objects_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "original.tar.gz").write_bytes(packed(EMAILS))
    converted = convert("aeslc", entries_of(tmp_path / "original.tar.gz"), "here")
    assert {name: text.decode() for name, text in converted.items()} == LINES


def test_a_copy_of_the_repository_is_converted(tmp_path: Path) -> None:
    for name, text in EMAILS.items():
        file = tmp_path / "AESLC" / "enron_subject_line" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    fetched = copy(known("aeslc", LINES), tmp_path / "AESLC", tmp_path / "data")
    assert [entry.state for entry in fetched] == ["converted"] * 3
    assert {path.name: path.read_text("utf-8") for path in (tmp_path / "data").iterdir()} == LINES
    again = copy(known("aeslc", LINES), tmp_path / "AESLC", tmp_path / "data")
    assert [entry.state for entry in again] == ["present"] * 3


def test_an_original_is_downloaded_and_converted(server: Server, tmp_path: Path) -> None:  # noqa: F811
    server.files = {"/tar.gz/615a": packed(EMAILS)}
    corpus = known("aeslc", LINES)
    assert corpus.original is not None
    corpus = replace(corpus, original=corpus.original._replace(address=f"{server.address}/tar.gz/615a"))
    reported: list[int] = []
    fetched = fetch(corpus, tmp_path / "data", progress=lambda file, done, total: reported.append(done))
    assert [entry.state for entry in fetched] == ["converted"] * 3 and reported
    assert {path.name: path.read_text("utf-8") for path in (tmp_path / "data").iterdir()} == LINES
    assert [entry.state for entry in fetch(corpus, tmp_path / "data")] == ["present"] * 3
    assert len(server.requests) == 1
    small = replace(corpus, original=corpus.original._replace(limit=20))
    with pytest.raises(DataError, match="something other than the file"):
        fetch(small, tmp_path / "other", pauses=())


@pytest.mark.parametrize(
    ("contents", "problem"),
    [
        (packed({"train/a-a_sent_1.subject": "no subject"}), "a-a_sent_1.subject has no subject"),
        (packed(EMAILS)[:200], "damaged"),
        (b"no archive", "damaged"),
        (packed({}), "not the published file after the conversion"),
        (packed(EMAILS | {"dev/c-c_inbox_3.subject": "x\n@subject\ny"}), "not the published file after the conversion"),
    ],
)
def test_another_original_is_refused(contents: bytes, problem: str, server: Server, tmp_path: Path) -> None:  # noqa: F811
    server.files = {"/tar.gz/615a": contents}
    corpus = known("aeslc", LINES)
    assert corpus.original is not None
    corpus = replace(corpus, original=corpus.original._replace(address=f"{server.address}/tar.gz/615a"))
    with pytest.raises(DataError, match=problem):
        fetch(corpus, tmp_path / "data", pauses=())
    assert not (tmp_path / "data" / "dev.jsonl").exists()
    assert not [path for path in (tmp_path / "data").iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(("name", "value"), [("MOST_ENTRIES", 2), ("LARGEST_ENTRY", 10), ("LARGEST_TOTAL", 60)])
def test_an_archive_has_bounds(name: str, value: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "original.tar.gz").write_bytes(packed(EMAILS))
    monkeypatch.setattr(originals, name, value)
    with pytest.raises(DataError, match="too large"):
        convert("aeslc", entries_of(tmp_path / "original.tar.gz"), "here")


def test_sequences_are_divided_by_their_hash(tmp_path: Path) -> None:
    sequences = [f"ACGT{number:b}".replace("0", "C").replace("1", "G") for number in range(200)]
    rows = [f"{label}, NAME-{n},   {one}" for n, (one, label) in enumerate(zip(sequences, ["EI", "IE", "N"] * 67))]  # noqa: B905
    (tmp_path / "splice.csv").write_text("\n".join(["label,instance_name,sequence", *rows]) + "\n")
    converted = convert("splice", entries_of(tmp_path / "splice.csv"), "here")
    parts = {name: [line.split("\t")[0] for line in text.decode().splitlines()] for name, text in converted.items()}
    assert sorted(sequence for part in parts.values() for sequence in part) == sorted(sequences)
    for name, remainders in (("test.tsv", {0}), ("dev.tsv", {1}), ("train.tsv", {*range(2, 10)})):
        found = {int(hashlib.sha256(one.encode()).hexdigest(), 16) % 10 for one in parts[name]}
        assert found == remainders
        assert parts[name] == [one for one in sequences if one in parts[name]]  # in the order of the table


def test_a_table_of_other_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "splice.csv").write_text("sequence\tlabel\nACGT\tEI\n")
    with pytest.raises(DataError, match="without label, name and sequence"):
        convert("splice", entries_of(tmp_path / "splice.csv"), "here")


@pytest.fixture
def data() -> Iterator[Path]:
    if "REGARD_DATA" not in os.environ:
        pytest.skip("REGARD_DATA names no folder of corpora")
    yield Path(os.environ["REGARD_DATA"])


def test_the_real_sequences_have_the_pinned_checksums(data: Path, tmp_path: Path) -> None:
    texts = [(data / "splice" / f"{part}.tsv").read_text("utf-8") for part in ("dev", "train", "test")]
    rows = [line.split("\t") for line in "".join(texts).splitlines()]
    table = "".join(f"{label},   X-1,      {sequence}\n" for sequence, label in rows)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "splice.csv").write_text(f"label,instance_name,sequence\n{table}")
    fetched = copy(corpora()["splice"], tmp_path, tmp_path / "out")
    assert [entry.state for entry in fetched] == ["converted"] * 3


def test_the_real_mails_have_the_pinned_checksums(data: Path, tmp_path: Path) -> None:
    files: dict[str, str] = {}
    for part in ("train", "dev", "test"):
        with gzip.open(data / "aeslc" / f"{part}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                mail: dict[str, Any] = json.loads(line)
                sections = [f"@ann{n}\n{mail[f'ann{n}']}\n" for n in range(3) if f"ann{n}" in mail]
                text = "\n".join([mail["source"].replace(" ", "\n", 1), "", f"@subject\n{mail['target']}\n", *sections])
                files[f"{part}/{mail['name']}"] = text
    (tmp_path / "original.tar.gz").write_bytes(packed(files))
    converted = convert("aeslc", entries_of(tmp_path / "original.tar.gz"), "here")
    pinned = {file.name: file.sha256 for file in corpora()["aeslc"].files}
    assert {name: hashlib.sha256(text).hexdigest() for name, text in converted.items()} == pinned


def planetoid(arrays: Any, name: str) -> dict[str, bytes]:
    """Return the files of Planetoid for a graph: those that its arrays are made of."""
    from scipy.sparse import csr_matrix

    x = csr_matrix((arrays["x_data"], arrays["x_indices"], arrays["x_indptr"]), shape=arrays["x_shape"])
    tests, train = np.flatnonzero(arrays["test_mask"]), int(arrays["train_mask"].sum())
    first = int(tests[0])
    order = np.random.default_rng(1).permutation(tests)  # lines of test.index are in no order
    one_hot = np.eye(arrays["y"].max() + 1, dtype=np.int32)[np.maximum(arrays["y"], 0)] * (arrays["y"] >= 0)[:, None]
    graph: dict[int, list[int]] = defaultdict(list)
    for one, other in arrays["edges"].tolist():
        graph[one] += [other, other]  # twice, and in both directions
        graph[other].append(one)
    graph[0].append(0)
    values = {
        "x": x[:train], "tx": x[order], "allx": x[:first], "y": one_hot[:train], "ty": one_hot[order],
        "ally": one_hot[:first], "graph": graph,
    }  # fmt: skip
    files = {f"ind.{name}.{part}": pickle.dumps(value, 2) for part, value in values.items()}
    return files | {f"ind.{name}.test.index": "".join(f"{node}\n" for node in order).encode()}


def small_graph() -> dict[str, Any]:
    """Return the arrays of a graph of 700 nodes, of which one of the last is isolated."""
    draws, count = np.random.default_rng(3), 700
    rows = [np.sort(draws.choice(20, 3, replace=False)) for _ in range(count)]
    rows[680], y = rows[0][:0], draws.integers(0, 4, count)
    y[680], masks = -1, np.zeros((3, count), bool)
    masks[0, :40] = masks[1, 40:540] = masks[2, 600:] = True
    masks[2, 680] = False
    edges = np.unique(np.sort(draws.integers(0, 680, (900, 2)), axis=1), axis=0)
    return {
        "x_data": np.ones(sum(map(len, rows)), np.float32), "x_indices": np.concatenate(rows).astype(np.int32),
        "x_indptr": np.cumsum([0, *map(len, rows)]).astype(np.int32), "x_shape": np.array([count, 20]), "y": y,
        "edges": edges[edges[:, 0] < edges[:, 1]].astype(np.int32), "train_mask": masks[0], "val_mask": masks[1],
        "test_mask": masks[2], "isolated": np.array([680], np.int32),
    }  # fmt: skip


def test_graphs_of_planetoid_are_arrays() -> None:
    sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    arrays = small_graph()
    files = planetoid(arrays, "cora") | planetoid(arrays, "citeseer")
    for contents in convert("planetoid", [(f"data/{name}", text) for name, text in files.items()], "here").values():
        with np.load(io.BytesIO(contents)) as converted:
            assert converted.files == [*arrays]
            for name, expected in arrays.items():
                assert converted[name].dtype == expected.dtype and converted[name].tolist() == expected.tolist(), name
    overlapping = sparse.csr_matrix(np.eye(600, 20, dtype=np.float32))
    overlapping.indptr[1::2] = 0
    for name, contents in (
        ("ind.cora.allx", pickle.dumps([1, 2], 2)),
        ("ind.cora.allx", files["ind.cora.y"]),
        ("ind.cora.graph", pickle.dumps({0: [None]}, 2)),
        ("ind.cora.graph", pickle.dumps({0: [10**30]}, 2)),
        ("ind.cora.graph", pickle.dumps(dict.fromkeys(range(700), [1] * 2000), 2)),
        ("ind.cora.allx", pickle.dumps(overlapping, 2)),
        ("ind.cora.y", b""),
        ("ind.cora.test.index", b"600\n601\n"),
        ("ind.cora.test.index", files["ind.cora.test.index"].replace(b"699", b"99999999999")),
        ("ind.cora.test.index", b"x"),
    ):
        with pytest.raises(DataError):
            convert("planetoid", (files | {name: contents}).items(), "here")
    del files["ind.cora.graph"]
    with pytest.raises(DataError, match="not the original of planetoid"):
        convert("planetoid", files.items(), "here")


def test_the_real_graphs_have_the_pinned_checksums(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("scipy", reason="scipy is not installed")
    for name in ("cora", "citeseer"):
        for file, contents in planetoid(dict(np.load(data / "planetoid" / f"{name}.npz")), name).items():
            (tmp_path / file).write_bytes(contents)
    fetched = copy(corpora()["planetoid"], tmp_path, tmp_path / "out")
    assert [entry.state for entry in fetched] == ["converted"] * 2
    loose = dict(np.load(tmp_path / "out" / "cora.npz"))
    np.savez(tmp_path / "out" / "cora.npz", **loose)  # not compressed: the arrays are the same
    assert copy(corpora()["planetoid"], tmp_path, tmp_path / "out")[0].state == "present"
    np.savez(tmp_path / "out" / "cora.npz", **loose | {"y": loose["y"] + 1})
    with pytest.raises(DataError, match="not the published file"):
        copy(corpora()["planetoid"], tmp_path, tmp_path / "out")
