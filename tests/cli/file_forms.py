"""Files of every form for every task, with the same examples in each: what the table of forms is made of."""

from __future__ import annotations

import gzip
import json
import wave
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FORMS = (
    "txt", "tsv", "csv", "jsonl", "parquet", "conllu", "npz", "mid", "folder", "pattern", "several", "capitals", "gz",
)  # fmt: skip
VERBS = ("train", "check", "evaluate", "read", "bulk", "serve")


class Rows(NamedTuple):
    """Columns of equally many examples; ``inputs``: what a line of text spells for each."""

    columns: dict[str, list[Any]]
    inputs: list[str]


def rows_of(kind: str) -> Rows:
    """Examples that a run of the task's sample knows, and that the task is found for."""
    if kind == "classification":
        pairs = [
            (f"{word} a film {n}", label) for n in range(20) for word, label in (("fine", "good"), ("dull", "bad"))
        ]
        return Rows(
            {"text": [text for text, _ in pairs], "label": [label for _, label in pairs]}, [t for t, _ in pairs]
        )
    if kind == "tagging":
        sentences = [["the", "dog", "sees", f"cat{n}"] for n in range(30)]
        tags = [["DET", "NOUN", "VERB", "NOUN"]] * 30
        return Rows({"tokens": sentences, "tags": tags}, [" ".join(each) for each in sentences])
    if kind == "next-item":
        walks = [[f"i{(start + step * at) % 6}" for at in range(2 + length)]
                 for start in range(6) for step in (1, 5) for length in range(4)]  # fmt: skip
        return Rows({"items": walks}, [" ".join(each) for each in walks])
    if kind == "translation":
        sources = [" ".join("abcdef"[(n + at) % 6] for at in range(2 + n % 4)) for n in range(24)]
        return Rows({"source": sources, "target": [source[::-1] for source in sources]}, sources)
    columns: dict[str, list[Any]]
    if kind == "graphs":
        edges = [[[0, 1], [1, 2]] + [[2, 0]] * (n % 2) for n in range(40)]
        columns = {
            "edges": edges,
            "features": [[[n / 40], [1], [2]] for n in range(40)],
            "label": ["star", "ring"] * 20,
        }
        return Rows(columns, [json.dumps(each) for each in edges])
    names = [f"n{n}" for n in range(12)]
    if kind == "nodes":
        return Rows({"node": names}, names)
    if kind == "links":
        ends = names[1:] + names[:1]
        return Rows({"source": names, "target": ends}, [f"{a} {b}" for a, b in zip(names, ends, strict=True)])
    if kind == "forecasting":
        dates = [f"2020-01-{1 + hour // 24:02d} {hour % 24:02d}:00:00" for hour in range(72)]
        columns = {
            "date": dates,
            "load": [hour % 4 for hour in range(72)],
            "heat": [3 - hour % 4 for hour in range(72)],
        }
        table = "".join(f"{','.join(map(str, row))}\n" for row in (columns, *zip(*columns.values(), strict=True)))
        return Rows(columns, [json.dumps({"table": table})])
    if kind == "recognition":
        texts = ["ab", "b a", "cab", "abc", "ca", "b", "acb", "cc", "a", "bc"]
        columns = {"audio": [f"sounds/{number}.wav" for number in range(len(texts))], "text": texts}
        return Rows(columns, [json.dumps({"frames": each.tolist()}) for each in _frames(len(texts))])
    texts = ["the ___ sat on the mat"] * 24 if kind == "masked" else ["the cat sat on the mat", "the rat sat"] * 12
    return Rows({"text": texts}, texts)


NATIVE = {"graphs": "jsonl", "recognition": "npz"}  # the form of patterns, of several files, of capitals and of gz


