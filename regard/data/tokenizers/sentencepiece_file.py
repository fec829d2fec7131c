"""Size limits of a SentencePiece model, checked in its bytes before the library reads it.

A model is a Protocol Buffers message (https://github.com/google/sentencepiece, ``sentencepiece_model.proto``). Its
normalizer may replace a letter by a text of any length, so a short line could take unlimited memory; pieces may be
long, too.
"""

from __future__ import annotations

from collections.abc import Iterator

SIZE = 1 << 26  # bytes of a model; one of 256,000 pieces has 4 MB
LONGEST = 1 << 10  # bytes of a piece; SentencePiece's default limit is 16 characters
REPLACEMENT = 64  # bytes that replace a letter; the maximum in Unicode is 33 (NFKC of U+FDFA)
PIECES, NORMALIZER, DENORMALIZER = 1, 3, 5  # fields of a model
PIECE, CHARACTERS = 1, 2  # fields: the text of a piece, and the replacement table of a normalizer
NUMBER, FIXED64, TEXT, FIXED32 = 0, 1, 2, 5  # types of fields


def require_bounded(model: bytes) -> None:
    """Raise ValueError for an invalid model, and for a replacement or a piece that is too long."""
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
    """Raise ValueError if a replacement is too long.

    The table is the length of an index in bytes, the index, and null-terminated texts. The library checks the index.
    """
    texts = table[4 + int.from_bytes(table[:4], "little") :]
    if max(map(len, texts.split(b"\0"))) > REPLACEMENT:
        raise ValueError(f"the SentencePiece model replaces a letter with more than {REPLACEMENT} bytes")


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each field of a message, and the bytes of the fields that are texts or messages."""
    position = 0
    while position < len(message):
        tag, position = _number(message, position)
        size = 0
        if tag & 7 == NUMBER:
            _, position = _number(message, position)
        elif tag & 7 == TEXT:
            size, position = _number(message, position)
        elif tag & 7 in (FIXED64, FIXED32):
            position += 8 if tag & 7 == FIXED64 else 4
        else:
            raise ValueError("not a SentencePiece model")
        if position + size > len(message):
            raise ValueError("not a SentencePiece model: it is truncated")
        yield tag >> 3, message[position : position + size]
        position += size


def _number(message: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    for byte in message[position : position + 10]:
        number |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return number, position
    raise ValueError("not a SentencePiece model: it is truncated")
