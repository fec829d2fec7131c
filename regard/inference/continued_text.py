"""A text that grows by words, and its output by a model that continues streams, such as a translator."""

from __future__ import annotations

from typing import NamedTuple

from regard.inference.streamed import Advances
from regard.inference.text_stream import StreamOutput


class ContinuedText(NamedTuple):
    """The state of a text: its part that is not complete, and the output of this part.

    ``text``: words with a space after each. ``output``: the last one.
    """

    text: str = ""
    output: StreamOutput = StreamOutput("")

    def advance(self, model: Advances, words: str, *, final: bool) -> tuple[list[StreamOutput], ContinuedText]:
        """Return the outputs after further words, and the state after them.

        More than one output means that sentences were completed before the end of the text.

        Args:
            model: continues the stream.
            words: the further words, separated by spaces.
            final: whether the text ends with them; the next one begins empty.
        """
        text, output, outputs = self.text + (f"{words} " if words else ""), self.output, list[StreamOutput]()
        while True:
            (answer,) = model.advance([output.request(text, final=final)])
            outputs.append(answer)
            if not answer.final:
                return outputs, ContinuedText(text, answer)
            if not answer.rest:
                return outputs, ContinuedText()
            text, output = answer.rest, StreamOutput("")
