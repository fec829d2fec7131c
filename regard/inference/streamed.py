"""Streams of whole texts, word by word, and the delay of each word of the outputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from regard.core.task import not_interrupted
from regard.inference.text_stream import StreamInput, StreamOutput


class Advances(Protocol):
    """A model that continues streams, such as ``StreamingTranslator``."""

    def advance(
        self, requests: Sequence[StreamInput], *, interrupted: Callable[[], bool] = not_interrupted
    ) -> list[StreamOutput]: ...


@dataclass
class Streamed:
    """One output that was streamed.

    Attributes:
        source_length: the number of words of the source.
        text: the committed output.
        delays: for each word, the number of source words that were read when it was complete.
        revisions: words of unstable text that a later hypothesis changed or removed.
        steps: the seconds of computation of each request.
    """

    source_length: int
    text: str = ""
    delays: list[int] = field(default_factory=list)
    revisions: int = 0
    steps: list[float] = field(default_factory=list)

    def add(self, output: StreamOutput, read: int, seconds: float) -> None:
        """Add the output of a request after ``read`` source words; ``seconds``: of computation for this request."""
        self.steps.append(seconds)
        if output.new and self.text and not self.text[-1].isspace() and not output.new[0].isspace():
            self.delays[-1] = read  # the last word has become longer
        self.text = output.committed
        self.delays += [read] * (len(self.text.split()) - len(self.delays))


def stream_texts(
    model: Advances,
    texts: Sequence[str],
    *,
    together: int = 1,
    done: Callable[[int], None] = lambda count: None,
    interrupted: Callable[[], bool] = not_interrupted,
) -> list[Streamed]:
    """Stream each text word by word and return the outputs.

    Args:
        model: continues the streams.
        texts: the whole sources.
        together: the number of streams that advance in one batch; above 1, ``steps`` are those of the batch.
        done: called with the number of finished texts.
        interrupted: returns whether to stop.
    """
    results = []
    for first in range(0, len(texts), together):
        results += _stream_batch(model, texts[first : first + together], interrupted)
        done(len(texts[first : first + together]))
    return results


def _stream_batch(model: Advances, texts: Sequence[str], interrupted: Callable[[], bool]) -> list[Streamed]:
    words = [text.split() for text in texts]
    streamed = [Streamed(len(own)) for own in words]
    outputs = [StreamOutput("") for _ in texts]
    for read in range(1, max(map(len, words), default=0) + 1):
        active = [number for number, own in enumerate(words) if read <= len(own)]
        requests = [outputs[n].request(" ".join(words[n][:read]) + " ", final=read == len(words[n])) for n in active]
        begin = time.perf_counter()
        answers = model.advance(requests, interrupted=interrupted)
        seconds = time.perf_counter() - begin
        for number, answer in zip(active, answers, strict=True):
            streamed[number].revisions += revised_words(outputs[number], answer)
            streamed[number].add(answer, read, seconds)
            outputs[number] = answer
    return streamed


def revised_words(before: StreamOutput, after: StreamOutput) -> int:
    """Return the number of unstable words that another hypothesis has changed or removed."""
    shown, now = (before.committed + before.unstable).split(), (after.committed + after.unstable).split()
    same = 0
    while same < min(len(shown), len(now)) and shown[same] == now[same]:
        same += 1
    return len(shown) - same
