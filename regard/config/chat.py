"""Conversations, and their text form: a template for each role, which is data and no program. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from regard.config.explain import InvalidCombination
from regard.core.untrusted_files import shortened
from regard.errors import ConfigError

PLACE = "{text}"
LONGEST = 1 << 16  # characters of a template
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


def _with_one_place(template: str) -> str:
    if template.count(PLACE) != 1:
        raise ValueError(f"a template must contain {PLACE} exactly once")
    return template


Text = Annotated[str, Field(max_length=LONGEST)]
Template = Annotated[Text, AfterValidator(_with_one_place)]


class Message(NamedTuple):
    """A message; ``role`` is ``system``, ``user`` or ``assistant``."""

    role: str
    text: str


class ChatPart(NamedTuple):
    """A part of the text form of a conversation: a text of the template, or the text of a message."""

    text: str
    is_template: bool


class ChatConfig(BaseModel):
    """Text form of a conversation, as in the training text. The reply continues `assistant` after its beginning."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    begin: Text = Field("", description="text before the first message")
    system: Template | None = Field(
        None, description="template of the system message, with `{text}` in place of the message; unset: none allowed"
    )
    user: Template = Field(description='template of a message of the user, such as `"<|user|>{text}\\n"`')
    assistant: Template = Field(
        description="template of a reply: generation continues the part before `{text}`, and ends at the part after it"
    )
    default_system: Text | None = Field(None, description="system message of conversations without one")
    strip: bool = Field(False, description="remove white space around each message")
    begin_symbol: bool = Field(
        True, description="put the begin symbol of the vocabulary before `begin`, as in training"
    )

    @model_validator(mode="after")
    def _has_place_for_default(self) -> Self:
        if self.default_system is not None and self.system is None:
            raise InvalidCombination(
                "chat.default_system",
                "chat.system",
                why="a system message requires its template",
                help="set chat.system, or remove chat.default_system",
            )
        return self

    def segments(self, messages: Sequence[Message]) -> Iterator[ChatPart]:
        """Yield the text form of a conversation, up to the text before the next reply.

        Raises:
            ConfigError: a system message, for which there is no template.
        """
        yield ChatPart(self.begin, is_template=True)
        if self.default_system is not None and messages[0].role != "system":
            messages = [Message("system", self.default_system), *messages]
        templates = {"system": self.system, "user": self.user, "assistant": self.assistant}
        for role, text in messages:
            template = templates[role]
            if template is None:
                why = "the section `chat` of its config has no key `system`"
                raise ConfigError("this model does not support system messages", why=why)
            before, _, after = template.partition(PLACE)
            yield ChatPart(before, is_template=True)
            yield ChatPart(text.strip() if self.strip else text, is_template=False)
            yield ChatPart(after, is_template=True)
        yield ChatPart(self.assistant.partition(PLACE)[0], is_template=True)

    @property
    def reply_end(self) -> str:
        """The text of the template after a reply."""
        return self.assistant.partition(PLACE)[2]


def require_messages(messages: object) -> list[Message]:
    """Return the messages of a conversation.

    Args:
        messages: objects with ``role`` and ``content``, as in OpenAI's API: optionally a system message, then messages
            of user and assistant in turn, the last one of the user. A text is one message of the user.

    Raises:
        ConfigError: the messages are not such a conversation.
    """
    if isinstance(messages, str):
        return [Message("user", messages)]
    if not isinstance(messages, list | tuple) or not messages:
        raise _invalid("expected a list with at least one message")
    read = [_message(number, message) for number, message in enumerate(messages)]
    turns = read[1:] if read[0].role == "system" else read
    for number, message in enumerate(turns, start=len(read) - len(turns)):
        expected = ("user", "assistant")[(number - len(read) + len(turns)) % 2]
        if message.role != expected:
            why = "after at most one system message, those of user and assistant alternate"
            raise _invalid(f"its role is {message.role!r}, and {expected!r} is expected: {why}", number)
    if not turns or turns[-1].role != "user":
        raise _invalid("the last message must be one of the user")
    return read


def _message(number: int, message: object) -> Message:
    if isinstance(message, Message):
        return message
    if not isinstance(message, Mapping):
        raise _invalid("expected an object with `role` and `content`", number)
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise _invalid(f"the role {shortened(repr(role), 40)} is not supported; roles are {', '.join(ROLES)}", number)
    if unsupported := [key for key, value in message.items() if value and key not in ("role", "content")]:
        raise _invalid(f"{shortened(str(unsupported[0]), 40)} is not supported", number)
    return Message(ROLES[role], _content(number, message.get("content")))


def _content(number: int, content: Any) -> str:
    """Return the text of a message: a string, or a list of parts that are texts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _invalid("`content` must be a text, or a list of parts of the type `text`", number)
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind != "text" or not isinstance(part.get("text"), str):
            raise _invalid(f"a part of the type {shortened(repr(kind), 40)} is not supported, only texts are", number)
        texts.append(part["text"])
    return "".join(texts)


def _invalid(why: str, number: int | None = None) -> ConfigError:
    where = "messages" if number is None else f"messages.{number}"
    return ConfigError(f"invalid conversation: {where}", why=why)
