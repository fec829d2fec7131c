"""Responses of OpenAI's interface for completions: complete, or in chunks."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel

from regard.data.tokenizers.tokenizer import BEGIN, Tokenizer
from regard.server.batching.generating import text_of
from regard.server.generation_request import OpenedRequest
from regard.server.off_loop import off_loop
from regard.tasks.language_model.text_listener import TextStep, TokenScore

HALF = "\ufffd"  # replaces bytes that are not a character, or not yet
LONGEST = 4  # maximum number of bytes of a character in UTF-8


class LogProbs(BaseModel):
    """Tokens of a text with their log probabilities."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float]] | None
    text_offset: list[int]


class Choice(BaseModel):
    """Text or a part of a text."""

    text: str
    index: int
    logprobs: LogProbs | None
    finish_reason: Literal["stop", "length"] | None


class Usage(BaseModel):
    """Numbers of tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(BaseModel):
    """Continuations of prompts."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: Usage | None = None


class ErrorDetails(BaseModel):
    """Description of an error."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorAnswer(BaseModel):
    """Error in OpenAI's format."""

    error: ErrorDetails


class _TokenTexts:
    """Tokens of a text as strings, with their offsets in the text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._offset = tokenizer, 0
        self._half: list[int] = []  # tokens of an incomplete character

    def text(self, token: int) -> str:
        """Return the text of a token, or its entry in the vocabulary if it is not a text."""
        return _token_text(self._tokenizer, token)

    def next_offset(self, token: int) -> int:
        """Return the offset of the next token, and advance by its text."""
        offset = self._offset
        text = self._tokenizer.decode([*self._half, token])
        if text.endswith(HALF) and len(self._half) + 1 < LONGEST:
            self._half.append(token)
        else:
            self._half.clear()
            self._offset += len(text)
        return offset


def _token_text(tokenizer: Tokenizer, token: int) -> str:
    text = tokenizer.decode([token])
    return text if text and HALF not in text else tokenizer.pieces([token])[0]


def finish_reason(reason: str | None) -> str | None:
    """Return the reason of an end by OpenAI's name."""
    return "stop" if reason == "end" else reason


class CompletionBase:
    """Base of responses: the fields that all chunks share, and the numbers of tokens.

    Args:
        opened: the request.
        id: the beginning of the id.
        kind: the type of the response.
        include_usage: whether a stream ends with the numbers of tokens.
    """

    def __init__(self, opened: OpenedRequest, *, id: str, kind: str, include_usage: bool) -> None:
        self.opened, self.include_usage = opened, include_usage
        self.texts = len(opened.texts.prompts) * opened.texts.samples
        self._tokens = [0] * self.texts
        self.head = {
            "id": f"{id}-{secrets.token_hex(12)}", "object": kind, "created": int(time.time()),
            "model": opened.model.name,
        }  # fmt: skip

    def count(self, number: int, tokens: int = 1) -> None:
        """Add to the number of tokens of a text."""
        self._tokens[number] += tokens

    def chunk_of(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a chunk of a stream."""
        return self.head | {"choices": choices} | ({"usage": None} if self.include_usage else {})

    def usage_chunk(self) -> dict[str, Any]:
        """Return the last chunk, with the numbers of tokens."""
        return self.head | {"choices": [], "usage": self.usage()}

    def usage(self) -> dict[str, int]:
        """Return the numbers of tokens of prompts and texts; the begin symbol does not count."""
        prompts = sum(len(tokens) - (tokens[0] == BEGIN) for tokens in self.opened.texts.prompts)
        texts = sum(self._tokens)
        return {"prompt_tokens": prompts, "completion_tokens": texts, "total_tokens": prompts + texts}


class Answer(CompletionBase):
    """Response to a request for completions.

    Args:
        opened: the request.
        echo: whether texts include their prompts.
        logprobs: the number of most probable tokens to return; None for no log probabilities.
        include_usage: whether a stream ends with the numbers of tokens.
        prompt_scores: the scores of the prompt tokens, if they are returned.
    """

    def __init__(
        self, opened: OpenedRequest, *, echo: bool, logprobs: int | None, include_usage: bool,
        prompt_scores: Sequence[Sequence[TokenScore]] | None,
    ) -> None:  # fmt: skip
        super().__init__(opened, id="cmpl", kind="text_completion", include_usage=include_usage)
        self._echo, self._logprobs, self._prompt_scores = echo, logprobs, prompt_scores
        tokenizer = opened.model.served.start()[0].tokenizer
        self._token_texts = [_TokenTexts(tokenizer) for _ in range(self.texts)]

    def whole(self, texts: Sequence[Sequence[TextStep]] | None) -> dict[str, Any]:
        """Return the complete response; without ``texts``, only the prompts."""
        choices = []
        for number in range(self.texts):
            steps = texts[number] if texts is not None else ()
            begins = self._prompt_scores[self._prompt(number)] if self._prompt_scores is not None else ()
            text = self._prompt_text(number) + text_of(steps)
            scores = [*begins, *(step.score for step in steps)]
            self.count(number, len(steps))
            choices.append(self._choice(number, text, scores, steps[-1].piece.finish_reason if steps else "length"))
        return self.head | {"choices": choices, "usage": self.usage()}

    def prompt_chunks(self, *, ended: bool) -> Iterator[dict[str, Any]]:
        """Yield a chunk with the prompt of each text, if texts include their prompts; ``ended``: no chunk follows."""
        for number in range(self.texts) if self._echo else ():
            scores = self._prompt_scores[self._prompt(number)] if self._prompt_scores is not None else ()
            yield self.chunk_of([self._choice(number, self._prompt_text(number), scores, "length" if ended else None)])

    async def chunk(self, number: int, step: TextStep) -> dict[str, Any] | None:
        """Return the chunk of a step; None if it has neither text nor probabilities."""
        self.count(number)
        choice = partial(self._choice, number, step.piece.text, [step.score], step.piece.finish_reason)
        if self._logprobs is not None:
            return self.chunk_of([await off_loop(choice)])  # decoding of tokens is slow
        return self.chunk_of([choice()]) if step.piece.text or step.piece.finish_reason else None

    def _prompt(self, number: int) -> int:
        """Return the index of the prompt of a text."""
        return number // self.opened.texts.samples

    def _prompt_text(self, number: int) -> str:
        """Return the prompt of a text if texts include their prompts, else an empty text."""
        return self.opened.request.prompts[self._prompt(number)] if self._echo else ""

    def _choice(self, number: int, text: str, scores: Sequence[TokenScore], reason: str | None) -> dict[str, Any]:
        """Return a text or a part of a text."""
        logprobs = None if self._logprobs is None else self._log_probabilities(self._token_texts[number], scores)
        return {"text": text, "index": number, "logprobs": logprobs, "finish_reason": finish_reason(reason)}

    def _log_probabilities(self, token_texts: _TokenTexts, scores: Sequence[TokenScore]) -> dict[str, Any]:
        """Return the tokens of a part of a text with their log probabilities."""
        top = []
        for score in scores:
            best: dict[str, float] = {}
            for token, value in score.alternatives:
                best.setdefault(token_texts.text(token), value)
            top.append(best)
        return {
            "tokens": [token_texts.text(score.token) for score in scores],
            "token_logprobs": [score.log_probability for score in scores],
            "top_logprobs": top if self._logprobs else None,
            "text_offset": [token_texts.next_offset(score.token) for score in scores],
        }
