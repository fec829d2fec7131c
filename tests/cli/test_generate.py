"""``regard generate``: prompts from an option, a file or a pipe, samples, stop strings, and what is refused."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import regard as package
from regard import cli
from regard.commands import generate
from regard.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def model(language_model: Path) -> Any:
    return package.load(language_model)


def test_prompts_of_a_file_a_line_each_in_order(
    regard, language_model: Path, tmp_path: Path, model, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = ["the cat", "", "on", "the rat sat on the hat", "the cat"]
    (tmp_path / "prompts.txt").write_text("".join(f"{each}\n" for each in prompts))
    whole = regard("generate", language_model, tmp_path / "prompts.txt", "--seed", "3").stdout
    wanted = [model.write(model(each, seed=3), json=False) for each in prompts]
    assert whole.splitlines() == wanted and wanted[0] == wanted[4]
    monkeypatch.setattr(generate, "CHUNK", 2)
    assert regard("generate", language_model, tmp_path / "prompts.txt", "--seed", "3").stdout == whole
    assert regard("generate", language_model, "-", "--seed", "3", input="the cat\n").stdout == wanted[0] + "\n"
    assert regard("generate", language_model, "-", input="").stdout == ""


def test_json_lines_of_samples(regard, language_model: Path, model) -> None:
    found = regard("generate", language_model, "-", "--json", "--samples", "2", "--seed", "4", input="the\na\n")
    objects = [json.loads(line) for line in found.stdout.splitlines()]
    assert [(each["prompt"], each["sample"]) for each in objects] == [("the", 0), ("the", 1), ("a", 0), ("a", 1)]
    wanted = [*model.samples("the", 2, seed=4), *model.samples("a", 2, seed=4)]
    for one, other in zip(objects, wanted, strict=True):
        assert one["text"] == other.prompt + other.text and one["tokens"] == other.tokens
        assert one["finish_reason"] == other.finish_reason and one["finished"] == other.finished
        assert one["log_probability"] == pytest.approx(other.log_probability, abs=1e-4)
    lines = regard("generate", language_model, "--prompt", "the", "--samples", "3", "--seed", "4").stdout.splitlines()
    assert lines == [model.write(each, json=False) for each in model.samples("the", 3, seed=4)]


def test_equal_prompts_have_equal_texts_in_any_chunk(regard, language_model: Path, tmp_path: Path) -> None:
    (tmp_path / "prompts").write_text("the\n" * 3)
    lines = regard("generate", language_model, tmp_path / "prompts", "--temperature", "9", "--length", "9").stdout
    assert len(lines.splitlines()) == 3 and len({*lines.splitlines()}) == 1


def test_stop_strings_are_not_printed(regard, language_model: Path, model) -> None:
    call = ("generate", language_model, "--prompt", "the", "--temperature", "0", "--length", "12")
    whole = regard(*call).stdout
    stop = whole[6:8]
    cut = "the" + whole[3:].partition(stop)[0]
    assert regard(*call, "--stop", "§", "--stop", stop).stdout == cut + "\n"
    found = json.loads(regard(*call, "--stop", stop, "--json").stdout)
    assert (found["text"], found["finish_reason"]) == (cut, "stop")


def test_every_setting_reaches_the_model(regard, language_model: Path, model) -> None:
    given = {
        "length": 9, "temperature": 1.5, "top_k": 6, "top_p": 0.9, "min_p": 0.01, "stop": ["zz", "qq"],
        "repetition_penalty": 1.1, "frequency_penalty": 0.2, "presence_penalty": -0.3, "no_repeat_ngram": 4,
    }  # fmt: skip
    beams = {"beam": 3, "length_penalty": 1.5, "early_stopping": True}
    elsewhere = {"nbest", "length_offset", "seed"}  # --samples, the config, and below
    assert {*given, *beams, *elsewhere} == set(type(model.settings).model_fields)
    spelled = [
        f"--{name.replace('_', '-')}={one}"
        for name, value in given.items()
        for one in (value if isinstance(value, list) else [value])
    ]
    found = regard("generate", language_model, "--prompt", "the", "--seed", "5", *spelled).stdout
    assert found == "the" + model("the", seed=5, **given).text + "\n"
    options = ("--beam", "3", "--length-penalty", "1.5", "--early-stopping", "--length", "9")
    found = regard("generate", language_model, "--prompt", "the", *options).stdout
    assert found == "the" + model("the", **beams, length=9).text + "\n"


@pytest.mark.parametrize(
    ("options", "where"),
    [
        (["--stop="], "--stop"),
        (["--stop", "a", "--stop="], "--stop"),
        (["--temperature", "inf"], "--temperature"),
        (["--repetition-penalty", "0"], "--repetition-penalty"),
        (["--samples", "2", "--temperature", "0"], "--samples"),
        (["prompts.txt"], None),
    ],
    ids=lambda value: "" if value is None else str(value),
)
def test_settings_that_do_not_fit_are_told_by_option(
    regard, language_model: Path, options: list[str], where: str | None
) -> None:
    refused = regard("generate", language_model, "--prompt", "the", *options)
    assert isinstance(refused.exception, ConfigError) and refused.exception.where == where
    assert refused.stdout == ""


@pytest.mark.parametrize(
    ("option", "value", "bound"),
    [
        ("--min-p", "1.5", "1"),
        ("--min-p", "nan", "1"),
        ("--top-p", "nan", "1"),
        ("--frequency-penalty", "3", "2"),
        ("--presence-penalty", "-3", "-2"),
    ],
)
def test_a_setting_out_of_its_bounds_is_refused_before_the_model_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: str, bound: str
) -> None:
    assert cli.run(["generate", str(tmp_path / "missing"), "--prompt", "the", f"{option}={value}"]) == 2
    message = capsys.readouterr().err
    assert f"'{option}'" in message and message.splitlines()[0].endswith(f"equal to {bound}")


def test_prompts_before_one_that_cannot_be_spelled_are_answered(regard, language_model: Path) -> None:
    refused = regard("generate", language_model, "-", "--length", "2", input="the\n§\n")
    assert isinstance(refused.exception, ConfigError) and refused.exception.where == "standard input:2"
    assert refused.stdout.startswith("the") and refused.stdout.count("\n") == 1
    refused = regard("generate", language_model, "-", "--length", "2", input=b"the\n\xff\n")
    assert isinstance(refused.exception, DataError) and refused.exception.where == "standard input:2"


def test_a_pipe_or_a_file_on_standard_input_has_the_prompts(
    language_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def printed(number: int, *options: str) -> str:
        with os.fdopen(number, encoding="utf-8") as file, monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", file)
            assert cli.run(["generate", str(language_model), "--length", "3", "--seed", "1", *options]) == 0
        return capfd.readouterr().out

    (tmp_path / "prompts").write_text("the\non\n")
    out, into = os.pipe()
    os.write(into, b"the\non\n")
    os.close(into)
    piped = printed(out)
    assert [line[:2] for line in piped.splitlines()] == ["th", "on"]
    assert printed(os.open(tmp_path / "prompts", os.O_RDONLY)) == piped
    nothing = json.loads(printed(os.open("/dev/null", os.O_RDONLY), "--json"))
    assert nothing["prompt"] == "", "with nothing to read, the beginning of a text"
