"""Encoders of the classes BERT, RoBERTa and DistilBERT: post-norm layers, learned positions, a norm of embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from regard.models.transformer.config import TransformerEncoderConfig
from regard.share.causal_family import PLAIN_READ, Layers, Packing, Size, norm_names, one
from regard.share.encoder_family import layer_names
from regard.share.pretrained_encoder import (
    BertSettings,
    EncoderSettings,
    PretrainedEncoder,
    Probability,
    packed,
    positions_after,
)

IGNORED = r"(.*\.)?(position_ids|token_type_ids|pooler\..*)|cls\.seq_relationship\..*|(classifier|qa_outputs)\..*"
ROBERTA_PIECES = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
BRACKETED = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def _bert(settings: BertSettings, encoder: TransformerEncoderConfig) -> Iterator[Packing]:
    offset = settings.max_position_embeddings - settings.positions
    yield positions_after("embeddings.position_embeddings.weight", offset)
    yield one("embeddings.token_type_embeddings.weight", "encoder.embedding.segments")
    yield from norm_names("embeddings.LayerNorm", "encoder.embedding.norm")
    for number in range(encoder.layers):
        yield from packed(
            layer_names(number, around_attention="attention.output.LayerNorm", around_feed_forward="output.LayerNorm")
        )


def bert_tokenizer(rows: dict[str, int], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the content of ``tokenizer.json`` for a list of WordPiece's pieces."""
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer", "clean_text": True, "lowercase": settings.get("do_lower_case", True) is True,
            "handle_chinese_chars": settings.get("tokenize_chinese_chars", True) is True,
            "strip_accents": settings.get("strip_accents"),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece", "unk_token": settings.get("unk_token", "[UNK]"), "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": rows,
        },
    }  # fmt: skip


BERT = PretrainedEncoder(
    kind="bert",
    classes="Bert",
    prefix="bert.",
    table="embeddings.word_embeddings.weight",
    packings=_bert,
    transform=("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"),
    output="cls.predictions.decoder.weight",
    bias=("cls.predictions.decoder.bias", "cls.predictions.bias"),
    ignored=IGNORED,
    settings=BertSettings,
    specials=BRACKETED,
    listed=bert_tokenizer,
)


class RobertaSettings(BertSettings):
    """Keys of ``config.json`` of RoBERTa, whose first position is the one after padding."""

    vocab_size: Annotated[int, Field(ge=6, le=1 << 24)] = 50265
    pad_token_id: Annotated[int, Field(ge=0, le=1 << 20)] = 1

    @property
    def positions(self) -> int:
        return max(self.max_position_embeddings - self.pad_token_id - 1, 1)

    @property
    def transform(self) -> str:
        return "gelu"

    def stack(self) -> dict[str, Any]:
        # transformers passes the same segment for all tokens of RoBERTa, also for those of a second text.
        return super().stack() | {"segments": 1, "separators": 2}


def _roberta(settings: BertSettings, encoder: TransformerEncoderConfig) -> Iterator[Packing]:
    for packing in _bert(settings, encoder):
        if packing.parameters == ("encoder.embedding.segments",):
            packing = packing._replace(unpack=lambda whole: [whole[:1]], pack=lambda parts: parts[0].expand(
                settings.type_vocab_size, -1))  # fmt: skip
        yield packing


ROBERTA = PretrainedEncoder(
    kind="roberta",
    classes="Roberta",
    prefix="roberta.",
    table="embeddings.word_embeddings.weight",
    packings=_roberta,
    transform=("lm_head.dense", "lm_head.layer_norm"),
    output="lm_head.decoder.weight",
    bias=("lm_head.decoder.bias", "lm_head.bias"),
    ignored=IGNORED,
    settings=RobertaSettings,
    specials=ROBERTA_PIECES,
)


class DistilBertSettings(EncoderSettings):
    """Keys of ``config.json`` of DistilBERT."""

    vocab_size: Annotated[int, Field(ge=6, le=1 << 24)] = 30522
    dim: Size = 768
    n_layers: Layers = 6
    n_heads: Size = 12
    hidden_dim: Size = 3072
    activation: str = "gelu"
    dropout: Probability = 0.1
    attention_dropout: Probability = 0.1
    max_position_embeddings: Size = 512

    @property
    def positions(self) -> int:
        return self.max_position_embeddings

    @property
    def transform(self) -> str:
        return PLAIN_READ.get(self.activation, "")

    def reasons(self) -> dict[str, bool]:
        return super().reasons() | {
            f"its activation is {self.activation}": PLAIN_READ.get(self.activation, "relu2") == "relu2"
        }

    def stack(self) -> dict[str, Any]:
        return {
            "layers": self.n_layers,
            "width": self.dim,
            "feed_forward": self.hidden_dim,
            "heads": self.n_heads,
            "activation": PLAIN_READ[self.activation],
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "attention_bias": True,
            "norm": "post",
            "normalization_epsilon": 1e-12,
            "embedding_norm": True,
            "position": {"kind": "learned", "longest": self.positions},
        }


def _distilbert(settings: DistilBertSettings, encoder: TransformerEncoderConfig) -> Iterator[Packing]:
    yield positions_after("embeddings.position_embeddings.weight", 0)
    yield from norm_names("embeddings.LayerNorm", "encoder.embedding.norm")
    for number in range(encoder.layers):
        foreign, own = f"transformer.layer.{number}", f"encoder.layers.{number}"
        for part, projection in (("q_lin", "query"), ("k_lin", "key"), ("v_lin", "value"), ("out_lin", "output")):
            yield from norm_names(f"{foreign}.attention.{part}", f"{own}.mixer.attention.{projection}")
        yield from norm_names(f"{foreign}.sa_layer_norm", f"{own}.around_mixer.norm")
        yield from norm_names(f"{foreign}.ffn.lin1", f"{own}.feed_forward.up")
        yield from norm_names(f"{foreign}.ffn.lin2", f"{own}.feed_forward.down")
        yield from norm_names(f"{foreign}.output_layer_norm", f"{own}.around_feed_forward.norm")


DISTILBERT = PretrainedEncoder(
    kind="distilbert",
    classes="DistilBert",
    prefix="distilbert.",
    table="embeddings.word_embeddings.weight",
    packings=_distilbert,
    transform=("vocab_transform", "vocab_layer_norm"),
    output="vocab_projector.weight",
    bias=("vocab_projector.bias",),
    ignored=IGNORED + r"|pre_classifier\..*",
    settings=DistilBertSettings,
    specials=BRACKETED,
    listed=bert_tokenizer,
)
