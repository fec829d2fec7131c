"""Texts generated side by side, alone and in samples; stop strings however tokens cut them; what ends a text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.core.predictor_interface import PredictionInterrupted
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import BEGIN, END, TokenizerConfig
from regard.errors import ConfigError
from regard.inference.spelling import Spelling, StopStrings
from regard.models.language_model import LanguageModel
from regard.runs.config import load_config
from regard.tasks.language_model import text_search
from regard.tasks.language_model.config import GenerateConfig
from regard.tasks.language_model.generator import Generator
from regard.tasks.language_model.scoring import continued_windows, score_windows
from regard.tasks.language_model.task import TASK

LETTERS = train_tokenizer(["abcdefg"], TokenizerConfig(kind="character"))
BYTES = train_tokenizer([], TokenizerConfig(kind="byte"))
PROMPTS = ["ab", "", "abcdefgabcdefg", "g", "cdefgabcdef", "ab"]


def model_of(types: int, **decoder: Any) -> LanguageModel:
    torch.manual_seed(2)
    sizes = {"layers": 1, "width": 16, "heads": 2, "feed_forward": 16, "init_std": 0.3}
    config = load_config({"task": "language-model", "data": {"train": [], "context": 12}, "model": sizes | decoder})
    return TASK.build(config, {"types": types}).double().eval()  # type: ignore[return-value]


def generator_of(**decoder: Any) -> Generator:
    return Generator(model_of(11, **decoder), LETTERS, GenerateConfig(length=24), context=12)


@pytest.fixture(scope="module")
def generator() -> Generator:
    return generator_of()


# A batch is its rows one by one

MIXERS = {
    "attention": {},
    "learned": {"position": "learned"},
    "average": {"mixer": "average"},
    "ssru": {"mixer": "ssru"},
}


@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize(
    "options", [{"seed": 3}, {"greedy": True}, {"seed": 4, "no_repeat_ngram": 3, "min_p": 0.05}], ids=str
)
def test_texts_are_the_same_in_any_company(
    mixer: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts of all lengths, some longer than the context; more of them than places, so that texts leave and join."""
    generator = generator_of(**MIXERS[mixer])
    alone = [generator(prompt, length=16, **options) for prompt in PROMPTS]
    if mixer == "attention" and "seed" in options:
        assert len({each.tokens for each in alone}) > 1, "some texts end before others"
    for rows in (3, 64):
        monkeypatch.setattr(text_search, "ROWS", rows)
        together = generator(PROMPTS, length=16, **options)
        assert [each._replace(log_probability=0) for each in together] == [
            each._replace(log_probability=0) for each in alone
        ]
        torch.testing.assert_close(
            torch.tensor([each.log_probability for each in together]),
            torch.tensor([each.log_probability for each in alone]),
        )


def test_a_text_beyond_the_context_is_that_of_a_model_which_reads_the_last_half_anew(generator: Generator) -> None:
    tokens, read = [BEGIN, *LETTERS.encode("abcdefga")], 9
    window, found = list(tokens), ""
    for _ in range(24):
        log_p, _ = generator.model.step(torch.tensor([window]), generator.model.start(1))
        allowed = log_p[0, -1].clone()
        allowed[:3] = -torch.inf
        tokens.append(int(allowed.argmax()))
        if tokens[-1] == END:
            break
        found += LETTERS.decode(tokens[-1:])
        window = tokens[-6:] if read == 12 else [*window, tokens[-1]]
        read = len(window)
    assert generator("abcdefga", greedy=True).text == found


@pytest.mark.parametrize("length", [1, 11, 12, 13, 23, 24, 25])
def test_a_prompt_that_fits_the_context_is_read_whole_and_a_longer_one_from_its_last_half(
    length: int, generator: Generator
) -> None:
    """``length``: tokens with BEGIN; the context has 12."""
    tokens = [BEGIN, *LETTERS.encode("abcdefgabdcegfbadgecfbgad")][:length]
    seen = tokens if length <= 12 else tokens[-6:]
    expected, _ = generator.model.step(torch.tensor([seen]), generator.model.start(1))
    together = generator.decoding.read([tokens[:1], tokens, tokens[:3]])
    for reading, row in ((generator.decoding.read([tokens]), 0), (together, 1)):
        assert reading.lengths[row] == len(seen)
        assert reading.following is not None
        torch.testing.assert_close(reading.following[row], expected[0, -1])
    prompt = LETTERS.decode(tokens[1:])
    for found in generator.samples(prompt, 4, seed=2, length=2):
        if found.finish_reason == "length":
            assert -generator.score(found.text, prompt=prompt).nll == pytest.approx(found.log_probability)
    assert next(continued_windows(length, length + 1, 12))[0] == length - len(seen)


