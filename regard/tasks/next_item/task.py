"""Next items: predict the next item from the items of a session."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.answers.next_item import NextItem
from regard.baselines.items import ItemBaseline
from regard.core.task import Card
from regard.data.rows import Column, column_names
from regard.data.sessions import ITEMS, read_sessions
from regard.data.shared_files import FilesConfig
from regard.fields.items import Items
from regard.models.head import Head
from regard.models.input import TokenInput, embedding_matrix
from regard.models.language_model import LanguageModel
from regard.models.transformer.build import language_model
from regard.tasks.held_out_samples import validated_on
from regard.tasks.net_outputs import run_causal
from regard.tasks.next_item.config import NextItemConfig, RecommendConfig
from regard.tasks.row_inputs import forward_form
from regard.tasks.supervised import Supervised
from regard.tasks.supervised_wording import Wording


def _items(config: NextItemConfig) -> Items:
    return Items((ITEMS,), max_length=config.data.max_length, key=config.data.items)


def _answer(config: NextItemConfig) -> NextItem:
    settings: RecommendConfig = config.recommend
    return NextItem((ITEMS,), top_k=settings.top_k, new=settings.new)


def _build(config: NextItemConfig, spec: Mapping[str, int]) -> LanguageModel:
    layers, types = config.model.decoder, spec["types"]
    embedding = projection = embedding_matrix(types, layers.width, std=layers.init_std)
    if config.model.share == "none":
        projection = embedding_matrix(types, layers.width, std=layers.init_std)
        if config.wide:
            nn.init.zeros_(projection)
    bias = nn.Parameter(torch.zeros(types)) if config.model.output_bias else None
    return language_model(layers, TokenInput(embedding), Head(projection, bias))


def _read_items(config: NextItemConfig, path: Path, selected: Sequence[Column]) -> Iterator[tuple[str, str]]:
    """Yield the row name and the items of each session as a JSON list: see ``core.task.Task.row_inputs``."""
    columns = config.data.columns
    if selected:
        columns = columns._replace(items=str(selected[0]), session=None, item=None)
    if columns.time is not None and columns.time not in column_names(path):
        columns = columns._replace(time=None)
    for row in read_sessions([FilesConfig(source=path)], columns):
        yield row.where, json.dumps(row.cells[ITEMS], ensure_ascii=False)


def _lint_rows(data: Any, corpora: Sequence[FilesConfig]) -> Iterator[tuple[str, str | None, str]]:
    """Yield items and row names: see ``core.task.Task.lint_rows``."""
    for row in read_sessions(corpora, data.columns):
        yield " ".join(row.cells[ITEMS]), None, row.where


def _sample(folder: Path) -> dict[str, Any]:
    """Write walks around a ring of items, in both directions."""
    walks = [
        [f"i{(start + step * number) % 6}" for number in range(2 + start)] for start in range(6) for step in (1, 5)
    ]
    (folder / "sample.txt").write_text("".join(" ".join(walk) + "\n" for walk in walks), encoding="utf-8")
    corpus = {"source": str(folder / "sample.txt")}
    return {
        "data": {"train": [corpus], "valid": [corpus], "context": 6},
        "model": {
            "layers": 1,
            "width": 16,
            "feed_forward": 16,
            "heads": 2,
            "dropout": 0.1,
            "share": "none",
            "wide": True,
        },
        "train": {"batch_tokens": 24},
    }


def _held_out_samples(folder: Path, sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    return validated_on(sample, folder, "valid.txt", ("i0 i1 i2\n", "i5 i7 i3 i3\ni9 i4\n"))


NEXT_ITEM = Supervised(
    fields=lambda config: {"items": _items(config)},
    answer=_answer,
    answers=(NextItem,),
    rows=lambda data, corpora: read_sessions(corpora, data.columns),
    noun="session",
    wording=Wording(
        "item", "items separated by spaces, or a JSON list of items",
        "the most probable next items, and their probabilities",
    ),
    network=run_causal,
    baseline=lambda config: ItemBaseline(),
)  # fmt: skip
TASK = NEXT_ITEM.task(
    name="next-item",
    unit="items",
    build=_build,
    small_spec={"types": 8},
    sample=_sample,
    held_out_samples=_held_out_samples,
    row_inputs=_read_items,
    export_form=lambda config: forward_form(config, _read_items),
    lint_rows=_lint_rows,
    lint_unit="item",
    sample_lines=("i0 i1", "i3", '["i2", "i1"]', ""),
    card=Card("other", 'print(model(["…"])[0].items)', "recommend {run} < sessions.txt"),
)
