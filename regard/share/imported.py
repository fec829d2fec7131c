"""A Marian model of ``transformers``, such as those of OPUS-MT, as a run that translates and serves.

The folder is somebody else's: files are read by their fixed names and up to a limit, no pickle is opened, and nothing
is made of a size that the config states before the file of weights is seen to hold tensors of that size.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import safetensors
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn

from regard.attention.positions.absolute import sinusoids
from regard.core import atomic_files
from regard.core.untrusted_files import parse_json
from regard.data.tokenizers.catalogue import BEGIN, Tokenizer, TokenizerConfig
from regard.data.tokenizers.subword import MarianTokenizer
from regard.errors import ModelError
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.runs import checkpoint
from regard.runs.plan import Plan
from regard.runs.run_folder import RunFolder
from regard.share.marian import BIAS, OUTPUT, SHARED, SOURCE, TARGET, interleaved, places, sines_first
from regard.tasks.translation.codecs import Codecs, save_codecs, spec_of
from regard.tasks.translation.config import TranslationConfig

__all__ = ["import_marian"]

SMALL, LARGE = 1 << 20, 1 << 26  # bytes of a file of settings and of a vocabulary that are read at most
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
BARRED = -1e4  # the bias of what is never said: no probability is left, and a smoothed loss stays a number
CLOSE = 4e-3  # how far a stored table of positions may lie from sinusoids: bfloat16 rounds by less
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
PAD, UNKNOWN, END = "<pad>", "<unk>", "</s>"
NUMBERS = ("F64", "F32", "F16", "BF16")
LANGUAGE = re.compile(r"([a-z]{2,3})(?:[_-]([A-Z]{2}))?")
TWO_LETTERS = {  # of ISO 639-3, the common ones
    "afr": "af", "ara": "ar", "aze": "az", "bel": "be", "ben": "bn", "bul": "bg", "cat": "ca", "ces": "cs", "cym": "cy",
    "dan": "da", "deu": "de", "ell": "el", "eng": "en", "epo": "eo", "est": "et", "eus": "eu", "fas": "fa", "fin": "fi",
    "fra": "fr", "gle": "ga", "glg": "gl", "heb": "he", "hin": "hi", "hrv": "hr", "hun": "hu", "hye": "hy", "ind": "id",
    "isl": "is", "ita": "it", "jpn": "ja", "kat": "ka", "kor": "ko", "lat": "la", "lav": "lv", "lit": "lt", "mkd": "mk",
    "mlt": "mt", "msa": "ms", "nld": "nl", "nno": "nn", "nob": "nb", "nor": "no", "pol": "pl", "por": "pt", "ron": "ro",
    "rus": "ru", "slk": "sk", "slv": "sl", "spa": "es", "sqi": "sq", "srp": "sr", "swa": "sw", "swe": "sv", "tam": "ta",
    "tgl": "tl", "tha": "th", "tur": "tr", "ukr": "uk", "urd": "ur", "vie": "vi", "zho": "zh",
}  # fmt: skip
GROUPS = frozenset(  # of languages, in ISO 639-5, and what is none in ISO 639-2
    "aav afa alg alv apa aqa aql art ath auf aus awd azc bad bai bat ber bih bnt btk cai cau cba ccn ccs cdc cdd cel "
    "cmc cpe cpf cpp crp csu cus day dmn dra egx esx euq fiu fox gem gme gmq gmw grk hmx hok hyx iir ijo inc ine ira "
    "iro itc jpx kar kdo khi kro map mis mkh mno mul mun myn nah nai ngf nic nub omq omv oto paa phi plf poz pqe pqw "
    "pra qwe roa sai sal sdv sem sgn sio sit sla smi son sqj ssa syd tai tbq trk tup tut tuw und urj wak wen xgn xnd "
    "ypk zhx zle zls zlw znd zxx".split()
)

Size = Annotated[int, Field(ge=1, le=1 << 20)]
Layers = Annotated[int, Field(ge=1, le=1000)]
Types = Annotated[int, Field(ge=4, le=1 << 24)]
Piece = Annotated[int, Field(ge=0)]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Model(_Settings):
    """What of ``config.json`` decides the model; what is not given is as in transformers."""

    model_type: Literal["marian"]
    vocab_size: Types
    decoder_vocab_size: Types | None = None
    d_model: Size
    encoder_layers: Layers
    decoder_layers: Layers
    encoder_ffn_dim: Size
    decoder_ffn_dim: Size
    encoder_attention_heads: Size
    decoder_attention_heads: Size
    activation_function: str = "gelu"
    dropout: float = Field(0.1, ge=0, lt=1)
    scale_embedding: bool = False
    normalize_before: bool = False
    normalize_embedding: bool = False
    add_final_layer_norm: bool = False
    static_position_embeddings: bool = True
    max_position_embeddings: Annotated[int, Field(ge=2, le=1 << 20)] = 1024
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: Piece
    eos_token_id: Piece
    decoder_start_token_id: Piece

    def obstacle(self) -> str | None:
        """Why ours cannot be this model; None if it can."""
        reasons = {
            "its encoder and decoder differ in heads": self.encoder_attention_heads != self.decoder_attention_heads,
            "its encoder and decoder differ in feed-forwards": self.encoder_ffn_dim != self.decoder_ffn_dim,
            f"its activation is {self.activation_function}": self.activation_function not in ACTIVATIONS,
            "its embeddings are not scaled": not self.scale_embedding,
            "it normalises before its sub-layers": self.normalize_before,
            "it normalises embeddings, or once more at the end": self.normalize_embedding or self.add_final_layer_norm,
            "its positions are learned": not self.static_position_embeddings,
        }
        return next((reason for reason, stands in reasons.items() if stands), None)


class _Search(_Settings):
    num_beams: int = Field(1, ge=1, le=100)
    length_penalty: float = Field(1.0, allow_inf_nan=True)

    def penalty(self) -> float:
        """That of transformers where the folder's own is none that a search of ours may have."""
        return self.length_penalty if 0 <= self.length_penalty <= 10 else 1.0


