"""Long texts in windows: rows, pooling over all windows, refusals, and the automatic choice."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention.contract import Encoded, Encoder
from regard.attention.positions.absolute import max_positions
from regard.attention.span import Span
from regard.core.field import VisitDraws
from regard.core.observation import require_observation
from regard.core.task import find_task
from regard.data.padding import padded
from regard.data.tokenizers.tokenizer import BEGIN, END, UNKNOWN
from regard.errors import ConfigError
from regard.fields.text import Text
from regard.models.classifier import SequenceClassifier, build_classifier, token_input
from regard.models.classifier_config import ClassifierModelConfig
from regard.models.windows import Windows
from regard.native.library import library
from regard.runs.config import load_config
from regard.share.encoder_format import obstacles
from regard.tasks.classification.automatic_config import choose
from regard.tasks.find_config import find_config
from regard.tasks.influence import BATCH_ROWS
from regard.testing import TaskCase
from tests.laws.declared import rows, tokenized

LETTERS = "a b c d e f g h"


def field_of(text: str, **options: Any) -> Text:
    """A field of ``LETTERS``, whose tokens are 4, 5, …, learned from them."""
    from regard.testing import FieldCase

    return FieldCase(lambda: Text((1,), **options), rows(text), tokenized("word")).field  # type: ignore[return-value]


def numbers(field: Text, text: str) -> list[int]:
    (row,) = field.encode([(text,)]).rows
    return [int(number) for number in (row if row.ndim == 1 else row[:, 0])]


def test_each_window_has_its_own_first_and_last_symbol() -> None:
    field = field_of(LETTERS, max_length=2, windows=3)
    a, b, c, d, e, f = (numbers(field, letter)[1] for letter in LETTERS.split()[:6])
    assert numbers(field, "a b c d e") == [BEGIN, a, b, END, BEGIN, c, d, END, BEGIN, e, END]
    assert numbers(field, "a b c d") == [BEGIN, a, b, END, BEGIN, c, d, END]
    assert numbers(field, "a b") == [BEGIN, a, b, END] and numbers(field, "") == [BEGIN, END]
    whole = [BEGIN, a, b, END, BEGIN, c, d, END, BEGIN, e, f, END]
    assert numbers(field, "a b c d e f") == numbers(field, LETTERS) == whole
    assert field.encode([("a b c d e f",), (LETTERS,)]).truncated == [False, True]


def test_each_word_keeps_its_affixes_in_windows() -> None:
    words = "aa bb cc zz dd"
    field, whole = (field_of("aa bb cc dd", subword_features=50, **more) for more in (
        {"max_length": 2, "windows": 3}, {"max_length": 9}
    ))  # fmt: skip
    (row,), (plain,) = field.encode([(words,)]).rows, whole.encode([(words,)]).rows
    is_word = (row[:, 0] > END) | (row[:, 0] == UNKNOWN)
    assert row[is_word].tolist() == plain[1:-1].tolist() and not row[~is_word][:, 1:].any()
    dropped = field_of("aa bb cc dd", word_dropout=0.5, max_length=2, windows=3)
    (row,) = dropped.encode([("aa bb cc dd",)]).rows
    drawn = [dropped.augment([row], VisitDraws(0, index, 1)) for index in range(40)]
    assert all((other[row <= END] == row[row <= END]).all() for other in drawn)
    assert {int(number) for other in drawn for number in other} == {*row.tolist(), UNKNOWN}


def test_what_a_long_text_costs_is_its_windows_times_a_window() -> None:
    field = Text((1,), max_length=10, windows=4)
    assert field.cost(("abc",)) == 25
    assert field.cost(("a" * 1_000,)) == 41 * 12


class Positions(Encoder):
    """State of a position: its token and its place in the sequence; it counts the sequences that it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.width = self.summary = 2
        self.read: list[tuple[int, int]] = []

    def forward(self, inputs: Tensor, span: Span) -> Encoded:
        self.read.append(tuple(inputs.shape))  # type: ignore[arg-type]
        states = torch.stack([inputs.double(), span.position.double()], -1)
        return Encoded(states, states, states[:, 0], span)


def pooled_by(pooling: str, window: int | None) -> SequenceClassifier:
    """A network whose logits are the pooled state."""
    net = SequenceClassifier(Positions(), 2, pooling=pooling, dropout=0.0, window=window).double().eval()
    with torch.no_grad():
        net.output.weight.copy_(torch.eye(2))
        net.output.bias.zero_()
        if pooling == "attention":  # the energy of a state is the hyperbolic tangent of its token
            net.key.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
            net.key.bias.zero_()
            net.query.weight.copy_(torch.tensor([[1.0, 0.0]]))
    return net


