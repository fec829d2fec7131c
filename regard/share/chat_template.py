"""The chat template of a foreign model, as a section ``chat``: texts between messages in place of a program.

The template is interpreted (``jinja_subset``) for a few conversations. The texts between their messages are the
section, which is accepted if it renders further conversations as the template does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from regard.config.chat import PLACE, ChatConfig, Message
from regard.core.wording import describe_validation_error
from regard.data.tokenizers.tokenizer import BEGIN, Tokenizer
from regard.errors import ModelError
from regard.share.jinja_subset import Refused, Unsupported, parse, render
from regard.share.marian_folder import SMALL, bytes_of, json_of

SYSTEM, USER, REPLY, USER_2 = (f"Message{number}Message" for number in range(4))
TEXTS = ("Add 2 + 2!", "one\ntwo  three\n\nfour", "größer – \"x\" <b>'y'</b>", "a")
PADDED = ("\n What? \n", "  yes", "no\n\n")
UNIT = re.compile(r"\s+|[<\[][^<\[\s]*|[^<\[\s]+")
SYMBOLS = ("bos_token", "eos_token", "unk_token", "pad_token")


class ImportedChat(NamedTuple):
    """The section of a folder's template; or None, with the reason if the folder has a template."""

    config: ChatConfig | None
    obstacle: str | None = None


def read_chat(folder: Path, tokenizer: Tokenizer) -> ImportedChat:
    """Return the chat template of a folder.

    Args:
        folder: the folder of the foreign model.
        tokenizer: the imported tokenizer.
    """
    try:
        settings = _json_if_exists(folder / "tokenizer_config.json")
        source = _source(folder, settings)
        return ImportedChat(None if source is None else derive(source, _symbols(settings), tokenizer))
    except (Unsupported, UnicodeDecodeError) as error:
        return ImportedChat(None, str(error))
    except ModelError as error:  # of a file that only the template needs
        return ImportedChat(None, f"{error.what}: {error.why}")


def derive(source: str, symbols: Mapping[str, str], tokenizer: Tokenizer) -> ChatConfig:
    """Return the section of a template.

    Args:
        source: the template.
        symbols: the texts of special pieces, such as ``bos_token``.
        tokenizer: the imported tokenizer.

    Raises:
        Unsupported: with the reason.
    """
    form = _Form(source, symbols)
    values = _derived(form)
    for strip in (False, True):
        try:
            config = ChatConfig.model_validate(values | {"strip": strip})
        except ValidationError as error:
            raise Unsupported(describe_validation_error(error)) from error
        if all(form.text(messages) == _text(config, messages) for messages in _conversations(config)):
            return _with_begin_symbol(config, symbols.get("bos_token"), tokenizer)
    raise Unsupported("its text is not that of the messages between fixed texts")


class _Form:
    """A parsed template, and its text for a conversation."""

    def __init__(self, source: str, symbols: Mapping[str, str]) -> None:
        self.template, self.symbols = parse(source), symbols

    def text(self, messages: Sequence[Message], *, reply: bool = True) -> str:
        """Return the text of a conversation; ``reply``: with the beginning of a reply at its end."""
        values: dict[str, Any] = {"tools": None, "documents": None, "add_generation_prompt": reply, **self.symbols}
        values["messages"] = [{"role": message.role, "content": message.text} for message in messages]
        return render(self.template, values)

    def parts(self, *messages: Message, reply: bool = True) -> list[str]:
        """Return the texts before, between and after the messages.

        Raises:
            Unsupported: a message is not exactly once in the text, in order.
            Refused: the template does not allow the conversation.
        """
        rest, parts = self.text(messages, reply=reply), list[str]()
        for message in messages:
            part, mark, rest = rest.partition(message.text)
            if not mark or message.text in rest:
                raise Unsupported(f"it does not write a message of the role {message.role} exactly once")
            parts.append(part)
        return [*parts, rest]