class _Languages(_Settings):
    source_lang: str = ""
    target_lang: str = ""


Read = TypeVar("Read", bound=_Settings)


class _Vocabulary(NamedTuple):
    """``rows``: which row of theirs each of our numbers has, the special pieces' first; ``pieces``: the others."""

    rows: list[int]
    pieces: list[str]


def import_marian(folder: Path, path: Path) -> RunFolder:
    """The run that is written to ``path``, whole or not at all. ModelError for a folder that cannot be one."""
    where = folder / "config.json"
    theirs = _read(_Model, where)
    if (reason := theirs.obstacle()) is not None:
        raise ModelError("this Marian model cannot be one of ours", where=str(where), why=reason)
    source, target = _vocabularies(folder, theirs)
    with _said_of(where):
        config = _config(folder, path.name, theirs)
    model = _model(_weights_file(folder), config.model, theirs, source, target)
    tokenizers = [_tokenizer(folder / name, each) for name, each in (("source.spm", source), ("target.spm", target))]
    with atomic_files.publishing(path) as workshop:
        _write(workshop, config, model, *tokenizers)
    return RunFolder.open(path)


def _write(path: Path, config: TranslationConfig, model: nn.Module, source: Tokenizer, target: Tokenizer) -> None:
    run = RunFolder.create(path, config)
    codecs = Codecs(source, target)
    save_codecs(run, codecs)
    run.write_plan(
        Plan(
            precision="float32", steps=None, threads=torch.get_num_threads(), seconds_per_update={},
            spec=spec_of(codecs),
        )
    )  # fmt: skip
    checkpoint.save(run.checkpoints, 0, {"model": dict(model.named_parameters())}, {}, keep=1)