def write(folder: Path, kind: str, form: str) -> list[Path]:
    """Write the examples in a form; the paths as a command gets them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, native = rows_of(kind), NATIVE.get(kind, "csv")
    if kind == "recognition" and form in ("tsv", "csv", "jsonl", "parquet", "folder"):
        _sounds(folder / "sounds", rows.columns["text"])
    if form in ("pattern", "several"):
        parts = [_write_one(folder / f"part-{number}.{native}", kind, native, rows) for number in (1, 2)]
        return [folder / f"part-*.{native}"] if form == "pattern" else parts
    if form == "folder" and kind == "recognition":
        return [folder / "sounds"]
    if form == "folder":
        _write_one(folder / "texts" / "a.txt", kind, "txt", rows)
        return [folder / "texts"]
    if form == "capitals":
        return [_write_one(folder / f"A.{native.upper()}", kind, native, rows)]
    if form == "gz":
        plain = _write_one(folder / f"plain.{native}", kind, native, rows)
        (folder / f"a.{native}.gz").write_bytes(gzip.compress(plain.read_bytes()))
        return [folder / f"a.{native}.gz"]
    return [_write_one(folder / f"a.{form}", kind, form, rows)]


def training_files(folder: Path, kind: str, form: str) -> list[Path]:
    """The files to train on or to measure: those of ``write``, and of a graph its tables."""
    if kind not in ("nodes", "links"):
        return write(folder, kind, form)
    folder.mkdir(parents=True, exist_ok=True)
    if form == "npz":
        return [_arrays(folder / "a.npz", labeled=kind == "nodes")]
    ending = {"csv": "csv", "tsv": "tsv", "capitals": "CSV", "gz": "csv.gz"}.get(form)
    if ending is None:
        return write(folder, kind, form)
    mark = "\t" if form == "tsv" else ","
    head = ["node", *(["label", "split", "a", "b", "c"] if kind == "nodes" else [f"f{n}" for n in range(12)])]
    lines = [head]
    for node in range(12):
        own = [("left", "right")[node % 2], ("train", "valid", "test")[node % 3], str(node % 2), "0", "1"]
        lines.append([f"n{node}", *(own if kind == "nodes" else [str(int(node == n)) for n in range(12)])])
    tables = {"nodes": lines, "edges": [["source", "target"], *([f"n{n}", f"n{(n + 1) % 12}"] for n in range(12))]}
    paths = []
    for name, table in tables.items():
        text = "".join(mark.join(line) + "\n" for line in table)
        paths.append(folder / f"{name}.{ending}")
        paths[-1].write_bytes(gzip.compress(text.encode()) if form == "gz" else text.encode())
    return paths


def _write_one(path: Path, kind: str, form: str, rows: Rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    writers: dict[str, Callable[[Path, str, Rows], None]] = {
        "txt": _txt, "tsv": _tsv, "csv": _csv, "jsonl": _jsonl, "parquet": _parquet, "conllu": _conllu,
        "npz": _npz,
        "mid": lambda path, kind, rows: path.with_suffix(".mid").write_bytes(MIDI) and None,
    }  # fmt: skip
    writers[form](path, kind, rows)
    return path


MIDI = (
    b"MThd\x00\x00\x00\x06\x00\x00\x00\x01\x01\xe0MTrk\x00\x00\x00\x0d"
    b"\x00\x90\x3c\x40\x83\x60\x80\x3c\x40\x00\xff\x2f\x00"
)


def _txt(path: Path, kind: str, rows: Rows) -> None:
    path.write_text("".join(f"{line}\n" for line in rows.inputs))


def _tsv(path: Path, kind: str, rows: Rows) -> None:
    columns = list(rows.columns.values())
    if kind == "tagging":
        sentences = (
            "".join(f"{word}\t{tag}\n" for word, tag in zip(*row, strict=True)) for row in zip(*columns, strict=True)
        )
        path.write_text("\n".join(sentences))
    elif kind in ("forecasting", "recognition"):
        rows_with_head = (rows.columns, *zip(*columns, strict=True))
        path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows_with_head))
    elif kind == "next-item":
        lines = [f"user{n}\t{item}\n" for n, items in enumerate(columns[0]) for item in items]
        path.write_text("user\titem\n" + "".join(lines))
    else:
        path.write_text("".join("\t".join(map(str, row)) + "\n" for row in zip(*columns, strict=True)))


def _csv(path: Path, kind: str, rows: Rows) -> None:
    import csv

    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(rows.columns)
        for row in zip(*rows.columns.values(), strict=True):
            writer.writerow(_cell(cell) for cell in row)


def _cell(cell: Any) -> str:
    """Return a cell of a CSV: words with spaces between them, other lists as JSON."""
    if isinstance(cell, list):
        return " ".join(cell) if isinstance(cell[0], str) else json.dumps(cell)
    return str(cell)


def _jsonl(path: Path, kind: str, rows: Rows) -> None:
    cells = zip(*rows.columns.values(), strict=True)
    path.write_text("".join(json.dumps(dict(zip(rows.columns, row, strict=True))) + "\n" for row in cells))


def _parquet(path: Path, kind: str, rows: Rows) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(rows.columns), path)


def _conllu(path: Path, kind: str, rows: Rows) -> None:
    tags: Sequence[Sequence[str]] = rows.columns.get("tags", [["X"] * len(line.split()) for line in rows.inputs])
    words = [zip(line.split(), own, strict=True) for line, own in zip(rows.inputs, tags, strict=True)]
    path.write_text("".join(
        "".join(f"{n}\t{word}\t_\t{tag}\t_\t_\t_\t_\t_\t_\n" for n, (word, tag) in enumerate(pairs, 1)) + "\n"
        for pairs in words
    ))  # fmt: skip


def _npz(path: Path, kind: str, rows: Rows) -> None:
    arrays: dict[str, Any] = {"numbers": np.arange(3)}
    if kind == "forecasting":
        arrays = {"x": np.array([rows.columns["load"], rows.columns["heat"]], np.float32).T[None]}
    if kind == "recognition":
        frames, texts = _frames(len(rows.inputs)), np.array(rows.columns["text"])
        arrays = {
            "frames": np.concatenate(frames, dtype=np.float32),
            "offsets": np.cumsum([0, *map(len, frames)]),
            "text": texts,
        }
    with path.open("wb") as file:  # a path without the ending `.npz` would get it
        np.savez(file, **arrays)


def _frames(count: int) -> list[Any]:
    """Frames of three channels, as the sample of the recognizer has them."""
    random = np.random.default_rng(3)
    return [random.standard_normal((16, 3)).round(2) for _ in range(count)]


def _sounds(folder: Path, texts: Sequence[str]) -> None:
    """Half a second of noise for each text, and the text next to it."""
    random = np.random.default_rng(4)
    folder.mkdir(exist_ok=True)
    for number, text in enumerate(texts):
        with wave.open(str(folder / f"{number}.wav"), "wb") as sound:
            sound.setparams((1, 2, 16_000, 0, "NONE", ""))
            sound.writeframes(random.integers(-8000, 8000, 8000).astype("<i2").tobytes())
        (folder / f"{number}.txt").write_text(text)


def _arrays(path: Path, *, labeled: bool) -> Path:
    edges = np.array([[n, (n + 1) % 12] for n in range(12)])
    names = np.array([f"n{n}" for n in range(12)])
    masks = {name: np.arange(12) % 3 == at for at, name in enumerate(("train_mask", "val_mask", "test_mask"))}
    classes: dict[str, Any] = (
        {"y": np.arange(12) % 2, "classes": np.array(["left", "right"]), **masks} if labeled else {}
    )
    features = np.eye(12)[:, : 3 if labeled else 12]
    np.savez(path, x=features, edges=edges, names=names, **classes)
    return path
