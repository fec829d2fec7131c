"""A Transformer of another translation toolkit in terms that all toolkits share, and its import as a run."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from regard.attention.positions.absolute import sinusoids
from regard.core import atomic_files
from regard.data.tokenizers.closed import WordTokenizer
from regard.data.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from regard.errors import ModelError
from regard.runs.model_card import write_import_card
from regard.runs.run_folder import RunFolder
from regard.share.language_codes import language_code
from regard.share.marian_folder import invalid_folder, validation_as_model_error
from regard.share.marian_vocabulary import MarianVocabulary, marian_tokenizer
from regard.tasks.translation.config import TranslationConfig
from regard.tasks.translation.write_run import plan_without_training, write_run

JOINER = "@@"
SENTENCEPIECE = (".model", ".spm")  # endings of a segmentation model
EXACT = 1e-3  # maximum difference between a table of positions in float32 or float16 and exact sinusoids
POSITIONS = 1024  # of a model without a table of positions


class Module(NamedTuple):
    """A linear map or norm of a checkpoint: its tensors, and the part of them that belongs to it.

    ``parts``: number of maps that are stored in one tensor, along its first dimension.
    """

    weight: str
    bias: str
    part: Callable[[Tensor], Tensor] = lambda tensor: tensor
    parts: int = 1


@dataclass(frozen=True, kw_only=True)
class ForeignSide:
    """The encoder or the decoder.

    Args:
        sizes: ``layers``, ``heads``, ``feed_forward`` and ``dropout``, as in a config.
        norm: where the norm of a sub-layer is.
        vocabulary: the pieces.
        embedding: the name of the table of pieces.
        scale: factor of the embeddings.
        positions: their kind, or a table that is added to the embeddings row by row.
        modules: by their name in Regard, without the side.
    """

    sizes: Mapping[str, Any]
    norm: Literal["pre", "post"]
    vocabulary: MarianVocabulary
    embedding: str
    scale: float
    positions: Tensor | Literal["sinusoidal", "none"]
    modules: Mapping[str, Module]

    @property
    def longest(self) -> int:
        return len(self.positions) if isinstance(self.positions, Tensor) else POSITIONS


@dataclass(frozen=True, kw_only=True)
class ForeignPair:
    """A model of another toolkit.

    Args:
        toolkit: its name.
        where: the file with the settings.
        width: features of the residual stream.
        activation: of the feed-forwards, as in a config.
        epsilon: of the norms.
        encoder: the encoder.
        decoder: the decoder.
        head: the output layer.
        ignored: names of tensors that do not change the outputs.
        source_end: whether an end symbol follows a source.
        languages: of source and target, if they are known.
        segmentation: names of files that segment source and target, if the settings name them.
    """

    toolkit: str
    where: Path
    width: int
    activation: str
    epsilon: float
    encoder: ForeignSide
    decoder: ForeignSide
    head: Module
    ignored: re.Pattern[str]
    source_end: bool = True
    languages: tuple[str, str] = ("", "")
    segmentation: tuple[str, str] = ("", "")


def require_none(obstacles: Sequence[str], toolkit: str, where: Path) -> None:
    """Raise ModelError with all obstacles, if any."""
    if obstacles:
        raise ModelError(f"this model of {toolkit} cannot be imported", where=str(where), why="\n    ".join(obstacles))


def true_reasons(reasons: Mapping[str, bool]) -> list[str]:
    """Return the reasons that hold."""
    return [reason for reason, holds in reasons.items() if holds]


def linear(prefix: str) -> Module:
    """Return a module with its own tensors."""
    return Module(f"{prefix}.weight", f"{prefix}.bias")


def one_of(number: int, parts: int, weight: str, bias: str) -> Module:
    """Return a map whose matrix is one of several of equal size that are stored below each other."""
    return Module(weight, bias, lambda tensor: tensor.chunk(parts)[number], parts)


def positions_of(table: Tensor) -> Tensor | Literal["sinusoidal"]:
    """Return a table of positions, or that it has the sinusoids of the paper."""
    exact = sinusoids(torch.arange(len(table)), table.shape[1]) if table.shape[1] % 2 == 0 else None
    return "sinusoidal" if exact is not None and torch.allclose(table, exact, rtol=0, atol=EXACT) else table


def vocabulary_of(tokens: Sequence[str], specials: Sequence[int], where: Path) -> MarianVocabulary:
    """Return the pieces in Regard's order.

    Args:
        tokens: by id.
        specials: ids of padding, unknown, begin and end, which may be equal.
        where: the file of the tokens.
    """
    if not all(0 <= id < len(tokens) for id in specials):
        raise invalid_folder(where, "a special piece is missing")
    ordinary = [id for id in range(len(tokens)) if id not in specials]
    pieces = [tokens[id] for id in ordinary]
    if any("\ud800" <= letter <= "\udfff" for piece in pieces if not piece.isascii() for letter in piece):
        raise invalid_folder(where, "a piece is not valid Unicode")
    return MarianVocabulary([*specials, *ordinary], pieces)


def write_pair(
    pair: ForeignPair, config: TranslationConfig, tokenizers: tuple[Tokenizer, Tokenizer], model: Any, path: Path
) -> RunFolder:
    """Write a run at ``path`` and return it; a failure leaves nothing behind."""
    plan = plan_without_training(*tokenizers, threads=torch.get_num_threads())
    with atomic_files.publishing(path) as workshop:
        write_run(workshop, config, *tokenizers, dict(model.named_parameters()), plan=plan)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        source = f"{pair.toolkit}, {pair.where.name}"
        write_import_card(RunFolder.open(workshop), parameters=parameters, source=source, path=path)
    return RunFolder.open(path)


def tokenizers_of(pair: ForeignPair) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers: SentencePiece if the folder has its model, otherwise text that is already segmented."""
    source, target = pair.encoder.vocabulary, pair.decoder.vocabulary
    files = [_segmentation(pair, number) for number in range(2)]
    if None not in files:
        first, second = (marian_tokenizer(file, own) for file, own in zip(files, (source, target), strict=True) if file)
        return first, second
    pieces = source.pieces + target.pieces
    joiner = JOINER if any(piece.endswith(JOINER) and piece != JOINER for piece in pieces) else None
    kind = TokenizerConfig(kind="pretokenized", joiner=joiner)
    first = WordTokenizer(kind, source.pieces)
    return first, first if source == target else WordTokenizer(kind, target.pieces)


