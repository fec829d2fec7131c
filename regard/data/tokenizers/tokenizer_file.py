"""``tokenizer.json`` of the ``tokenizers`` library, parsed as a closed model of the parts that Regard writes.

The library's format has instructions with which a file can consume any memory and time: padding to a fixed length, a
long text that replaces a letter, regular expressions. A file is therefore parsed here, and the library receives JSON
written from the parsed model. Post-processor, padding and truncation are always null: Regard adds special pieces
itself.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from regard.core.wording import describe_validation_error

SIZE = 1 << 26  # bytes of a file; one of 128,000 pieces has 9 MB
LONGEST = 1 << 16  # characters of a piece
STEPS = 16  # maximum number of steps of a pre-tokenizer or a decoder

# Patterns of supported language models, which take linear time: Llama 3, Qwen 2, GPT-4o and GPT-2. Any other pattern
# must pass ``_is_linear``.
_CONTRACTED = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
PATTERNS = frozenset({
    rf"{_CONTRACTED}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}{_REST}",
    rf"{_CONTRACTED}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{_REST}",
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTED}?|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTED}?"
    rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
})  # fmt: skip

# A character or a character set, with its quantifier; or the bar between two alternatives.
_SIGN = r"\\[pP]\{\^?\w{1,20}\}|\\[sSdDwWrntfv]|\\[^\w\s]"
_STEP = re.compile(rf"(\[\^?(?:{_SIGN}|[^\\\[\]&])+\]|{_SIGN}|[^\\()\[\]{{}}*+?|^$.])([+*?]|\{{\d(?:,\d)?\}})?|(\|)")


def _is_linear(pattern: str) -> bool:
    """Return whether each alternative has at most three quantified characters, of which only the last is unlimited.

    A search then backtracks over a few characters at most, for any text.
    """
    position, repeated, unlimited, empty = 0, 0, False, True
    while step := _STEP.match(pattern, position):
        _, times, bar = step.groups()
        if empty if bar else unlimited or (times and repeated == 3):
            return False
        position, empty = step.end(), bool(bar)
        repeated, unlimited = (0, False) if bar else (repeated + bool(times), times in ("+", "*"))
    return position == len(pattern) and not empty


def _known(pattern: str) -> str:
    if pattern not in PATTERNS and not (len(pattern) <= 4096 and _is_linear(pattern)):
        raise ValueError("unsupported pattern: its time is not known to be linear in the text")
    return pattern


Piece = Annotated[str, Field(max_length=LONGEST)]
Sign = Annotated[str, Field(min_length=1, max_length=1)]
Id = Annotated[int, Field(ge=0, lt=1 << 31)]
Behavior = Literal["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _ByteLevel(_Part):
    type: Literal["ByteLevel"]
    add_prefix_space: bool = True
    trim_offsets: bool = True
    use_regex: bool = True


class _Metaspace(_Part):
    type: Literal["Metaspace"]
    replacement: Sign
    add_prefix_space: bool = True
    prepend_scheme: Literal["always", "never", "first"] = "always"
    split: bool = True


class _Punctuation(_Part):
    type: Literal["Punctuation"]
    behavior: Behavior = "Isolated"


class _Digits(_Part):
    type: Literal["Digits"]
    individual_digits: bool


class _Whitespace(_Part):
    type: Literal["Whitespace", "WhitespaceSplit", "BertPreTokenizer"]


class _Pattern(_Part):
    String: Annotated[str, Field(min_length=1, max_length=LONGEST)] | None = None
    Regex: Annotated[str, AfterValidator(_known)] | None = None

    @model_validator(mode="after")
    def _is_one(self) -> _Pattern:
        if (self.String is None) == (self.Regex is None):
            raise ValueError("a pattern is either a String or a Regex")
        return self


class _Split(_Part):
    type: Literal["Split"]
    pattern: _Pattern
    behavior: Behavior
    invert: bool = False


class _Nfc(_Part):
    type: Literal["NFC"]


class _BertNormalizer(_Part):
    type: Literal["BertNormalizer"]
    clean_text: bool
    handle_chinese_chars: bool
    strip_accents: bool | None
    lowercase: bool


class _Fuse(_Part):
    type: Literal["Fuse"]


class _WordPieceDecoder(_Part):
    type: Literal["WordPiece"]
    prefix: Literal["##"]
    cleanup: bool


_PreTokenizer = Annotated[
    _ByteLevel | _Metaspace | _Punctuation | _Digits | _Whitespace | _Split, Field(discriminator="type")
]
_Decoder = Annotated[_ByteLevel | _Metaspace | _Fuse | _WordPieceDecoder, Field(discriminator="type")]


def _once(steps: list[_Part]) -> list[_Part]:
    """Raise ValueError if a step that may lengthen the text occurs twice: the text would grow with each occurrence."""
    kinds = [type(step) for step in steps]
    if kinds.count(_ByteLevel) > 1 or kinds.count(_Metaspace) > 1:
        raise ValueError("a step that lengthens the text occurs twice")
    return steps


class _PreTokenizers(_Part):
    type: Literal["Sequence"]
    pretokenizers: Annotated[list[_PreTokenizer], Field(max_length=STEPS), AfterValidator(_once)]


class _Decoders(_Part):
    type: Literal["Sequence"]
    decoders: Annotated[list[_Decoder], Field(max_length=STEPS), AfterValidator(_once)]


class _Normalizers(_Part):
    type: Literal["Sequence"]
    normalizers: Annotated[list[_Nfc], Field(max_length=STEPS)]


class _AddedToken(_Part):
    id: Id
    content: Annotated[str, Field(min_length=1, max_length=LONGEST)]
    single_word: bool
    lstrip: bool
    rstrip: bool
    normalized: bool
    special: bool


class _BytePairs(_Part):
    type: Literal["BPE"]
    dropout: None = None
    unk_token: Piece | None = None
    continuing_subword_prefix: Literal[""] | None = None
    end_of_word_suffix: Literal[""] | None = None
    fuse_unk: bool = False
    byte_fallback: bool = False
    ignore_merges: bool = False
    vocab: dict[Piece, Id]
    merges: (
        list[Annotated[list[Piece], Field(min_length=2, max_length=2)]]
        | list[Annotated[str, Field(max_length=2 * LONGEST + 1)]]
    )


class _Unigram(_Part):
    type: Literal["Unigram"]
    unk_id: Id | None = None
    vocab: list[tuple[Piece, Annotated[float, Field(allow_inf_nan=False, strict=False)]]]
    byte_fallback: bool = False


class _WordPiece(_Part):
    type: Literal["WordPiece"]
    unk_token: Piece
    continuing_subword_prefix: Literal["##"]
    # A longer word is unknown. The search of its pieces takes time that grows with the square of its length.
    max_input_chars_per_word: Annotated[int, Field(ge=1, le=200)]
    vocab: dict[Piece, Id]


class _File(_Part):
    version: Literal["1.0"]
    truncation: None = None
    padding: None = None
    added_tokens: list[_AddedToken]
    normalizer: Annotated[_Nfc | _Normalizers | _BertNormalizer, Field(discriminator="type")] | None = None
    pre_tokenizer: Annotated[_PreTokenizer | _PreTokenizers, Field(discriminator="type")] | None = None
    post_processor: None = None
    decoder: Annotated[_Decoder | _Decoders, Field(discriminator="type")] | None = None
    model: Annotated[_BytePairs | _Unigram | _WordPiece, Field(discriminator="type")]

    @model_validator(mode="after")
    def _pieces_are_numbered(self) -> _File:
        """Require consecutive numbers, since the library allocates tables up to the largest number."""
        vocab = self.model.vocab
        numbers = set(vocab.values() if isinstance(vocab, dict) else range(len(vocab)))
        numbers |= {token.id for token in self.added_tokens}
        if numbers != set(range(len(numbers))):
            raise ValueError("the pieces of this tokenizer are not numbered consecutively")
        return self


def rebuild(content: bytes) -> str:
    """Return JSON that is safe for the library, written from the parsed parts of ``content``.

    Raises:
        ValueError: with the reason, for a part that Regard does not write, a value out of bounds, and invalid JSON.
    """
    if len(content) > SIZE:
        raise ValueError(f"the tokenizer has more than {SIZE:,} bytes")
    try:
        return _File.model_validate_json(content).model_dump_json(exclude_unset=True)
    except ValidationError as error:
        raise ValueError(f"not a tokenizer of the tokenizers library: {describe_validation_error(error)}") from None
