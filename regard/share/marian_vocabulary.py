"""Vocabularies of a Marian model, renumbered with the special pieces first."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from regard.data.tokenizers.subword import MarianTokenizer
from regard.data.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from regard.share.marian_folder import MarianModel, bytes_of, invalid_folder, json_of

PAD, UNKNOWN, END = "<pad>", "<unk>", "</s>"


class MarianVocabulary(NamedTuple):
    """Pieces of one side in Regard's order, special pieces first."""

    rows: list[int]  # for each id, the row in the foreign tables
    pieces: list[str]  # without the special pieces


def vocabularies(folder: Path, settings: MarianModel) -> tuple[MarianVocabulary, MarianVocabulary]:
    """Return the vocabularies of source and target; the same object twice if the folder has one list."""
    target_path = folder / "target_vocab.json"
    separate = not settings.share_encoder_decoder_embeddings and target_path.is_file()
    path = target_path if separate else folder / "vocab.json"
    ids = _ids(path, target_types(settings))
    if (ids[PAD], ids[END]) != (settings.pad_token_id, settings.eos_token_id):
        raise invalid_folder(path, f"the ids of {PAD} and {END} differ from config.json")
    if settings.decoder_start_token_id not in ids.values():
        raise invalid_folder(path, "no piece has the id `decoder_start_token_id` of config.json")
    target = _renumbered(ids, settings.decoder_start_token_id)
    if separate:
        ids = _ids(folder / "vocab.json", settings.vocab_size)
        return _renumbered(ids, ids[PAD]), target
    if settings.vocab_size != target_types(settings):
        raise invalid_folder(
            folder / "config.json", "`vocab_size` and `decoder_vocab_size` differ, but the folder has one vocabulary"
        )
    return target, target


def _renumbered(ids: dict[str, int], start: int) -> MarianVocabulary:
    special = [ids[PAD], ids[UNKNOWN], start, ids[END]]
    ordinary = sorted((id, piece) for piece, id in ids.items() if id not in special)
    return MarianVocabulary([*special, *(id for id, _ in ordinary)], [piece for _, piece in ordinary])


def _ids(path: Path, types: int) -> dict[str, int]:
    """Return the id of each piece.

    Raises:
        ModelError: the ids are not 0 to ``types`` − 1, each once, or a special piece is missing.
    """
    ids = json_of(path)
    if missing := [piece for piece in (PAD, UNKNOWN, END) if piece not in ids]:
        raise invalid_folder(path, f"the piece {missing[0]} is missing")
    if not all(type(id) is int for id in ids.values()) or sorted(ids.values()) != list(range(types)):
        raise invalid_folder(path, f"its ids are not all from 0 to {types - 1:,}, each once")
    return ids


def target_types(settings: MarianModel) -> int:
    """Return the size of the target vocabulary."""
    shared = settings.share_encoder_decoder_embeddings or settings.decoder_vocab_size is None
    return settings.vocab_size if shared else int(settings.decoder_vocab_size or 0)


def marian_tokenizer(path: Path, vocabulary: MarianVocabulary) -> Tokenizer:
    """Return the tokenizer of a SentencePiece model and a vocabulary. Raises ModelError if the model is damaged."""
    try:
        return MarianTokenizer(TokenizerConfig(kind="listed"), bytes_of(path), vocabulary.pieces)
    except ValueError as error:
        raise invalid_folder(path, str(error)) from error
