"""Edges of tasks, fields, answers and search: changes drawn at random went unnoticed there."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from regard.answers.answer_base import NoSettings
from regard.answers.number_scale import Scale
from regard.core.task import find_task
from regard.core.task_table import TASKS
from regard.data.graph_lines import graph_of
from regard.data.graphs import Graph, edge_pairs
from regard.data.rows import Row
from regard.data.shared_files import FilesConfig
from regard.data.stream import Stream
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import ConfigError, DataError, ModelError
from regard.fields.graphs import Graphs
from regard.fields.text import Text
from regard.models.graph.build import build_graph_net
from regard.models.graph.heads import LinkNet
from regard.models.presets import PRESETS
from regard.runs.config import load_config
from regard.search.choice import Chooser, TokenChoice, choose_tokens
from regard.search.constrained import _shares
from regard.tasks.automatic_training import BATCH
from regard.tasks.classification.label_columns import _named
from regard.tasks.detect_files import _are_tagged
from regard.tasks.evaluate import evaluate
from regard.tasks.find_config import find_config
from regard.tasks.graph_batch import GraphCodecs
from regard.tasks.graph_parts import _drawn
from regard.tasks.graph_run_config import NodeSplit
from regard.tasks.language_model.automatic_config import choose
from regard.tasks.language_model.config import LanguageModelConfig
from regard.tasks.language_model.engine_trials import _tokens
from regard.tasks.language_model.observe import _alternatives
from regard.tasks.links.config import LinksConfig
from regard.tasks.links.linker import Linker
from regard.tasks.prediction import require_settings
from regard.tasks.row_inputs import named_column
from regard.tasks.split import is_own_split
from regard.tasks.translation.automatic_config import (
    LITTLE_DROPOUT,
    MIN_PAIRS,
    PASSES_WITH_LITTLE,
    SIZES,
    _dropout,
)
from regard.tasks.translation.task import WARNING, _report_unknown
from regard.testing import TaskCase


def graph(nodes: int, pairs: list[tuple[int, int]], labels: list[int] | None = None) -> Graph:
    """A graph whose nodes have one feature each, which names them."""
    edges = edge_pairs(np.array(pairs, np.int64), nodes)
    entries, classes = np.stack([np.arange(nodes)] * 2), tuple("ab") if labels else ()
    numbers = np.array(labels) if labels else np.full(nodes, -1)
    return Graph("g", nodes, nodes, edges, entries, np.ones(nodes, np.float32), numbers, classes)


# Choosing a config


def test_two_files_that_are_no_documents_are_no_language_model(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.txt", "b.txt")]
    for file in files:
        file.write_text("one line\nanother\n")
    assert not LanguageModelConfig.confidence(files, [], {})
    assert LanguageModelConfig.confidence(files[:1], [], {})


def test_lines_of_one_word_are_no_tagged_words() -> None:
    assert not _are_tagged(["a", "b"] * 4)
    assert _are_tagged(["a X", "b Y"] * 4)
    tags = [f"w T{number % 100}" for number in range(200)]
    assert _are_tagged(tags) and not _are_tagged([*tags, "w other", "w other"])


def graph_lines(path: Path, labels: list[Any]) -> Path:
    rows = [
        {"edges": [[0, 1 + number % 2]], "nodes": 3 + number, "label": label} for number, label in enumerate(labels)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_graphs_stop_early_with_held_out_graphs_alone(tmp_path: Path) -> None:
    many = find_config([graph_lines(tmp_path / "many.jsonl", ["a", "b"] * 20)], [], [], log=lambda line: None)
    assert many.data.valid and many.train.early_stopping
    row = json.dumps({"edges": [[0, 1]], "nodes": 2, "label": "a"}) + "\n"
    (tmp_path / "equal.jsonl").write_text(row * 6)
    equal = find_config([tmp_path / "equal.jsonl"], [], [], log=lambda line: None)
    assert not equal.data.valid and equal.train.early_stopping is None


def test_graphs_with_many_numbers_as_labels_predict_numbers(tmp_path: Path) -> None:
    numbers = [number / 8 for number in range(60)]
    config = find_config([graph_lines(tmp_path / "g.jsonl", numbers)], [], [], log=lambda line: None)
    assert config.data.label_kind == "number"


def test_an_empty_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text('{"text": ""}\n' * 3)
    with pytest.raises(DataError) as caught:
        choose([tmp_path / "empty.jsonl"], [], {})
    assert str(caught.value.where).startswith(str(tmp_path / "empty.jsonl"))


@pytest.mark.parametrize(("characters", "held_out"), [(1_999, False), (2_000, True)])
def test_a_text_of_two_thousand_characters_is_divided(tmp_path: Path, characters: int, held_out: bool) -> None:
    (tmp_path / "text.txt").write_text("abcd efg\n" * (characters // 9) + "x" * (characters % 9))
    config = find_config([tmp_path / "text.txt"], [], [], log=lambda line: None)
    assert bool(config.data.valid) is held_out


def test_five_folder_names_are_listed(tmp_path: Path) -> None:
    for name in "abcdef":
        (tmp_path / "texts" / name).mkdir(parents=True)
        (tmp_path / "texts" / name / "text.txt").write_text(f"some words of {name}\n" * 9)
    lines: list[str] = []
    find_config([tmp_path / "texts"], [], [], log=lines.append)
    assert any("(a, b, c, d, e …)" in line for line in lines)


@pytest.mark.parametrize(("pairs", "held_out"), [(MIN_PAIRS - 1, False), (200, True)])
def test_pairs_from_two_hundred_on_are_divided(tmp_path: Path, pairs: int, held_out: bool) -> None:
    rows = "".join(f"some words of {number}\twords {number} some of\n" for number in range(pairs))
    (tmp_path / "pairs.tsv").write_text(rows)
    config = find_config([tmp_path / "pairs.tsv"], [], ["task.kind=translation"], log=lambda line: None)
    assert bool(config.data.valid) is held_out


def test_sizes_of_translation_grow_with_the_corpus() -> None:
    """Larger corpora: larger vocabularies and networks, fewer epochs; the largest two have the paper's."""
    for smaller, larger in pairwise(SIZES):
        assert smaller.pairs < larger.pairs
        assert smaller.vocabulary <= larger.vocabulary and smaller.width <= larger.width
        assert smaller.epochs > larger.epochs
    assert all(size.width == PRESETS[size.preset]["width"] for size in SIZES)
    assert [(size.vocabulary, size.width) for size in SIZES[-2:]] == [(32_000, 512), (32_000, 1024)]


