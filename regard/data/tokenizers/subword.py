"""Subword tokenizers of SentencePiece and Hugging Face ``tokenizers``."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from regard.data.foreign_errors import foreign_errors, is_foreign
from regard.data.tokenizers.sentencepiece_file import require_bounded
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, SPECIALS, UNKNOWN, SizeMisfit, Tokenizer, TokenizerConfig
from regard.data.tokenizers.tokenizer_file import rebuild
from regard.errors import DataError, ModelError

DEFAULT_SIZE = 8000
FAILED = "the model's tokenizer failed on a text"
FEW = 16  # lines that are encoded without threads
THREADS = -1  # threads of SentencePiece per call; −1: all cores
SAMPLE = 10_000_000  # lines that SentencePiece holds in memory; larger corpora are sampled


def _encoded(processor: Any, lines: Sequence[str], kind: type) -> list[list[Any]]:
    """Return the pieces of each line, as numbers or texts; a few lines do not pay for starting threads."""
    if len(lines) <= FEW:
        return [processor.encode(line, out_type=kind) for line in lines]
    encoded: list[list[Any]] = processor.encode(list(lines), out_type=kind, num_threads=THREADS)
    return encoded


class SentencePieceTokenizer(Tokenizer):
    """Tokenizer with a SentencePiece model; runs of spaces become one space, other text is not normalized."""

    def __init__(self, config: TokenizerConfig, model: bytes) -> None:
        """Load a model. Raises ValueError if ``model`` is not a SentencePiece model."""
        from sentencepiece import SentencePieceProcessor

        super().__init__(config)
        self._model = model
        if not model:  # the library accepts this and fails later
            raise ValueError("not a SentencePiece model: it is empty")
        require_bounded(model)
        try:
            self._processor = SentencePieceProcessor(model_proto=model)
        except BaseException as error:
            if not is_foreign(error):
                raise
            raise ValueError("not a SentencePiece model") from error

    @property
    def model(self) -> bytes:
        """Bytes of the SentencePiece model."""
        return self._model

    def __len__(self) -> int:
        return len(self._processor)

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        with foreign_errors(FAILED, None, error=ModelError):
            return _encoded(self._processor, lines, int)

    def _unknown(self, line: str) -> list[str]:
        with foreign_errors(FAILED, None, error=ModelError):
            pieces = zip(self._processor.encode(line), self._processor.encode(line, out_type=str), strict=True)
        return [letter for number, piece in pieces if number == UNKNOWN for letter in _without_space_mark(piece)]

    def _decode(self, ids: list[int]) -> str:
        with foreign_errors(FAILED, None, error=ModelError):
            return self._processor.decode(ids)

    def _piece(self, piece: int) -> str:
        return self._processor.id_to_piece(piece)

    def _files(self) -> dict[str, bytes]:
        return {"model": self._model}

    def _vocabulary(self) -> list[str] | None:
        return None


class MarianTokenizer(SentencePieceTokenizer):
    """Tokenizer with a SentencePiece model whose pieces are numbered by a list, like Marian's vocabularies.

    A piece that the list lacks is unknown. A mark ``>>de<<`` at the start of a line is one piece: it selects the target
    language of a multilingual model.
    """

    def __init__(self, config: TokenizerConfig, model: bytes, pieces: Sequence[str]) -> None:
        """Load a model; ``pieces``: the pieces after the special ones.

        Raises ValueError if ``model`` is not a SentencePiece model.
        """
        super().__init__(config, model)
        self._pieces = list(pieces)
        self._numbers = {piece: number for number, piece in enumerate(self._pieces, start=len(SPECIALS))}

    def __len__(self) -> int:
        return len(SPECIALS) + len(self._pieces)

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        marks, texts = zip(*map(split_language_mark, lines), strict=True) if lines else ((), ())
        with foreign_errors(FAILED, None, error=ModelError):
            lines_of_pieces = _encoded(self._processor, texts, str)
        return [
            [self._numbers.get(piece, UNKNOWN) for piece in [*mark, *pieces]]
            for mark, pieces in zip(marks, lines_of_pieces, strict=True)
        ]

    def _unknown(self, line: str) -> list[str]:
        mark, text = split_language_mark(line)
        with foreign_errors(FAILED, None, error=ModelError):
            pieces = self._processor.encode(text, out_type=str)
        return [
            plain for piece in [*mark, *pieces] if piece not in self._numbers and (plain := _without_space_mark(piece))
        ]

    def _decode(self, ids: list[int]) -> str:
        # A piece that is only in the list is decoded literally, including its space mark.
        with foreign_errors(FAILED, None, error=ModelError):
            text: str = self._processor.decode([self._piece(piece) for piece in ids])
        return text.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").strip()

    def _piece(self, piece: int) -> str:
        return self._pieces[piece - len(SPECIALS)]

    def _vocabulary(self) -> list[str]:
        return self._pieces


def split_language_mark(line: str) -> tuple[list[str], str]:
    """Return the mark ``>>…<<`` at the start of a line, as a list of at most one, and the rest of the line."""
    end = line.find("<<") if line.startswith(">>") else -1
    return ([], line) if end < 0 else ([line[: end + 2]], line[end + 2 :])


def _without_space_mark(piece: str) -> str:
    """Return the text of a piece without the space mark."""
    return piece.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").strip()


class HuggingFaceTokenizer(Tokenizer):
    """Tokenizer with a model of the ``tokenizers`` library; spaces are preserved."""

    def __init__(self, config: TokenizerConfig, model: bytes) -> None:
        """Load a model. Raises ValueError if ``model`` is not the JSON of a tokenizer."""
        from tokenizers import Tokenizer as Library

        super().__init__(config)
        self._model = model
        closed = rebuild(model)
        try:
            self._library = Library.from_str(closed)
        except BaseException as error:  # the library raises no narrower exception, and may panic
            if not is_foreign(error):
                raise
            raise ValueError("not a tokenizer of the tokenizers library") from error
        self._library.encode_special_tokens = True

    @property
    def model(self) -> bytes:
        """Bytes of the ``tokenizer.json``."""
        return self._model

    def spelled_specials(self) -> list[str]:
        """Return the special pieces as the library's file spells them; imported models have their own."""
        return [self._library.id_to_token(number) or SPECIALS[number] for number in range(len(SPECIALS))]

    def __len__(self) -> int:
        return self._library.get_vocab_size()

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        # A text that contains "</s>" may still match the special piece in the model's vocabulary.
        plain = (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
        with foreign_errors(FAILED, None, error=ModelError):
            encoded = self._library.encode_batch_fast(list(lines), add_special_tokens=False)
        return [[piece if piece > END else plain[piece] for piece in line.ids] for line in encoded]

    @cached_property
    def _added(self) -> frozenset[int]:
        """The ids of the special pieces and of all other pieces that were added to the vocabulary."""
        return frozenset({*range(END + 1), *self._library.get_added_tokens_decoder()})

    @cached_property
    def _plain(self) -> Any:
        """The library's tokenizer in which all added pieces are special, which the library can encode as text."""
        from tokenizers import Tokenizer as Library

        document = json.loads(rebuild(self._model))
        added = [token | {"special": True} for token in document["added_tokens"]]
        library = Library.from_str(json.dumps(document | {"added_tokens": added}, ensure_ascii=False))
        library.encode_special_tokens = True
        return library

    @cached_property
    def _recognizing(self) -> Any:
        """The library's tokenizer that recognizes the added pieces in a text."""
        from tokenizers import Tokenizer as Library

        return Library.from_str(rebuild(self._model))

    def encode_plain(self, text: str) -> list[int]:
        with foreign_errors(FAILED, None, error=ModelError):
            ids: list[int] = self._plain.encode(text, add_special_tokens=False).ids
        # A piece of the vocabulary may spell a special one, and a tokenizer that does not split words may find it.
        return [UNKNOWN if piece in self._added else piece for piece in ids]

    def split_specials(self, text: str) -> list[str | int]:
        with foreign_errors(FAILED, None, error=ModelError):
            encoding = self._recognizing.encode(text, add_special_tokens=False)
        parts, end = list[str | int](), 0
        for piece, (first, last) in zip(encoding.ids, encoding.offsets, strict=True):
            if piece in self._added and last > first:
                parts += [text[end:first], piece] if first > end else [piece]
                end = last
        return [*parts, text[end:]] if text[end:] or not parts else parts

    def _unknown(self, line: str) -> list[str]:
        with foreign_errors(FAILED, None, error=ModelError):
            encoding = self._library.encode(line, add_special_tokens=False)
        unknown_texts = [
            line[first:last]
            for piece, (first, last) in zip(encoding.ids, encoding.offsets, strict=True)
            if piece <= END
        ]
        return [letter for text in unknown_texts for letter in text.strip()]

    def _decode(self, ids: list[int]) -> str:
        with foreign_errors(FAILED, None, error=ModelError):
            return self._library.decode(ids)

    def _piece(self, piece: int) -> str:
        return self._library.id_to_token(piece) or ""

    def _files(self) -> dict[str, bytes]:
        return {"tokenizer.json": self._model}

    def _vocabulary(self) -> None:
        return None


def train_sentencepiece(lines: Iterable[str], config: TokenizerConfig) -> SentencePieceTokenizer:
    """Train on ``lines``. If ``size`` is None and the corpus is small, training is repeated with fewer pieces.

    Holds a sample of 10 million lines in memory; all lines if ``size`` is None and ``lines`` is an iterator, which
    cannot be read twice.
    """
    source = list(lines) if config.size is None and isinstance(lines, Iterator) else lines
    try:
        return SentencePieceTokenizer(config, _train_sentencepiece(source, config, config.size or DEFAULT_SIZE))
    except _TooLarge as error:
        if config.size is None:
            model = _train_sentencepiece(source, config, error.largest)
            return SentencePieceTokenizer(config, model)
        raise SizeMisfit.above(config, error.largest) from error


class _TooLarge(Exception):
    """The vocabulary size is too large: the corpus allows at most ``largest`` pieces."""

    def __init__(self, largest: int) -> None:
        super().__init__(largest)
        self.largest = largest


def _train_sentencepiece(lines: Iterable[str], config: TokenizerConfig, size: int) -> bytes:
    """Return the bytes of a model with ``size`` pieces."""
    from sentencepiece import SentencePieceTrainer, set_random_generator_seed

    set_random_generator_seed(0)
    recording = _RecordingLines(lines, lowercase=config.lowercase)
    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(recording),
            model_writer=model,
            model_type=config.kind,
            vocab_size=size,
            pad_id=PAD,
            unk_id=UNKNOWN,
            bos_id=BEGIN,
            eos_id=END,
            character_coverage=1.0,
            byte_fallback=False,
            normalization_rule_name="identity",
            input_sentence_size=SAMPLE,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        if recording.failure is not None:
            raise recording.failure from None
        raise _explain(str(error), config, size) from error
    return model.getvalue()


class _RecordingLines:
    """Lines that record a reading error, since SentencePiece replaces exceptions of iterators by its own."""

    def __init__(self, lines: Iterable[str], *, lowercase: bool) -> None:
        self._lines, self._lowercase = lines, lowercase
        self.failure: BaseException | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for line in self._lines:
                yield line.lower() if self._lowercase else line
        except GeneratorExit:
            raise
        except BaseException as error:
            self.failure = error
            raise


def _explain(message: str, config: TokenizerConfig, size: int) -> Exception:
    """Return the error that corresponds to a message of SentencePiece."""
    if match := re.search(r"Vocabulary size too high .* value <= (\d+)", message):
        return _TooLarge(int(match[1]))
    if match := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
        return SizeMisfit.below(size, int(match[1]))
    if "sentences_.empty()" in message:
        return DataError("the corpus for the vocabulary contains no text")
    return DataError(f"SentencePiece could not train a {config.kind} vocabulary", why=message)


def train_hugging_face(lines: Iterable[str], config: TokenizerConfig) -> HuggingFaceTokenizer:
    """Train on ``lines``, read once; the library holds word counts, not lines, in memory.

    Its BPE is deterministic; its unigram is not (it sums in hash-table order): train once and keep the file.
    """
    from tokenizers import Tokenizer as Library
    from tokenizers import decoders, models, pre_tokenizers, trainers

    size = config.size or DEFAULT_SIZE
    common: dict[str, Any] = {
        "vocab_size": size,
        "special_tokens": list(SPECIALS),
        "show_progress": False,
    }
    if config.kind == "bpe":
        library = Library(models.BPE(unk_token=SPECIALS[UNKNOWN]))
        trainer: Any = trainers.BpeTrainer(**common)
    else:
        library = Library(models.Unigram())
        trainer = trainers.UnigramTrainer(unk_token=SPECIALS[UNKNOWN], **common)
    # As in SentencePiece, no piece contains both a word and punctuation.
    library.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()])
    library.decoder = decoders.Metaspace()
    text = (line.lower() if config.lowercase else line for line in lines)
    try:
        library.train_from_iterator(text, trainer)
    except Exception as error:  # the library raises nothing narrower
        if "not large enough to contain all chars" in str(error):
            raise SizeMisfit.below(size, None) from error
        raise
    trained = library.get_vocab_size()
    if trained <= len(SPECIALS):
        raise DataError("the corpus for the vocabulary contains no text")
    if trained > size:
        raise SizeMisfit.below(size, trained)
    if config.size is not None and trained < size:
        raise SizeMisfit.above(config, trained)
    return HuggingFaceTokenizer(config, library.to_str().encode("utf-8"))


def train_byte_bpe(lines: Iterable[str], config: TokenizerConfig) -> HuggingFaceTokenizer:
    """Train byte-pair encoding over UTF-8 bytes (Radford et al. 2019): no text is unknown, and decoding is exact."""
    from tokenizers import Tokenizer as Library
    from tokenizers import decoders, models, pre_tokenizers, trainers

    size, alphabet = config.size or DEFAULT_SIZE, pre_tokenizers.ByteLevel.alphabet()
    if size < len(SPECIALS) + len(alphabet):
        raise SizeMisfit.below(size, len(SPECIALS) + len(alphabet))
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(SPECIALS), initial_alphabet=alphabet, show_progress=False
    )
    library.train_from_iterator((line.lower() if config.lowercase else line for line in lines), trainer)
    if config.size is not None and library.get_vocab_size() < size:
        raise SizeMisfit.above(config, library.get_vocab_size())
    return HuggingFaceTokenizer(config, library.to_str().encode("utf-8"))
