"""Laws of influence over every task: log p(label) − log p(label | piece hidden), recomputed by hand."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.core.observation import Influence, Observation, Prediction, Site, Surface, require_observation
from regard.core.task import find_task
from regard.core.task_table import TASKS
from regard.data.graph_lines import graph_of
from regard.data.tokenizers.tokenizer import BEGIN, UNKNOWN
from regard.errors import ConfigError
from regard.fields.node_features import without_features
from regard.fields.pieces import texts_without_pieces
from regard.tasks.hidden_nodes import HiddenNodes
from regard.tasks.influence import MAX_VARIANTS, HiddenPieces, influences
from regard.tasks.masked.influence import gap_influences, text_pieces
from regard.testing import TaskCase
from tests.laws import frames_task, images_task, sounds_task

PAIRS = ("good\tfine film\tit is\n", "bad\tdull film\ta film it is\n", "good\tfine\tdull a\n", "bad\tdull it\tfine\n")
Scores = dict[str, float]  # log-probability of each label


def changed_case(kind: str, change: Callable[[Path, dict[str, Any]], None]) -> TaskCase:
    """A task whose sample is changed."""
    task = find_task(kind)

    def sample(folder: Path) -> Any:
        tables = {name: dict(table) for name, table in task.sample(folder).items()}
        change(folder, tables)
        return tables

    return TaskCase(replace(task, sample=sample), kind)


def pairs_case(**model: Any) -> TaskCase:
    def change(folder: Path, tables: dict[str, Any]) -> None:
        (folder / "pairs.tsv").write_text("".join(PAIRS))
        corpus = {"source": str(folder / "pairs.tsv")}
        tables["data"] |= {"train": [corpus], "valid": [corpus], "text": [2, 3], "label": 1}
        tables["model"] |= model

    return changed_case("classification", change)


def longer_context(folder: Path, tables: dict[str, Any]) -> None:
    tables["data"]["context"] = 24


def plain_tagger(folder: Path, tables: dict[str, Any]) -> None:
    tables["model"] |= {"affixes": 0, "wide": False}  # an unknown word has affixes, a hidden one none


def wide(folder: Path, tables: dict[str, Any]) -> None:
    tables["data"]["context"] = 24
    tables["model"]["wide"] = True


MAKE: dict[str, Callable[[], TaskCase]] = {
    **{kind: lambda kind=kind: TaskCase(find_task(kind), kind) for kind in TASKS if kind != "translation"},  # type: ignore[misc]
    "tagging": lambda: changed_case("tagging", plain_tagger),
    "language-model": lambda: changed_case("language-model", longer_context),
    "masked": lambda: changed_case("masked", longer_context),
    "n-grams": lambda: changed_case("language-model", wide),
    "tables": lambda: changed_case("masked", wide),
    "frames": lambda: TaskCase(frames_task.TASK, "classification"),
    "sounds": lambda: TaskCase(sounds_task.TASK, "classification"),
    "images": lambda: TaskCase(images_task.TASK, "classification"),
    "pairs": lambda: pairs_case(),
    "separate pairs": lambda: pairs_case(pairs="apart"),
}


@pytest.fixture(scope="module", params=MAKE)
def case(request: pytest.FixtureRequest) -> TaskCase:
    case = MAKE[request.param]()
    assert case.predictor is not None
    return case


def inputs_of(case: TaskCase) -> list[Any]:
    predictor: Any = case.predictor
    fields = getattr(getattr(predictor, "codec", None), "fields", {})
    lines = [line for line in case.task.sample_lines if line.strip()]
    if len(getattr(fields.get("text"), "columns", ())) == 2:
        lines = ["fine a film\tdull it", "dull\tit is a film", "zzz\tfine"]
    return [predictor.read(line) for line in lines]


def observed(case: TaskCase, input: Any) -> tuple[Observation, tuple[Influence, ...]]:
    predictor: Any = case.predictor
    observation = predictor.inspect(input)
    changes = predictor.influences(input, observation)
    require_observation(observation._replace(influences=changes))
    return observation, changes


def test_every_input_has_influences(case: TaskCase) -> None:
    values = list[float]()
    for input in inputs_of(case):
        observation, changes = observed(case, input)
        predictions = range(1 if case.kind == "nodes" else len(observation.predictions))
        surfaces = range(1 if case.kind in ("forecasting", "recognition") else len(observation.surfaces))
        expected = [(number, surface) for number in predictions for surface in surfaces]
        assert [(change.prediction, change.surface) for change in changes] == expected
        assert all(change.hidden for change in changes)
        values += [value for change in changes for value in change.values]
    assert max(map(abs, values)) > 2e-4


def test_influence_is_the_change_of_the_log_probability(case: TaskCase) -> None:
    if case.kind == "forecasting":
        pytest.skip("the influence on a forecast is the change of its mean: the next test")
    if case.kind == "recognition":
        pytest.skip("ranges of frames are hidden: tests/test_recognition.py")
    compared = 0
    for input in inputs_of(case):
        observation, changes = observed(case, input)
        for change in changes:
            prediction = observation.predictions[change.prediction]
            for piece, value in enumerate(change.values):
                scores = recomputed(case, input, observation, change, piece)
                expected = 0.0 if scores is None else prediction.log_probability - scores[prediction.label]  # type: ignore[operator]
                assert value == pytest.approx(expected, abs=3e-5), (input, change, piece)
                compared += scores is not None
    assert compared > 4


def test_influence_on_a_forecast_is_the_change_of_its_mean() -> None:
    """The time step is replaced by the mean of the history."""
    case = TaskCase(find_task("forecasting"), "forecasting")
    model: Any = case.predictor
    rows = [[1.0, 2.0], [2.0, 3.0], [3.0, 2.0], [2.0, 1.0], [1.0, 2.0], [2.0, 3.0], [3.0, 0.5], [2.0, 1.0]]
    changes, scale = observed(case, rows)[1], model.codec.answer.scales.any
    names = [name for name in model([rows])[0].columns if name.count("-") == 0]
    for change in changes:
        name = names[change.prediction]
        for piece, value in enumerate(change.values):
            hidden = [np.mean(rows, 0).tolist() if number == piece else row for number, row in enumerate(rows)]
            whole, without = (np.mean(model([one])[0].columns[name]) for one in (rows, hidden))
            expected = (whole - without) / scale.deviation[change.prediction]
            assert value == pytest.approx(expected, abs=1e-4)
    assert len(changes) == 2


def test_influence_does_not_depend_on_other_inputs(case: TaskCase) -> None:
    inputs = inputs_of(case)
    forwards = [observed(case, input)[1] for input in inputs]
    assert forwards == [observed(case, input)[1] for input in inputs[::-1]][::-1]


def recomputed(case: TaskCase, input: Any, seen: Observation, change: Influence, piece: int) -> Scores | None:
    """Return the log-probabilities of the labels of a prediction without a piece; None: the piece is never hidden."""
    surface, prediction = seen.surfaces[change.surface], seen.predictions[change.prediction]
    if prediction.site.kind == "after" and piece > prediction.site.pieces[0]:
        return None
    own = {"frames": _of_frames, "audio": _of_sounds, "images": _of_images}
    recompute = own.get(getattr(case.config.data, "input", ""), RECOMPUTE.get(case.kind, _inspected))
    return recompute(case.predictor, input, seen, change, surface.pieces, piece)


def _labels(seen: Observation, number: int) -> Scores:
    return {each.label: each.log_probability for each in seen.predictions[number].alternatives}


def _inspected(model: Any, input: Any, seen: Observation, change: Influence, pieces: Any, piece: int) -> Scores | None:
    """A word of a text or a token of a sentence becomes an unknown word."""
    if pieces[piece] in ("<s>", "</s>"):
        return None
    texts = list(input)
    if seen.predictions[0].kind == "tag":
        texts[piece] = "zzz"
    else:
        number, place = change.surface, piece - 1
        if len(seen.surfaces) == 1:  # both texts are on one surface
            number = pieces[:piece].count("</s>")
            place = piece - 1 - (pieces.index("</s>") if number else 0)
        words = texts[number].split()
        texts[number] = " ".join([*words[:place], "zzz", *words[place + 1 :]])
    return _labels(model.inspect(tuple(texts)), change.prediction)


def _of_frames(model: Any, input: Any, seen: Observation, change: Influence, pieces: Any, piece: int) -> Scores:
    mean = model.codec.fields["frames"].scale[0].tolist()
    frames = [mean if place == piece else frame for place, frame in enumerate(input.frames.tolist())]
    return _labels(model.inspect(frames), change.prediction)


def _of_sounds(model: Any, input: Any, seen: Observation, change: Influence, pieces: Any, piece: int) -> Scores:
    changed = copy(input)
    changed.frames = input.frames.copy()
    changed.frames[piece] = model.codec.fields["audio"].scale[0]
    return _labels(model.inspect(changed), change.prediction)


def _of_images(model: Any, input: Any, seen: Observation, change: Influence, pieces: Any, piece: int) -> Scores:
    """The image has 3 × 3 patches of 2 × 2 pixels."""
    pixels, mean = input.pixels.copy(), model.codec.fields["images"].codec.mean
    row, column = divmod(piece, 3)
    pixels[2 * row : 2 * row + 2, 2 * column : 2 * column + 2] = np.rint(mean)
    return _labels(model.inspect(pixels), change.prediction)


def _of_items(model: Any, input: Any, seen: Observation, change: Influence, pieces: Any, piece: int) -> Scores:
    """The item is left out: the prediction after a later item is one earlier."""
    without = model.inspect([*pieces[:piece], *pieces[piece + 1 :]])
    answer, label = model.codec.answer, seen.predictions[change.prediction].label
    alternatives = _labels(without, change.prediction - 1)
    assert label in alternatives and len(answer.class_names) <= 10  # all of them are listed
    return alternatives


def _of_gaps(model: Any, input: str, seen: Observation, change: Influence, pieces: Any, piece: int) -> Scores | None:
    """The word becomes a gap."""
    if pieces[piece] == "___":
        return None
    gap = pieces[piece].replace(pieces[piece].strip(), "___")
    without = model.inspect("".join([*pieces[:piece], gap, *pieces[piece + 1 :]]))
    return _labels(without, change.prediction + (piece < seen.predictions[change.prediction].site.pieces[0]))


def _of_tokens(model: Any, input: str, seen: Observation, change: Influence, pieces: Any, piece: int) -> Scores:
    tokens = [BEGIN, *seen.surfaces[0].ids]
    tokens[piece + 1] = UNKNOWN
    whole = model._mixed(model.model)
    with torch.no_grad():
        log_p = whole.step(torch.tensor([tokens]), whole.start(1))[0][0, change.prediction]
    return dict(zip(["\n" if name == "\\n" else name for name in _texts(model)], log_p.tolist(), strict=True))


def _texts(model: Any) -> list[str]:
    return [model.tokenizer.decode([n]) or model.tokenizer.pieces([n])[0] for n in range(len(model.tokenizer))]


def _of_one_graph(model: Any, input: Any, seen: Observation, change: Influence, pieces: Any, piece: int) -> Scores:
    """A model of these weights whose graph has no features of the node; its baseline does not know the label either."""
    graph, node = model.graph, model.graph.node_numbers[pieces[piece].split("/")[0]]
    kept = graph.entries[0] != node
    parts = {name: mask & (np.arange(graph.nodes) != node) for name, mask in graph.parts.items()}
    codecs = model_codecs(model)._replace(
        graph=replace(graph, entries=graph.entries[:, kept], values=graph.values[kept], parts=parts)
    )
    output = type(model)(model.net, codecs, model.config)
    if change.hidden and seen.predictions[0].kind == "label":
        return {name: float(np.log(p)) for name, p in output([input])[0].probabilities.items()}
    return _labels(output.inspect(input), 0)


def model_codecs(model: Any) -> Any:
    from regard.tasks.graph_batch import GraphCodecs

    return GraphCodecs(model.graph, model.wide, model.answer.temperature)


def _of_a_graph(model: Any, input: Any, seen: Observation, change: Influence, pieces: Any, piece: int) -> Scores:
    ((row,),) = model._encode([(input,)]).rows
    packed = model.codec.fields["graph"].pad([row])
    hidden = packed._replace(values=packed.values.masked_fill(packed.entries[0] == piece, 0))
    features = input.features.copy()
    features[piece] = 0
    kinds = tuple("" if node == piece else kind for node, kind in enumerate(input.kinds))
    with torch.no_grad():
        logits = model.net(hidden).logits.double() * model.codec.weights.network
    logits = logits + model.codec.wide_outputs([[replace(input, features=features, kinds=kinds)]])
    return {each.label: each.log_probability for each in model.codec.answer.alternatives(logits[0])}


RECOMPUTE: dict[str, Callable[..., Scores | None]] = {
    "next-item": _of_items, "masked": _of_gaps, "language-model": _of_tokens, "nodes": _of_one_graph,
    "links": _of_one_graph, "graphs": _of_a_graph,
}  # fmt: skip


@pytest.mark.parametrize("kind", ["gat", "gcn", "gin"])
def test_a_node_out_of_reach_of_the_layers_has_influence_0(kind: str) -> None:
    def change(folder: Path, tables: dict[str, Any]) -> None:
        tables["model"] |= {"kind": kind, "wide": False, "layers": 2}

    model: Any = changed_case("links", change).predictor  # a ring of 12 nodes, some without an edge in training
    nodes = HiddenNodes(model.net.net, model.graph, [0, 1], is_local=True)
    whole, *without = nodes.outputs([None, *range(model.graph.nodes)])
    near = {0, 1}
    for _ in range(2):
        near |= {int(other) for node in near for other in model.graph.neighbors(node)}
    assert 2 < len(near) < 12
    for node, outputs in enumerate(without):
        differs = not torch.allclose(outputs, whole, rtol=0, atol=1e-6)
        assert differs == (node in near), node
    torch.testing.assert_close(whole, model._states()[[0, 1]].detach())


def test_every_node_reads_all_nodes_of_its_own_copy() -> None:
    def change(folder: Path, tables: dict[str, Any]) -> None:
        tables["model"] |= {"kind": "transformer", "wide": False, "layers": 1, "sees": "all"}

    case = changed_case("links", change)
    for input in inputs_of(case)[:1]:
        observation, (influence,) = observed(case, input)
        for piece, value in enumerate(influence.values):
            scores = recomputed(case, input, observation, influence, piece)
            prediction = observation.predictions[0]
            assert value == pytest.approx(prediction.log_probability - scores[prediction.label], abs=3e-5)  # type: ignore[index,operator]


def test_a_token_out_of_the_window_of_every_layer_has_influence_0() -> None:
    def change(folder: Path, tables: dict[str, Any]) -> None:
        encoder = {"kind": "transformer", "layers": 1, "width": 16, "heads": 2, "feed_forward": 16}
        tables["model"] = {**encoder, "affixes": 0, "wide": False, "mixer": {"kind": "dot", "neighborhood": 1}}

    _, changes = observed(changed_case("tagging", change), tuple("the dog sees a cat".split()))
    table = np.array([change.values for change in changes])
    distance = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    assert (table[distance > 1] == 0).all() and (table[distance <= 1] != 0).all()


def test_the_number_of_pieces_has_a_limit() -> None:
    pieces = [HiddenPieces(0, "left out", range(MAX_VARIANTS + 1))]
    with pytest.raises(ConfigError, match="too long") as refused:
        influences((), pieces, lambda variants: [])
    assert f"the limit is {MAX_VARIANTS}" in str(refused.value.why)


def test_both_texts_of_a_pair_without_each_word() -> None:
    """The wide part reads texts; a word that the vocabulary does not have is hidden like any other."""
    for model in ({}, {"pairs": "apart"}):
        case = pairs_case(**model)
        field, value = case.data.codecs.fields["text"], ("zzz a film", "dull it")
        (row,) = field.encode([value]).rows
        surfaces = [[variant and variant.value for variant in surface] for surface in field.hidden(value, row)]
        first = [("a film", "dull it"), ("zzz film", "dull it"), ("zzz a", "dull it")]
        second = [("zzz a film", "it"), ("zzz a film", "dull")]
        together = [[None, *first, None, *second, None]]
        assert surfaces == ([[None, *first, None], [None, *second, None]] if model else together)


def test_copies_of_a_neighborhood_are_computed_in_any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    case = TaskCase(find_task("nodes"), "nodes")
    (input, *_) = inputs_of(case)
    _, together = observed(case, input)
    monkeypatch.setattr("regard.tasks.hidden_nodes.AT_ONCE", 1)
    _, alone = observed(case, input)
    assert [each.values for each in alone] == [pytest.approx(each.values, abs=2e-5) for each in together]


def test_a_long_session_is_read_from_its_end_without_each_item() -> None:
    """Four items are read of six; without one of them, the item before them is read, too."""
    case = TaskCase(find_task("next-item"), "next-item")
    case.tables["data"]["context"] = 5
    model: Any = case.predictor
    session = "i0 i1 i2 i3 i4 i5".split()
    observation, (*_, last) = observed(case, session)
    assert observation.surfaces[0].pieces == ("i2", "i3", "i4", "i5")
    prediction = observation.predictions[-1]
    for piece, value in enumerate(last.values):
        without = model.inspect([*session[: 2 + piece], *session[3 + piece :]])
        assert len(without.surfaces[0].pieces) == 4
        scores = _labels(without, len(without.predictions) - 1)
        assert value == pytest.approx(prediction.log_probability - scores[prediction.label], abs=3e-5)


def test_a_text_without_each_piece_of_a_word() -> None:
    texts = texts_without_pieces("ab c", [5, 6, 7], lambda pieces: "|".join(map(str, pieces)))
    assert texts == ["6|7", "5|7", "5|6"]


def test_gaps_by_hand() -> None:
    """A model whose logits of a gap count the letters a and b before it; it also likes special pieces and the mask."""
    numbers, mask = {"a": 4, "b": 5, "_": 6}, 6

    def log_probabilities(rows: torch.Tensor) -> torch.Tensor:
        gaps = [(row[:place], row) for row in rows.tolist() for place, token in enumerate(row) if token == mask]
        return torch.tensor([[9.0, 9, 9, 9, before.count(4), 0.5 + before.count(5), 9] for before, _ in gaps])

    assert text_pieces("a b  _ a_ ", "_", by_character=False) == ("a", " b  ", "_", " a", "_", " ")
    assert text_pieces("ab_a", "_", by_character=True) == ("a", "b", "_", "a")
    text = "aa_ab_"
    pieces = text_pieces(text, "_", by_character=True)
    predictions = (Prediction(Site("gap", (2,)), "token", "a"), Prediction(Site("gap", (5,)), "token", "a"))
    changes = gap_influences(
        Observation((Surface("tokens", pieces),), predictions), "_", lambda text: [2, *map(numbers.get, text), 3],  # type: ignore[arg-type]
        log_probabilities, mask=mask,
    )  # fmt: skip
    assert [change.values for change in changes] == [(1, 1, 0, 0, 0, 0), (1, 1, 0, 1, 0, 0)]


def test_the_label_of_a_hidden_node_is_unknown() -> None:
    graph = graph_of({"edges": [[0, 1]], "nodes": ["C", "N"], "features": [[2], [3]]}, where=None, key=None)
    hidden = without_features(graph, 1)
    assert (hidden.kinds, hidden.features.tolist(), graph.kinds) == (("C", ""), [[2], [0]], ("C", "N"))


def test_a_text_of_letters_without_each_letter() -> None:
    def change(folder: Path, tables: dict[str, Any]) -> None:
        tables["data"]["tokenizer"] = {"kind": "character"}

    field = changed_case("classification", change).data.codecs.fields["text"]
    (row,) = field.encode([("a it",)]).rows
    (letters,) = field.hidden(("a it",), row)
    assert [letter and letter.value[0] for letter in letters] == [None, " it", "ait", "a t", "a i", None]
