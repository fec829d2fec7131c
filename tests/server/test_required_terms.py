"""Terms and what is kept: where they stand, whether an output has them, and where they come if no search gave them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.config.settings import SearchConfig
from regard.data.protected_spans import RequiredTerm, find_protected_spans, missing_terms
from regard.data.sentence_split import split_sentences
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import DataError
from regard.inference.results import Candidate, Translation
from regard.inspection.aligner import Aligner
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.search.beam import length_normalizer
from regard.server.api_error import ApiError
from regard.server.batching.translating import term_constraints, widen_beam
from regard.server.text.enforce_terms import _best_with_terms
from regard.server.text.glossary import Glossary, format_tsv, parse_entries
from regard.server.text.term_insertion import insert_terms
from regard.server.text.word_alignment import align_words, even_alignment, piece_spans
from regard.server.text.word_spans import word_spans
from regard.tasks.translation.translator import Translator

from ..inspection.models import translator
from .conftest import Running, serving
from .copying import capitals

Serve = Callable[..., Running]


@pytest.mark.parametrize(
    ("sentence", "things"),
    [
        ("Dear {name}, {{ x }} and ${HOME} or $USER.", ["{name}", "{{ x }}", "${HOME}", "$USER"]),
        ("%s has %1$d of 5% or %(count)s, 100%!", ["%s", "%1$d", "5", "%(count)s", "100"]),
        ("See https://a.example/x?y=1&z=2. Or www.b.example!", ["https://a.example/x?y=1&z=2", "www.b.example"]),
        ("Write to first.last+tag@mail.example.org.", ["first.last+tag@mail.example.org"]),
        ("On 2026-11-22 at 3:30, 1,500.20 for 3.", ["2026-11-22", "3:30", "1,500.20", "3"]),
        ("The 3rd of 20 H2O bottles, v1.2, 1.5km", ["20"]),
        ("٣ cats", ["٣"]),
        ("Nothing to keep: { }, % off, a@b.", []),
    ],
)
def test_placeholders_addresses_and_numbers_are_found(sentence: str, things: list[str]) -> None:
    found = find_protected_spans(sentence)
    assert [each.text for each in found] == things
    assert all(sentence[each.start : each.end] == each.text for each in found)


@pytest.mark.parametrize(
    ("sentence", "output", "lacking"),
    [
        ("It costs 1,500.20 now", "Es kostet jetzt 1.500,20", []),
        ("It costs 1,500 now", "Es kostet 1 500", []),
        ("It costs 1500", "Es kostet 1.500 Euro", []),
        ("3 and 3", "3 und drei", ["3"]),
        ("3 and 5", "35", ["3", "5"]),
        ("3 and 5", "5 und 3", []),
        ("on 2026-11-22", "am 22.11.2026", []),
        ("٣ cats", "3 Katzen", []),
        ("{a} {a} {b}", "{a} {b}", ["{a}"]),
        ("{name}", "{Name}", ["{name}"]),
        ("$NAME and $A", "$NAMES und $A", ["$NAME"]),
        ("a@b.example", "aa@b.example", ["a@b.example"]),
    ],
)
def test_what_an_output_lacks(sentence: str, output: str, lacking: list[str]) -> None:
    assert [each.text for each in missing_terms(find_protected_spans(sentence), output)] == lacking


def test_a_term_may_be_inflected() -> None:
    term = RequiredTerm(0, 3, "dog", "Hund")
    assert missing_terms([term], "die Hunde") == [] and missing_terms([term], "die Katze") == [term]


def test_a_term_may_begin_a_sentence() -> None:
    men = RequiredTerm(0, 7, "Two men", "zwei Herren")
    assert missing_terms([men], "Zwei Herren gehen") == [] and missing_terms([men], "da sind Zwei Herren") == [men]
    assert insert_terms("Two men go", "Zwei Männer gehen", [0, 1, 2], [men]) == "Zwei Herren gehen"


@given(text=st.text(max_size=200))
def test_whatever_the_text_is_nothing_fails_and_a_copy_lacks_nothing(text: str) -> None:
    assert missing_terms(find_protected_spans(text), text) == []
    places = word_spans(text)
    assert "".join(text[word.start : word.end] for word in places) == "".join(text.split())
    assert sum(
        end - start for start, end in piece_spans([text[word.start : word.end] for word in places], text)
    ) == len("".join(text.split()))


@pytest.mark.parametrize(
    "text", ["a", "1:", "%0", "{{ ", "$_", "www.", "a@", "a.", "9", "{", "http://,", "a@a.", "1'1 "]
)
def test_much_of_it_takes_no_long_time(text: str) -> None:
    began = time.monotonic()
    whole = text * (100_000 // len(text)) + "a"
    found = find_protected_spans(whole)
    assert len(found) <= 100
    missing_terms(found, whole)
    split_sentences(whole, "en")
    assert time.monotonic() - began < 10


def test_terms_are_whole_words_in_any_case_and_the_longest_win() -> None:
    glossary = Glossary({"ice cream": "Eis", "cream": "Sahne", "Dog": "Hündin", "C++": "C++", "  ": "x"})
    found = glossary.find_terms("ICE cream for a dog, cream for dogs; iced cream in C++.")
    assert [(each.source, each.text) for each in found] == [
        ("ICE cream", "Eis"), ("dog", "Hündin"), ("cream", "Sahne"), ("cream", "Sahne"), ("C++", "C++"),
    ]  # fmt: skip
    assert Glossary({}).find_terms("a") == []


def test_entries_are_read_and_written() -> None:
    assert parse_entries("a\tb\n\n c \t d e\n", "tsv") == {"a": "b", "c": "d e"}
    assert parse_entries('a,b\n"c, d",e\nf,g,en,de\n', "csv") == {"a": "b", "c, d": "e", "f": "g"}
    assert parse_entries(format_tsv({"a b": "c"}), "tsv") == {"a b": "c"}


@pytest.mark.parametrize(
    ("text", "format"),
    [("a", "tsv"), ("a\tb\tc", "tsv"), ("a\t", "tsv"), ("", "tsv"), ("a\tb\na\tc", "tsv"), ("a\tb\x01", "tsv"),
     ('a,"b', "csv"), ("a,b,c", "csv"), ("a\tb", "xlsx"), (f"{'a' * 2000}\tb", "tsv")],
)  # fmt: skip
def test_entries_that_are_none_are_refused(text: str, format: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_entries(text, format)
    assert caught.value.status == 400


def term(sentence: str, text: str, *, is_number: bool = False) -> RequiredTerm:
    start = sentence.index(text)
    return RequiredTerm(start, start + len(text), text, text, is_number)


@pytest.mark.parametrize(
    ("source", "output", "alignment", "text", "expected"),
    [
        ("open {x} now", "jetzt öffnen", [4, 0], "{x}", "jetzt öffnen {x}"),
        ("{x} is open", "ist offen .", [3, 4, 4], "{x}", "{x} ist offen ."),
        ("open {x}.", "öffne x.", [0, 2, 4], "{x}", "öffne {x}."),
        ("open {x}.", "öffne.", [0, 4], "{x}", "öffne {x}."),
        ("open {x}.", "öffne Name", [0, 2], "{x}", "öffne {x} Name"),
        ("{x}", "", [], "{x}", "{x}"),
        ("it is 3:30", "es ist 8", [0, 1, 2], "3:30", "es ist 3:30"),
        ("the big dog runs", "der Hund , groß , läuft", [0, 2, 2, 1, 2, 3], "dog", "der DOG , groß , läuft"),
    ],
)
def test_what_is_lost_comes_beside_the_words_of_its_neighbors(
    source: str, output: str, alignment: list[int], text: str, expected: str
) -> None:
    its = term(source, text, is_number=text[0].isdigit())
    its = its._replace(text="DOG") if text == "dog" else its  # a term
    assert insert_terms(source, output, alignment, [its]) == expected


@given(
    output=st.text(max_size=40), texts=st.lists(st.sampled_from(["{a}", "7", "www.x.y"]), max_size=4), data=st.data()
)
def test_wherever_it_comes_it_is_there(output: str, texts: list[str], data: st.DataObject) -> None:
    source = " and ".join(texts) + " end"
    count = len(word_spans(source))
    alignment = data.draw(
        st.lists(st.integers(0, count - 1), min_size=len(word_spans(output)), max_size=len(word_spans(output)))
    )
    lost = missing_terms(find_protected_spans(source), output)
    found = insert_terms(source, output, alignment, [each._replace(is_number=False) for each in lost])
    assert all(each.text in found for each in lost)


def test_links_by_place_go_from_end_to_end() -> None:
    assert even_alignment(3, 5) == [0, 0, 1, 2, 2] and even_alignment(5, 2) == [0, 4]
    assert even_alignment(0, 2) == [] and even_alignment(2, 1) == [0]


def test_constraints_go_to_the_part_in_which_they_stand_and_are_not_without_end() -> None:
    text = train_tokenizer(["a b c d e f g"], TokenizerConfig(kind="word"))
    sizes: dict[str, Any] = {"layers": 1, "width": 8, "heads": 2, "feed_forward": 8}
    built = build(ModelConfig(**sizes, dropout=0.0), source_types=len(text), target_types=len(text))
    model = Translator(built, text, text, SearchConfig(max_extra=4), max_length=3)
    parts = model.parts("a b c d e f g")
    found = term_constraints(
        model, parts, [RequiredTerm(8, 9, "e", "a b"), RequiredTerm(0, 1, "a", "unknown")], model.search
    )
    assert found == [[], [text.encode("a b")], []]
    assert term_constraints(model, parts[:1], [RequiredTerm(0, 1, "a", "a b c d e f")], model.search) == [[]]
    wide = widen_beam(SearchConfig(beam=1, temperature=1.0, top_k=3))
    assert wide.beam >= 8 and wide.temperature is None and wide.top_k is None
    assert (
        model.try_encode("b  c") == text.encode("b c")
        and model.try_encode("z") is None
        and model.try_encode(" ") is None
    )


def ask(server: Running, **fields: Any) -> dict[str, Any]:
    answer = httpx.post(f"{server.url}/v1/translate", json=fields, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()["translations"][0]


def test_a_model_that_loses_something_is_asked_again_for_it(serve: Serve) -> None:
    server = serve()
    assert "{name}" in ask(server, text="Dear {name}, you are 3.")["text"]
    assert server.copying.constrained == 1
    assert ask(server, text="Dear {name}, you are 3.", keep=False)["text"] == "DEAR {NAME}, YOU ARE 3."
    assert ask(server, text="You are 3. So are 4.")["text"] == "YOU ARE 3. SO ARE 4."
    assert server.copying.constrained == 1, "what nothing is lost of costs nothing"


def test_what_a_model_cannot_spell_is_put_in() -> None:
    def silent(line: str) -> str:
        return line.upper().replace("WWW.Я.EXAMPLE", "")

    model, copying = capitals(read=silent)
    with serving([model]) as (port, _):
        found = httpx.post(f"http://127.0.0.1:{port}/v1/translate", json={"text": "see www.я.example now"}).json()
    assert found["translations"][0]["text"] == "SEE www.я.example NOW" and copying.constrained == 0


def test_a_glossary_says_what_things_are_called(serve: Serve) -> None:
    server = serve()
    found = ask(server, text="The dog runs. A cat.", glossary={"Dog": "Hund", "bird": "Vogel"})
    assert "Hund" in found["text"] and "Vogel" not in found["text"]
    assert "Hund" in found["sentences"][0]["text"]
    for glossary in ({"a": ""}, {"": "a"}, {"a": "b\nc"}):
        answer = httpx.post(f"{server.url}/v1/translate", json={"text": "a", "glossary": glossary})
        assert answer.status_code == 400 and "term" in answer.json()["error"]
    many = {f"term {is_number}": "x" for is_number in range(6000)}
    answer = httpx.post(f"{server.url}/v1/translate", json={"text": "a", "glossary": many})
    assert answer.status_code in (400, 413)


def test_every_text_has_its_own_language() -> None:
    first, _ = capitals("first", "en", "fr")
    second, _ = capitals("second", "de", "fr")
    with serving([first, second]) as (port, _):
        texts = ["A dog runs over the meadow.", "Der Hund läuft über die Wiese.", "The cat sleeps."]
        found = httpx.post(
            f"http://127.0.0.1:{port}/v1/translate", json={"text": texts, "target": "fr"}, timeout=60
        ).json()
        assert [each["model"] for each in found["translations"]] == ["first", "second", "first"]
        assert [each["text"] for each in found["translations"]] == [text.upper() for text in texts]
        body = {"q": texts, "source": "auto", "target": "fr"}
        found = httpx.post(f"http://127.0.0.1:{port}/translate", json=body, timeout=60).json()
        assert [each["language"] for each in found["detectedLanguage"]] == ["en", "de", "en"]
        found = httpx.post(
            f"http://127.0.0.1:{port}/v2/translate", json={"text": texts, "target_lang": "FR"}, timeout=60
        ).json()
        assert [each["detected_source_language"] for each in found["translations"]] == ["EN", "DE", "EN"]


def test_pieces_and_log_probabilities_are_those_of_the_text_with_the_term_in_it(serve: Serve) -> None:
    body = {"text": "A dog runs.", "glossary": {"dog": "漢字"}}  # which this model cannot spell: it is put in
    found = httpx.post(f"{serve().url}/v1/translate", json=body).json()["translations"][0]
    (sentence,) = found["sentences"]
    assert sentence["text"] == found["text"] == "A 漢字 RUNS."
    assert "".join(sentence["pieces"]) == sentence["text"]
    assert len(sentence["log_probabilities"]) == len(sentence["pieces"])


@pytest.mark.parametrize("search", [{"beam": 1}, {"beam": 3, "length_penalty": 0.7}, {"beam": 3, "nbest": 2}])
def test_another_text_has_pieces_scores_and_attention_of_its_own(search: dict[str, Any]) -> None:
    model = translator(search={"max_length": 4} | search)
    first = model("a b c")
    found = model.with_text(first, "h g f", model.search)
    best = found.candidates[0]
    assert (best.text, best.pieces, found.pieces) == ("h g f", ["h", "g", "f"], first.pieces)
    assert best.piece_log_probabilities == pytest.approx(model.score(["a b c"], ["h g f"])[0])
    assert best.log_probability == pytest.approx(sum(best.piece_log_probabilities))
    penalty = length_normalizer(4, 0.7 if "length_penalty" in search else 0.6) if search["beam"] > 1 else 1.0
    assert best.score == pytest.approx(best.log_probability / penalty)
    assert found.attention["decoder.0.source"].shape[1] == 4, "three pieces and the end"
    again = model.with_text(first, first.text, model.search)
    if first.candidates[0].finished:
        assert again.score == pytest.approx(first.score)
    assert found.candidates[1:] == first.candidates[1:]
    unscored = model.with_text(first, "h g f", model.search, scored=False).candidates[0]
    assert (unscored.pieces, unscored.piece_log_probabilities) == (["h", "g", "f"], [])
    long = model.with_text(first, "h " * 30, model.search).candidates[0]
    assert (len(long.pieces), long.piece_log_probabilities) == (30, [])


class Judge:
    """A model that finds an output the less probable the longer it is."""

    def __init__(self) -> None:
        self.asked = 0

    def align_words(self, translation: Translation) -> list[int]:
        return even_alignment(len(word_spans(translation.source)), len(word_spans(translation.text)))

    def piece_scores(self, sources: list[str], targets: list[str]) -> list[list[float]]:
        self.asked += 1
        if any("long" in target for target in targets):
            raise DataError("too long")
        return [[-float(len(target))] for target in targets]


def test_the_best_with_terms_output_of_those_with_all_that_is_demanded_is_taken() -> None:
    def said(text: str, *, finished: bool = True) -> Translation:
        return Translation("a {x} b", [Candidate(text, 0.0, 0.0, [], [], finished)], dict)

    def better(first: Translation, second: Translation | None, until: float = math.inf) -> str:
        return _best_with_terms(judge, first, second, find_protected_spans("a {x} b"), until).text  # type: ignore[arg-type]

    judge = Judge()
    first = said("eins zwei drei")
    assert better(first, said("ein {x}")) == "ein {x}"
    assert better(first, said("eins {x}" + " drei" * 9)) == "eins {x} zwei drei"
    assert better(first, said("ein")) == "ein {x}"
    assert judge.asked == 3
    assert better(first, said("ein {x}", finished=False)) == "eins {x} zwei drei"
    assert better(first, None) == "eins {x} zwei drei"
    assert better(first, said("{x} eins zwei drei vier"), until=0.0) == "{x} eins zwei drei vier"
    assert judge.asked == 3
    assert better(first, said("{x} is long")) == "{x} is long"


def test_links_are_those_of_the_largest_weights() -> None:
    weights = torch.zeros(2, 5, 6)  # heads, target pieces and the end, source pieces and the end
    for head, row, column in ((1, 1, 3), (1, 2, 3), (1, 3, 0), (0, 1, 1)):
        weights[head, row, column] = 1.0
    best = Candidate("rot es", 0.0, 0.0, ["▁r", "ot", "▁e", "s"], [], True)
    pieces = ["▁it", "▁", "is", "▁red", "."]
    translation = Translation("it is red.", [best], lambda: {"x": weights}, pieces=pieces)
    late = Aligner("x", 1, 1, None, 0)  # a piece is aligned by the row after it
    assert align_words(translation, late) == [2, 0]
    assert align_words(translation, None) == even_alignment(4, 2) == [0, 3]
    assert align_words(translation, late._replace(head=0, shift=0)) == [0, 3], "a piece without letters is no word's"
    blank = Translation("it is", [best._replace(text="", pieces=[])], lambda: {"x": weights}, pieces=["▁it", "▁is"])
    assert align_words(blank, late) == []


def test_pieces_are_found_in_their_text() -> None:
    text = train_tokenizer(["the dogs run in the house over there"] * 9, TokenizerConfig(kind="bpe", size=40))
    line = "The dogs, ran in the house"
    places = piece_spans(text.pieces(text.encode(line)), line)
    assert len(places) == len(text.encode(line))
    assert "".join(line[place.start : place.end] for place in places).endswith("house")
    assert torch.tensor([place.start for place in places]).diff().ge(0).all()


def test_constraints_decode_each_part_once_and_spell_each_term_once() -> None:
    calls = {"decode": 0, "spelled": 0}

    class Counting:
        source: Any = None

        def decode(self, part: list[int]) -> str:
            calls["decode"] += 1
            return "a b "

        def try_encode(self, text: str) -> list[int]:
            calls["spelled"] += 1
            return [1]

    model: Any = Counting()
    model.source = model
    terms = [RequiredTerm(2 * at, 2 * at + 1, "ab"[at % 2], f"x{at % 3}") for at in range(600)]
    found = term_constraints(model, [[1, 2]] * 50, terms, SearchConfig(max_extra=40))
    assert calls == {"decode": 50, "spelled": 3}
    assert found == [[[1], [1]]] * 50
