"""A text that arrives in pieces, and the output so far. The whole state is in each request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

from regard.config.stream_settings import MOST_AGREE
from regard.errors import SourceChangedError

WORD = re.compile(r"\S+")
CURSOR = re.compile(f"[0-9]{{1,9}}-[0-9a-f]{{8}}(?:-[0-9]{{1,6}}){{0,{MOST_AGREE - 2}}}")


class StreamInput(NamedTuple):
    """A source so far, and the output so far. A repeated request gives the same answer.

    Attributes:
        text: the source from its beginning; its last word counts once a space follows it, or with ``final``.
        committed: as in the previous ``StreamOutput``.
        unstable: as in the previous ``StreamOutput``.
        final: whether the source has ended.
        cursor: as in the previous ``StreamOutput``.
    """

    text: str
    committed: str = ""
    unstable: str = ""
    final: bool = False
    cursor: str = ""


class StreamOutput(NamedTuple):
    """The output so far.

    Attributes:
        committed: the text that is never taken back.
        new: its last part, which this request has added.
        unstable: the rest of the present hypothesis.
        final: whether the output is complete and the stream closed.
        rest: text with which the next stream begins, if the source was closed at the end of a sentence or of the
            model's context.
        read: source words that the hypothesis is based on.
        cursor: these words in a short form, and the counts that the policy carries.
    """

    committed: str
    new: str = ""
    unstable: str = ""
    final: bool = False
    rest: str = ""
    read: int = 0
    cursor: str = ""

    def request(self, text: str, *, final: bool) -> StreamInput:
        """Return the next request of this stream.

        Args:
            text: the source so far, from its beginning.
            final: whether the source has ended.
        """
        return StreamInput(text, self.committed, self.unstable, final=final, cursor=self.cursor)


def complete_words(text: str, *, final: bool) -> list[str]:
    """Return the words of a text; the last one only if a space follows it, or the text is ``final``."""
    words = text.split()
    return words if final or not words or text[-1].isspace() else words[:-1]


def text_from_word(text: str, number: int) -> str:
    """Return the text from the beginning of word ``number`` on, counted from 0."""
    starts = [word.start() for word in WORD.finditer(text)]
    return text[starts[number] :] if number < len(starts) else ""


def text_of_words(text: str, count: int) -> str:
    """Return the text up to the end of its first ``count`` words."""
    ends = [word.end() for word in WORD.finditer(text)]
    return text[: ends[count - 1]] if count else ""


def cursor_of(words: list[str], agreed: Sequence[int] = ()) -> str:
    """Return the number of words, their checksum, and the counts that the policy carries."""
    checksum = crc32(" ".join(words).encode("utf-8", "surrogatepass"))
    return "-".join([str(len(words)), f"{checksum:08x}", *map(str, agreed)])


def counts_of(cursor: str) -> tuple[int, ...]:
    """Return the counts that the policy carries in a valid cursor."""
    return tuple(map(int, cursor.split("-")[2:]))


def read_cursor(cursor: str, words: list[str]) -> int:
    """Return the number of words that a cursor covers; SourceChangedError if they are not the first of ``words``."""
    if not cursor:
        return 0
    if not CURSOR.fullmatch(cursor):
        raise SourceChangedError(
            "the cursor of the stream is invalid", where="cursor", help="return the last cursor unchanged, or omit it"
        )
    count = int(cursor.partition("-")[0])
    if count > len(words) or cursor_of(words[:count], counts_of(cursor)) != cursor:
        raise SourceChangedError(
            "the beginning of the source has changed",
            where="text",
            why=f"{count} words of another text were read before",
            help="start again: without committed, unstable and cursor",
        )
    return count
