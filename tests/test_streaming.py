"""Translation of sources that are still arriving: laws over policies, models and the pieces in which sources come."""

from __future__ import annotations

import random
from copy import copy
from itertools import takewhile
from typing import Any

import pytest
import torch

from regard.config.settings import SearchConfig
from regard.data.tokenizers.tokenizer import END
from regard.errors import ConfigError, SourceChangedError
from regard.inference.policies import Draft, make_policy
from regard.inference.run_search import run_search
from regard.inference.search_model import SearchInput
from regard.inference.streamed import Streamed, stream_texts
from regard.inference.text_stream import StreamInput, StreamOutput, complete_words, counts_of, cursor_of, read_cursor
from regard.search.contract import Hypothesis
from regard.tasks.translation.streaming import StreamingTranslator
from tests.streams import MODELS, POLICIES, stream, streaming, titled_policy, translator

SOURCE = "ab cab  b bca abba acab"


@pytest.mark.parametrize(("policy", "lag"), POLICIES)
@pytest.mark.parametrize("name", MODELS)
def test_what_is_committed_is_never_taken_back(name: str, policy: str, lag: int) -> None:
    draws = random.Random(f"{name} {policy} {lag}")
    for seed, beam, unfinished in ((1, 1, True), (2, 3, False)):
        model = translator(name, seed=seed, unfinished=unfinished)
        runner = streaming(model, policy, lag, search=model.search.model_copy(update={"beam": beam}))
        ends = sorted(draws.sample(range(1, len(SOURCE)), draws.randint(2, 8)))
        outputs = stream(runner, SOURCE, ends)
        before = ""
        for output in outputs:
            assert output.committed.startswith(before) and output.committed == before + output.new
            before = output.committed
        assert outputs[-1].final and not outputs[-1].unstable
        for output in outputs[:-1]:  # a commit ends at the end of a word
            assert not output.new or not output.unstable or output.unstable[0].isspace()


@pytest.mark.parametrize(("policy", "lag"), POLICIES)
def test_the_end_of_a_source_completes_its_output(policy: str, lag: int) -> None:
    model = translator()
    runner = streaming(model, policy, lag)
    at_once = stream(runner, SOURCE, [])[0]
    assert at_once.committed == model.translate([SOURCE])[0].text  # nothing was committed: no prefix
    assert at_once.read == len(SOURCE.split())
    by_words = stream(runner, SOURCE, [end for end, letter in enumerate(SOURCE, 1) if letter == " "])
    prefix = by_words[-2].committed
    assert by_words[-1].committed == model.translate([SOURCE], prefixes=[prefix])[0].text


@pytest.mark.parametrize(("policy", "lag"), POLICIES)
def test_a_repeated_request_gives_the_same_answer(policy: str, lag: int) -> None:
    runner = streaming(translator(), policy, lag)
    output = StreamOutput("")
    for end in (4, 8, 10, 14, 15, 19):
        request = output.request(SOURCE[:end], final=False)
        first, second = runner.advance([request]), runner.advance([request])
        assert first == second
        (output,) = first
        (again,) = runner.advance([output.request(SOURCE[:end], final=False)])
        assert (again.committed, again.new, again.cursor) == (output.committed, "", output.cursor)


def test_streams_in_one_batch_do_not_disturb_each_other() -> None:
    texts = ["ab cab b", "bca", "cab b ab acab c", "c c"]
    for policy, lag in POLICIES:
        runner = streaming(translator(), policy, lag)
        together = [one.text for one in stream_texts(runner, texts, together=4)]
        assert together == [one.text for one in stream_texts(runner, texts)]


def test_wait_k_keeps_its_pace() -> None:
    for k in (1, 2, 4):
        for streamed in stream_texts(streaming(translator(seed=3), "wait-k", k, splits=False), [SOURCE, "ab ab ab ab"]):
            for number, delay in enumerate(streamed.delays):  # word t is not written before k + t − 1 words are read
                assert delay >= min(k + number, streamed.source_length)


def test_a_source_that_is_taken_back_is_refused() -> None:
    runner = streaming(translator(), "local-agreement", 1)
    (output,) = runner.advance([StreamInput("ab cab ")])
    assert output.read == 2
    for text in ("ab abc b ", "ab ", ""):
        with pytest.raises(SourceChangedError, match="beginning of the source has changed"):
            runner.advance([output.request(text, final=False)])
    runner.advance([output.request("ab cab bca ", final=False)])
    runner.advance([StreamInput("ab abc b ", output.committed)])  # without a cursor, nothing can be compared
    for cursor in ("2", "2-", "-1-00000000", "2-0000000g", "9" * 12 + "-00000000", "２-00000000"):
        with pytest.raises(SourceChangedError, match="cursor"):
            runner.advance([StreamInput("ab cab ", cursor=cursor)])