TOKENS = [[0.5, -1, 2, 0.25, 1], [1.5, 0.75], [3, 0, -2]]
PLACES = [[0, 1, 0, 1, 0], [0, 1], [0, 1, 0]]


@pytest.mark.parametrize("pooling", ["mean", "attention"])
def test_pooling_by_pencil(pooling: str) -> None:
    """Windows of two positions: weights are normalized over all of them, whatever is padded."""
    net, length = pooled_by(pooling, 2), 5
    valid = torch.arange(length) < torch.tensor([[len(row)] for row in TOKENS])
    tokens = torch.tensor([row + [9.0] * (length - len(row)) for row in TOKENS], dtype=torch.float64)
    outputs = net(tokens, Span.of(valid))
    assert net.encoder.read == [(3 + 1 + 2, 2)]  # windows that are not empty
    for number, (row, places) in enumerate(zip(TOKENS, PLACES, strict=True)):
        scores = [math.exp(math.tanh(token)) if pooling == "attention" else 1 for token in row]
        weights = [score / sum(scores) for score in scores]
        expected = [sum(w * value for w, value in zip(weights, values, strict=True)) for values in (row, places)]
        assert outputs.logits[number].tolist() == pytest.approx(expected, abs=1e-12)
        assert outputs.weights[number].tolist() == pytest.approx(weights + [0] * (length - len(row)), abs=1e-12)


def test_values_go_to_windows_and_back() -> None:
    valid = torch.tensor([[True] * 7, [True] * 3 + [False] * 4, [True] * 6 + [False]])
    windows, values = Windows(valid, 3), torch.arange(21.0).view(3, 7)
    assert windows.split(values).tolist()[:3] == [[0, 1, 2], [3, 4, 5], [6, 0, 0]] and len(windows.split(values)) == 6
    assert torch.equal(windows.join(windows.split(values))[valid], values[valid])
    assert windows.join(windows.split(values))[1].tolist() == [7, 8, 9, 0, 0, 0, 0]
    assert windows.add(torch.ones(6, 2)).tolist() == [[3, 3], [1, 1], [2, 2]]


KINDS: dict[str, dict[str, Any]] = {
    "transformer": {"heads": 2, "feed_forward": 12}, "recurrent": {}, "convolutional": {"blocks": [[8, 3, 2]]},
}  # fmt: skip


def drawn(seed: int, kind: str, pooling: str, window: int | None) -> nn.Module:
    torch.manual_seed(seed)
    side = {
        "kind": kind,
        "width": 8,
        "dropout": 0.0,
        **({} if kind == "convolutional" else {"layers": 2}),
        **KINDS[kind],
    }
    config = ClassifierModelConfig.model_validate({"encoder": side, "pooling": pooling})
    return build_classifier(config, token_input(config, 20), classes=3, window=window).eval()


