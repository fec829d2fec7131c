"""Requests and responses of OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from regard.config.chat import Message, require_messages
from regard.errors import ConfigError
from regard.server.api.openai_answers import CompletionBase, Usage, finish_reason
from regard.server.api.openai_sampling import SamplingRequest
from regard.server.api_error import ApiError, public_message
from regard.server.batching.generating import text_of
from regard.server.generation_request import OpenedRequest
from regard.tasks.language_model.text_listener import TextStep

# Fields of OpenAI that are refused unless they are empty or have the value that changes nothing.
UNSUPPORTED: dict[str, Any] = {
    "tools": None, "tool_choice": "none", "parallel_tool_calls": None, "functions": None, "function_call": "none",
    "response_format": {"type": "text"}, "logprobs": None, "top_logprobs": None, "logit_bias": None,
    "modalities": ["text"], "audio": None, "prediction": None, "reasoning_effort": "none", "verbosity": None,
    "web_search_options": None, "service_tier": "auto", "store": None, "metadata": None,
}  # fmt: skip
Length = Annotated[int, Field(ge=1, lt=2**63)] | None


class ChatRequest(SamplingRequest):
    """Request for replies to a conversation. Other settings of `/v1/generate` (`top_k`, …) are also accepted."""

    messages: list[Any] = Field(
        description="Objects with `role` (`system`, `developer`, `user`, `assistant`) and `content`."
    )
    max_tokens: Length = Field(None, description="Maximum number of tokens; left out: that of the run.")
    max_completion_tokens: Length = Field(None, description="The same as `max_tokens`, and preferred to it.")

    @property
    def length_name(self) -> str:
        """The name of the field with the length, for errors."""
        return "max_tokens" if self.max_completion_tokens is None else "max_completion_tokens"

    def conversation(self) -> tuple[list[Message], str]:
        """Return the messages, and their texts as one; raise ApiError for unsupported fields and invalid messages."""
        for name, harmless in UNSUPPORTED.items():
            value = (self.model_extra or {}).pop(name, None)
            if value and value != harmless:
                raise ApiError(400, f"Invalid request: {name} is not supported")
        self.refuse_unknown()
        try:
            messages = require_messages(self.messages)
        except ConfigError as error:
            raise ApiError(400, f"Invalid request: {public_message(error)}") from error
        return messages, "".join(message.text for message in messages)

    def settings(self) -> dict[str, Any]:
        """Return the settings of generation, by the names of ``GenerateRequest``."""
        return self.sampling() | {"length": getattr(self, self.length_name)}


class ChatMessage(BaseModel):
    """Reply."""

    role: Literal["assistant"]
    content: str
    refusal: None = None


class ChatChoice(BaseModel):
    """Reply with its number and the reason of its end."""

    index: int
    message: ChatMessage
    logprobs: None = None
    finish_reason: Literal["stop", "length"]


class ChatCompletion(BaseModel):
    """Replies to a conversation."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class ChatAnswer(CompletionBase):
    """Response to a chat request.

    Args:
        opened: the request.
        stream: whether the response is sent in chunks.
        include_usage: whether a stream ends with the numbers of tokens.
    """

    def __init__(self, opened: OpenedRequest, *, stream: bool, include_usage: bool) -> None:
        kind = "chat.completion.chunk" if stream else "chat.completion"
        super().__init__(opened, id="chatcmpl", kind=kind, include_usage=include_usage)

    def whole(self, texts: Sequence[Sequence[TextStep]]) -> dict[str, Any]:
        """Return the complete response."""
        choices = []
        for number, steps in enumerate(texts):
            self.count(number, len(steps))
            message = {"role": "assistant", "content": text_of(steps), "refusal": None}
            reason = finish_reason(steps[-1].piece.finish_reason)
            choices.append({"index": number, "message": message, "logprobs": None, "finish_reason": reason})
        return self.head | {"choices": choices, "usage": self.usage()}

    def prompt_chunks(self, *, ended: bool) -> Iterator[dict[str, Any]]:
        """Yield a chunk with the role of each reply."""
        for number in range(self.texts):
            yield self._delta(number, {"role": "assistant", "content": ""}, None)

    async def chunk(self, number: int, step: TextStep) -> dict[str, Any] | None:
        """Return the chunk of a step; None if it has no text."""
        self.count(number)
        text, reason = step.piece.text, finish_reason(step.piece.finish_reason)
        return self._delta(number, {"content": text} if text else {}, reason) if text or reason else None

    def _delta(self, number: int, delta: dict[str, str], reason: str | None) -> dict[str, Any]:
        return self.chunk_of([{"index": number, "delta": delta, "logprobs": None, "finish_reason": reason}])
