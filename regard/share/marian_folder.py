"""Checked files of a foreign model folder, and the settings of Marian.

Files have fixed names and a size limit. Pickles are never opened, because they can run code.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regard.core.untrusted_files import parse_json
from regard.errors import ModelError

SMALL, LARGE = 1 << 20, 1 << 26  # maximum bytes of a file of settings, and of a vocabulary
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}

Size = Annotated[int, Field(ge=1, le=1 << 20)]
Layers = Annotated[int, Field(ge=1, le=1000)]
Types = Annotated[int, Field(ge=4, le=1 << 24)]
Piece = Annotated[int, Field(ge=0)]


class FolderSettings(BaseModel):
    """Base of settings in the files of another toolkit; keys that Regard does not need are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class MarianModel(FolderSettings):
    """Keys of ``config.json`` that determine the model; defaults as in transformers."""

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
        """Return the reason why this model cannot be imported; None if it can."""
        reasons = {
            "its encoder and decoder differ in their number of heads": self.encoder_attention_heads
            != self.decoder_attention_heads,
            "its encoder and decoder differ in feed-forward width": self.encoder_ffn_dim != self.decoder_ffn_dim,
            f"its activation is {self.activation_function}": self.activation_function not in ACTIVATIONS,
            "its embeddings are not scaled (`scale_embedding`)": not self.scale_embedding,
            "its sub-layers are pre-norm (`normalize_before`)": self.normalize_before,
            "it has a norm after the embedding or after the last layer": self.normalize_embedding
            or self.add_final_layer_norm,
            "its positions are learned": not self.static_position_embeddings,
        }
        return next((reason for reason, holds in reasons.items() if holds), None)


class MarianSearch(FolderSettings):
    """Search settings in ``generation_config.json``."""

    num_beams: int = Field(1, ge=1, le=100)
    length_penalty: float = Field(1.0, allow_inf_nan=True)
    early_stopping: bool | Literal["never"] = False  # False is a heuristic that Regard does not have

    def penalty(self) -> float:
        """Return the length penalty; transformers' default if the value is outside Regard's range."""
        return self.length_penalty if 0 <= self.length_penalty <= 10 else 1.0


class MarianLanguages(FolderSettings):
    """Languages in ``tokenizer_config.json``."""

    source_lang: str = ""
    target_lang: str = ""


Settings = TypeVar("Settings", bound=FolderSettings)


def weights_file(folder: Path, kind: str = "MarianMTModel") -> Path:
    """Return the path of ``model.safetensors``.

    Raises:
        ModelError: the file is missing; the message shows how the class ``kind`` of transformers writes it.
    """
    path = folder / "model.safetensors"
    if path.is_file():
        return path
    weights = [name for name in ("pytorch_model.bin", "model.safetensors.index.json") if (folder / name).is_file()]
    why = {"pytorch_model.bin": "pytorch_model.bin is a pickle, which can run code when it is opened",
           "model.safetensors.index.json": "the weights are in several files"}.get((weights or [""])[0])  # fmt: skip
    raise ModelError(
        f"{folder} has no model.safetensors",
        where=str(path),
        why=why,
        help="if you trust the folder, write the file with transformers:\n"
        f"""python -c 'from transformers import {kind} as M; M.from_pretrained("{folder}").save_pretrained("""
        f'''"{folder}")\'''',
    )


def read_settings(kind: type[Settings], path: Path) -> Settings:
    """Return the settings in a JSON file; null counts as unset. Raises ModelError if they are invalid."""
    values = {name: value for name, value in json_of(path, SMALL).items() if value is not None}
    with validation_as_model_error(path):
        return kind.model_validate(values)


@contextmanager
def validation_as_model_error(path: Path) -> Iterator[None]:
    """Convert a ValidationError in the block to a ModelError that names the file."""
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        raise invalid_folder(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")) from error


def json_of(path: Path, limit: int = LARGE) -> dict[str, Any]:
    """Return the JSON object in a file of at most ``limit`` bytes. Raises ModelError if it is not one."""
    try:
        document = parse_json(bytes_of(path, limit))
        # Half a surrogate pair fails here; it could not be saved later.
        json.dumps(document, ensure_ascii=False).encode()
    except ValueError as error:
        raise invalid_folder(path, str(error)) from error
    if not isinstance(document, dict):
        raise invalid_folder(path, "it is not a JSON object")
    return document


def bytes_of(path: Path, limit: int = LARGE) -> bytes:
    """Return the content of a regular file of at most ``limit`` bytes. Raises ModelError if it cannot be read."""
    try:
        if path.exists() and not path.is_file():  # opening a pipe would block
            raise OSError(errno.EINVAL, "it is not a regular file")
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        help = (
            "use a folder that transformers saved, with config.json, model.safetensors and the files of the tokenizer"
        )
        raise ModelError(f"{path.name} cannot be read", where=str(path), why=error.strerror, help=help) from error
    if len(content) > limit:
        raise invalid_folder(path, f"it has more than {limit:,} bytes")
    return content


def invalid_folder(path: Path, why: str) -> ModelError:
    """Return the error for a file that is damaged or belongs to an unsupported model."""
    return ModelError(f"{path.name} cannot be imported", where=str(path), why=why)
