"""Texts that grow by words, and their outputs by a model that continues streams, such as a translator."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from regard.core.task import not_interrupted
from regard.inference.streamed import Advances
from regard.inference.text_stream import StreamOutput


class ContinuedText(NamedTuple):
    """The state of a text: its part that is not complete, and the output of this part.

    ``text``: words with a space after each. ``output``: the last one.
    """

    text: str = ""
    output: StreamOutput = StreamOutput("")

    def advance(
        self, model: Advances, words: str, *, final: bool, interrupted: Callable[[], bool] = not_interrupted
    ) -> tuple[list[StreamOutput], ContinuedText]:
        """Return the outputs after further words, and the state after them.

        More than one output means that sentences were completed before the end of the text.

        Args:
            model: continues the stream.
            words: the further words, separated by spaces.
            final: whether the text ends with them; the next one begins empty.
            interrupted: returns whether to stop.
        """
        text, output, outputs = self.text + (f"{words} " if words else ""), self.output, list[StreamOutput]()
        while True:
            (answer,) = model.advance([output.request(text, final=final)], interrupted=interrupted)
            outputs.append(answer)
            if not answer.final:
                return outputs, ContinuedText(text, answer)
            if not answer.rest:
                return outputs, ContinuedText()
            text, output = answer.rest, StreamOutput("")


class GrowingOutput(NamedTuple):
    """The output of a segment: its committed text, the part of it that was added last, and the unstable rest."""

    committed: str = ""
    new: str = ""
    unstable: str = ""


class ContinuedSegments(NamedTuple):
    """The state of the outputs of segments, such as those of a stream of sound; each is complete at its end.

    ``closed``: output of the complete sentences of the segment. ``committed``: its committed output.
    """

    text: ContinuedText = ContinuedText()
    closed: str = ""
    committed: str = ""
    unstable: str = ""

    def advance(
        self, model: Advances, words: str, *, final: bool, interrupted: Callable[[], bool] = not_interrupted
    ) -> tuple[GrowingOutput, ContinuedSegments]:
        """Return the output of the present segment after further words, and the state after them.

        Args:
            model: continues the stream.
            words: the further words, separated by spaces; may be empty.
            final: whether the segment ends with them.
            interrupted: returns whether to stop.
        """
        text, closed, committed, unstable = self
        if words or (final and text.text):
            outputs, text = text.advance(model, words, final=final, interrupted=interrupted)
            for output in outputs:
                committed = " ".join(filter(None, [closed, output.committed]))
                closed = committed if output.final else closed
                unstable = output.unstable
        grown = GrowingOutput(committed, committed[len(self.committed) :], unstable)
        return grown, ContinuedSegments(text) if final else ContinuedSegments(text, closed, committed, unstable)
