"""Laws of what the page shows of the inside of a network, over every task: each is recomputed another way."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regard.core.observation import Traced
from regard.core.predictor_interface import interface_of
from regard.core.task_table import TASKS
from regard.errors import ConfigError, DataError
from regard.inspection.inspect_input import PARTS_OF_ALL_TASKS, inspect_input
from regard.inspection.inspector import Inspector
from regard.inspection.network_blocks import MAX_BLOCKS
from regard.runs.run_examples import choose_examples
from regard.testing import TaskCase
from tests.inspection.models import translator
from tests.laws.test_influence import changed_case, longer_context, pairs_case, wide

MUSIC = "C3 G3 E4 C5\nD3 G3 F4 B4\nE3 G3 E4 C5\n" * 6


def unchanged(folder: Path, tables: dict[str, Any]) -> None:
    pass


def deeper(folder: Path, tables: dict[str, Any]) -> None:
    tables["model"] |= {"layers": 3, "wide": False}
    tables["data"] |= {"context": 24} if "context" in tables["data"] else {}


def recurrent(folder: Path, tables: dict[str, Any]) -> None:
    tables["model"] = {"kind": "recurrent", "layers": 2, "width": 16}


def by_patch(folder: Path, tables: dict[str, Any]) -> None:
    tables["model"] |= {"decoder": {"kind": "transformer"}, "skip": "average"}
    tables["data"] |= {"horizon": 6}


def convolutions(folder: Path, tables: dict[str, Any]) -> None:
    tables["model"] |= {"kind": "gcn", "wide": False}


def music(folder: Path, tables: dict[str, Any]) -> None:
    (folder / "music.txt").write_text(MUSIC)
    texts = [{"source": str(folder / "music.txt")}]
    tables["data"] |= {"train": texts, "valid": texts, "context": 28, "tokenizer": {"kind": "notes"}}


def number(folder: Path, tables: dict[str, Any]) -> None:
    lines = [f"{place % 3}.5\t{'fine ' * (place % 3)}film\n" for place in range(9)]
    (folder / "numbers.tsv").write_text("".join(lines))
    corpus = {"source": str(folder / "numbers.tsv")}
    tables["data"] |= {"train": [corpus], "valid": [corpus], "label_kind": "number", "text": 2, "label": 1}
    tables["train"] = {**tables["train"], "best_by": "loss"}


VARIANTS: dict[str, Callable[[], TaskCase]] = {
    **{kind: lambda kind=kind: changed_case(kind, unchanged) for kind in TASKS if kind != "translation"},
    **{f"deep {kind}": lambda kind=kind: changed_case(kind, deeper)
       for kind in ("classification", "language-model", "masked", "next-item", "tagging")},
    "pairs apart": lambda: pairs_case(pairs="apart"),
    "recurrent": lambda: changed_case("tagging", recurrent),
    "convolutions": lambda: changed_case("nodes", convolutions),
    "forecasting by patch": lambda: changed_case("forecasting", by_patch),
    "masked music": lambda: changed_case("masked", music),
    "language-model music": lambda: changed_case("language-model", music),
    "wide masked": lambda: changed_case("masked", wide),
    "number": lambda: changed_case("classification", number),
    "long context": lambda: changed_case("language-model", longer_context),
}  # fmt: skip
LAYERED = [
    name for name in VARIANTS if not any(kind in name for kind in ("nodes", "links", "graphs", "recurrent", "conv"))
]


LINES = {
    "pairs apart": "dull\tfine film it",  # the rows of the batch have different lengths
    "graphs": '{"edges": [[0, 1], [1, 2], [2, 3]], "features": [[1], [2], [0], [1]]}',  # some pairs have no edge
}


@cache
def case_of(name: str) -> TaskCase:
    return VARIANTS[name]()


@cache
def document_of(name: str) -> dict[str, Any]:
    case = case_of(name)
    inspection = inspect_input(case.predictor, line_of(name), {"name": name, "task": name}, PARTS_OF_ALL_TASKS)
    json.dumps(inspection.document, allow_nan=False)
    return inspection.document


def line_of(name: str) -> str:
    case = case_of(name)
    if name in LINES:
        return LINES[name]
    return choose_examples(case.task.examples(case.config, case.data))[0]


def floats(encoded: dict[str, Any]) -> torch.Tensor:
    import base64

    return torch.from_numpy(np.frombuffer(base64.b64decode(encoded["data"]), "<f4").copy()).view(encoded["shape"])


def observed(name: str) -> tuple[Any, Any, Any]:
    predictor: Any = case_of(name).predictor
    input = predictor.read(line_of(name))
    return predictor, input, predictor.inspect(input)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_score_is_the_log_probability_of_the_label(name: str) -> None:
    predictor, input, observation = observed(name)
    assert isinstance(predictor, Traced)
    scores, predictions = predictor.scores(input, observation), observation.predictions
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in predictor.network.modules())
    if name.startswith("forecasting"):  # the mean of a series in its unit, rounded; the score is in deviations
        (window,) = predictor._accept(input)
        means = [[float(each.label.rpartition(" ")[2]) for each in predictions]]
        standardized = predictor.codec.answer.scales.of(window.series).standardize(np.array(means))
        np.testing.assert_allclose(scores, standardized[0], rtol=1e-3, atol=1e-4)
        return
    for score, prediction in zip(scores, predictions, strict=True):
        wanted = prediction.log_probability if name != "number" else float(prediction.label)
        assert score == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("name", VARIANTS)
def test_no_weight_is_where_the_mask_hides(name: str) -> None:
    for place, entry in document_of(name)["attention"].items():
        if entry["part"].partition(" ")[0] == "source":
            continue  # a decoder reads the whole source
        weights = floats(entry["weights"])
        allowed = torch.ones(weights.shape[1:]) if entry["allowed"] is None else floats(entry["allowed"])
        assert (weights.abs().amax(0)[allowed == 0] == 0).all(), place
        if place.startswith("decoder"):
            assert torch.equal(allowed, torch.ones_like(allowed).tril()), place
        if entry["part"] == "edges" and len(allowed) > 1:
            linked = {tuple(sorted(edge)) for edge in document_of(name)["surfaces"][0]["edges"]}
            own = {(node, node) for node in range(len(allowed))}
            assert {tuple(sorted(pair)) for pair in allowed.nonzero().tolist()} == linked | own
        if place != "pooling":
            assert entry["mechanism"] in ("dot", "gat", "gatv2"), place


@pytest.mark.parametrize("name", VARIANTS)
def test_the_terms_give_the_weights(name: str) -> None:
    document = document_of(name)
    products = 0
    for place, terms in document["vectors"].items():
        weights = floats(document["attention"][place]["weights"])
        query, key, value, allowed = (floats(terms[part]) for part in ("query", "key", "value", "allowed"))
        assert (len(query), query.shape[1], key.shape[1]) == weights.shape and value.shape[:2] == key.shape[:2]
        assert allowed.shape == weights.shape[1:]
        if terms["kind"] == "product":
            products += 1
            energy = terms["scale"] * torch.einsum("hqw,hkw->hqk", query, key)
            energy = energy + (0 if terms["bias"] is None else floats(terms["bias"]))
            again = energy.masked_fill(allowed == 0, -torch.inf).softmax(-1)
            torch.testing.assert_close(again, weights, atol=1e-5, rtol=1e-4)
    assert products or name in ("nodes", "links", "graphs", "recurrent", "convolutions")


@pytest.mark.parametrize("name", [name for name in LAYERED if not name.endswith("music")])
def test_a_head_without_its_columns_of_the_output_changes_the_score_as_much(name: str) -> None:
    if name in ("recognition", "forecasting by patch"):
        pytest.skip("it has two stacks, as a translation model has")
    predictor, input, observation = observed(name)
    whole = sum(predictor.scores(input, observation))
    effects = []
    for place, changes in document_of(name)["ablation"].items():
        path = observation.maps[place].source.name
        for head, change in enumerate(changes):
            network = copy.deepcopy(predictor.network)
            layer = int(path.split(".")[-2])
            (stack,) = (stack for part, stack in network.named_modules() if part.endswith("layers"))
            attention: Any = stack[layer].mixer.attention  # type: ignore[index]
            width = attention.output.weight.shape[1] // len(changes)
            with torch.no_grad():
                attention.output.weight[:, head * width : (head + 1) * width] = 0
            again = sum(predictor.with_network(network).scores(input, observation)) - whole
            assert change == pytest.approx(again, abs=1e-4)
            effects.append(abs(change))
    assert max(effects) > 1e-4


@pytest.mark.parametrize("name", ["nodes", "links", "graphs"])
def test_the_heads_of_a_graph_have_an_effect(name: str) -> None:
    for place, changes in document_of(name)["ablation"].items():
        assert len(changes) == len(floats(document_of(name)["attention"][place]["weights"]))
    assert any(change for changes in document_of(name)["ablation"].values() for change in changes)


@pytest.mark.parametrize("name", LAYERED)
def test_the_last_row_of_the_lens_is_the_prediction_and_the_first_skips_all_layers(name: str) -> None:
    if name in ("recognition", "forecasting by patch"):
        pytest.skip("the layers are those of the decoder, whose other outputs it reads: tests/test_recognition.py")
    predictor, input, observation = observed(name)
    lens = document_of(name)["lens"]
    depth = 3 if name.startswith("deep") else 1
    assert lens["layers"] == ["embedding", *(f"layer {number}" for number in range(depth))]
    assert lens["sites"] == list(range(len(observation.predictions)))
    without = copy.deepcopy(predictor.network)
    owner: Any = getattr(without, "encoder", without)
    owner.layers = nn.ModuleList([])
    rows = {-1: observation, 0: predictor.with_network(without).inspect(input)}
    for row, wanted in rows.items():
        for found, prediction in zip(lens["rows"][row], wanted.predictions, strict=True):
            if prediction.alternatives:
                best = prediction.alternatives[0]
                assert found["label"] == best.label
                assert found["log_probability"] == pytest.approx(best.log_probability, abs=1e-5)
            else:
                assert found == {"label": prediction.label, "log_probability": None}
    if name.startswith("deep"):
        assert lens["rows"][0] != lens["rows"][1] != lens["rows"][2] != lens["rows"][3]


def test_networks_without_residual_layers_have_no_lens() -> None:
    for name in ("nodes", "links", "graphs", "recurrent", "convolutions"):
        assert "lens" not in document_of(name)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_blocks_lead_from_the_input_to_the_output(name: str) -> None:
    blocks, document = document_of(name)["network"], document_of(name)
    assert 1 <= len(blocks) <= MAX_BLOCKS and len({block["name"] for block in blocks}) == len(blocks)
    for block in blocks:
        assert set(block) == {"name", "text", "shape", "attention"} and block["text"] and block["shape"]
        assert block["attention"] is None or block["attention"] in document["attention"]
    shown = {block["attention"].partition(" of ")[0] for block in blocks if block["attention"]}
    assert shown == {place.partition(" of ")[0] for place in document["attention"]} - {"pooling"}
    if name in LAYERED and "pairs" not in name:
        names = [block["name"].rpartition(".")[2] for block in blocks]
        assert names[:3] == ["embedding", "self", "feed_forward"]
        assert names[-1] in ("output", "head", "forecast_head")
        assert "1 head" not in blocks[1]["text"] and "2 heads" in blocks[1]["text"] and "norm" in blocks[1]["text"]
        tokens = floats(document["attention"][blocks[1]["attention"]]["weights"]).shape[1]
        shape = f"2 × {tokens} × 8" if name.startswith("forecasting") else f"{tokens} × 16"  # two series are two rows
        assert [block["shape"] for block in blocks[:3]] == [shape] * 3


def test_a_recurrent_encoder_is_one_block() -> None:
    assert [block["name"] for block in document_of("recurrent")["network"]] == [
        "encoder.embedding",
        "encoder",
        "output",
    ]


def test_many_blocks_are_shortened_in_the_middle() -> None:
    case = changed_case("classification", lambda folder, tables: tables["model"].update(layers=20))
    blocks = inspect_input(case.predictor, "a fine film", {"task": "classification"}).document["network"]
    assert len(blocks) == MAX_BLOCKS
    (gap,) = (block for block in blocks if block["name"] == "…")
    assert gap["text"] == f"{3 + 2 * 20 - (MAX_BLOCKS - 1)} more blocks" and blocks[-1]["name"] == "output"


@pytest.mark.parametrize("name", VARIANTS)
def test_the_rollout_is_the_product_of_the_layers(name: str) -> None:
    document = document_of(name)
    entries = {place: entry for place, entry in document["attention"].items() if entry["layer"] is not None}
    if name == "recognition":
        entries = {place: entry for place, entry in entries.items() if place.startswith("encoder")}
    layers = [floats(entry["weights"]) for entry in entries.values()]
    if name in ("nodes", "links", "recurrent", "convolutions", "pairs apart", "forecasting", "forecasting by patch"):
        assert document["rollout"] == {}
        return
    product = torch.eye(layers[0].shape[1])
    for weights in layers:
        step = weights.mean(0) / 2 + torch.eye(len(product)) / 2
        product = step / step.sum(1, keepdim=True) @ product
    side = "decoder" if "encoder" not in document["rollout"] else "encoder"
    torch.testing.assert_close(floats(document["rollout"][side]), product)
    assert ("pooling" in document["rollout"]) == ("pooling" in document["attention"])
    if "pooling" in document["attention"]:
        pooling = floats(document["attention"]["pooling"]["weights"])[0]
        torch.testing.assert_close(floats(document["rollout"]["pooling"]), pooling @ product)


def test_costly_parts_are_left_out_unless_they_are_named() -> None:
    case = case_of("classification")
    plain = inspect_input(case.predictor, "a fine film", {"task": "classification"}).document
    assert not {"ablation", "lens", "vectors"} & set(plain) and {"network", "rollout"} <= set(plain)
    one = inspect_input(case.predictor, "a fine film", {"task": "classification"}, ["lens"]).document
    assert "lens" in one and "vectors" not in one
    inspector = Inspector(case.undisturbed[0], name="one", open=lambda which: case.predictor)
    with pytest.raises(ConfigError, match="no search"):
        inspector.inspect("a fine film", include=["beam"])
    assert set(PARTS_OF_ALL_TASKS) <= set(inspector.inspect("a fine film", include=PARTS_OF_ALL_TASKS).document)


def test_a_translation_has_the_same_parts() -> None:
    config = SimpleNamespace(task=SimpleNamespace(kind="translation"), languages=(None, None))
    run: Any = SimpleNamespace(
        config=config, task=SimpleNamespace(serves=frozenset({"translate"})), is_baseline=lambda which=None: False
    )
    model = translator()
    inspector = Inspector(run, name="one", open=lambda which: model)
    inspector.__dict__.update(checkpoint="best", _aligner=None)
    document = inspector.inspect("a b c", include=PARTS_OF_ALL_TASKS).document
    json.dumps(document, allow_nan=False)
    last = document["lens"]["rows"][-1]
    for found, prediction in zip(last, document["predictions"], strict=True):
        assert found["label"] == prediction["alternatives"][0]["label"]
        assert found["log_probability"] == pytest.approx(prediction["alternatives"][0]["log_probability"], abs=1e-4)
    places = [block["attention"] for block in document["network"] if block["attention"]]
    assert {*places} == {*document["attention"]} == {*document["ablation"]} == {*document["vectors"]}
    assert all(entry["mechanism"] for entry in document["attention"].values())
    positions = len(document["predictions"]) + (not document["search"]["finished"])
    assert document["network"][-1]["shape"] == f"{positions} × {len(model.target)}"


@pytest.mark.parametrize("name", ["masked music", "language-model music"])
def test_music_has_its_frames_as_pitches(name: str) -> None:
    predictor: Any = case_of(name).predictor
    text = "C3 G3 ___ C5\n\nD3 F4\n" if "masked" in name else "C3 G3 C5\n\nD3 F4\n"
    roll = predictor.inspect(text).facts["roll"]
    assert roll["steps"] == 1 and roll["frames"][1:] == [[], [50, 65]] and len(roll["frames"]) == 3
    assert {48, 55, 72} <= set(roll["frames"][0])
    assert roll.get("given", [[48, 55, 72], [], [50, 65]]) == [[48, 55, 72], [], [50, 65]]
    assert ("given" in roll) == ("masked" in name)
    assert "roll" not in case_of("masked").predictor.inspect("a ___ cat").facts  # type: ignore[attr-defined]


def test_a_star_is_drawn_with_its_center_and_at_most_64_nodes() -> None:
    def star(folder: Path, tables: dict[str, Any]) -> None:
        rows = [
            f"n{node},{'left' if node % 2 else 'right'},{('train', 'valid')[node % 2]},{node % 3}" for node in range(99)
        ]
        (folder / "nodes.csv").write_text("\n".join(["node,label,split,a", *rows, "n99,,,1"]) + "\n")
        (folder / "edges.csv").write_text("".join(f"n0,n{node}\n" for node in range(1, 100)))
        corpus = {"source": str(folder / "nodes.csv"), "edges": str(folder / "edges.csv")}
        tables["data"] |= {"train": [corpus], "valid": [corpus]}

    predictor: Any = changed_case("nodes", star).predictor
    observation = predictor.inspect("n0")
    (surface,) = observation.surfaces
    assert surface.center == 0 and surface.pieces[0].startswith("n0") and len(surface.pieces) == 64
    assert set(surface.edges) == {(0, node) for node in range(1, 64)}
    assert len(observation.predictions) == 64 and len(predictor.scores("n0", observation)) == 64
    for attention in observation.attention:
        terms = attention.source.terms()
        assert terms.key.shape[1] == terms.allowed.shape[1] == attention.weights.shape[2] == 64 == terms.value.shape[1]
    labels = observation.facts["node_labels"]
    assert labels == [("right", "left")[node % 2] if node < 99 else "" for node in surface.ids]


def test_of_two_hubs_the_neighbors_are_drawn_in_turn() -> None:
    def hubs(folder: Path, tables: dict[str, Any]) -> None:
        (folder / "nodes.csv").write_text("node,a\n" + "".join(f"n{node},{node % 3}\n" for node in range(200)))
        (folder / "edges.csv").write_text("".join(f"n{node % 2},n{node}\n" for node in range(2, 200)))
        corpus = {"source": str(folder / "nodes.csv"), "edges": str(folder / "edges.csv")}
        tables["data"] |= {"train": [corpus], "valid": [corpus]}

    predictor: Any = changed_case("links", hubs).predictor
    (surface,) = predictor.inspect(("n0", "n1")).surfaces
    assert surface.pieces[:2] == ("n0", "n1") and len(surface.pieces) == 64
    assert all(hub == surface.ids[node] % 2 for hub, node in surface.edges)
    assert 30 <= sum(hub for hub, _ in surface.edges) <= 32


@pytest.mark.parametrize("kind", [kind for kind in TASKS if kind != "translation"])
def test_the_settings_of_a_request_change_the_output(kind: str) -> None:
    """The output is the line of ``regard predict``; of a text, the next token has the probabilities of sampling."""
    case = case_of(kind)
    predictor: Any = case.predictor
    interface, line = interface_of(predictor), line_of(kind)
    if interface.settings is None:
        pytest.skip("requests of this task have no settings")
    document = inspect_input(predictor, line, {"name": kind, "task": kind}, settings=interface.settings).document
    if kind != "language-model":
        output = interface.predict(predictor.read(line), interface.settings, lambda: False)
        assert document["output"] == predictor.write(output, json=False)
        return
    narrow = interface.settings.model_copy(update={"top_k": 2})
    chosen = inspect_input(predictor, line, {"name": kind, "task": kind}, settings=narrow).document["next"]
    best = document["next"][:2]
    share = sum(math.exp(each["log_probability"]) for each in best)
    assert [each["label"] for each in chosen] == [each["label"] for each in best]
    for one, other in zip(chosen, best, strict=True):
        assert math.exp(one["log_probability"]) == pytest.approx(math.exp(other["log_probability"]) / share)


@pytest.mark.parametrize("kind", [kind for kind in TASKS if kind not in ("graphs", "translation")])
def test_an_unknown_part_of_the_input_is_named(kind: str) -> None:
    predictor: Any = case_of(kind).predictor
    line = {"links": "n0 ✗", "nodes": "✗", "masked": "the ___ ✗"}.get(kind, "a ✗")
    try:
        document = inspect_input(predictor, line, {"name": kind, "task": kind}).document
    except (ConfigError, DataError) as error:
        assert "✗" in str(error)
    else:
        assert "✗" in document["facts"]["unknown"]


@pytest.mark.parametrize("kind", [kind for kind in TASKS if kind != "translation"])
def test_the_form_of_an_input_is_readable(kind: str) -> None:
    """The values of the fields, joined, are a line that the model reads."""
    predictor: Any = case_of(kind).predictor
    form, line = interface_of(predictor).form, line_of(kind)
    if form.kind in ("items", "nodes"):
        assert {*line.split()} & {*form.choices}
        assert len(form.boxes) == {"nodes": 1, "links": 2}.get(kind, 0)
    if form.kind == "gaps":
        assert form.boxes[0] in line
    assert (form.kind in ("json", "table")) == line.startswith("{")


def test_two_texts_have_two_boxes() -> None:
    form = interface_of(case_of("pairs apart").predictor).form
    assert form.kind == "text" and len(form.boxes) == 2