def test_prompts_are_read_together_where_the_memory_can_forget_padding() -> None:
    rows: list[int] = []

    class Counting:
        def __init__(self, model: LanguageModel) -> None:
            self.model = model

        def start(self, count: int) -> Any:
            return self.model.start(count)

        def step(self, tokens: Tensor, state: Any) -> Any:
            rows.append(len(tokens))
            return self.model.step(tokens, state)

    for mixer, reads in (("attention", [4]), ("ssru", [4, 1, 1, 1, 1])):
        generator = generator_of(**MIXERS[mixer])
        generator.decoding.model = Counting(generator.model)
        generator(["abcd", "abcde", "abcdef", "abc"], seed=1, length=1)
        assert rows == reads
        rows.clear()


def test_long_prompts_are_not_read_all_at_once(generator: Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = generator(PROMPTS, seed=1)
    monkeypatch.setattr(generator.decoding, "_at_once", 20)
    assert [each.text for each in generator(PROMPTS, seed=1)] == [each.text for each in wanted]


# Samples and seeds


def test_a_sample_is_a_function_of_prompt_seed_and_number(generator: Generator) -> None:
    five = generator.samples("ab", 5, seed=7)
    assert [each.sample for each in five] == [0, 1, 2, 3, 4] and len({each.text for each in five}) == 5
    assert [each.text for each in generator.samples("ab", 2, seed=7)] == [each.text for each in five[:2]]
    assert generator("ab", seed=7).text == five[0].text
    both = list(generator.generate(["g", "ab"], generator.settings, samples=5, seed=7))
    assert [each.text for each in both[5:]] == [each.text for each in five]
    assert [(each.prompt, each.sample) for each in both[:2]] == [("g", 0), ("g", 1)]
    assert generator.samples("ab", 2, seed=8)[0] != five[0]


def test_texts_of_two_prompts_do_not_share_their_random_numbers(generator: Generator) -> None:
    """At a temperature beyond all numbers every model draws evenly: equal numbers would spell equal texts."""
    one, other = generator(["ab", "cd"], seed=1, temperature=1e30)
    assert one.text != other.text


def test_without_a_seed_texts_differ(generator: Generator) -> None:
    assert generator("ab").text != generator("ab").text


def test_pieces_of_samples_come_in_turn_and_are_their_texts(generator: Generator) -> None:
    texts, ends, order = ["", "", ""], {}, []
    for piece in generator.stream_samples("ab", 3, generator.settings, seed=7):
        assert piece.number not in ends
        order.append(piece.number)
        texts[piece.number] += piece.text
        if piece.finish_reason is not None:
            ends[piece.number] = piece
    assert order[:6] == [0, 1, 2, 0, 1, 2]
    for found, text, number in zip(generator.samples("ab", 3, seed=7), texts, range(3), strict=True):
        assert (found.text, found.finish_reason, found.tokens) == (
            text,
            ends[number].finish_reason,
            ends[number].tokens,
        )
        assert found.log_probability == ends[number].log_probability


@pytest.mark.parametrize("count", [0, -1, True, 1.5, "3"])
def test_what_is_no_number_of_samples_is_refused(generator: Generator, count: Any) -> None:
    with pytest.raises(ConfigError, match="invalid samples"):
        generator.samples("ab", count)


# Distributions


def test_draws_follow_the_model(generator: Generator) -> None:
    """First letters of many samples against the model's own probabilities, by χ²."""
    log_p, _ = generator.model.step(torch.tensor([[BEGIN, *LETTERS.encode("ab")]]), generator.model.start(1))
    expected = log_p[0, -1, 3:].exp() / log_p[0, -1, 3:].exp().sum()
    drawn = [each.text or "</s>" for each in generator.samples("ab", 1000, seed=5, length=1)]
    counts = torch.tensor([drawn.count(LETTERS.decode([token]) or "</s>") for token in range(3, 11)])
    statistic = ((counts - 1000 * expected) ** 2 / (1000 * expected)).sum()
    assert counts.sum() == 1000 and torch.special.gammaincc(torch.tensor(3.5), statistic / 2) > 1e-3


def test_repetition_limits_count_the_prompt_or_what_was_generated() -> None:
    generator = generator_of()
    with torch.no_grad():  # every letter alike, whatever was read
        generator.model.norm.weight.zero_()
        generator.model.norm.bias.zero_()
    plain = dict(greedy=True, length=4)
    assert generator("ab", **plain).finish_reason == "end"  # the first of equals
    heavy = generator("ab", repetition_penalty=1.5, **plain).text
    assert heavy == "" or not set(heavy) & set("ab")
    ones = generator("ab", no_repeat_ngram=1, seed=3, temperature=1e30, length=30)
    assert set(ones.text) <= set("cdefg") and len(set(ones.text)) == len(ones.text) and ones.finish_reason == "end"
    counted = generator("ab", presence_penalty=2.0, seed=1, length=1)
    assert counted.text == generator("ab", seed=1, length=1).text, "what the prompt has is not generated"
    many = generator.samples("", 40, seed=1, length=6, presence_penalty=2.0, frequency_penalty=2.0)
    few = generator.samples("", 40, seed=1, length=6)
    assert sum(len(set(each.text)) / max(len(each.text), 1) for each in many) > sum(
        len(set(each.text)) / max(len(each.text), 1) for each in few
    )


# Stop strings


def first_stop(text: str, stops: list[str]) -> int | None:
    """The place of the stop string that is complete first, sign by sign; of two, the longer."""
    for end in range(len(text) + 1):
        places = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if places:
            return min(places)
    return None


TEXTS = st.text("aab€", max_size=12)


@given(TEXTS, st.lists(st.text("aab€", min_size=1, max_size=4), max_size=3), st.data())
@settings(deadline=None)
def test_the_first_stop_string_ends_a_text_however_it_is_cut(text: str, stops: list[str], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    search, shown = StopStrings(stops), ""
    end = first_stop(text, stops)
    for piece in pieces:
        shown += search.add(piece)
        assert text.startswith(shown) and (end is None or len(shown) <= end), "nothing of a stop string is shown"
        if search.found:
            break
    assert search.found == (end is not None)
    assert shown + search.rest() == text[:end]


def test_nothing_is_held_back_that_begins_no_stop_string() -> None:
    search = StopStrings(["abc", "x"])
    assert [search.add(piece) for piece in ("aab", "b", "a", "b")] == ["a", "abb", "", ""]
    assert search.rest() == "ab"


@given(st.binary(max_size=12), st.lists(st.sampled_from(["€", "a€", "\n", "é"]), max_size=2))
@settings(deadline=None)
def test_pieces_of_bytes_are_whole_characters_and_the_text(content: bytes, stops: list[str]) -> None:
    tokens = [byte + 4 for byte in content]
    spelling, shown = Spelling(BYTES, stops), ""
    text = BYTES.decode(tokens)
    for token in tokens:
        shown += spelling.add(token)
        if spelling.stopped:
            break
    else:
        shown += spelling.rest(halves=True)
    assert shown == text[: first_stop(text, stops)]


def test_half_a_character_at_the_end_of_the_length_is_not_shown() -> None:
    spelling = Spelling(BYTES, ["xy"])
    assert "".join(spelling.add(byte + 4) for byte in b"abx\xe2\x82") == "ab"
    assert spelling.rest(halves=False) == "x"


def test_a_stop_string_over_token_borders_ends_the_text(generator: Generator) -> None:
    whole = generator("ab", seed=7)
    assert len(whole.text) > 6
    stop = whole.text[3:5]
    cut = generator("ab", seed=7, stop=[stop, "zzz"])
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert (cut.finished, cut.finish_reason) == (True, "stop") and cut.tokens == whole.text.index(stop) + 2
    assert generator("ab", seed=7, stop=stop) == cut, "one string alone"
    assert generator("ab", seed=7, stop="zzz") == whole
    parts = list(generator.stream("ab", generator.adjusted({"stop": stop}), seed=7))
    assert "".join(part.text for part in parts) == cut.text and parts[-1].finish_reason == "stop"
    assert [part.finish_reason for part in parts[:-1]] == [None] * (len(parts) - 1)


def test_a_stop_string_may_be_in_the_prompt(generator: Generator) -> None:
    assert generator("ab", seed=7, stop="ab", length=1).tokens == 1


def test_each_reason_to_end(generator: Generator) -> None:
    assert {each.finish_reason for each in generator.samples("ab", 20, seed=1, length=8)} == {"end", "length"}
    for each in generator.samples("ab", 20, seed=1, length=8):
        assert each.finished == (each.finish_reason == "end") and (each.tokens == 8 or each.finished)


# Settings


WRONG = [
    {"min_p": -0.1}, {"min_p": 1.1}, {"min_p": float("nan")}, {"top_p": 0}, {"top_p": float("nan")}, {"top_k": 0},
    {"stop": ""}, {"stop": ["a", ""]}, {"stop": "\ud800"}, {"stop": 3}, {"repetition_penalty": 0},
    {"repetition_penalty": float("inf")}, {"frequency_penalty": 2.1}, {"presence_penalty": -3}, {"no_repeat_ngram": 0},
    {"no_repeat_ngram": 101},
    {"temperature": -1}, {"temperature": float("nan")}, {"length": 0}, {"samples": 3},
]  # fmt: skip


@pytest.mark.parametrize("given", WRONG, ids=lambda given: ascii(given))
def test_settings_out_of_range_are_refused(generator: Generator, given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        generator.adjusted(given)
    str(caught.value).encode()


EXTREME = [
    {"temperature": 1e-30}, {"temperature": 1e30}, {"top_p": 1.0}, {"top_p": 1e-30}, {"min_p": 1.0}, {"min_p": 1e-300},
    {"repetition_penalty": 100.0, "temperature": 1e-30}, {"repetition_penalty": 1e-30}, {"no_repeat_ngram": 1},
    {"no_repeat_ngram": 100}, {"frequency_penalty": -2.0, "presence_penalty": -2.0}, {"top_k": 1 << 24},
    {"stop": ["a" * 1000]}, {"temperature": 1e30, "top_k": 2, "top_p": 0.5, "min_p": 0.9},
]  # fmt: skip


@pytest.mark.parametrize("given", EXTREME, ids=str)
def test_settings_at_their_ends_generate(given: dict[str, Any]) -> None:
    generator = generator_of()
    generator.model.float()
    for found in generator.samples("ab", 3, seed=1, length=20, **given):
        assert set(found.text) <= set("abcdefg") and np.isfinite(found.log_probability)


def test_temperature_0_is_greedy_and_limits_change_nothing_then(generator: Generator) -> None:
    wanted = generator("ab", greedy=True)
    assert generator("ab", temperature=0) == wanted == generator("ab", temperature=0, top_k=5, min_p=0.1, top_p=0.5)


@pytest.mark.parametrize("prompt", ["a\x00", "\ud800", "é"])
def test_a_prompt_that_cannot_be_spelled_is_told_before_anything_is_generated(
    generator: Generator, prompt: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        generator.generate(["ab", prompt], generator.settings)
    str(caught.value).encode()


def test_bytes_spell_any_prompt_but_half_of_a_surrogate_pair() -> None:
    generator = Generator(model_of(260), BYTES, GenerateConfig(length=3), context=12)
    assert generator("a\x00é" * 300_000, seed=1).tokens <= 3
    with pytest.raises(ConfigError, match="cannot encode the prompt"):
        generator("a\ud800", seed=1)
    with pytest.raises(ConfigError):
        generator.score("a\udfff")


# Requests


def test_requests_have_the_settings_and_can_be_interrupted(generator: Generator) -> None:
    interface = generator.interface
    assert interface.settings is not None
    asked = interface.settings.model_copy(update={"seed": 7, "stop": ["d"], "min_p": 0.01, "presence_penalty": 0.5})
    found = interface.predict("ab", asked, lambda: False)
    assert found == generator("ab", seed=7, stop="d", min_p=0.01, presence_penalty=0.5)
    with pytest.raises(PredictionInterrupted):
        interface.predict("ab", asked, lambda: True)
    fields = set(type(interface.settings).model_fields)
    assert fields == set(GenerateConfig.model_fields) - {"nbest"} | {"greedy", "seed"}, "samples are counted elsewhere"


# Scores


@pytest.mark.parametrize("prompt", ["", "ab", "abcdefgabcdefgabc"])
@pytest.mark.parametrize("length", [3, 40])
def test_the_score_of_a_generated_text_is_its_log_probability(prompt: str, length: int, generator: Generator) -> None:
    for found in generator.samples(prompt, 6, seed=3, length=length):
        score = generator.score(found.text, prompt=prompt) if found.text else None
        if score is not None and found.finish_reason == "length":
            assert -score.nll == pytest.approx(found.log_probability)
            assert (score.tokens, score.bytes) == (found.tokens, len(found.text))


@given(st.integers(1, 30), st.integers(1, 60), st.integers(1, 13))
def test_windows_score_every_token_once_and_never_see_more_than_the_context(
    prompt: int, more: int, context: int
) -> None:
    for first, windows in (
        (1, score_windows(prompt + more - 1, 0, context, None)),
        (prompt, continued_windows(prompt, prompt + more, context)),
    ):
        scored = []
        for begin, at, end in windows:
            assert begin < at < end and end - 1 - begin <= context
            scored += range(at, end)
        assert scored == list(range(first, prompt + more))