def test_from_fifteen_passes_on_dropout_is_the_presets() -> None:
    pieces = 1_000
    assert _dropout(pieces, BATCH, {"epochs": PASSES_WITH_LITTLE}) == {}
    assert _dropout(pieces, BATCH, {"epochs": PASSES_WITH_LITTLE - 1}) == {"dropout": LITTLE_DROPOUT}


def test_links_stop_after_fifty_validations_without_a_new_best(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("node,x\n" + "".join(f"n{one},{one % 3}\n" for one in range(50)))
    (tmp_path / "edges.csv").write_text(
        "source,target\n" + "".join(f"n{one},n{(one * 7 + 3) % 50}\n" for one in range(50))
    )
    config = find_config([tmp_path / "nodes.csv", tmp_path / "edges.csv"], [], [], log=lambda line: None)
    assert config.task.kind == "links"
    assert (config.train.epochs, config.train.early_stopping) == (300, 50)


def test_an_item_is_one_piece() -> None:
    data = {"train": [{"source": "a.jsonl"}], "tokenizer": {"kind": "bpe"}}
    with pytest.raises(ConfigError, match=r"data\.tokenizer\.kind"):
        load_config({"task": {"kind": "next-item"}, "data": data})


# Data of a run


@pytest.mark.parametrize("share", [(0.0, 1.0), (0.9, 1.0), (0.0, 0.1)])
def test_only_a_share_of_the_training_file_is_its_own_split(share: tuple[float, float]) -> None:
    data = SimpleNamespace(
        train=(FilesConfig(source=Path("a.tsv")),), valid=(FilesConfig(source=Path("a.tsv"), share=share),)
    )
    assert is_own_split(data) is (share != (0.0, 1.0))


@pytest.mark.parametrize(("valid", "fits"), [(4, True), (5, False)])
def test_a_split_may_take_every_node(valid: int, fits: bool) -> None:
    whole = graph(6, [(0, 1)], [0, 1, 0, 1, 0, 1])
    split = NodeSplit(per_class=1, valid=valid, test=0)
    if not fits:
        with pytest.raises(DataError, match="too few labeled nodes"):
            _drawn(whole, split)
        return
    parts = _drawn(whole, split)
    assert [int(parts[part].sum()) for part in ("train", "valid", "test")] == [2, 4, 0]


def test_the_input_of_a_file_with_one_named_column_is_that_column(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("remark\nfine\n")
    assert named_column(tmp_path / "one.csv", (), (), ("text",)) == "remark"
    (tmp_path / "one.tsv").write_text("fine\ndull\n")
    assert named_column(tmp_path / "one.tsv", (), (), ("text",)) == 1


def test_label_columns_are_named_by_number(tmp_path: Path) -> None:
    names = ["text", "mood", "topic"]
    assert _named([2, "topic", 3], names, tmp_path / "a.csv") == ["mood", "topic", "topic"]
    for wrong in (0, 4):
        with pytest.raises(DataError):
            _named([wrong], names, tmp_path / "a.csv")


def test_unknown_pieces_are_a_warning_from_the_limit_on() -> None:
    def told(share: float) -> list[str]:
        lines: list[str] = []
        part: Any = SimpleNamespace(name="train", unknown_shares={"source": share})
        _report_unknown(part, lines.append)
        return lines

    assert told(WARNING)[0].startswith("warning: ") and not told(WARNING * 0.999)[0].startswith("warning: ")


def test_windows_of_a_short_text_repeat_its_last_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stream, "open", lambda folder: SimpleNamespace(tokens=np.arange(10)))
    tokens = _tokens(tmp_path)
    assert tokens[0, :10].tolist() == list(range(10)) and set(tokens[0, 10:].tolist()) == {9}


def test_trials_of_engines_compare_the_next_tokens() -> None:
    case = TaskCase(find_task("language-model"), "language-model")
    trials = case.task.engine_trials
    assert trials is not None
    lines = trials(case.undisturbed[0], case.net(), case.data.codecs).lines()
    assert lines is not None and lines.inputs.shape == lines.targets.shape
    assert torch.equal(lines.inputs[:, 1:], lines.targets[:, :-1])


def test_every_token_of_a_small_vocabulary_is_an_alternative() -> None:
    tokenizer = train_tokenizer(["a b c"], TokenizerConfig(kind="word"))
    alternatives = _alternatives(tokenizer, torch.arange(float(len(tokenizer))))
    assert len(alternatives) == len(tokenizer) - 3 and "c" in [each.label for each in alternatives]


def test_a_report_counts_examples_and_truncated_ones() -> None:
    for kind, wanted in (("classification", "examples"), ("tagging", "tokens in ")):
        case = TaskCase(find_task(kind), kind)
        report = case.data.train.report("example", "token")  # type: ignore[attr-defined]
        assert report.startswith(f"{len(case.data.train):,} example" if kind == "classification" else "")
        assert wanted in report


def test_options_of_a_field_are_off_unless_set() -> None:
    field = Text((1,), max_length=5)
    assert (field.separate, field.other_strand, field.subword_features, field.word_dropout) == (False, False, 0, 0.0)


def test_names_of_nodes_are_written_as_they_are() -> None:
    line = Graphs((1,)).text(graph_of({"edges": [[0, 1]], "nodes": ["é", "ß"]}, where="row", key=None))
    assert "é" in line and "ß" in line


# Answers and predictions


def test_settings_of_a_prediction_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        NoSettings().anything = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("deviation", ["Infinity", "0", "-1", "NaN"])
def test_a_scale_needs_a_finite_deviation(tmp_path: Path, deviation: str) -> None:
    (tmp_path / "labels.json").write_text(f'{{"mean": 0.5, "deviation": {deviation}}}')
    with pytest.raises(ModelError):
        Scale.open(tmp_path / "labels.json")


def test_the_first_unknown_setting_is_named() -> None:
    def predictor(inputs: list[str], known: int = 1) -> list[str]:
        return inputs

    with pytest.raises(ConfigError, match="first") as caught:
        require_settings(predictor, {"known": 1, "first": 2, "second": 3})  # type: ignore[arg-type]
    assert caught.value.where == "--set first"


def test_an_input_without_a_finite_output_is_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    case = TaskCase(find_task("classification"), "classification")
    compute = type(case.predictor)._compute

    def broken(self: Any, rows: Any, **options: Any) -> Any:
        first, second, *rest = compute(self, rows, **options)
        return [first, second._replace(logits=second.logits * math.inf), *rest]

    monkeypatch.setattr(type(case.predictor), "_compute", broken)
    with pytest.raises(DataError, match="not finite") as caught:
        case.predictor(["a fine film", "dull", "it is"])
    assert caught.value.where == "input 2"


def metrics() -> Iterator[tuple[str, str, bool]]:
    for kind in TASKS:
        for name, metric in find_task(kind).metrics.items():
            yield kind, name, metric.lower_is_better


def test_errors_and_losses_are_better_low_and_shares_high() -> None:
    low = ("loss", "perplexity", "error", "rmse", "mae", "bits", "wer", "per", "ter", "nats", "temperature", "cer",
           "silence", "mse", "mase", "crps", "width")  # fmt: skip
    wrong = [
        (kind, name) for kind, name, is_low in metrics()
        if is_low != (any(part in low for part in name.split("_")))
    ]  # fmt: skip
    assert wrong == []


@pytest.mark.parametrize("name", ["unigram_loss", "unigram_accuracy", "pseudo_perplexity", "accuracy"])
def test_each_metric_of_a_masked_model_is_computed_alone(name: str, tmp_path: Path) -> None:
    case = TaskCase(find_task("masked"), "masked")
    (tmp_path / "text.txt").write_text("the cat sat on the mat\na rat sat on the hat\n")
    figures = evaluate(case.undisturbed[0].path, tmp_path / "text.txt", metrics=[name]).figures
    assert math.isfinite(figures[name])


def test_bits_per_byte_of_a_text_with_unknown_characters_are_refused(tmp_path: Path) -> None:
    case = TaskCase(find_task("language-model"), "language-model")  # its files are deleted with it
    run = case.undisturbed[0].path
    (tmp_path / "text.txt").write_text("♞" * 40)
    assert evaluate(run, tmp_path / "text.txt", metrics=["loss"]).figures["loss"] > 0
    with pytest.raises(DataError, match="bits per byte are undefined"):
        evaluate(run, tmp_path / "text.txt", metrics=["bits_per_byte"])


def test_the_loss_of_nodes_is_in_single_precision() -> None:
    task = find_task("nodes")
    config: Any = SimpleNamespace(train=SimpleNamespace(label_smoothing=0.0))
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)).bfloat16()
    batch: Any = SimpleNamespace(inputs=(), nodes=torch.arange(4), label=torch.tensor([0, 1, 2, 0]), wide=None)
    net = torch.nn.Identity()
    net.forward = lambda: logits  # type: ignore[method-assign, assignment]
    terms = task.objective(config)(net, batch, ())
    assert terms.minimized.dtype == torch.float32