def _derived(form: _Form) -> dict[str, Any]:
    """Return the values of the section."""
    user, reply, user_2 = Message("user", USER), Message("assistant", REPLY), Message("user", USER_2)
    try:
        lead, user_to_reply, reply_to_user, opening = form.parts(user, reply, user_2)
        _, _, ended = form.parts(user, reply, reply=False)
        _, unanswered = form.parts(user, reply=False)
    except Refused as error:
        raise Unsupported(f"it refuses a plain conversation: {str(error)[:100]}") from error
    if opening != user_to_reply:
        raise Unsupported("the beginning of a reply differs from that of earlier replies")
    after_reply, after_user = _beginning(reply_to_user, ended), _beginning(user_to_reply, unanswered)
    before_user, before_reply = reply_to_user[len(after_reply) :], user_to_reply[len(after_user) :]
    if not lead.endswith(before_user):
        raise Unsupported("the text before the first message of the user differs from that before later ones")
    lead = lead[: len(lead) - len(before_user)]
    values = {"user": f"{before_user}{PLACE}{after_user}", "assistant": f"{before_reply}{PLACE}{after_reply}"}
    return values | _derived_system(form, lead, before_user)


def _derived_system(form: _Form, lead: str, before_user: str) -> dict[str, Any]:
    """Return ``begin`` and the keys of the system message; ``lead``: the text before a first message of the user."""
    user, system = Message("user", USER), Message("system", SYSTEM)
    try:
        if SYSTEM not in form.text([system, user]):
            return {"begin": lead}
        head, tail, _ = form.parts(system, user)
    except Refused:
        return {"begin": lead}
    if not tail.endswith(before_user):
        raise Unsupported("it writes the system message into the message of the user")
    tail = tail[: len(tail) - len(before_user)]
    if head.startswith(lead):
        return {"begin": lead, "system": f"{head[len(lead) :]}{PLACE}{tail}"}
    if not lead.startswith(head) or not lead[len(head) :].endswith(tail):
        raise Unsupported("its text without a system message differs in more than that message")
    begin = form.symbols.get("bos_token", "")
    begin = begin if head.startswith(begin) else ""
    default = lead[len(head) : len(lead) - len(tail)]
    return {"begin": begin, "system": f"{head[len(begin) :]}{PLACE}{tail}", "default_system": default}


def _beginning(text: str, other: str) -> str:
    """Return the beginning that two texts share, in whole marks such as ``<|end|>``, words and white space."""
    if text.startswith(other):
        return other
    shared = ""
    for unit, other_unit in zip(UNIT.findall(text), UNIT.findall(other), strict=False):
        if unit != other_unit:
            break
        shared += unit
    return shared


def _conversations(config: ChatConfig) -> list[list[Message]]:
    """Return the conversations on which a section must agree with its template."""
    conversations = []
    leads: list[list[Message]] = [[], [Message("system", "Be brief.\nBe  kind.")], [Message("system", " Be brief. \n")]]
    for lead, turns, texts in product(leads if config.system else leads[:1], range(1, 5), (TEXTS, PADDED)):
        roles = [("user", "assistant")[number % 2] for number in range(2 * turns - 1)]
        conversations.append([*lead, *(Message(role, texts[number % len(texts)]) for number, role in enumerate(roles))])
    return conversations


def _text(config: ChatConfig, messages: Sequence[Message]) -> str:
    return "".join(segment.text for segment in config.segments(messages))


def _with_begin_symbol(config: ChatConfig, symbol: str | None, tokenizer: Tokenizer) -> ChatConfig:
    """Return the section with ``begin_symbol`` in place of its text at the beginning."""
    if not symbol or not config.begin.startswith(symbol) or tokenizer.split_specials(symbol) != [BEGIN]:
        return config.model_copy(update={"begin_symbol": False})
    return config.model_copy(update={"begin": config.begin.removeprefix(symbol)})


def _source(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """Return the template of a folder; of several, the default one."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        return bytes_of(path, SMALL).decode("utf-8")
    source = settings.get("chat_template") or _json_if_exists(folder / "chat_template.json").get("chat_template")
    if isinstance(source, list):
        named = [entry for entry in source if isinstance(entry, dict) and entry.get("name") == "default"]
        source = named[0].get("template") if named else None
    return source if isinstance(source, str) and source else None


def _symbols(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of special pieces, each stated as a text or as an object with its content."""
    texts = {name: value.get("content") if isinstance(value := settings.get(name), dict) else value for name in SYMBOLS}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _json_if_exists(path: Path) -> dict[str, Any]:
    return json_of(path) if path.is_file() else {}
