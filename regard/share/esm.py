"""Import of protein models of the class ESM: pre-norm layers, rotary or learned positions, one piece per residue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from regard.models.transformer.config import TransformerEncoderConfig
from regard.share.causal_family import Packing, norm_names, rope_table
from regard.share.encoder_family import ESM as EXPORTED
from regard.share.pretrained_encoder import BertSettings, PretrainedEncoder, packed, positions_after

MASKED_SHARE = 0.15 * 0.8  # share of masks in ESM's own training, a constant of its code
POSITIONS = "embeddings.position_embeddings.weight"


class EsmSettings(BertSettings):
    """Keys of ``config.json`` of ESM; the first position is the one after padding, as in RoBERTa."""

    vocab_size: Annotated[int, Field(ge=6, le=1 << 24)] = 33
    pad_token_id: Annotated[int, Field(ge=0, le=1 << 20)] = 1
    max_position_embeddings: Annotated[int, Field(ge=1, le=1 << 20)] = 1026
    emb_layer_norm_before: bool = False
    token_dropout: bool = False
    is_folding_model: bool = False

    @property
    def positions(self) -> int:
        return max(self.max_position_embeddings - self.pad_token_id - 1, 1)

    @property
    def transform(self) -> str:
        return "gelu"

    def reasons(self) -> dict[str, bool]:
        kind = self.position_embedding_type
        return super().reasons() | {
            f"its activation is {self.hidden_act}": self.hidden_act != "gelu",
            f"its positions are {kind}": kind not in ("absolute", "rotary"),
            "it predicts structures (`is_folding_model`)": self.is_folding_model,
        }

    def stack(self) -> dict[str, Any]:
        table = super().stack() | {"norm": "pre", "segments": 0, "embedding_norm": self.emb_layer_norm_before}
        if self.position_embedding_type == "rotary":
            table["position"] = rope_table(None)
        return table | {"token_dropout": MASKED_SHARE if self.token_dropout else 0.0}


def _packings(settings: EsmSettings, encoder: TransformerEncoderConfig) -> Iterator[Packing]:
    if encoder.position.kind == "learned":
        yield positions_after(POSITIONS, settings.max_position_embeddings - settings.positions)
    if encoder.embedding_norm:
        yield from norm_names("embeddings.layer_norm", "encoder.embedding.norm")
    for number in range(encoder.layers):
        yield from packed(EXPORTED.layer(number))
    yield from norm_names(EXPORTED.last, "encoder.norm")


def _tokenizer(rows: dict[str, int], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the content of ``tokenizer.json`` for a list of residues: a run of unknown letters is one piece."""
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "vocab": rows, "merges": []},
    }


ESM = PretrainedEncoder(
    kind=EXPORTED.kind,
    classes=EXPORTED.classes,
    prefix=EXPORTED.prefix,
    table="embeddings.word_embeddings.weight",
    packings=_packings,
    transform=(EXPORTED.masked[0], EXPORTED.masked[1]),
    output=f"{EXPORTED.masked[2]}.weight",
    bias=(EXPORTED.masked[3],),
    # A model with rotary positions may have a table of positions that it does not use.
    ignored=r"(.*\.)?(position_ids|pooler\..*|contact_head\..*|inv_freq|position_embeddings\.weight)|classifier\..*",
    settings=EsmSettings,
    specials=("<pad>", "<unk>", "<cls>", "<eos>", "<mask>"),
    listed=_tokenizer,
)
