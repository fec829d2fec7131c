"""Tagging: predict a tag for each token of a sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.answers.tag_sequence import TagSequence
from regard.answers.tagged_tokens import TaggedTokens
from regard.baselines.tokens import TokenBaseline
from regard.core.export_forms import EncoderForm
from regard.core.task import Card
from regard.data.column_names import WORDS, first_of, tagged_columns
from regard.data.file_names import named_files
from regard.data.rows import Column, Form, Row, column_names, form_of, read_rows, tokens_of
from regard.data.shared_files import FilesConfig, falls_into
from regard.data.text_files import read_lines
from regard.fields.tokens import Tokens
from regard.models.classifier import TokenTagger, build_tagger
from regard.tasks.held_out_samples import validated_on
from regard.tasks.supervised import Supervised

DEFAULT_COLUMNS: dict[Form, tuple[Column, Column]] = {"tsv": (1, 2), "text": (1, 2), "conll-u": (2, 4)}
COLUMNS = ("tokens", "tags")  # of the rows of this task


def word_and_tag(path: Path, token: Column | None, tag: Column | None) -> tuple[Column, Column]:
    """Return the columns of words and of tags: those of the config, or the defaults for the form of the file.

    Defaults: columns 1 and 2 of lines with one word; 2 and 4 (UPOS) of CoNLL-U; the first and the last of CoNLL-2003;
    ``tokens`` and ``tags``, or other common names, of table rows.
    """
    form = form_of(path)
    if form in DEFAULT_COLUMNS:
        columns = DEFAULT_COLUMNS[form]
        if isinstance(token, str) or isinstance(tag, str):  # the first line has names
            columns = tagged_columns(column_names(path), word_a_line=True) or columns
    elif form == "word-lines":
        width = max(len(next(iter(read_lines(path))).split()), 2)
        columns = tagged_columns(column_names(path), word_a_line=True) or (1, width)
    else:
        columns = tagged_columns(column_names(path)) or COLUMNS
    return token or columns[0], tag or columns[1]


def tagged_rows(corpora: Sequence[FilesConfig], token: Column | None, tag: Column | None) -> Iterator[Row]:
    """Yield the sentences of files in order, as rows with ``COLUMNS``; raise DataError with file and line."""
    for corpus in corpora:
        for path in named_files(corpus.source):
            columns = word_and_tag(path, token, tag)
            for row in read_rows(path, columns, lists=columns, grouped=True, part=corpus.part):
                sentence = row._replace(
                    cells={name: row.cells[key] for name, key in zip(COLUMNS, columns, strict=True)}
                )
                if falls_into("\t".join(tokens_of(sentence, "tokens")), corpus.share):
                    yield sentence


def read_tagged(corpora: Sequence[FilesConfig], data: Any) -> Iterator[TaggedTokens]:
    """Yield the sentences of files in order; raise DataError with file and line for an invalid one."""
    return map(TagSequence(COLUMNS).value, tagged_rows(corpora, data.token, data.tag))


def _read_words(config: Any, path: Path, selected: Sequence[Column]) -> Iterator[tuple[str, str]]:
    """Yield the row name and the words of each sentence as a JSON list: see ``core.task.Task.row_inputs``."""
    column = selected[0] if selected else word_and_tag(path, config.data.token, config.data.tag)[0]
    if not selected and isinstance(column, str) and form_of(path) in ("csv", "parquet", "json-lines"):
        column = first_of(column_names(path), (column, *WORDS, "text", "sentence")) or column
    for row in read_rows(path, [column], lists=[column], grouped=True):
        cell = row.cells[column]
        yield row.where, json.dumps(cell.split() if isinstance(cell, str) else cell, ensure_ascii=False)


def _lint_rows(data: Any, corpora: Sequence[FilesConfig]) -> Iterator[tuple[str, str | None, str]]:
    """Yield words, tags and row names: see ``core.task.Task.lint_rows``."""
    for row in tagged_rows(corpora, data.token, data.tag):
        tokens, tags = TagSequence(COLUMNS).value(row)
        yield " ".join(tokens), "\n".join(tags), row.where


def _build(config: Any, spec: Mapping[str, int]) -> TokenTagger:
    return build_tagger(config.model, types=spec["types"], classes=spec["classes"])


def _sample(folder: Path) -> dict[str, Any]:
    """Write short sentences in which each word determines its tag, except one word, whose neighbor determines it."""
    kinds = {"the": "DET", "a": "DET", "dog": "NOUN", "cat": "NOUN", "sees": "VERB", "hears": "VERB"}
    sentences = [
        "the dog sees a cat", "a cat hears", "the run", "cat run a dog", "a dog hears the cat", "the cat sees the run",
    ]  # fmt: skip
    lines = ""
    for sentence in sentences:
        before = ""
        for word in sentence.split():
            tag = kinds.get(word, "NOUN" if kinds.get(before) == "DET" else "VERB")
            lines, before = lines + f"{word}\t{tag}\n", word
        lines += "\n"
    (folder / "sample.tsv").write_text(lines, encoding="utf-8")
    corpus = {"source": str(folder / "sample.tsv")}
    return {
        "data": {"train": [corpus], "valid": [corpus], "hidden_tokens": 0.1},
        "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2, "affixes": 50, "wide": True},
        "train": {"batch_tokens": 16},
    }


def _held_out_samples(folder: Path, sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    contents = "the\tDET\ndog\tNOUN\n\n", "zebras\tVERB\nrun\tDET\nthe\tNOUN\n\nquickly\tVERB\n\n"
    return validated_on(sample, folder, "valid.tsv", contents)


def _tokens(config: Any) -> Tokens:
    data = config.data
    return Tokens(
        COLUMNS[:1], max_length=data.max_length, subword_features=config.model.affixes, word_dropout=data.hidden_tokens
    )


def _export_form(config: Any) -> EncoderForm:
    data, obstacles = config.data, dict[str, str]()
    if config.model.affixes:
        obstacles["it uses the affixes of words"] = "model.affixes=0"
    if config.model.wide:
        obstacles["a baseline is added to its outputs"] = "model.wide=false"
    return EncoderForm(
        head="tokens", longest=config.longest,
        obstacles=obstacles,
        texts=lambda: (text for text, _, _ in _lint_rows(data, (data.valid or data.train)[:1])),
    )  # fmt: skip


TAGGING = Supervised(
    fields=lambda config: {"text": _tokens(config)},
    answer=lambda config: TagSequence(COLUMNS, needs_spans=config.train.best_by == "entity_f1"),
    answers=(TagSequence,),
    rows=lambda data, corpora: tagged_rows(corpora, data.token, data.tag),
    noun="sentence",
    baseline=lambda config: TokenBaseline(),
)
TASK = TAGGING.task(
    name="tagging",
    unit="words",
    build=_build,
    small_spec={"types": 8, "classes": 2},
    sample=_sample,
    held_out_samples=_held_out_samples,
    row_inputs=_read_words,
    lint_rows=_lint_rows,
    export_form=_export_form,
    sample_lines=("the dog runs", "run", '["a", "cat"]', ""),
    card=Card("token-classification", 'print(model(["…"])[0].tags)', "tag {run} < in.txt"),
)
