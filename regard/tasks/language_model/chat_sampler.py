"""Replies of a language model to conversations, by the chat template of its run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any

from regard.config.chat import Message, require_messages
from regard.config.search_settings import GenerationSettings
from regard.config.setting import document_settings
from regard.core.untrusted_files import json_value
from regard.core.wording import pluralize
from regard.errors import ConfigError
from regard.inference.chat import NO_MORE, ChatEncoder, Conversation
from regard.tasks.language_model.config import GenerateConfig
from regard.tasks.language_model.text_listener import Generated, GeneratedPiece, generated, texts_in_order
from regard.tasks.language_model.text_sampler import TextSampler

EXAMPLE = """chat.user = "<|user|>{text}\\n" and chat.assistant = "<|assistant|>{text}\\n\""""


class ChatSampler(TextSampler):
    """Base of a generator that replies to conversations."""

    @document_settings(GenerationSettings)
    def chat(self, messages: Any, *, seed: int | None = None, greedy: bool = False, **options: object) -> Generated:
        """Return the reply to a conversation: ``model.chat([{"role": "user", "content": "Hello"}], seed=1).text``.

        Args:
            messages: the messages, as ``config.chat.require_messages`` reads them; a text is one message of the user.
            seed: of sampling. A reply depends only on its conversation and the seed. None: that of the run, or a
                new one.
            greedy: whether to choose the most probable token.
            options: keys of the config section ``generate``, such as ``length``.

        Raises:
            ConfigError: for an invalid option or conversation, or a run without a chat template.
        """
        return next(self.replies([messages], self.adjusted(options), seed=seed, greedy=greedy))

    def replies(
        self,
        conversations: Sequence[Any],
        settings: GenerateConfig,
        *,
        samples: int = 1,
        seed: int | None = None,
        greedy: bool = False,
    ) -> Iterator[Generated]:
        """Generate the replies to all conversations in parallel, and yield them in order, without a ``prompt``.

        Args:
            conversations: see ``chat``.
            settings: settings of generation: ``model.settings``, or the result of ``adjusted``.
            samples: the number of replies to each conversation.
            seed: see ``chat``.
            greedy: see ``chat``.

        Raises:
            ConfigError: see ``chat``; raised before generation begins.
        """
        pieces = self._reply_pieces(conversations, settings, samples=samples, seed=seed, greedy=greedy)
        return texts_in_order([""] * len(conversations), samples, pieces)

    def stream_chat(
        self, messages: Any, settings: GenerateConfig, *, seed: int | None = None, greedy: bool = False
    ) -> Iterator[Generated]:
        """Return an iterator over the pieces of a reply during generation; ``log_probability`` is cumulative.

        Args:
            messages: see ``chat``.
            settings: see ``replies``.
            seed: see ``chat``.
            greedy: see ``chat``.

        Raises:
            ConfigError: see ``chat``; raised by this call.
        """
        pieces = self._reply_pieces([messages], settings, samples=1, seed=seed, greedy=greedy)
        return map(partial(generated, "", sample=0), pieces)

    def conversation(self, messages: Any, settings: GenerateConfig) -> Conversation:
        """Return the tokens of a conversation, and the end of its reply.

        Args:
            messages: see ``chat``.
            settings: settings of generation.

        Raises:
            ConfigError: see ``chat``; and for more tokens than the model attends to.
        """
        if self._chat_encoder is None:
            why = f"its config.toml has no section `chat`; set the form of its training text, such as {EXAMPLE}"
            raise ConfigError("this model has no chat template", where="chat", why=why)
        if settings.beam > 1:
            raise ConfigError("replies are sampled, not searched with a beam", where="beam", help="beam=1")
        conversation = self._chat_encoder.conversation(require_messages(messages))
        length, limit = len(conversation.tokens), self.decoding.context
        if length > limit:
            what = f"the conversation has {pluralize(length, 'token')}; the model attends to {limit:,}"
            raise ConfigError(what, help="remove earlier messages")
        return conversation

    def read_messages(self, line: str, settings: GenerateConfig) -> list[Message]:
        """Return the conversation of a line: a JSON list of messages, or the text of one message of the user.

        Args:
            line: the line.
            settings: settings of generation.

        Raises:
            ConfigError: see ``conversation``.
        """
        value = json_value(line)
        messages = require_messages(value if isinstance(value, list) else line)
        self.conversation(messages, settings)
        return messages

    @cached_property
    def _chat_encoder(self) -> ChatEncoder | None:
        encode = partial(self._encode, encode=self.tokenizer.encode_plain)
        return None if self.chat_config is None else ChatEncoder(self.chat_config, self.tokenizer, encode)

    def _reply_pieces(
        self, conversations: Sequence[Any], settings: GenerateConfig, *, samples: int, seed: int | None, greedy: bool
    ) -> Iterator[GeneratedPiece]:
        settings = settings.greedy() if greedy is True else settings
        read = [self.conversation(messages, settings) for messages in conversations]
        end = read[0].end if read else NO_MORE
        tokens = [conversation.tokens for conversation in read]
        return self.pieces_after(tokens, settings, samples=samples, seed=seed, greedy=greedy, end=end)
