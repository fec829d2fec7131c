"""The document of one text: each number in it by a second way, or by hand."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import END, TokenizerConfig
from regard.errors import ConfigError
from regard.inspection.aligner import Aligner
from regard.inspection.build_document import SearchOptions, inspect_text
from regard.inspection.document_parts import words_of
from regard.tasks.translation.translator import Translator

from .models import WORDS, translator

TEXT = "a b c d"
ALL = ("ablation", "beam", "vectors")
RECURRENT: dict[str, Any] = {
    "encoder": {"kind": "recurrent"}, "decoder": {"kind": "recurrent", "order": "bahdanau"}, "heads": 1,
}  # fmt: skip
SCORES: list[dict[str, Any]] = [
    {"cross_attention": {"kind": kind}} for kind in ("dot", "general", "additive", "cosine", "tanh-dot")
] + [
    {"position": "alibi"},
    {"position": "t5"},
    {"key_heads": 2},
    {"position": "rotary"},
    RECURRENT | {"cross_attention": {"kind": "additive"}},
    RECURRENT | {"cross_attention": {"kind": "general"}},
]  # fmt: skip


def floats(found: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(found["data"]), "<f4").reshape(found["shape"])


@pytest.mark.parametrize("model", SCORES, ids=lambda model: str(model))
def test_a_weight_can_be_worked_out_from_what_the_document_says(model: dict[str, Any]) -> None:
    """softmax(scale Σ terms + bias) over what may be seen is the recorded weight, whatever the mechanism."""
    document = inspect_text(translator(**model), TEXT, SearchOptions(include=ALL)).document
    worked = 0
    for name, vectors in document["vectors"].items():
        weights = floats(document["attention"][name]["weights"])
        if vectors["kind"] == "none":
            continue
        query, key = floats(vectors["query"]), floats(vectors["key"])
        if vectors["kind"] == "product":
            terms = query[:, :, None] * key[:, None]
        else:
            terms = np.tanh(query[:, :, None] + key[:, None]) * floats(vectors["vector"])[:, None, None]
        energy = vectors["scale"] * terms.sum(-1)
        if vectors["bias"] is not None:
            energy = energy + floats(vectors["bias"])
        energy = np.where(floats(vectors["allowed"]) > 0, energy, -np.inf)
        expected = np.exp(energy - energy.max(-1, keepdims=True))
        np.testing.assert_allclose(expected / expected.sum(-1, keepdims=True), weights, atol=1e-5)
        worked += 1
    assert worked >= 1


def test_a_mechanism_of_more_than_a_query_and_a_key_says_so() -> None:
    model = translator(**RECURRENT, cross_attention={"kind": "location-aware"})
    vectors = inspect_text(model, TEXT, SearchOptions(include=["vectors"])).document["vectors"]
    assert vectors["decoder.source"]["kind"] == "none" and "LocationAware" in vectors["decoder.source"]["formula"]


def test_weights_and_log_probabilities_are_those_of_the_reference_path() -> None:
    model = translator()
    found = inspect_text(model, TEXT)
    document, best = found.document, model(TEXT).candidates[0]
    assert found.text == best.text and document["search"]["log_probability"] == pytest.approx(best.log_probability)
    wanted = model(TEXT).attention
    rows = len(document["surfaces"][1]["pieces"])
    assert set(wanted) == set(document["attention"])
    for name, weights in wanted.items():
        cut = weights if name.startswith("encoder") else weights[:, :rows]
        cut = cut[:, :, :rows] if name.startswith("decoder") and name.endswith("self") else cut
        np.testing.assert_allclose(floats(document["attention"][name]["weights"]), cut, atol=1e-6)
    scores = model.score([TEXT], [best.text])[0][:rows]
    assert [each["log_probability"] for each in document["predictions"]] == pytest.approx(scores)


def test_labels_fit_the_weights() -> None:
    document = inspect_text(translator(), TEXT).document
    source, target = (side["pieces"] for side in document["surfaces"])
    assert source == ["a", "b", "c", "d", "</s>"] and len(target) == len(document["predictions"])
    fed = ["<s>", *target[:-1]]
    axes = {("encoder", "self"): (source, source), ("decoder", "source"): (target, source),
            ("decoder", "self"): (target, fed)}  # fmt: skip
    for place, each in document["attention"].items():
        assert place == f"{each['side']}.{each['layer']}.{each['part']}" and each["mechanism"] == "dot"
        assert (each["query"]["labels"], each["key"]["labels"]) == axes[each["side"], each["part"]]
        assert each["weights"]["shape"] == [4, len(each["query"]["labels"]), len(each["key"]["labels"])]
        assert (each["allowed"] is None) == (place[:7] != "decoder" or each["part"] == "source")


def test_the_mask_of_a_decoder_is_causal() -> None:
    found = inspect_text(translator(), TEXT)
    for attention in found.observation.attention:
        allowed = attention.allowed
        assert allowed is not None and allowed.equal(
            torch.ones_like(allowed).tril() if attention.key.name.startswith("piece fed") else torch.ones_like(allowed)
        )


def test_candidates_are_the_most_probable_pieces_and_never_one_that_cannot_be() -> None:
    document = inspect_text(translator(), TEXT).document
    for place, step in enumerate(document["predictions"], start=-1):
        logs = [each["log_probability"] for each in step["alternatives"]]
        assert logs == sorted(logs, reverse=True) and not {0, 2} & {each["id"] for each in step["alternatives"]}
        assert 0 <= step["entropy"] <= np.log(len(WORDS))
        assert step["at"] == {"kind": "after", "pieces": [place], "surface": 1}
    first = document["predictions"][0]
    ids = [each["id"] for each in first["alternatives"]]
    assert first["rank"] == ids.index(document["surfaces"][1]["ids"][0])


def test_a_forced_beginning_is_said_and_the_rest_is_the_models_own() -> None:
    model = translator()
    (forced,) = WORDS.encode("h")
    document = inspect_text(
        model,
        TEXT,
        SearchOptions(
            force=(
                forced,
                forced,
            )
        ),
    ).document
    assert document["surfaces"][1]["ids"][:2] == [forced, forced] and document["search"]["forced"] == 2
    assert document["search"]["output"] == model.translate([TEXT], prefixes=["h h"])[0].text


@pytest.mark.parametrize("force", [[0], [2], [-1], [len(WORDS)], [5] * 300])
def test_pieces_that_cannot_be_forced_are_refused(force: list[int]) -> None:
    with pytest.raises(ConfigError, match="forced beginning is impossible"):
        inspect_text(translator(), TEXT, SearchOptions(force=tuple(force)))


@pytest.mark.parametrize("text", ["", "  ", " ".join("ab" * 11)])
def test_no_text_and_one_that_is_too_long_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"no text|too long"):
        inspect_text(translator(), text)


def test_a_candidate_is_looked_at_as_the_best_would_be() -> None:
    model = translator(search={"nbest": 3})
    whole = [inspect_text(model, TEXT, SearchOptions(candidate=number)).document for number in range(3)]
    searches = [each["search"] for each in whole]
    assert [each["candidate"] for each in searches] == [0, 1, 2] and len({each["output"] for each in searches}) == 3
    for number, (document, search) in enumerate(zip(whole, searches, strict=True)):
        candidate = search["candidates"][number]
        assert (search["output"], search["score"]) == (candidate["text"], candidate["score"])
        total = sum(each["log_probability"] for each in document["predictions"])
        assert total == pytest.approx(candidate["log_probability"])
    for number in (3, -1):
        with pytest.raises(ConfigError, match=r"candidate .* does not exist"):
            inspect_text(model, TEXT, SearchOptions(candidate=number))


def test_a_text_of_several_sentences_is_looked_at_one_by_one() -> None:
    model = translator()
    text = "- a b\n\nc d\r\n- e zzz é f\n"
    for number, sentence in enumerate(["a b", "c d", "e zzz é f"]):
        found = inspect_text(model, text, SearchOptions(sentence=number)).document
        assert found["sentences"] == ["a b", "c d", "e zzz é f"] and found["sentence"] == number
        assert found["text"] == sentence
        assert found["surfaces"][0]["pieces"][:-1] == model.translate([sentence])[0].pieces
        assert found["search"]["output"] == model(sentence).text
        assert found["facts"]["unknown"] == (["zzz", "é"] if number == 2 else [])
    assert inspect_text(model, text).document["sentence"] == 0
    for number in (-1, 3):
        with pytest.raises(ConfigError, match=r"sentence .*does not exist"):
            inspect_text(model, text, SearchOptions(sentence=number))


def test_switching_a_head_off_is_to_take_its_part_of_the_output_projection_away() -> None:
    model = translator()
    document = inspect_text(model, TEXT, SearchOptions(include=["ablation"])).document
    tokens = document["surfaces"][1]["ids"]
    ended = document["search"]["finished"]

    def log_p() -> float:
        source = WORDS.encode(TEXT)
        outputs = tokens[:-1] if ended else tokens
        rows = model.log_probabilities([source], [outputs])[0]
        return float(rows[range(len(tokens)), tokens].sum())

    whole = log_p()
    attention = model.model.decoder.layers[1].reader.attention  # type: ignore[union-attr, index]
    width = attention.value_width
    for head in range(4):
        saved = attention.output.weight.detach().clone()
        with torch.no_grad():
            attention.output.weight[:, head * width : (head + 1) * width] = 0
        assert document["ablation"]["decoder.1.source"][head] == pytest.approx(log_p() - whole, abs=2e-6)
        with torch.no_grad():
            attention.output.weight.copy_(saved)


@pytest.mark.parametrize("beam", [1, 3])
def test_the_tree_of_a_search_has_its_output_on_the_best_path(beam: int) -> None:
    model = translator(search={"beam": beam})
    document = inspect_text(model, TEXT, SearchOptions(include=["beam"])).document
    nodes = document["beam"]
    path = [node for node in nodes if node["best"]]
    assert [node["token"] for node in path] == document["surfaces"][1]["ids"]
    assert sum(node["log_probability"] for node in path) == pytest.approx(document["search"]["log_probability"])
    for node in nodes:
        before = nodes[node["parent"]]["total"] if node["parent"] is not None else 0.0
        assert node["total"] == pytest.approx(before + node["log_probability"])
        assert (
            (node["score"] is not None)
            == (node["state"] == "ended")
            == (node["token"] == END and node["score"] is not None)
        )
    for step in {node["step"] for node in nodes}:
        assert sum(node["state"] == "live" for node in nodes if node["step"] == step) <= beam
    ended = [node["score"] for node in nodes if node["state"] == "ended"]
    if document["search"]["finished"]:
        assert max(ended) == pytest.approx(document["search"]["score"])
    assert inspect_text(model, TEXT).text == document["search"]["output"]  # being watched changes nothing


@pytest.mark.parametrize("search", [{}, {"max_length": 3}])
def test_alignment_names_where_it_comes_from_and_reads_a_late_row(search: dict[str, int]) -> None:
    model = translator(search=search)
    late = inspect_text(model, TEXT, aligner=Aligner("decoder.1.source", 2, 1, 0.5, 10))
    best = model(TEXT).candidates[0]
    weights = model.attention(WORDS.encode(TEXT), WORDS.encode(best.text))["decoder.1.source"][2]
    for target, source, weight in late.alignment():
        row = weights[target + 1]
        assert source == int(row[:-1].argmax()) and weight == pytest.approx(float(row[source]), abs=1e-6)
    pieces = len(late.observation.surfaces[1].pieces)
    assert len(late.alignment()) == pieces - best.finished  # nothing comes after the end
    assert "50 % of 10" in late.document["alignment"]["why"]


def test_a_run_that_samples_is_looked_at_by_beam() -> None:
    """Parts that are asked for one after the other must be of one output."""
    model = translator(search={"beam": 2, "temperature": 2.0})
    texts = {inspect_text(model, TEXT).text for _ in range(5)}
    assert texts == {translator(search={"beam": 2})(TEXT).text}


def test_a_score_does_not_depend_on_what_else_is_asked_for() -> None:
    model = translator(search={"beam": 1})
    every = inspect_text(model, TEXT, SearchOptions(include=ALL)).document
    assert inspect_text(model, TEXT).document["search"] == every["search"]


@pytest.mark.parametrize("kind", ["top-k", "hard", "local-m", "local-p"])
def test_a_mechanism_over_another_score_has_heads_to_switch_off(kind: str) -> None:
    found = inspect_text(translator(cross_attention={"kind": kind}), TEXT, SearchOptions(include=ALL)).document
    assert set(found["ablation"]) == set(found["attention"])


def test_an_unknown_piece_may_be_forced_and_all_of_it_is_json() -> None:
    found = inspect_text(translator(), TEXT, SearchOptions(force=(1,))).document
    assert found["surfaces"][1]["ids"][0] == 1
    json.dumps(found, allow_nan=False)  # of eleven types, candidates that cannot be are left out


def test_a_model_without_attention_has_none() -> None:
    document = inspect_text(
        translator(encoder={"kind": "recurrent"}, decoder={"kind": "recurrent", "order": "none"}),
        TEXT,
        SearchOptions(include=ALL),
    ).document
    assert document["attention"] == {} and document["alignment"] is None and document["ablation"] == {}


@pytest.mark.parametrize(
    ("kind", "words"),
    [("bpe", ["low", "lower", "lowest", "</s>"]), ("word", ["low", "lower", "lowest", "</s>"]),
     ("character", ["low", "lower", "lowest", "</s>"]), ("byte", ["low", "lower", "lowest", "</s>"])],
)  # fmt: skip
def test_pieces_belong_to_words_whatever_the_tokenizer(kind: str, words: list[str]) -> None:
    size = {"size": 24} if kind == "bpe" else {}
    tokenizer = train_tokenizer(["low lower lowest"] * 3, TokenizerConfig.model_validate({"kind": kind} | size))
    ids = [*tokenizer.encode("low lower lowest"), END]
    numbers, spelled = words_of(tokenizer, ids)
    assert spelled == words and numbers == sorted(numbers) and len(numbers) == len(ids)


def test_it_is_written_as_json_and_as_arrays(tmp_path: Path) -> None:
    found = inspect_text(translator(), TEXT)
    found.save(tmp_path / "a.json")
    found.save(tmp_path / "a.npz")
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == json.loads(json.dumps(found.document))
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["decoder.0.source"], found.attention["decoder.0.source"])
        assert json.loads(str(arrays["document"]))["text"] == TEXT
    with pytest.raises(ConfigError, match="is unknown"):
        found.save(tmp_path / "a.txt")


def test_several_threads_may_translate_meanwhile() -> None:
    from concurrent.futures import ThreadPoolExecutor

    model: Translator = translator()
    alone = inspect_text(model, TEXT, SearchOptions(include=["ablation"])).document
    with ThreadPoolExecutor(4) as pool:
        looks = [pool.submit(inspect_text, model, TEXT, SearchOptions(include=["ablation"])) for _ in range(4)]
        texts = [pool.submit(model, TEXT) for _ in range(20)]
        assert {each.result().text for each in texts} == {alone["search"]["output"]}
        assert all(look.result().document == alone for look in looks)