def test_weights_of_a_node_sum_to_one_over_its_neighbors() -> None:
    case = TaskCase(find_task("graphs"), "graphs")
    found = case.predictor.inspect(case.predictor.read(case.task.sample_lines[0]))
    layers = [each.weights for each in found.attention if each.weights.shape[-2] > 1]
    assert layers
    for weights in layers:
        torch.testing.assert_close(torch.as_tensor(weights).sum(-1), torch.ones(weights.shape[:-1]))


def linker() -> Linker:
    config = LinksConfig.model_validate({"data": {"train": []}, "model": {"decoder": "dot", "dropout": 0.0}})
    torch.manual_seed(1)
    net = LinkNet(build_graph_net(config.model, features=6, outputs=4), 4, bilinear=False)
    return Linker(net, GraphCodecs(graph(6, [(0, 1), (1, 2), (2, 3)])), config)


def test_inspection_of_a_pair_is_about_both_nodes() -> None:
    found = linker().inspect(("0", "4"))
    assert found.predictions[0].site.pieces == (0, 1)


def test_inspection_of_a_certain_pair_has_finite_logarithms(monkeypatch: pytest.MonkeyPatch) -> None:
    found = linker()
    one = found([("0", "1")])[0]
    monkeypatch.setattr(Linker, "__call__", lambda self, names: [one._replace(probability=1.0)])
    (prediction,) = found.inspect(("0", "1")).predictions
    assert all(math.isfinite(each.log_probability) for each in prediction.alternatives)


# Search


def test_a_repeated_token_is_penalized() -> None:
    log_p = torch.log(torch.tensor([[0.05, 0.5, 0.45]]))
    for penalty, expected in ((None, 1), (2.0, 2)):
        chooser = Chooser(TokenChoice(repetition_penalty=penalty), None, [1])
        assert choose_tokens(log_p, [chooser], ()).tolist() == [expected]


@pytest.mark.parametrize(
    ("counts", "width", "shares"), [([3, 3, 3], 2, [1, 1, 0]), ([3, 3], 4, [2, 2]), ([1, 5], 4, [1, 3])]
)
def test_rows_of_a_beam_are_shared_by_banks(counts: list[int], width: int, shares: list[int]) -> None:
    assert _shares(counts, width) == shares


def test_random_rows_are_shared_whole() -> None:
    draw = random.Random(1)
    for _ in range(50):
        counts, width = [draw.randrange(4) for _ in range(draw.randrange(1, 5))], draw.randrange(1, 7)
        assert sum(_shares(counts, width)) == min(sum(counts), width)


def test_a_row_is_named_in_a_file() -> None:
    assert Row({}, Path("a.tsv"), 3).where == "a.tsv:3"
