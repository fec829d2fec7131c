"""Bounds of a SentencePiece model, checked in its bytes before the library reads it.

A model is a message of Protocol Buffers (``sentencepiece_model.proto`` of https://github.com/google/sentencepiece). Its
normalizer may replace a letter by a text of any length, so that a short line takes any memory; pieces may be long, too.
"""

from __future__ import annotations

from collections.abc import Iterator

SIZE = 1 << 26  # bytes of a model; one of 256,000 pieces has 4 MB
LONGEST = 1 << 10  # bytes of a piece: SentencePiece makes none of more than 16 characters, if nobody says otherwise
REPLACEMENT = 64  # bytes that a letter may become; 33 are the most of Unicode's own table (NFKC of U+FDFA)
PIECES, NORMALIZER, DENORMALIZER = 1, 3, 5  # fields of a model
PIECE, CHARACTERS = 1, 2  # fields of a piece, and of a normalizer: its table of replacements
NUMBER, FIXED64, TEXT, FIXED32 = 0, 1, 2, 5  # types of fields


def require_bounded(model: bytes) -> None:
    """ValueError for a model that is none, or has a replacement or a piece that is too long."""
    if len(model) > SIZE:
        raise ValueError(f"the SentencePiece model has more than {SIZE:,} bytes")
    for field, part in _fields(model):
        if field == PIECES:
            for inner, piece in _fields(part):
                if inner == PIECE and len(piece) > LONGEST:
                    raise ValueError(f"a piece of the SentencePiece model has more than {LONGEST:,} bytes")
        elif field in (NORMALIZER, DENORMALIZER):
            for inner, table in _fields(part):
                if inner == CHARACTERS:
                    _require_short(table)


def _require_short(table: bytes) -> None:
    """ValueError where a replacement is too long.

    The table is the length of an index in bytes, the index, and texts that end in 0. The library checks the index.
    """
    texts = table[4 + int.from_bytes(table[:4], "little") :]
    if max(map(len, texts.split(b"\0"))) > REPLACEMENT:
        raise ValueError(f"the SentencePiece model replaces a letter by more than {REPLACEMENT} bytes")


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The number of each field of a message, and the bytes of those that are texts or messages."""
    place = 0
    while place < len(message):
        tag, place = _number(message, place)
        size = 0
        if tag & 7 == NUMBER:
            _, place = _number(message, place)
        elif tag & 7 == TEXT:
            size, place = _number(message, place)
        elif tag & 7 in (FIXED64, FIXED32):
            place += 8 if tag & 7 == FIXED64 else 4
        else:
            raise ValueError("not a SentencePiece model")
        if place + size > len(message):
            raise ValueError("not a SentencePiece model: it is truncated")
        yield tag >> 3, message[place : place + size]
        place += size


def _number(message: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    for byte in message[place : place + 10]:
        number |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return number, place
    raise ValueError("not a SentencePiece model: it is truncated")
