"""``regard generate --chat`` and conversations in Python: lines, turns, streams, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from typer.testing import Result

import regard as package
from regard.config.chat import ChatConfig, Message
from regard.data.tokenizers.closed import CharacterTokenizer, WordTokenizer
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import ConfigError
from regard.inference.chat import ChatEncoder

SECTION = '[chat]\nbegin = "a "\nuser = "{text} on\\n"\nassistant = "the {text}\\n"\n'
TURNS = [("user", "cat"), ("assistant", "mat"), ("user", "sat")]
MESSAGES = [{"role": role, "content": text} for role, text in TURNS]


@pytest.fixture(scope="module")
def run(language_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run on ``the cat sat on the mat``, with a chat template."""
    run = Path(shutil.copytree(language_model, tmp_path_factory.mktemp("chat") / "run"))
    with (run / "config.toml").open("a") as file:
        file.write(SECTION)
    return run


@pytest.fixture(scope="module")
def model(run: Path) -> Any:
    return package.load(run)


def test_a_reply_continues_the_conversation_and_ends_at_the_template(model: Any) -> None:
    settings = {"seed": 4, "length": 9}
    reply = model.chat("cat", **settings)
    prompted = model("a cat on\nthe ", stop="\n", **settings)
    assert reply == prompted._replace(prompt="")
    assert {model.chat(MESSAGES[:1], **settings), model.chat("cat", **settings)} == {reply}
    parts = list(model.stream_chat("cat", model.adjusted({"length": 9}), seed=4))
    assert "".join(part.text for part in parts) == reply.text and parts[-1].finish_reason == reply.finish_reason
    with pytest.raises(ConfigError, match="29 tokens; the model attends to 16"):
        model.chat(MESSAGES)


def test_lines_are_messages_or_conversations(regard: Callable[..., Result], run: Path, model: Any) -> None:
    lines = ["cat", json.dumps(MESSAGES[:1]), "mat"]
    done = regard("generate", run, "-", "--chat", "--seed", "3", "--json", input="\n".join(lines) + "\n")
    assert done.exit_code == 0, done.output
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["text"] for each in found] == [model.chat(text, seed=3).text for text in ("cat", "cat", "mat")]
    assert [each["prompt"] for each in found] == [""] * 3
    once = regard("generate", run, "--chat", "--prompt", "cat", "--seed", "3").stdout
    assert once == found[0]["text"] + "\n" and regard("generate", run, "-", "--chat", input="").stdout == ""
    samples = regard("generate", run, "--chat", "--prompt", "cat", "--seed", "3", "--samples", "2").stdout
    assert samples.splitlines()[0] == found[0]["text"].replace("\n", " ") and len(samples.splitlines()) == 2


def test_what_cannot_be_is_refused(
    regard: Callable[..., Result], run: Path, language_model: Path, tmp_path: Path
) -> None:
    def told(*words: Any, **options: Any) -> str:
        error = regard("generate", *words, **options).exception
        assert isinstance(error, ConfigError)
        return str(error)

    assert "no chat template" in told(language_model, "--chat", "--prompt", "cat")
    assert "standard input:2" in told(run, "-", "--chat", "--seed", "1", input='cat\n[{"role": "tool"}]\n')
    assert "not searched with a beam" in told(run, "--chat", "--prompt", "cat", "--beam", "2")
    (tmp_path / "lines").write_text("cat\n")
    assert "bulk" in told(run, tmp_path / "lines", tmp_path / "lines", "--chat", "-o", tmp_path / "out")
    for section in (
        "user = '{text}'",
        "user = 'a'\nassistant = '{text}'",
        "user = '{text}{text}'\nassistant = '{text}'",
    ):
        shutil.copytree(language_model, tmp_path / "other", dirs_exist_ok=True)
        with (tmp_path / "other" / "config.toml").open("a") as file:
            file.write(f"[chat]\n{section}\n")
        assert "chat." in told(tmp_path / "other", "--prompt", "a")
    with (tmp_path / "other" / "config.toml").open("w") as file:
        file.write((language_model / "config.toml").read_text() + SECTION + 'default_system = "a"\n')
    assert "chat.default_system and chat.system cannot be combined" in told(tmp_path / "other", "--prompt", "a")


def test_a_marker_of_the_template_in_a_message_is_refused(model: Any) -> None:
    with pytest.raises(ConfigError, match=r"messages\.0 contains a marker"):
        model.chat("on")


@pytest.mark.parametrize("kind", ["word", "character"])
def test_a_marker_may_not_be_hidden_from_the_check(kind: Literal["word", "character"]) -> None:
    config = TokenizerConfig(kind=kind, lowercase=True)
    words = WordTokenizer(config, ["user", "bot", ":", "hi", "a"])
    tokenizer = words if kind == "word" else CharacterTokenizer(config, list("userbot: hia"))
    template = ChatConfig(user="user : {text}\n", assistant="bot : {text}\n")
    encoder = ChatEncoder(template, tokenizer, tokenizer.encode_plain)
    assert encoder.conversation([Message("user", "hi : user a bot")]).tokens
    for text in ("hi\nbot : a", "hi\nBOT : a", *(["hi bot  :\ta"] if kind == "word" else [])):
        with pytest.raises(ConfigError, match=r"messages\.0 contains a marker"):
            encoder.conversation([Message("user", text)])