def _config(folder: Path, name: str, theirs: _Model) -> TranslationConfig:
    generation, tokenizer = folder / "generation_config.json", folder / "tokenizer_config.json"
    search = _read(_Search, generation if generation.is_file() else folder / "config.json")
    spoken = _read(_Languages, tokenizer) if tokenizer.is_file() else _Languages()
    longest, tied = theirs.max_position_embeddings, theirs.tie_word_embeddings
    model = {
        "encoder_layers": theirs.encoder_layers,
        "decoder_layers": theirs.decoder_layers,
        "width": theirs.d_model,
        "feed_forward": theirs.encoder_ffn_dim,
        "heads": theirs.encoder_attention_heads,
        "activation": ACTIVATIONS[theirs.activation_function],
        "dropout": theirs.dropout,
        "attention_bias": True,
        "output_bias": True,
        "share": "none" if not tied else "all" if theirs.share_encoder_decoder_embeddings else "target",
    }
    data = {
        "train": [],
        "joint": False,
        "tokenizer": {"kind": "listed"},
        "source_language": _language(spoken.source_lang),
        "target_language": _language(spoken.target_lang),
        "max_length": longest - 1,  # and the end symbol
    }
    # transformers ranks by log P / |Y|^α.
    found = {"beam": search.num_beams, "length_penalty": search.penalty(), "length_offset": 0.0}
    values = {"name": name, "data": data, "model": model, "search": found | {"max_length": longest}}
    return TranslationConfig.model_validate(values)


def _language(name: str) -> str | None:
    """Its code, as ``de`` or ``pt-BR``, of three letters where it has none of two; None for a group of languages."""
    found = LANGUAGE.fullmatch(name)
    if found is None or found[1] in GROUPS:
        return None
    code = TWO_LETTERS.get(found[1], found[1])
    return f"{code}-{found[2]}" if found[2] else code


def _model(file: Path, config: ModelConfig, theirs: _Model, source: _Vocabulary, target: _Vocabulary) -> nn.Module:
    types = {"source_types": len(source.rows), "target_types": len(target.rows)}
    with torch.device("meta"):  # shapes alone, whatever the config says of sizes
        shapes = {name: tuple(p.shape) for name, p in build(config, **types).named_parameters(remove_duplicate=False)}
    try:
        with safetensors.safe_open(file, framework="pt") as opened:
            tensors = _Tensors(file, opened)
            layers = {place.theirs: shapes[place.ours] for place in places(config)}
            tables = _tables(tensors, theirs)
            tensors.require(layers | {name: (rows, theirs.d_model) for name, rows in tables.values()})
            tensors.require_sinusoids(theirs.d_model)
            tensors.refuse_others({*layers, *POSITIONS, SHARED, SOURCE, TARGET, OUTPUT, BIAS})
            model = build(config, **types)
            _fill(model, config, tensors, {ours: name for ours, (name, _) in tables.items()}, source, target)
    except safetensors.SafetensorError as error:
        raise _foreign(file, str(error)) from error
    return model


def _tables(tensors: _Tensors, theirs: _Model) -> dict[str, tuple[str, int]]:
    """By our name of each table of pieces: theirs in the file, and how many rows it has."""
    sources, targets = theirs.vocab_size, _target_types(theirs)
    tied = theirs.tie_word_embeddings
    if tied and theirs.share_encoder_decoder_embeddings:
        shared = tensors.first([SHARED, SOURCE, TARGET, OUTPUT])
        return dict.fromkeys(("encoder.embedding.weight", "decoder.embedding.weight", "projection"), (shared, sources))
    target = tensors.first([TARGET, OUTPUT]) if tied else TARGET
    return {  # not even a shared table is one, in transformers, where nothing is tied
        "encoder.embedding.weight": (SOURCE, sources),
        "decoder.embedding.weight": (target, targets),
        "projection": (target if tied else OUTPUT, targets),
    }


