"""Conversations as token ids: special pieces come from the template only, never from the text of a message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from regard.config.chat import PLACE, ChatConfig, ChatPart, Message
from regard.data.tokenizers.tokenizer import BEGIN, Tokenizer
from regard.errors import ConfigError


class ReplyEnd(NamedTuple):
    """The tokens and texts that end a generated text, in addition to the end symbol and the stop strings."""

    tokens: frozenset[int] = frozenset()
    texts: tuple[str, ...] = ()


NO_MORE = ReplyEnd()


class Conversation(NamedTuple):
    """A conversation up to the beginning of the next reply."""

    tokens: list[int]
    end: ReplyEnd


class ChatEncoder:
    """Encoder of conversations.

    The texts of the template are searched for special pieces; everything between two special pieces is encoded at once,
    as text.

    Args:
        config: the template.
        tokenizer: the tokenizer of the model.
        encode: encodes a text without special pieces.
    """

    def __init__(self, config: ChatConfig, tokenizer: Tokenizer, encode: Callable[[str], list[int]]) -> None:
        self._config, self._encode, self._tokenizer = config, encode, tokenizer
        self._split = cache(tokenizer.split_specials)  # a conversation repeats few texts of the template
        self._end = _reply_end(self._split(config.reply_end))
        templates = [template for template in (config.system, config.user, config.assistant) if template is not None]
        texts = [part for template in templates for part in template.split(PLACE)]
        markers = [text.strip() for text in texts if text.strip() and self._split(text) == [text]]
        self._markers = [(marker, self._as_read(marker)) for marker in dict.fromkeys(markers)]

    def conversation(self, messages: Sequence[Message]) -> Conversation:
        """Return the tokens of a conversation.

        Raises:
            ConfigError: a message contains a marker of the template, the template has no place for the system message,
                or the vocabulary cannot encode a text.
        """
        for number, message in enumerate(messages):
            text, known = message.text, self._as_read(message.text) if self._markers else ""
            if marker := next((one for one, read in self._markers if one in text or (read and read in known)), None):
                why = f"{marker[:50]!r} separates messages in the chat template, and the tokenizer reads it as text"
                raise ConfigError(f"messages.{number} contains a marker", why=why)
        tokens = [BEGIN] if self._config.begin_symbol else []
        for part in self._parts(list(self._config.segments(messages))):
            tokens += [part] if isinstance(part, int) else self._encode(part)
        return Conversation(tokens, self._end)

    def _as_read(self, text: str) -> str:
        """Return a text as its tokens hold it: the tokenizer may lower-case or normalize it."""
        return self._tokenizer.decode(self._tokenizer.encode_plain(text)).strip()

    def _parts(self, segments: Sequence[ChatPart]) -> list[str | int]:
        """Return the special pieces and the texts between them; neighboring texts are joined."""
        parts: list[str | int] = []
        for segment in _joined(segments):
            for part in self._split(segment.text) if segment.is_template else [segment.text]:
                if parts and isinstance(part, str) and isinstance(parts[-1], str):
                    parts[-1] += part
                elif part != "":
                    parts.append(part)
        return parts


def _joined(segments: Sequence[ChatPart]) -> list[ChatPart]:
    """Return the segments with neighboring texts of the template joined."""
    joined: list[ChatPart] = []
    for segment in segments:
        if segment.is_template and joined and joined[-1].is_template:
            joined[-1] = ChatPart(joined[-1].text + segment.text, is_template=True)
        else:
            joined.append(segment)
    return joined


def _reply_end(parts: Sequence[str | int]) -> ReplyEnd:
    """Return the end of a reply: the first special piece after it, or the text before that piece."""
    text = ""
    for part in parts:
        if isinstance(part, int) and not text.strip():
            return ReplyEnd(tokens=frozenset({part}))
        if isinstance(part, int):
            break
        text += part
    text = text.rstrip() or text
    return ReplyEnd(texts=(text,) if text else ())
