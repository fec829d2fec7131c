"""``regard predict``: a line in, a line out, for runs of any task, and under the verbs that tasks name."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import regard as package
from regard import cli
from regard.commands import predict
from regard.core.task_table import TASKS, TaskPlace
from regard.errors import ConfigError, DataError

from .conftest import TinyRun
from .other_runs import OWN


def test_a_task_of_one_s_own(regard, own_run: Path) -> None:
    result = regard("predict", own_run, input="1 2 3\n4\n0 0 6\n")
    model = package.load(own_run)
    assert result.stdout.splitlines() == [f"{value:.4f}" for value in model([[1.0, 2.0, 3.0], [4.0], [0.0, 0.0, 6.0]])]
    found = [json.loads(line) for line in regard("predict", own_run, "--json", input="1 2 3\n4\n").stdout.splitlines()]
    assert [each["mean"] for each in found] == model([[1.0, 2.0, 3.0], [4.0]])


def test_a_run_folder_names_no_module_to_import(regard, own_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGARD_TASKS")
    refused = regard("predict", own_run, input="1\n").exception
    assert isinstance(refused, ConfigError) and "REGARD_TASKS" in str(refused.help)


def test_lines_before_one_that_is_no_input_are_answered(regard, own_run: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("1 2\n3\n\n4\n")
    result = regard("predict", own_run, tmp_path / "in")
    assert len(result.stdout.splitlines()) == 2
    assert isinstance(result.exception, DataError)
    assert result.exception.where == f"{tmp_path / 'in'}:3" and "blank" in str(result.exception.why)
    assert regard("predict", own_run, input="1\nx\n").exception.where == "standard input:2"


def test_order_is_kept_over_chunks(regard, own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{at} {at % 7} {at % 3}" for at in range(11)]
    with gzip.open(tmp_path / "in.gz", "wt") as file:
        file.write("\n".join(lines))
    whole = regard("predict", own_run, tmp_path / "in.gz").stdout
    monkeypatch.setattr(predict, "CHUNK", 3)
    assert regard("predict", own_run, tmp_path / "in.gz").stdout == whole
    model = package.load(own_run)
    assert whole.splitlines() == [model.write(each, json=False) for each in model([model.read(each) for each in lines])]


def test_an_unknown_setting_is_told_before_anything_is_read(regard, own_run: Path, tiny_run: TinyRun) -> None:
    refused = regard("predict", own_run, "--set", "beam=2", input="x\n").exception
    assert isinstance(refused, ConfigError) and "unknown setting beam" in refused.what
    assert "has no settings" in str(refused.why)
    assert isinstance(regard("predict", tiny_run.path, "--set", "beem=2", input="a\n").exception, ConfigError)
    assert isinstance(regard("predict", tiny_run.path, "--set", "beam", input="a\n").exception, ConfigError)


def test_translation_as_regard_translate_does(regard, tiny_run: TinyRun) -> None:
    lines = "a b\n\nc d e\n"
    assert (
        regard("predict", tiny_run.path, input=lines).stdout == regard("translate", tiny_run.path, input=lines).stdout
    )
    one = [json.loads(each) for each in regard("predict", tiny_run.path, "--json", input=lines).stdout.splitlines()]
    other = [json.loads(each) for each in regard("translate", tiny_run.path, "--json", input=lines).stdout.splitlines()]
    assert [each["text"] for each in one] == [each["text"] for each in other] == ["A B", "", "C D E"]
    assert all(mine.keys() | {"line"} == theirs.keys() for mine, theirs in zip(one, other, strict=True))
    few = regard("predict", tiny_run.path, "--json", "--set", "nbest=2", "--set", "beam=3", input="a b\n").stdout
    assert len(json.loads(few)["candidates"]) == 2


def test_prompts_a_line_each(regard, language_model: Path) -> None:
    call = ("predict", language_model, "--set", "seed=3", "--set", "length=5")
    first, second, again = regard(*call, input="the\na\nthe\n").stdout.splitlines()
    assert first == again and first.startswith("the") and second.startswith("a")
    model = package.load(language_model)
    found = json.loads(regard(*call, "--json", input="the\n").stdout)
    whole = model("the", seed=3, length=5)
    assert found["text"] == "the" + whole.text and found["log_probability"] == whole.log_probability
    assert [each.text for each in model(["the", "a"], seed=3, length=5)] == [
        model(each, seed=3, length=5).text for each in ("the", "a")
    ]
    refused = regard(*call, input="the\n§\n")
    assert isinstance(refused.exception, ConfigError) and refused.exception.where == "standard input:2"
    assert "'§'" in str(refused.exception.why) and refused.stdout.count("\n") == 1


def test_nothing_is_printed_before_what_cannot_be_generated(regard, language_model: Path) -> None:
    for wrong, where in (("--prompt=the §", None), ("--top-p=0", "--top-p"), (f"--seed={1 << 70}", "seed")):
        refused = regard("generate", language_model, "--prompt", "the", wrong)
        assert isinstance(refused.exception, ConfigError) and refused.exception.where == where
        assert refused.stdout == ""


def test_a_verb_that_a_task_names(regard, own_run: Path, tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    place = TaskPlace("tests.laws.own_task:CONFIG", OWN, "average-numbers")
    monkeypatch.setitem(TASKS, OWN, place)
    assert regard("average-numbers", own_run, input="1 2\n").stdout == regard("predict", own_run, input="1 2\n").stdout
    refused = regard("average-numbers", tiny_run.path, input="a\n").exception
    assert isinstance(refused, ConfigError) and refused.help == f"use regard translate {tiny_run.path}"
    assert "Predict an output for each line" in regard("average-numbers", "--help").stdout
    assert cli.run(["average-numbers", str(own_run), "nowhere"]) == 3


@pytest.mark.parametrize(("verb", "right"), [("translate", "generate"), ("generate", "translate")])
def test_the_wrong_verb_names_the_right_one(
    regard, language_model: Path, tiny_run: TinyRun, verb: str, right: str
) -> None:
    run = language_model if verb == "translate" else tiny_run.path
    refused = regard(verb, run, input="the\n").exception
    assert isinstance(refused, ConfigError) and refused.help == f"use regard {right} {run}"


def test_a_predictor_with_too_few_outputs_is_told(regard, own_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.laws import own_task

    monkeypatch.setattr(own_task.Mean, "__call__", lambda self, inputs: [])
    refused = regard("predict", own_run, input="1\n").exception
    assert isinstance(refused, ConfigError) and refused.what == "Mean returned 0 outputs for 1 input"