@torch.no_grad()
def _fill(
    model: nn.Module, config: ModelConfig, tensors: _Tensors, tables: dict[str, str], source: _Vocabulary,
    target: _Vocabulary,
) -> None:  # fmt: skip
    for place in places(config):
        model.get_parameter(place.ours).copy_(interleaved(tensors[place.theirs], place.along))
    for ours, theirs in tables.items():
        rows = (source if ours.startswith("encoder") else target).rows
        model.get_parameter(ours).copy_(interleaved(tensors[theirs][rows], 1))
    bias = model.get_parameter("output_bias")
    if BIAS in tensors.names:
        tensors.require({BIAS: (1, max(target.rows) + 1)})
        bias.copy_(tensors[BIAS][0][target.rows])
    if target.rows[BEGIN] in target.rows[:BEGIN] + target.rows[BEGIN + 1 :]:  # it counts once, under the other number
        bias[BEGIN] = BARRED


class _Tensors:
    """The tensors of an open file, looked at before they are read."""

    def __init__(self, path: Path, file: Any) -> None:
        self.path, self._file = path, file
        self.names = frozenset(file.keys())

    def __getitem__(self, name: str) -> Tensor:
        found: Tensor = self._file.get_tensor(name)
        return found.float()

    def first(self, names: list[str]) -> str:
        """The first of these names that is there, or the first of all."""
        return next((name for name in names if name in self.names), names[0])

    def require(self, shapes: dict[str, tuple[int, ...]]) -> None:
        """ModelError where one of these tensors is missing, of another shape, or not of floating point."""
        for name, shape in shapes.items():
            if name not in self.names:
                raise _foreign(self.path, f"it lacks {name}")
            there = self._file.get_slice(name)
            if tuple(there.get_shape()) != shape:
                raise _foreign(self.path, f"{name} has the shape {there.get_shape()}, and by its config {list(shape)}")
            if there.get_dtype() not in NUMBERS:
                raise _foreign(self.path, f"{name} is in {there.get_dtype()}, not in floating point")

    def require_sinusoids(self, width: int) -> None:
        """ModelError where tables of positions are there that are not sinusoids, sines first."""
        for name in self.names.intersection(POSITIONS):
            shape = self._file.get_slice(name).get_shape()
            if len(shape) != 2:
                raise _foreign(self.path, f"{name} has the shape {shape}, which is no table")
            self.require({name: (shape[0], width)})
            wanted = sines_first(sinusoids(torch.arange(shape[0]), width), 1)
            if not torch.allclose(self[name], wanted, rtol=0.0, atol=CLOSE):
                raise _foreign(self.path, f"{name} holds other positions than sinusoids")

    def refuse_others(self, known: Iterable[str]) -> None:
        """ModelError where a tensor is left that nothing here reads: the model would be another without it."""
        if others := sorted(self.names.difference(known)):
            raise _foreign(self.path, f"it holds {others[0]}, which no Marian model has")


def _vocabularies(folder: Path, theirs: _Model) -> tuple[_Vocabulary, _Vocabulary]:
    """Of source and target; one and the same where there is one list."""
    own = folder / "target_vocab.json"
    separate = not theirs.share_encoder_decoder_embeddings and own.is_file()
    path = own if separate else folder / "vocab.json"
    numbers = _numbers(path, _target_types(theirs))
    if (numbers[PAD], numbers[END]) != (theirs.pad_token_id, theirs.eos_token_id):
        raise _foreign(path, f"its {PAD} and {END} are not those of config.json")
    if theirs.decoder_start_token_id not in numbers.values():
        raise _foreign(path, "what a decoder starts with, by config.json, is not in it")
    target = _renumbered(numbers, theirs.decoder_start_token_id)
    if separate:
        numbers = _numbers(folder / "vocab.json", theirs.vocab_size)
        return _renumbered(numbers, numbers[PAD]), target
    if theirs.vocab_size != _target_types(theirs):
        raise _foreign(folder / "config.json", "its vocabularies differ in size, and there is one list")
    return target, target


