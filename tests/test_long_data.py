"""Generated data of long sequences: their answers are right, and the rules beside them do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

BENCH = Path(__file__).parents[1] / "bench"
pytestmark = pytest.mark.skipif(not BENCH.is_dir(), reason="bench/ is not in this distribution")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


def evaluated(tokens: list[str]) -> int:
    """The value of an expression, read from the left with a stack."""
    stack: list[list] = [[]]
    for token in tokens:
        if token == "]":
            name, *values = stack.pop()
            ordered = sorted(values)
            half = len(ordered) // 2
            middle = ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) // 2
            found = {"[MIN": ordered[0], "[MAX": ordered[-1], "[MED": middle, "[SM": sum(values) % 10}
            stack[-1].append(found[name])
        elif token.startswith("["):
            stack.append([token])
        else:
            stack[-1].append(int(token))
    (value,) = stack.pop()
    return value


def test_expressions_are_as_long_as_asked_and_their_answers_right(bench: None) -> None:
    import listops

    found = list(listops.lines(60, 20, 60, seed=3))
    assert all(20 <= len(tokens) <= 60 and evaluated(tokens) == label for label, tokens in found)
    assert found == list(listops.lines(60, 20, 60, seed=3))
    assert {tokens[0] for _, tokens in found} == set(listops.OPERATORS)


def test_rules_see_what_they_say(bench: None) -> None:
    import listops

    tokens = "[MAX 2 [MIN 4 7 ] [SM 9 [MED 1 1 ] ] 5 ]".split()
    assert listops.children(tokens) == ["2", "[MIN", "[SM", "5"]
    assert listops.keys(tokens) == [(), "[MAX", ("[MAX", 5), ("[MAX", 5, frozenset({("[MIN", 1), ("[SM", 1)}))]
    train = [(9, ["[MAX", "9", "]"]), (0, ["[MIN", "0", "]"]), (9, ["[MAX", "9", "1", "]"])]
    test = [(9, ["[MAX", "9", "2", "]"]), (0, ["[MIN", "0", "5", "]"]), (1, ["[MIN", "1", "2", "]"])]
    assert listops.rules(train, test) == [1 / 3, 2 / 3, 2 / 3, 2 / 3]


def test_every_value_is_found_by_the_key_before_it(bench: None) -> None:
    import recall

    tokens, place = recall.rows(8, 5, torch.Generator().manual_seed(1))
    assert tokens.shape == place.shape == (5, 32)
    for row, asked in zip(tokens, place, strict=True):
        table = dict(row[:16].view(8, 2).tolist())
        assert len(table) == 8 and max(table) < recall.KINDS <= min(table.values())
        assert asked.nonzero().flatten().tolist() == list(range(16, 32, 2))
        assert [table[int(row[at])] for at in range(16, 32, 2)] == row[17::2].tolist()


@pytest.mark.parametrize("name", ["dense", "linear", "mamba2", "window"])
def test_one_update_of_each_mixer(name: str, bench: None) -> None:
    import recall

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recall, "ROWS", 1)
        network = recall.trained(recall.MIXERS[name], 1, seed=1)
        patch.setattr(recall, "TESTED", 2)
        assert 0 <= recall.accuracy(network, 4) <= 1


def test_each_expression_is_answered_at_its_closing_bracket(bench: None) -> None:
    import listops_train

    tokens = "[MAX 2 [MIN 4 7 ] [SM 5 6 ] ]".split()
    assert listops_train.answers(tokens) == [-1, -1, -1, -1, -1, 4, -1, -1, -1, 1, 4]
    assert listops_train.answers(["7"]) == [7]
