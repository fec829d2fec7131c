"""Answers of OpenAI's interface for completions: whole, and chunk by chunk."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.server.batching.generating import text_of
from regard.server.generation_request import OpenedRequest
from regard.server.off_loop import off_loop
from regard.tasks.language_model.text_listener import TextStep, TokenScore

HALF = "\ufffd"  # for bytes that are no character, or none yet
LONGEST = 4  # bytes of a character


class LogProbs(BaseModel):
    """Tokens of a text, and how probable each was."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float]] | None
    text_offset: list[int]


class Choice(BaseModel):
    """Text, or a part of one."""

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
    """Texts that go on from prompts."""

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
    """Error as OpenAI's clients read it."""

    error: ErrorDetails


class _Spelling:
    """Tokens of one text as texts, with the place of each in the text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._offset = tokenizer, 0
        self._half: list[int] = []  # tokens of a character that is not whole

    def text(self, token: int) -> str:
        """Return the text of a token; its spelling in the vocabulary where that is none."""
        return _spelled(self._tokenizer, token)

    def place(self, token: int) -> int:
        """Return the place of the next token."""
        place = self._offset
        text = self._tokenizer.decode([*self._half, token])
        if text.endswith(HALF) and len(self._half) + 1 < LONGEST:
            self._half.append(token)
        else:
            self._half.clear()
            self._offset += len(text)
        return place


def _spelled(tokenizer: Tokenizer, token: int) -> str:
    text = tokenizer.decode([token])
    return text if text and HALF not in text else tokenizer.pieces([token])[0]


class Answer:
    """Answer to one request. ``told``: a stream ends with the usage."""

    def __init__(
        self, opened: OpenedRequest, *, echo: bool, logprobs: int | None, told: bool,
        prompt_scores: Sequence[Sequence[TokenScore]] | None,
    ) -> None:  # fmt: skip
        self._opened, self._echo, self._logprobs, self.told = opened, echo, logprobs, told
        self._prompt_scores = prompt_scores
        tokenizer = opened.model.served.start()[0].tokenizer
        self._texts = len(opened.texts.prompts) * opened.texts.samples
        self._spellings = [_Spelling(tokenizer) for _ in range(self._texts)]
        self._tokens = [0] * self._texts
        self._head = {
            "id": f"cmpl-{secrets.token_hex(12)}", "object": "text_completion", "created": int(time.time()),
            "model": opened.model.name,
        }  # fmt: skip

    def whole(self, texts: Sequence[Sequence[TextStep]] | None) -> dict[str, Any]:
        """Return the whole answer; without ``texts``, the prompts alone."""
        choices = []
        for number in range(self._texts):
            steps = texts[number] if texts is not None else ()
            begins = self._prompt_scores[self._prompt(number)] if self._prompt_scores is not None else ()
            text = self._prompt_text(number) + text_of(steps)
            scores = [*begins, *(step.score for step in steps)]
            self._tokens[number] = len(steps)
            choices.append(self._choice(number, text, scores, steps[-1].piece.finish_reason if steps else "length"))
        return self._head | {"choices": choices, "usage": self._usage()}

    def begun(self, *, ended: bool) -> Iterator[dict[str, Any]]:
        """Yield a chunk with the prompt of each text that begins with it; ``ended``: nothing follows."""
        for number in range(self._texts) if self._echo else ():
            scores = self._prompt_scores[self._prompt(number)] if self._prompt_scores is not None else ()
            yield self._chunk([self._choice(number, self._prompt_text(number), scores, "length" if ended else None)])

    async def chunk(self, number: int, step: TextStep) -> dict[str, Any] | None:
        """Return the chunk of a step; None where it has neither text nor probabilities."""
        self._tokens[number] += 1
        choice = partial(self._choice, number, step.piece.text, [step.score], step.piece.finish_reason)
        if self._logprobs is not None:
            return self._chunk([await off_loop(choice)])  # it decodes tokens
        return self._chunk([choice()]) if step.piece.text or step.piece.finish_reason else None

    def usage_chunk(self) -> dict[str, Any]:
        """Return the last chunk, which tells the numbers of tokens."""
        return self._head | {"choices": [], "usage": self._usage()}

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return self._head | {"choices": choices} | ({"usage": None} if self.told else {})

    def _prompt(self, number: int) -> int:
        """Return the number of a text's prompt."""
        return number // self._opened.texts.samples

    def _prompt_text(self, number: int) -> str:
        """Return what a text begins with."""
        return self._opened.asked.prompts[self._prompt(number)] if self._echo else ""

    def _choice(self, number: int, text: str, scores: Sequence[TokenScore], reason: str | None) -> dict[str, Any]:
        """Return a text, or a part of one."""
        logprobs = None if self._logprobs is None else self._log_probabilities(self._spellings[number], scores)
        reason = "stop" if reason == "end" else reason
        return {"text": text, "index": number, "logprobs": logprobs, "finish_reason": reason}

    def _log_probabilities(self, spelling: _Spelling, scores: Sequence[TokenScore]) -> dict[str, Any]:
        """Return the tokens of a part of a text and how probable each was."""
        likeliest = []
        for score in scores:
            best: dict[str, float] = {}
            for token, value in score.alternatives:
                best.setdefault(spelling.text(token), value)
            likeliest.append(best)
        return {
            "tokens": [spelling.text(score.token) for score in scores],
            "token_logprobs": [score.log_probability for score in scores],
            "top_logprobs": likeliest if self._logprobs else None,
            "text_offset": [spelling.place(score.token) for score in scores],
        }

    def _usage(self) -> dict[str, int]:
        """Return the numbers of tokens of prompts and texts."""
        prompts, texts = sum(len(tokens) - 1 for tokens in self._opened.texts.prompts), sum(self._tokens)
        return {"prompt_tokens": prompts, "completion_tokens": texts, "total_tokens": prompts + texts}