@pytest.mark.parametrize("pooling", ["mean", "attention"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_text_of_one_window_has_equal_results_with_and_without_windows(kind: str, pooling: str) -> None:
    for seed in range(3):
        draw = random.Random(seed)
        size = draw.randint(4, 7)
        short = [[draw.randrange(4, 20) for _ in range(draw.randint(1, size))] for _ in range(5)]
        length = size + 1 if seed == 0 else draw.randint(size + 1, 4 * size)
        long = [draw.randrange(4, 20) for _ in range(length)]
        net, whole = drawn(seed, kind, pooling, size), drawn(seed, kind, pooling, None)
        with torch.no_grad():
            values, valid = padded(short)
            plain, read = whole(values, Span.of(valid)), net(values, Span.of(valid))
            assert torch.equal(read.logits, plain.logits) and torch.equal(read.weights, plain.weights)
            values, valid = padded([long, *short])
            together = net(values, Span.of(valid))
            torch.testing.assert_close(together.logits[1:], plain.logits, atol=1e-6, rtol=1e-5)
            alone = net(torch.tensor([long]), Span.of(torch.ones(1, len(long), dtype=torch.bool)))
            torch.testing.assert_close(together.logits[:1], alone.logits, atol=1e-6, rtol=1e-5)
            torch.testing.assert_close(together.weights[:1], alone.weights, atol=1e-6, rtol=1e-5)
            assert not torch.allclose(alone.logits, whole(values[:1], Span.of(valid[:1])).logits, atol=1e-4)


FILLERS = "the a film it is was of and to in".split()


def written(folder: Path, count: int, *, words: int = 8, seed: int = 0) -> Path:
    """Write texts of ``words`` words whose label is decided by their second last word."""
    draw, path = random.Random(seed), folder / f"{seed}.tsv"
    lines = []
    for number in range(count):
        label = ("good", "bad")[number % 2]
        word = {"good": "fine", "bad": "dull"}[label]
        lines.append(f"{' '.join(draw.choices(FILLERS, k=words - 2))} {word} {draw.choice(FILLERS)}\t{label}\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def tables_of(folder: Path, **data: Any) -> dict[str, Any]:
    train, valid = written(folder, 120), written(folder, 40, seed=1)
    return {
        "data": {"train": [{"source": str(train)}], "valid": [{"source": str(valid)}], "max_length": 3, **data},
        "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2, "pooling": "attention", "dropout": 0.0},
        "train": {"batch_tokens": 128},
    }


class Case(TaskCase):
    """A classifier of long texts with given keys of ``data``."""

    def __init__(self, folder: Path, **data: Any) -> None:
        super().__init__(find_task("classification"), "classification")
        tables = tables_of(folder, **data)
        train = {**self.tables["train"], **tables["train"], "baseline": False}
        self.tables.clear()
        self.tables.update(tables | {"task": {"kind": "classification"}, "train": train})


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    yield Case(tmp_path, long_texts="windows", max_windows=4)


def accuracy(case: Case, epochs: int = 6) -> float:
    """Train and return the accuracy on the validation data."""
    torch.manual_seed(0)
    net = case.net().float().train()
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for epoch in range(epochs):
        for examples in case.data.train.batches(epoch):
            terms, batch = case.terms(net, examples)
            optimizer.zero_grad()
            (terms.minimized / batch.weight).backward()
            optimizer.step()
    net.eval()
    sums = [case.terms(net, examples, "valid")[0].sums for examples in case.data.valid.batches(None)]  # type: ignore[union-attr]
    return case.task.compute_metrics({name: sum(part[name] for part in sums) for name in sums[0]})["accuracy"]  # type: ignore[misc]


def test_a_word_after_the_first_window_is_learned(case: Case, tmp_path: Path) -> None:
    (tmp_path / "cropped").mkdir()
    assert accuracy(case) == 1.0
    assert accuracy(Case(tmp_path / "cropped")) < 0.75  # the deciding word is not read: chance is 0.5


def test_training_reports_windows_and_truncated_texts(tmp_path: Path) -> None:
    def report(**data: Any) -> str:
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        folder.mkdir()
        return Case(folder, **data).data.train.report("text")  # type: ignore[attr-defined]

    assert report() == "120 texts, 120 of them truncated to 3 positions"
    assert report(long_texts="windows", max_windows=3) == "120 texts, 120 of them in windows"
    truncated = report(long_texts="windows", max_windows=2)
    assert truncated == "120 texts, 120 of them in windows, 120 of them truncated to 6 positions"
    assert report(long_texts="windows", max_length=8) == "120 texts"


def test_warnings_are_about_the_length_of_a_window(case: Case) -> None:
    assert case.data.longest == 5 and int(case.data.train.lengths.max()) == 14  # type: ignore[attr-defined]


def test_a_run_that_continues_another_reads_the_same_windows(case: Case, tmp_path: Path) -> None:
    import regard

    source = regard.train(case.tables | {"train": case.tables["train"] | {"steps": 1}}, tmp_path / "source")
    files = {"train": case.tables["data"]["train"]}
    config: Any = load_config({"task": "classification", "data": files, "model": {"from": str(source)}})
    assert (config.data.long_texts, config.data.max_windows, config.data.max_length) == ("windows", 4, 3)


def test_positions_of_one_window_suffice(tmp_path: Path) -> None:
    """An encoder with few learned positions, such as an imported one, reads longer texts in windows."""
    case = Case(tmp_path, long_texts="windows", max_windows=4)
    case.tables["model"]["position"] = {"kind": "learned", "longest": 5}
    assert max_positions(case.predictor.net) == 5  # type: ignore[attr-defined]
    assert len(case.predictor(["a film it is dull fine"])[0].weights) == 10


def test_a_prediction_does_not_depend_on_other_texts(case: Case) -> None:
    model = case.predictor
    texts = ["fine", "a film it is dull", "", "it is a film that was in the dull of it", *["a b"] * BATCH_ROWS]
    together, alone = model(texts), [model([text])[0] for text in texts]
    for one, other in zip(together, alone, strict=True):
        assert one.label == other.label and one.probability == pytest.approx(other.probability, abs=1e-5)
    assert [one.cut for one in together[:4]] == [False, False, False, False] and model(["a " * 13])[0].cut
    words = [label for label, _ in together[1].weights]
    assert words == ["<s>", "a", "film", "it", "</s>", "<s>", "is", "dull", "</s>"]
    assert sum(weight for _, weight in together[1].weights) == pytest.approx(1, abs=1e-6)


def test_batches_of_predictions_have_a_limit_of_windows(case: Case) -> None:
    model: Any = case.predictor
    encoded = model.codec.encode([[("a " * words,) for words in (1, 12, 3, 4) for _ in range(40)]]).rows
    batches = model._batches(encoded)
    assert sorted(number for batch in batches for number in batch) == [*range(160)]
    sizes = [sum(len(model.codec.fields["text"].windows(encoded[number][0])) for number in batch) for batch in batches]
    assert max(sizes) <= BATCH_ROWS and len(sizes) <= 6  # 40 · (1 + 4 + 1 + 2) = 320 windows


@pytest.mark.skipif(library() is None, reason="the kernels were not built")
def test_the_kernels_read_windows(case: Case) -> None:
    model: Any = case.predictor
    slow = case.task.predictor(model.net, model.codec, case.config, engine="torch")
    texts = ["a film it is dull", "fine", "it is a film that was in the dull"]
    for one, other in zip(model(texts), slow(texts), strict=True):
        assert one.probability == pytest.approx(other.probability, abs=1e-5)


def test_an_inspected_text_shows_each_window_and_the_weights_of_all(case: Case) -> None:
    model: Any = case.predictor
    observation = model.inspect("a film it is dull")
    pieces = ("<s>", "a", "film", "it", "</s>", "<s>", "is", "dull", "</s>")
    assert [surface.pieces for surface in observation.surfaces] == [pieces]
    maps = {attention.place: attention for attention in observation.attention}
    assert [*maps] == ["encoder.0.self of window 1", "encoder.0.self of window 2", "pooling"]
    assert maps["encoder.0.self of window 2"].query.labels == pieces[5:]
    assert maps["pooling"].weights.flatten().tolist() == pytest.approx(
        [weight for _, weight in model(["a film it is dull"])[0].weights], abs=1e-6
    )
    (influence,) = model.influences("a film it is dull", observation)
    require_observation(observation._replace(influences=(influence,)))
    label = observation.predictions[0].label
    whole, changed = (model([text])[0].probabilities[label] for text in ("a film it is dull", "a film it is zzz"))
    assert influence.values[7] == pytest.approx(math.log(whole / changed), abs=1e-5)
    assert influence.values[4] == influence.values[5] == 0
    with pytest.raises(ConfigError, match="too long to inspect"):
        Case(case.folder, long_texts="windows", max_windows=400).predictor.inspect("a " * 300)  # type: ignore[attr-defined]


def test_a_hidden_word_of_a_later_window_is_hidden_from_the_baseline() -> None:
    field = field_of(LETTERS, max_length=2, windows=3)
    (row,) = field.encode([("a b c d e",)]).rows
    (hidden,) = field.hidden(("a b c d e",), row)
    texts = {place: variant.value[0] for place, variant in enumerate(hidden) if variant is not None}
    assert texts == {1: "b c d e", 2: "a c d e", 5: "a b d e", 6: "a b c e", 9: "a b c d"}


CORPUS = [{"source": "a.tsv"}]


@pytest.mark.parametrize(
    ("data", "model", "told"),
    [
        ({}, {"pooling": "first"}, "the first state is of one window"),
        ({}, {"pooling": "last"}, "the last state is of one window"),
        ({"text": [1, 2], "label": 3}, {}, "windows divide a single text"),
        ({"text": [1, 2], "label": 3}, {"pairs": "apart"}, "windows divide a single text"),
        ({"input": "frames"}, {}, "it applies to the input text, and the input is frames"),
    ],
)
def test_settings_without_a_meaning_are_refused(data: dict[str, Any], model: dict[str, Any], told: str) -> None:
    tables = {"task": "classification", "data": {"train": CORPUS, "long_texts": "windows", **data}, "model": model}
    with pytest.raises(ConfigError) as caught:
        load_config(tables)
    assert told in str(caught.value) and "data.long_texts" in f"{caught.value} {caught.value.where}"
    assert load_config(tables | {"data": tables["data"] | {"long_texts": "cropped"}}) is not None  # type: ignore[operator]


def test_an_export_refuses_windows_with_the_reason() -> None:
    config = load_config({"task": "classification", "data": {"train": [], "long_texts": "windows"}})
    reason = "; ".join(obstacles(find_task("classification").export_form(config), config))  # type: ignore[misc, arg-type]
    assert "it reads long texts in windows" in reason and "data.long_texts=cropped" in reason


def test_a_config_without_the_keys_truncates() -> None:
    config: Any = load_config({"task": "classification", "data": {"train": CORPUS}})
    assert (config.data.long_texts, config.data.window, config.data.windows) == ("cropped", None, 1)
    assert "windows" not in config.summary
    windows: Any = load_config({"task": "classification", "data": {"train": CORPUS, "long_texts": "windows"}})
    assert windows.summary.endswith("up to 8 windows of 256 pieces") and windows.longest == config.longest == 258


def choice(folder: Path, words: int, **overrides: Any) -> Any:
    proposal = choose([written(folder, 60, words=words)], [], overrides)
    assert proposal is not None
    train = {key: value for key, value in overrides.items() if key not in ("data", "model")}
    set_keys = [("train", train), ("data", overrides.get("data", {})), ("model", overrides.get("model", {}))]
    settings = [f"{table}.{key}={value}" for table, keys in set_keys for key, value in keys.items()]
    return load_config(proposal.config, settings), proposal.reasons


def test_windows_are_chosen_for_long_texts(tmp_path: Path) -> None:
    config, reasons = choice(tmp_path, 300)
    assert config.data.long_texts == "windows" and config.train.batch_tokens >= 8 * 258
    assert any("100% of the texts are longer than 256 pieces" in reason for reason in reasons)
    config, reasons = choice(tmp_path, 200)
    assert config.data.long_texts == "cropped" and not any("windows" in reason for reason in reasons)
    assert config.train.batch_tokens == 512


@pytest.mark.parametrize(
    ("overrides", "windows"),
    [
        ({"data": {"long_texts": "cropped"}}, 1),
        ({"data": {"max_length": 400}}, 1),
        ({"model": {"pooling": "first"}}, 1),
        ({"batch_tokens": 600}, 2),
        ({"batch_tokens": 500}, 1),
        ({"batch_tokens": 1 << 20}, 8),
        ({"data": {"max_windows": 3}}, 3),
        ({"data": {"long_texts": "windows"}}, 8),
    ],
)
def test_the_keys_of_the_user_limit_the_choice(tmp_path: Path, overrides: dict[str, Any], windows: int) -> None:
    config, _ = choice(tmp_path, 300, **overrides)
    assert config.data.windows == windows
    assert config.train.batch_tokens >= windows * 258 or windows == 1


@pytest.mark.parametrize("key", ["max_length", "max_windows", "long_texts"])
@pytest.mark.parametrize("value", ["abc", "[1]", "-2", "-1", "0"])
def test_a_wrong_length_is_refused_with_its_key(tmp_path: Path, key: str, value: str) -> None:
    """A length of −2 has windows of no positions, and the batch of the user is divided by them."""
    path = written(tmp_path, 60, words=300)
    with pytest.raises(ConfigError, match=key):
        find_config([str(path)], [], [f"data.{key}={value}", "train.batch_tokens=512"])


def test_few_long_texts_are_truncated(tmp_path: Path) -> None:
    few, long = written(tmp_path, 57, words=9), written(tmp_path, 3, words=300, seed=5)
    (tmp_path / "mixed.tsv").write_text(few.read_text() + long.read_text(), encoding="utf-8")
    proposal = choose([tmp_path / "mixed.tsv"], [], {})
    assert proposal is not None and "long_texts" not in proposal.config["data"]


def test_json_of_a_truncated_text_has_the_mark(case: Case) -> None:
    model = case.predictor
    assert json.loads(model.write(model(["a " * 13])[0], json=True))["cut"]
    assert "cut" not in json.loads(model.write(model(["a " * 12])[0], json=True))
