"""Automatic choice of a tagger's config for files, with the reason of each setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from regard.core.wording import pluralize
from regard.data.column_names import tagged_columns
from regard.data.rows import DOCUMENT_START, Column, FileHead, tokens_of
from regard.data.shared_files import FilesConfig
from regard.data.text_files import read_lines
from regard.runs.run_config import Confidence, Proposal
from regard.tasks.automatic_training import count_tokens, training_settings
from regard.tasks.detect_files import (
    DetectedCorpus,
    common_head,
    describe_columns,
    detect_corpus,
    held_out_parts,
    wide_reasons,
)
from regard.tasks.tagging.task import tagged_rows, word_and_tag

TOGETHER = 30_000  # tokens; with more, network and baseline are trained apart (UD English LinES: 95.9 %, not 95.1 %)
LINES = 20_000  # lines that are read to recognize a file


def confidence(files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Confidence:
    """See ``RunConfig``. Reads files with one word per line, or columns named as words and tags."""
    common = common_head(files)
    if common is None or _recognize(common.files[0], common.head) is None:
        return Confidence.NONE
    return Confidence.NAMES if common.head.form in ("csv", "parquet", "json-lines") else Confidence.FORM


def choose(files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal | None:
    """Return the config of a tagger for files of tagged sentences; else None."""
    corpus = detect_corpus(files)
    data = overrides.get("data", {})
    why = None if corpus is None else _recognize(corpus.first, corpus.head)
    if corpus is None or why is None:
        return None
    columns = word_and_tag(corpus.first, data.get("token"), data.get("tag"))
    if corpus.head.names and corpus.head.form in ("tsv", "word-lines"):
        columns = tagged_columns(corpus.head.names, word_a_line=True) or columns

    def keys(files: FilesConfig) -> Iterator[str]:
        return ("\t".join(tokens_of(row, "tokens")) for row in tagged_rows([files], *columns))

    parts, held_out = held_out_parts(corpus, valid, examples="sentences", hashed="their tokens", keys=keys)
    tokens = count_tokens(key.count("\t") + 1 for key in keys(FilesConfig.model_validate(parts["train"][0])))
    adamw = {"optimizer": "adamw", "learning_rate": 2e-3, "weight_decay": 0.1}
    patience = 5 if "valid" in parts else None
    settings = training_settings(overrides, tokens=tokens, epochs=10, optimizer=adamw, largest=1024, patience=patience)
    combined = tokens > TOGETHER and "valid" in parts  # where the weights are chosen
    wide = bool(overrides.get("baseline", True)) and (combined or tokens <= TOGETHER)
    model = {
        "encoder": {"kind": "recurrent", "cell": "gru"}, "layers": 2, "width": 256, "dropout": 0.5, "affixes": 20_000,
        "wide": wide, "wide_training": "apart" if combined else "together",
    }  # fmt: skip
    named = (
        {} if all(isinstance(column, int) for column in columns) else dict(zip(("token", "tag"), columns, strict=True))
    )
    config = {
        "task": {"kind": "tagging"},
        "data": {**parts, **named, "tokenizer": {"kind": "word"}, "hidden_tokens": 0.2},
        "model": model,
        "train": settings,
    }
    reasons = [
        f"{why} → tagging", held_out, *_describe(corpus, columns),
        "inputs: words with their prefixes, suffixes and shapes; network: bidirectional GRU",
        *(wide_reasons(overrides, combined=combined) if wide else ()),
    ]  # fmt: skip
    return Proposal(config, reasons)


def _recognize(path: Path, head: FileHead) -> str | None:
    """Return the reason why a file contains tagged sentences; None if it does not."""
    if head.form in ("csv", "parquet", "json-lines"):
        columns = tagged_columns(head.names)
        return None if columns is None else f"columns {columns[0]} (words) and {columns[1]} (tags)"
    if head.form == "conll-u":
        return ".conllu file with one tagged word per line"
    if head.form == "tsv" and head.names and tagged_columns(head.names, word_a_line=True) is None:
        return None  # columns of texts and labels, of pairs or of sessions; blank lines do not separate sentences
    if head.form in ("tsv", "word-lines"):
        lines = list(islice(read_lines(path), LINES))
        words = [line for line in lines if line.strip()]
        equal = words and all(line.count("\t") == words[0].count("\t") for line in words)
        if equal and len(words) < len(lines) and (head.form == "word-lines" or "\t" in words[0]):
            return "one word per line, with blank lines between sentences"
    return None


def _describe(corpus: DetectedCorpus, columns: tuple[Column, Column]) -> list[str]:
    """Return lines that list the columns that are read and those that are not, and the number of documents."""
    head, (word, tag) = corpus.head, columns
    if head.names:
        return describe_columns(corpus, {"word": [str(word)], "tag": [str(tag)]})
    if head.form in ("csv", "parquet", "json-lines"):
        return []
    lines = [line for line in islice(read_lines(corpus.first), LINES) if line.strip() and not line.startswith("#")]
    if not lines:  # only comments in the first lines; training reports a file without sentences
        return []
    cells = lines[0].split("\t") if "\t" in lines[0] else lines[0].split()
    left = [str(number) for number in range(1, len(cells) + 1) if number not in columns]
    another = 5 if head.form == "conll-u" else left[-1] if left else ""  # XPOS; the named entity of CoNLL-2003
    rest = f"; not read: {', '.join(left)} (to read another: --set data.tag={another})" if left else ""
    starts = sum(line.split()[0] == DOCUMENT_START for line in lines)
    documents = [f"{pluralize(starts, 'line')} with {DOCUMENT_START} ignored (start of a document)"] if starts else []
    return [f"columns read: {word} (word), {tag} (tag){rest}", *documents]