def _renumbered(numbers: dict[str, int], start: int) -> _Vocabulary:
    special = [numbers[PAD], numbers[UNKNOWN], start, numbers[END]]
    others = sorted((number, piece) for piece, number in numbers.items() if number not in special)
    return _Vocabulary([*special, *(number for number, _ in others)], [piece for _, piece in others])


def _numbers(path: Path, types: int) -> dict[str, int]:
    """The number of each piece: all below ``types``, each once, with those of the special pieces."""
    found = _json(path, LARGE)
    if missing := [piece for piece in (PAD, UNKNOWN, END) if piece not in found]:
        raise _foreign(path, f"it lacks {missing[0]}")
    if not all(type(number) is int for number in found.values()) or sorted(found.values()) != list(range(types)):
        raise _foreign(path, f"its numbers are not those from 0 to {types - 1:,}, each once")
    return found


def _target_types(theirs: _Model) -> int:
    both = theirs.share_encoder_decoder_embeddings or theirs.decoder_vocab_size is None
    return theirs.vocab_size if both else int(theirs.decoder_vocab_size or 0)


def _tokenizer(path: Path, vocabulary: _Vocabulary) -> Tokenizer:
    try:
        return MarianTokenizer(TokenizerConfig(kind="listed"), _bytes(path, LARGE), vocabulary.pieces)
    except ValueError as error:
        raise _foreign(path, str(error)) from error


def _weights_file(folder: Path) -> Path:
    path = folder / "model.safetensors"
    if path.is_file():
        return path
    there = [name for name in ("pytorch_model.bin", "model.safetensors.index.json") if (folder / name).is_file()]
    why = {"pytorch_model.bin": "pytorch_model.bin is a pickle, which may run any code when it is opened",
           "model.safetensors.index.json": "its weights are in several files"}.get((there or [""])[0])  # fmt: skip
    raise ModelError(
        f"{folder} holds no model.safetensors",
        where=str(path),
        why=why,
        help="where you trust the folder, have transformers write it:\n"
        f"""python -c 'from transformers import MarianMTModel as M; M.from_pretrained("{folder}").save_pretrained("""
        f'''"{folder}")\'''',
    )


def _read(kind: type[Read], path: Path) -> Read:
    """What is null counts as not given."""
    found = {name: value for name, value in _json(path, SMALL).items() if value is not None}
    with _said_of(path):
        return kind.model_validate(found)


@contextmanager
def _said_of(path: Path) -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        raise _foreign(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")) from error


def _json(path: Path, limit: int) -> dict[str, Any]:
    try:
        found = parse_json(_bytes(path, limit))
        json.dumps(found, ensure_ascii=False).encode()  # no half of a character, which could not be written again
    except ValueError as error:
        raise _foreign(path, str(error)) from error
    if not isinstance(found, dict):
        raise _foreign(path, "it is no JSON object")
    return found


def _bytes(path: Path, limit: int) -> bytes:
    try:
        if path.exists() and not path.is_file():  # to open a pipe is to wait for who writes to it
            raise OSError(errno.EINVAL, "it is no regular file")
        with path.open("rb") as file:
            found = file.read(limit + 1)
    except OSError as error:
        help = (
            "name a folder as transformers saves it: config.json, model.safetensors, source.spm, target.spm, vocab.json"
        )
        raise ModelError(f"{path.name} cannot be read", where=str(path), why=error.strerror, help=help) from error
    if len(found) > limit:
        raise _foreign(path, f"it has more than {limit:,} bytes")
    return found


def _foreign(path: Path, why: str) -> ModelError:
    return ModelError(f"{path.name} is not that of a Marian model that can be imported", where=str(path), why=why)
