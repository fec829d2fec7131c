"""Vocabularies of a Marian model: its piece ids, renumbered with the special pieces first."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from regard.data.tokenizers.subword import MarianTokenizer
from regard.data.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from regard.share.marian_folder import MarianModel, bytes_of, invalid_folder, json_of

PAD, UNKNOWN, END = "<pad>", "<unk>", "</s>"


class MarianVocabulary(NamedTuple):
    """The pieces of one side in our order, special pieces first."""

    rows: list[int]  # for each of our ids, the row in the folder's tables
    pieces: list[str]  # without the special pieces


def vocabularies(folder: Path, settings: MarianModel) -> tuple[MarianVocabulary, MarianVocabulary]:
    """The vocabularies of source and target; one and the same where the folder has one list."""
    own = folder / "target_vocab.json"
    separate = not settings.share_encoder_decoder_embeddings and own.is_file()
    path = own if separate else folder / "vocab.json"
    ids = _ids(path, target_types(settings))
    if (ids[PAD], ids[END]) != (settings.pad_token_id, settings.eos_token_id):
        raise invalid_folder(path, f"its {PAD} and {END} are not those of config.json")
    if settings.decoder_start_token_id not in ids.values():
        raise invalid_folder(path, "it lacks the decoder_start_token_id of config.json")
    target = _renumbered(ids, settings.decoder_start_token_id)
    if separate:
        ids = _ids(folder / "vocab.json", settings.vocab_size)
        return _renumbered(ids, ids[PAD]), target
    if settings.vocab_size != target_types(settings):
        raise invalid_folder(folder / "config.json", "its vocabularies differ in size, but share one list")
    return target, target


def _renumbered(ids: dict[str, int], start: int) -> MarianVocabulary:
    special = [ids[PAD], ids[UNKNOWN], start, ids[END]]
    others = sorted((id, piece) for piece, id in ids.items() if id not in special)
    return MarianVocabulary([*special, *(id for id, _ in others)], [piece for _, piece in others])


def _ids(path: Path, types: int) -> dict[str, int]:
    """The id of each piece; ModelError unless they are 0 to ``types`` − 1, each once, special pieces included."""
    found = json_of(path)
    if missing := [piece for piece in (PAD, UNKNOWN, END) if piece not in found]:
        raise invalid_folder(path, f"it lacks {missing[0]}")
    if not all(type(id) is int for id in found.values()) or sorted(found.values()) != list(range(types)):
        raise invalid_folder(path, f"its numbers are not those from 0 to {types - 1:,}, each once")
    return found


def target_types(settings: MarianModel) -> int:
    """The number of types of the target."""
    both = settings.share_encoder_decoder_embeddings or settings.decoder_vocab_size is None
    return settings.vocab_size if both else int(settings.decoder_vocab_size or 0)


def marian_tokenizer(path: Path, vocabulary: MarianVocabulary) -> Tokenizer:
    """The tokenizer of a SentencePiece model and a vocabulary; ModelError where the model is damaged."""
    try:
        return MarianTokenizer(TokenizerConfig(kind="listed"), bytes_of(path), vocabulary.pieces)
    except ValueError as error:
        raise invalid_folder(path, str(error)) from error
