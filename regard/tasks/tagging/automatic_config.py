"""A tagger's config for a file nobody wrote a recipe for, each choice with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from regard.config.settings import TRAINING_ENDS
from regard.core.wording import counted
from regard.data.column_names import tagged_columns
from regard.data.rows import DOCUMENT_START, Column, FileHead
from regard.data.shared_files import FilesConfig
from regard.data.text_files import read_lines
from regard.runs.run_config import Confidence, Proposal
from regard.tasks.found_files import FoundCorpus, describe_columns, found_corpus, held_out_parts
from regard.tasks.tagging.data_config import TaggedDataConfig
from regard.tasks.tagging.tagged_text import read_tagged, word_and_tag

__all__ = ["choose", "confidence"]

LOOKED_AT = 20_000  # lines


def confidence(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Confidence:
    """See ``RunConfig``: for a word a line, or columns that are named as words and tags."""
    corpus = found_corpus(files)
    if corpus is None or _kind(corpus.first, corpus.head) is None:
        return Confidence.NONE
    return Confidence.NAMES if corpus.head.form in ("csv", "parquet", "json-lines") else Confidence.FORM


def choose(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
    """A tagger for a file of tagged sentences; None for any other files."""
    corpus = found_corpus(files)
    data = given.get("data", {})
    why = None if corpus is None else _kind(corpus.first, corpus.head)
    if corpus is None or why is None:
        return None
    columns = word_and_tag(corpus.first, data.get("token"), data.get("tag"))
    if corpus.head.names and corpus.head.form in ("tsv", "word-lines"):
        columns = tagged_columns(corpus.head.names, word_a_line=True) or columns
    parts, told = held_out_parts(corpus, valid, examples="sentences", hashed="their tokens", keys=_keys(columns))
    settings: dict[str, Any] = {"batch_tokens": 1024, "clip_norm": 1.0}
    if "optimizer" not in given:
        settings |= {"optimizer": "adamw", "learning_rate": 2e-3, "warmup": 100}
    if not set(TRAINING_ENDS) & given.keys():
        settings |= {"epochs": 20, "early_stopping": 5}
    model = {
        "encoder": {"kind": "recurrent", "cell": "gru"}, "layers": 1, "width": 256, "dropout": 0.4, "affixes": 20_000,
    }  # fmt: skip
    if "valid" not in parts:
        settings.pop("early_stopping", None)
    config = {
        "task": {"kind": "tagging"},
        "data": {**parts, **_named(columns), "tokenizer": {"kind": "word"}, "hidden_tokens": 0.1},
        "model": model,
        "train": settings,
    }
    reasons = [
        f"{why}: a tagger (task.kind = tagging)", told, *_described(corpus, columns),
        "words with their beginnings, ends and shapes, read by a GRU in both directions",
    ]  # fmt: skip
    return Proposal(config, reasons)


def _named(columns: tuple[Column, Column]) -> dict[str, Column]:
    """Return the keys of data for columns that have names, or are not the usual ones."""
    usual = all(isinstance(column, int) for column in columns)
    return {} if usual else dict(zip(("token", "tag"), columns, strict=True))


def _kind(path: Path, head: FileHead) -> str | None:
    """Return why a file has tagged sentences; None where it has none."""
    if head.form in ("csv", "parquet", "json-lines"):
        columns = tagged_columns(head.names)
        return None if columns is None else f"columns {columns[0]} and {columns[1]} hold words and their tags"
    if head.form == "conll-u":
        return "a .conllu has a word a line, with its tag"
    if head.form == "tsv" and head.names and tagged_columns(head.names, word_a_line=True) is None:
        return None  # the names are of texts and labels, pairs or sessions, and blank lines mean nothing
    if head.form in ("tsv", "word-lines"):
        lines = list(islice(read_lines(path), LOOKED_AT))
        words = [line for line in lines if line.strip()]
        alike = words and all(line.count("\t") == words[0].count("\t") for line in words)
        if alike and len(words) < len(lines) and (head.form == "word-lines" or "\t" in words[0]):
            return "it has a word a line, and blank lines between sentences"
    return None


def _described(corpus: FoundCorpus, columns: tuple[Column, Column]) -> list[str]:
    """Return the lines that say which columns are read, and which are not; and that lines of documents are left out."""
    head, path = corpus.head, corpus.first
    if head.names:
        names = [str(column) for column in columns]
        return describe_columns(corpus, {"word": names[:1], "tag": names[1:]})
    if head.form in ("csv", "parquet", "json-lines"):
        return []
    lines = [line for line in islice(read_lines(path), LOOKED_AT) if line.strip() and not line.startswith("#")]
    if not lines:  # comments alone, as far as this looks; training reports a file without sentences
        return []
    cells = lines[0].split("\t") if "\t" in lines[0] else lines[0].split()
    left = [str(number) for number in range(1, len(cells) + 1) if number not in columns]
    read = f"columns read: {columns[0]} (word), {columns[1]} (tag)"
    another = 5 if head.form == "conll-u" else left[-1] if left else ""  # XPOS; the named entity of CoNLL-2003
    described = [f"{read}; not read: {', '.join(left)} (--set data.tag={another} reads another)" if left else read]
    starts = sum(line.split()[0] == DOCUMENT_START for line in lines)
    if starts:
        described.append(f"{counted(starts, 'line')} of {DOCUMENT_START} divide documents and are left out")
    return described


def _keys(columns: tuple[Column, Column]) -> Callable[[FilesConfig], Iterator[str]]:
    """Return the reader of the texts that shares are taken by."""

    def keys(corpus: FilesConfig) -> Iterator[str]:
        data = TaggedDataConfig.model_validate({"train": [corpus], "token": columns[0], "tag": columns[1]})
        return ("\t".join(each.tokens) for each in read_tagged([corpus], data))

    return keys