def test_a_committed_text_that_cannot_be_written_is_refused() -> None:
    runner = streaming(translator(), "local-agreement", 1)
    for committed in ("zebra", "ab\u2028", "ab  ab", " ab", "\ud800"):
        with pytest.raises(ConfigError, match="cannot continue"):
            runner.advance([StreamInput("ab cab ", committed)])


def test_half_a_word_is_not_read() -> None:
    runner = streaming(translator(), "local-agreement", 1)
    (half,) = runner.advance([StreamInput("ab ca")])
    (whole,) = runner.advance([StreamInput("ab ")])
    assert half == whole and half.read == 1
    assert complete_words("ab ca", final=False) == ["ab"] and complete_words("ab ca", final=True) == ["ab", "ca"]
    assert complete_words(" ", final=True) == [] and complete_words("ab\n", final=False) == ["ab"]


def test_a_sentence_is_closed_when_the_next_one_begins() -> None:
    runner = streaming(translator(), "wait-k", 2)
    (output,) = runner.advance([StreamInput("Ab cab ab.  Cab b ")])
    assert output.final and output.rest == "Cab b " and output.read == 3
    for text, closed, rest in (
        ("- Ab cab. Cab b ", 3, "Cab b "),
        ("1. Ab cab. 2. Cab ", 3, "2. Cab "),
        ('"Ab ab." Cab ', 2, "Cab "),
    ):
        (output,) = runner.advance([StreamInput(text)])
        assert (output.final, output.read, output.rest) == (True, closed, rest)
    whole = StreamingTranslator(translator(), make_policy("wait-k", 2), splits=False)
    (output,) = whole.advance([StreamInput("Ab cab ab.  Cab b ")])
    assert not output.final and output.rest == "" and output.read == 5


def test_a_source_without_an_end_is_closed_at_the_limit_of_the_model() -> None:
    model = translator(max_length=12)
    runner = streaming(model, "local-agreement", 1)
    text, closed, output = "", 0, StreamOutput("")
    for _ in range(40):
        text += "abca "
        (output,) = runner.advance([output.request(text, final=False)])
        if output.final:
            assert text.endswith(output.rest) and output.rest != text
            closed, text, output = closed + 1, output.rest, StreamOutput("")
        assert len(model.source.encode(text)) <= 24
    assert closed >= 3
    (output,) = runner.advance([StreamInput("ab" * 60 + " c ")])
    assert output.final and output.rest == "c "


def test_options_that_contradict_a_stream_are_refused() -> None:
    model, policy = translator(), make_policy("wait-k", 3)
    for options, where in (({"temperature": 1.0}, "temperature"), ({"stop": ("a",)}, "stop")):
        with pytest.raises(ConfigError, match="stream") as caught:
            StreamingTranslator(model, policy, search=SearchConfig.model_validate({"beam": 1} | options))
        assert caught.value.where == where
    with pytest.raises(ConfigError, match="alignatt requires attention"):
        StreamingTranslator(model, make_policy("alignatt", 2))
    baseline = copy(model)
    baseline.decoding = None  # type: ignore[assignment]
    baseline.without_memory = baseline
    with pytest.raises(ConfigError, match="requires a network"):
        StreamingTranslator(baseline, policy)
    for name, lag in (("wait-k", 0), ("local-agreement", 0), ("alignatt", -1)):
        with pytest.raises(ConfigError, match=f"{name} requires a lag"):
            make_policy(name, lag)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "lag", "read", "draft", "count"),
    [
        ("wait-k", 3, 2, Draft(["a", "b"], 0, True), 0),  # 2 words are read: none may be written
        ("wait-k", 3, 3, Draft(["a", "b"], 0, True), 1),  # 3 − 3 + 1 words
        ("wait-k", 3, 4, Draft(["a", "b"], 1, False), 1),  # b may grow
        ("wait-k", 1, 4, Draft(["a"], 1, True), 1),  # END before the source has ended: it waits
        ("local-agreement", 1, 4, Draft(["a", "b", "c"], 0, True, ["a", "b", "d"]), 2),
        ("local-agreement", 1, 4, Draft(["a", "b"], 0, False, ["a", "b"]), 1),  # b may grow
        ("local-agreement", 1, 4, Draft(["a", "b"], 0, True, []), 0),
        ("local-agreement", 1, 4, Draft(["a", "x"], 1, True, ["a", "b"]), 1),
        ("local-agreement of 3", 1, 4, Draft(["a", "b", "c"], 0, True, ["a", "b", "c"], (), [1]), 1),
        ("local-agreement of 3", 1, 4, Draft(["a", "x"], 0, True, ["a", "b"], (), [2]), 1),
        ("local-agreement of 3", 1, 4, Draft(["a", "b"], 0, True, ["a", "b"]), 0),  # a third one is missing
        ("local-agreement of 4", 1, 4, Draft(["a", "b", "c"], 0, True, ["a", "b", "c"], (), [3, 2]), 2),
        ("alignatt", 2, 5, Draft(["a", "b", "c"], 0, True, (), [1, 3, 4]), 2),  # c attends to word 4 > 5 − 2
        ("alignatt", 2, 5, Draft(["a", "b", "c"], 0, True, (), [4, 1, 1]), 0),  # words after a waiting one wait
        ("alignatt", 2, 5, Draft(["a", "b", "c"], 1, True, (), [5, 1, 1]), 3),  # what is committed stays
        ("alignatt", 0, 5, Draft(["a", "b"], 0, False, (), [5, 5]), 1),
    ],
)
def test_policies_on_paper(policy: Any, lag: int, read: int, draft: Draft, count: int) -> None:
    assert titled_policy(policy, lag).commit(draft, read) == count