def _segmentation(pair: ForeignPair, number: int) -> Path | None:
    """Return the file that segments one side; None if it is missing or ambiguous."""
    folder = pair.where.parent
    named = folder / Path(pair.segmentation[number]).name if pair.segmentation[number] else None
    if named is not None and named.is_file():
        return named
    files = sorted(path for path in folder.iterdir() if path.suffix in SENTENCEPIECE and path.is_file())
    names = (("source", "src"), ("target", "trg", "tgt"))[number]
    own = [path for path in files if path.stem in (*names, pair.languages[number])]
    return own[0] if len(own) == 1 else files[0] if len(files) == 1 else None


def config_of(
    pair: ForeignPair, tokenizers: tuple[Tokenizer, Tokenizer], name: str, *, share: str, biases: tuple[bool, bool]
) -> TranslationConfig:
    """Return the config of the run; ``biases``: whether attention and the output have some."""
    sides: dict[str, dict[str, Any]] = {}
    for key, side in (("encoder", pair.encoder), ("decoder", pair.decoder)):
        table = side.positions
        position = {"kind": "learned", "longest": len(table)} if isinstance(table, Tensor) else table
        sides[key] = {**side.sizes, "norm": side.norm, "position": position}
    if not pair.source_end:
        sides["encoder"]["reads_end"] = False
    if share == "all" and pair.encoder.scale != pair.decoder.scale:
        sides["encoder"]["embedding_scale"] = pair.encoder.scale / pair.decoder.scale * math.sqrt(pair.width)
    model = {
        **sides, "width": pair.width, "activation": pair.activation, "normalization_epsilon": pair.epsilon,
        "attention_bias": biases[0], "output_bias": biases[1], "share": share,
    }  # fmt: skip
    source, target = (language_code(language) for language in pair.languages)
    data: dict[str, Any] = {
        "train": [],
        "joint": tokenizers[0] is tokenizers[1],
        "tokenizer": tokenizers[0].config.model_dump(),
        "source_language": source,
        "target_language": target,
        "max_length": max(1, min(pair.encoder.longest, pair.decoder.longest) - 1),
    }
    with validation_as_model_error(pair.where):
        return TranslationConfig.model_validate({"name": name, "data": data, "model": model})
