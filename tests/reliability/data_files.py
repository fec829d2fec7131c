"""A small sample of every kind of file that data is read from, and what reads it."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import mido
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from regard.bulk.scan import blocks_of
from regard.data.documents import Cut, read_documents
from regard.data.feature_file import FeatureFile
from regard.data.graph_files import class_sizes, read_graph
from regard.data.graph_lines import read_graph_lines
from regard.data.music_files import read_pieces
from regard.data.reading import CorpusConfig, read_pairs
from regard.data.rows import column_names, read_rows
from regard.data.sessions import SessionColumns, read_sessions
from regard.data.shared_files import FilesConfig
from regard.data.stream import TextConfig, read_text_lines
from regard.data.text_files import read_lines, require_content
from regard.fields.frames import Frames
from regard.tasks.classification.data_config import LabeledDataConfig
from regard.tasks.classification.frame_input import read_examples
from regard.tasks.classification.labeled_text import read_labeled
from regard.tasks.find_config import find_config
from regard.tasks.tagging.config import TaggedDataConfig
from regard.tasks.tagging.task import read_tagged

__all__ = ["READERS", "SAMPLES"]

Read = Callable[[Path], object]

TEXT = "two men\na dog runs\n\nüber 12 hills\n" * 5
CONLLU = "# text = two men\n1\ttwo\ttwo\tNUM\t_\t_\t2\tnummod\t_\t_\n2\tmen\tman\tNOUN\t_\t_\t0\troot\t_\t_\n\n" * 5
ROWS = [{"text": f"a dog {number}", "label": "ab"[number % 2]} for number in range(12)]
GRAPHS = [{"edges": [[0, 1], [1, 2]], "features": [[1.0, 2.0], [0.5, 1], [3, 4]], "label": "ring"}] * 6


def exhausted(rows: Iterable[object]) -> int:
    """The number of rows, none of which is kept."""
    return sum(1 for _ in rows)


def of_texts(path: Path) -> None:
    require_content(path)
    exhausted(read_lines(path))
    exhausted(read_text_lines(TextConfig(source=path)))
    exhausted(blocks_of(path, 3, lambda count: None))
    exhausted(read_documents(TextConfig(source=path), Cut("auto")))


def of_pairs(path: Path) -> None:
    exhausted(read_pairs(CorpusConfig(source=path)))


def of_table(path: Path) -> None:
    names = column_names(path)
    exhausted(read_rows(path, names))
    exhausted(read_rows(path, names, lists=names))


def of_labels(path: Path) -> None:
    columns: dict[str, Any] = {} if path.name.endswith((".tsv", ".fasta")) else {"text": "text", "label": "label"}
    files = (FilesConfig(source=path),)
    exhausted(read_labeled(files, LabeledDataConfig(train=files, **columns)))


def of_tags(path: Path) -> None:
    files = (FilesConfig(source=path),)
    exhausted(read_tagged(files, TaggedDataConfig(train=files)))


def of_sessions(path: Path) -> None:
    files = (FilesConfig(source=path),)
    exhausted(read_sessions(files, SessionColumns()))


def of_graph(path: Path) -> None:
    class_sizes(path)
    edges = path.with_name("edges.tsv") if path.suffix == ".tsv" else None
    read_graph(path, edges)


def of_frames(path: Path) -> None:
    exhausted(read_examples(path, labeled=True))
    field = Frames(("frames",), max_length=9)
    exhausted(field.value(row) for row in read_examples(path, labeled=False))


def of_edges(path: Path) -> None:
    read_graph(path.with_name("nodes.tsv"), path)


def of_features(path: Path) -> None:
    FeatureFile(path).entries()
    exhausted(FeatureFile(path, by_rows=True).blocks())


def of_graph_lines(path: Path) -> None:
    exhausted(read_graph_lines((FilesConfig(source=path),), "label"))


def of_music(path: Path) -> None:
    for steps in (1, 48):
        exhausted(read_pieces(path, steps=steps))


def chosen(path: Path) -> None:
    """What the command line makes of a file that nobody wrote a config for."""
    find_config([str(path)], [], [])


def array(**arrays: Any) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[no-untyped-call]
    return content.getvalue()


def features() -> bytes:
    content = io.BytesIO()
    np.save(content, np.arange(12, dtype=np.float32).reshape(4, 3))
    return content.getvalue()


def graph() -> bytes:
    return array(
        x=np.eye(4, dtype=np.float32), edges=np.array([[0, 1], [1, 2], [3, 0]]), y=np.array([0, 1, 1, -1]),
        train_mask=np.array([True, False, True, False]), val_mask=np.array([False, True, False, False]),
        test_mask=np.zeros(4, np.bool_), names=np.array(["a", "b", "c", "d"]), classes=np.array(["x", "y"]),
    )  # fmt: skip


def sparse_graph() -> bytes:
    return array(
        x_data=np.ones(3), x_indices=np.array([0, 1, 0]), x_indptr=np.array([0, 1, 2, 3]), x_shape=np.array([3, 2]),
        edges=np.array([[0, 1], [1, 2]]), y=np.array([0, 1, 0]),
    )  # fmt: skip


def table(**columns: Any) -> bytes:
    content = io.BytesIO()
    pq.write_table(pa.table(columns), content)
    return content.getvalue()


def midi() -> bytes:
    file = mido.MidiFile(ticks_per_beat=96, type=1)
    for pitch in (60, 67):
        track = [mido.Message("note_on", note=pitch, time=at) for at in (0, 96)]
        track += [mido.Message("note_off", note=pitch, time=at) for at in (48, 96)]
        file.tracks.append(mido.MidiTrack([mido.MetaMessage("key_signature", key="F#"), *track]))
    content = io.BytesIO()
    file.save(file=content)
    return content.getvalue()


def json_lines(rows: Iterable[Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


MUSIC = json.dumps([[[60, 64], [], [67, -1]]] * 3).encode()
CSV = "text,label\n" + "".join(f'"a ""dog"", {number}",{"xy"[number % 2]}\n' for number in range(12))
CSV_LISTS = b"tokens,tags\n" + b"\"['a', 'it\\'s', 1]\",\"['X', 'Y', 'Z']\"\n" * 6
NODES, EDGES = (
    "node\tf\tlabel\tsplit\na\t1\tx\ttrain\nb\t0.5\ty\tvalid\nc\t-2\tx\ttest\n",
    "source\ttarget\na\tb\nb\tc\n",
)
# Each file, what it holds at first, and what reads it.
FILES: dict[str, tuple[bytes, list[Read]]] = {
    "text.txt": (TEXT.encode(), [of_texts, chosen]),
    "text.txt.gz": (gzip.compress(TEXT.encode(), mtime=0), [of_texts]),
    "pairs.tsv": (b"a dog\tein Hund\ntwo men\tzwei\n" * 6, [of_pairs, of_labels, chosen]),
    "pairs.jsonl": (json_lines([{"source": "a dog", "target": "ein Hund"}] * 6), [of_pairs, chosen]),
    "pairs.csv": (b"source,target\na,b\nc,d\n", [of_pairs, of_table]),
    "labels.csv": (CSV.encode(), [of_labels, of_table, chosen]),
    "labels.csv.gz": (gzip.compress(CSV.encode(), mtime=0), [of_labels]),
    "labels.jsonl": (json_lines(ROWS), [of_labels, of_texts, chosen]),
    "labels.parquet": (table(text=[row["text"] for row in ROWS], label=list("ab") * 6), [of_labels, of_table, chosen]),
    "tags.parquet": (table(tokens=[["a", "dog"]] * 8, tags=[["X", "Y"]] * 8), [of_tags, of_table]),
    "tags.conllu": (CONLLU.encode(), [of_tags, chosen]),
    "lists.csv": (CSV_LISTS, [of_table]),
    "tags.bio": (b"a X\ndog Y\n\n" * 5, [of_tags]),
    "tags.tsv": (b"a\tX\ndog\tY\n\n" * 5, [of_tags]),
    "tags.jsonl": (json_lines([{"tokens": ["a", "dog"], "tags": ["X", "Y"]}] * 5), [of_tags, chosen]),
    "dna.fasta": (b">one x\nACGTN\nAC\n>two y\nTTGA\n" * 4, [of_labels, of_texts, chosen]),
    "sessions.csv": (b"session_id,item_id\n1,a\n1,b\n2,c\n2,a\n", [of_sessions, chosen]),
    "sessions.jsonl": (json_lines([{"items": ["a", "b", "c"]}] * 5), [of_sessions, chosen]),
    "graph.npz": (graph(), [of_graph, chosen]),
    "sparse.npz": (sparse_graph(), [of_graph]),
    "frames.npz": (
        array(frames=np.arange(24.0).reshape(12, 2), offsets=np.arange(7) * 2, label=np.array([*"xyxyxy"])),
        [of_frames, chosen],
    ),
    "nodes.tsv": (NODES.encode(), [of_graph]),
    "edges.tsv": (EDGES.encode(), [of_edges]),
    "features.npy": (features(), [of_features]),
    "graphs.jsonl": (json_lines(GRAPHS), [of_graph_lines, chosen]),
    "piece.mid": (midi(), [of_music]),
    "music.json": (MUSIC, [of_music]),
    "music.json.gz": (gzip.compress(MUSIC, mtime=0), [of_music]),
}
SAMPLES = {name: content for name, (content, _) in FILES.items()}
READERS = {name: readers for name, (_, readers) in FILES.items()}