@pytest.mark.parametrize("agree", range(2, 9))
def test_local_agreement_commits_the_common_prefix_of_the_last_hypotheses(agree: int) -> None:
    draws, policy, changes = random.Random(agree), make_policy("local-agreement", 1, agree=agree), 0
    for _ in range(200):
        hypotheses, committed, agreed = list[list[str]](), 0, ()
        for _ in range(12):
            before = hypotheses[-1] if hypotheses else []
            kept = before[: max(committed, len(before) - draws.choice([0, 0, 0, 1, 2]))]
            words = kept + [draws.choice("ab") for _ in range(draws.randint(0, 2))]
            ended = draws.random() < 0.3
            draft = Draft(words, committed, ended, before, (), agreed)
            hypotheses.append(words)
            complete = len(words) - (not ended)
            last = [*[[]] * agree, *hypotheses][-agree:]
            common = [*takewhile(lambda column: len({*column}) == 1, zip(*last, strict=False))]
            expected = max(committed, min(len(common), complete))
            count = policy.commit(draft, 0)
            assert count == expected
            changes += count > committed
            committed, agreed = count, policy.agreed(draft)
            assert len(agreed) == agree - 2
    assert changes > 50


def test_settings_of_local_agreement_are_checked() -> None:
    for agree in (1, 9):
        with pytest.raises(ConfigError, match="compares 2 to 8 hypotheses"):
            make_policy("local-agreement", 1, agree=agree)
    for name in ("wait-k", "alignatt"):
        with pytest.raises(ConfigError, match="does not compare"):
            make_policy(name, 2, agree=2)  # type: ignore[arg-type]


def test_a_cursor_carries_counts_that_do_no_harm() -> None:
    runner = streaming(translator(), "local-agreement of 4", 1)
    outputs = stream(runner, SOURCE, [end for end, letter in enumerate(SOURCE, 1) if letter == " "])
    assert all(counts_of(output.cursor) for output in outputs[:-1])
    third = outputs[2]
    for cursor in ("-999999-999999", "-999999-999999-999999-999999-999999-999999", "-0", ""):
        base = "-".join(third.cursor.split("-")[:2])
        (answer,) = runner.advance(
            [StreamInput("ab cab  b bca ", third.committed, third.unstable, cursor=base + cursor)]
        )
        assert answer.committed.startswith(third.committed)
    for cursor in ("-", "-x", "--1", "-1-1-1-1-1-1-1", "-9999999", "-１"):
        with pytest.raises(SourceChangedError, match="cursor"):
            runner.advance([StreamInput("ab cab ", cursor=cursor_of(["ab", "cab"]) + cursor)])


def test_alignatt_follows_the_given_head() -> None:
    model = translator()

    class Fixed:
        """Piece t is aligned with source piece t; END of the source has the largest weight."""

        attention = "decoder.0.source"

        def weights(self, attention: dict[str, torch.Tensor]) -> torch.Tensor:
            shape = attention["decoder.0.source"].shape
            table = torch.eye(shape[1], shape[2])
            table[:, -1] = 2.0
            return table

    runner = StreamingTranslator(model, make_policy("alignatt", 1), alignment=Fixed(), splits=False)
    plan = runner.plan(StreamInput("ab cab b bca abba "))
    assert plan.input is not None
    attended = runner._attended([(plan, model.target.encode("ab cab b"))])[0]
    ends = [len(model.source.encode(text)) for text in ("ab", "ab cab", "ab cab b", "ab cab b bca")]
    target = [len(model.target.encode(text)) for text in ("ab", "ab cab", "ab cab b")]
    assert attended == [sum(end < last for end in ends) + 1 for last in target]


def test_delays_of_a_word_that_grows_are_those_of_its_end() -> None:
    streamed = Streamed(4)
    for read, (committed, new) in enumerate([("", ""), ("ab", "ab"), ("ab.", "."), ("ab. c d", " c d")], start=1):
        streamed.add(StreamOutput(committed, new), read, 0.5)
    assert streamed.delays == [3, 4, 4] and streamed.steps == [0.5] * 4


def test_revised_words_are_counted() -> None:
    class Scripted:
        def __init__(self, *outputs: StreamOutput) -> None:
            self.outputs = [*outputs]

        def advance(self, requests: Any, **options: Any) -> list[StreamOutput]:
            return [self.outputs.pop(0)]

    outputs = StreamOutput("", unstable="a b c"), StreamOutput("a", "a", " x"), StreamOutput("a x d", " x d")
    (streamed,) = stream_texts(Scripted(*outputs), ["1 2 3"])
    assert streamed.revisions == 2 and streamed.text == "a x d" and streamed.delays == [2, 3, 3]


def test_cursors_cover_words_and_not_spaces() -> None:
    assert cursor_of(["a", "b"]) != cursor_of(["ab"]) and read_cursor(cursor_of(["a", "b"]), ["a", "b", "c"]) == 2
    assert read_cursor("", ["a"]) == 0


@pytest.mark.parametrize("unfinished", [True, False])
@pytest.mark.parametrize(("policy", "lag"), POLICIES)
def test_a_source_that_has_not_ended_has_an_end_only_for_models_of_whole_sentences(
    policy: str, lag: int, unfinished: bool
) -> None:
    runner = streaming(translator(unfinished=unfinished), policy, lag)
    work = runner.plan(StreamInput("ab cab b bca "))
    assert work.input is not None and work.input.ended == (not unfinished and policy != "wait-k")
    final = runner.plan(StreamInput("ab cab b bca", final=True)).input
    assert final is not None and final.ended


@pytest.mark.parametrize("name", ["transformer", "reference", "causal encoder"])
def test_the_search_hides_the_end_of_a_source_that_has_not_ended(name: str) -> None:
    model = translator(name)
    source, settings = model.source.encode(SOURCE), model.search
    scores = {}
    for ended in (True, False):
        inputs = [(0, SearchInput(source, ended=ended))]
        ((_, (best,)),) = [one for done in run_search(model.decoding, inputs, settings, rows=1) for one in done]
        log_p = model.log_probabilities([source], [best.tokens], ended=ended)[0]
        tokens = [*best.tokens, END][: len(best.token_log_probabilities)]
        expected = [float(log_p[place, token]) for place, token in enumerate(tokens)]
        assert best.token_log_probabilities == pytest.approx(expected, abs=1e-4)
        scores[ended] = best.token_log_probabilities[0]
    assert scores[True] != pytest.approx(scores[False], abs=1e-3)


def test_the_end_of_a_sentence_is_committed_with_that_of_its_source() -> None:
    model = translator("bytes")
    runner = streaming(model, "local-agreement", 1)
    tokens = model.target.encode("ab cab.")
    best = Hypothesis(tokens, 0.0, 0.0, [], True)
    (output,) = runner.finish([runner.plan(StreamInput("ab cab ", unstable="ab cab"))], [best])
    assert (output.committed, output.unstable) == ("ab cab", "")
    (output,) = runner.finish([runner.plan(StreamInput("ab cab", "ab", final=True))], [best])
    assert output.committed == "ab cab."
    cut = best._replace(finished=False)  # by the limit of its length: the last word may continue
    (output,) = runner.finish([runner.plan(StreamInput("ab cab ", unstable="ab cab."))], [cut])
    assert output.committed == "ab"
