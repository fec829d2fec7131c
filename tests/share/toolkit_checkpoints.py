"""Checkpoints of other translation toolkits, with the names of tensors that they document, of torch's layers.

torch's own layers are the reference: nothing of Regard computes it, and nothing of it comes from a toolkit.
"""

from __future__ import annotations

import json
import math
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor, nn

WIDTH, HEADS, INNER, LAYERS = 16, 4, 24, 2
SOURCE = [f"s{number}" for number in range(12)]
save: Any = torch.save  # noqa: TID251 - written here, and read by Regard only
TARGET = [f"t{number}@@" for number in range(10)]


class Reference:
    """A Transformer of torch, its tables, and its log-probabilities of the pieces that follow a target."""

    def __init__(self, *, pre: bool, epsilon: float, types: tuple[int, int], positions: Tensor, scaled: bool = True,
                 bias: bool = True, share: bool = False, activation: str = "relu") -> None:  # fmt: skip
        options: Any = dict(
            dropout=0.0, activation=activation, norm_first=pre, layer_norm_eps=epsilon, batch_first=True
        )
        sizes = (WIDTH, HEADS, INNER)
        norms = [nn.LayerNorm(WIDTH, eps=epsilon) for _ in range(2)]
        encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(*sizes, **options), LAYERS, norms[0], enable_nested_tensor=False
        )
        decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(*sizes, **options), LAYERS, norms[1])
        model = nn.Transformer(WIDTH, HEADS, custom_encoder=encoder, custom_decoder=decoder, batch_first=True).eval()
        self.pre, self.model, self.positions = pre, model, positions
        self.scale = math.sqrt(WIDTH) if scaled else 1.0
        for side in (self.model.encoder, self.model.decoder):
            side.norm = side.norm if pre else None
        self.source, self.target, self.head = (torch.randn(size, WIDTH) * 0.4 for size in (*types, types[1]))
        if share:
            self.source = self.head = self.target
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                attends = "attn" in name and name.endswith("bias") and not bias
                parameter.copy_(torch.zeros_like(parameter) if attends else torch.randn_like(parameter) * 0.4)

    @torch.no_grad()
    def log_p(self, source: list[int], target: list[int]) -> Tensor:
        """Return the log-probabilities after each of the target's inputs, which begin with the first symbol."""
        x, y = (
            (table[ids] * self.scale + self.positions[: len(ids)])[None]
            for table, ids in ((self.source, source), (self.target, target))
        )
        hidden = nn.Transformer.generate_square_subsequent_mask(len(target))
        return torch.log_softmax(self.model(x, y, tgt_mask=hidden)[0] @ self.head.T, -1)

    def modules(self) -> Iterator[tuple[str, int, str, Tensor, Tensor | None]]:
        """Yield side, layer, role, weight and bias of every map and norm; the last norms have the layer −1."""
        for side in ("encoder", "decoder"):
            stack = getattr(self.model, side)
            for number, layer in enumerate(stack.layers):
                for name in ("self_attn", "multihead_attn")[: 1 if side == "encoder" else 2]:
                    attention = getattr(layer, name)
                    for role, weight, bias in zip(
                        "qkv", attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3), strict=True
                    ):
                        yield side, number, f"{name}.{role}", weight, bias
                    yield side, number, f"{name}.o", attention.out_proj.weight, attention.out_proj.bias
                norms = ("norm1", "norm2") if side == "encoder" else ("norm1", "norm2", "norm3")
                for name in ("linear1", "linear2", *norms):
                    part = getattr(layer, name)
                    yield side, number, name, part.weight, part.bias
            if self.pre:
                yield side, -1, "norm", stack.norm.weight, stack.norm.bias


def waves(count: int, *, first: int = 0, sines_first: bool = False, over: int = WIDTH) -> Tensor:
    """Return sinusoids: of the paper, or all sines before the cosines with an exponent over ``over``."""
    rate = 10000.0 ** (-torch.arange(0, WIDTH, 2) / over)
    angle = torch.arange(first, first + count)[:, None] * rate
    both = [angle.sin(), angle.cos()]
    return torch.cat(both, 1) if sines_first else torch.stack(both, 2).flatten(1)


def state(reference: Reference, name: Callable[[str, int, str], str], *, bias: bool = True) -> OrderedDict[str, Tensor]:
    """Return the tensors of all layers under a toolkit's names."""
    tensors = OrderedDict()
    for side, number, role, weight, its_bias in reference.modules():
        prefix = name(side, number, role)
        tensors[f"{prefix}.weight"] = weight.detach().clone()
        if its_bias is not None and (bias or "attn" not in role):
            tensors[f"{prefix}.bias"] = its_bias.detach().clone()
    return tensors


def joey_name(side: str, number: int, role: str) -> str:
    own = ("src_src_att", "") if side == "encoder" else ("trg_trg_att", "src_trg_att")
    attention = {"self_attn": own[0], "multihead_attn": own[1]}.get(role.split(".")[0], "")
    norms = ["layer_norm", "feed_forward.layer_norm"]
    if side == "decoder":
        norms = ["x_layer_norm", "dec_layer_norm", "feed_forward.layer_norm"]
    if role == "norm":
        return f"{side}.layer_norm"
    part = {"linear1": "feed_forward.pwff_layer.0", "linear2": "feed_forward.pwff_layer.3"}.get(role)
    if part is None and role.startswith("norm"):
        part = norms[int(role[-1]) - 1]
    projection = {"q": "q_layer", "k": "k_layer", "v": "v_layer", "o": "output_layer"}
    return f"{side}.layers.{number}.{part or f'{attention}.{projection[role[-1]]}'}"


def write_joeynmt(folder: Path, *, pre: bool, scaled: bool, share: bool = False) -> Reference:
    pieces = SOURCE if share else TARGET
    sizes = (len(SOURCE) + 4, len(pieces) + 4)
    reference = Reference(pre=pre, epsilon=1e-6, types=sizes, positions=waves(20), scaled=scaled, share=share)
    tensors = state(reference, joey_name)
    tensors |= {"src_embed.lut.weight": reference.source, "trg_embed.lut.weight": reference.target,
                "decoder.output_layer.weight": reference.head, "encoder.pe.pe": waves(50)[None]}  # fmt: skip
    save({"model_state": tensors, "optimizer_state": {}, "steps": 1}, folder / "best.ckpt")
    side = {"type": "transformer", "num_layers": LAYERS, "num_heads": HEADS, "hidden_size": WIDTH,
            "ff_size": INNER, "layer_norm": "pre" if pre else "post",
            "embeddings": {"embedding_dim": WIDTH, "scale": scaled}}  # fmt: skip
    config = {"data": {"src": {"lang": "de"}, "trg": {"lang": "en"}}, "model": {"encoder": side, "decoder": side}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    specials = ["<unk>", "<pad>", "<s>", "</s>"]
    for name, own in (("src", SOURCE), ("trg", pieces)):
        (folder / f"{name}_vocab.txt").write_text("\n".join([*specials, *own]) + "\n")
    return reference


def fairseq_name(side: str, number: int, role: str) -> str:
    if role == "norm":
        return f"{side}.layer_norm"
    norms = ["self_attn_layer_norm", "final_layer_norm"]
    if side == "decoder":
        norms.insert(1, "encoder_attn_layer_norm")
    part = {"linear1": "fc1", "linear2": "fc2"}.get(role)
    if part is None and role.startswith("norm"):
        part = norms[int(role[-1]) - 1]
    attention = "self_attn" if role.startswith("self") else "encoder_attn"
    projection = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}
    return f"{side}.layers.{number}.{part or f'{attention}.{projection[role[-1]]}'}"


def write_fairseq(folder: Path, *, pre: bool, zipped: bool) -> Reference:
    positions = waves(20, first=2, sines_first=True, over=WIDTH - 2)
    sizes = (len(SOURCE) + 4, len(TARGET) + 4)
    reference = Reference(pre=pre, epsilon=1e-5, types=sizes, positions=positions)
    tensors = state(reference, fairseq_name)
    if not zipped:  # versions before 0.9 store queries, keys and values in one matrix
        for kind in ("weight", "bias"):
            for prefix in {name.rpartition("q_proj")[0] for name in tensors if "q_proj" in name}:
                parts = [tensors.pop(f"{prefix}{part}_proj.{kind}") for part in "qkv"]
                tensors[f"{prefix}in_proj_{kind}"] = torch.cat(parts)
    tensors |= {"encoder.embed_tokens.weight": reference.source, "decoder.embed_tokens.weight": reference.target,
                "decoder.output_projection.weight": reference.head, "encoder.version": torch.tensor([3.0]),
                "encoder.embed_positions._float_tensor": torch.zeros(1)}  # fmt: skip
    options = Namespace(
        arch="transformer_iwslt_de_en", encoder_embed_dim=WIDTH, decoder_embed_dim=WIDTH, encoder_layers=LAYERS,
        decoder_layers=LAYERS, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, max_source_positions=20,
        encoder_ffn_embed_dim=INNER, decoder_ffn_embed_dim=INNER, encoder_normalize_before=pre, source_lang="de",
        decoder_normalize_before=pre, max_target_positions=20, target_lang="en",
    )  # fmt: skip
    named = {"args": None, "cfg": {"model": options, "task": {}}} if zipped else {"args": options}
    content = {"model": tensors, "extra_state": {"epoch": 1}, **named}
    save(content, folder / "checkpoint_best.pt", _use_new_zipfile_serialization=zipped)
    for name, pieces in (("de", SOURCE), ("en", TARGET)):
        (folder / f"dict.{name}.txt").write_text("".join(f"{piece} 5\n" for piece in pieces))
    return reference


def opennmt_name(side: str, number: int, role: str) -> str:
    if role == "norm":
        return f"{side}.layer_norm"
    stack = "encoder.transformer" if side == "encoder" else "decoder.transformer_layers"
    norms = ["layer_norm", "feed_forward.layer_norm"]
    if side == "decoder":
        norms = ["layer_norm_1", "layer_norm_2", "feed_forward.layer_norm"]
    part = {"linear1": "feed_forward.w_1", "linear2": "feed_forward.w_2"}.get(role)
    if part is None and role.startswith("norm"):
        part = norms[int(role[-1]) - 1]
    attention = "self_attn" if role.startswith("self") else "context_attn"
    projection = {"q": "linear_query", "k": "linear_keys", "v": "linear_values", "o": "final_linear"}
    return f"{stack}.{number}.{part or f'{attention}.{projection[role[-1]]}'}"


def write_opennmt(folder: Path, *, bias: bool) -> Reference:
    sizes = (len(SOURCE) + 4, len(TARGET) + 4)
    reference = Reference(pre=True, epsilon=1e-6, types=sizes, positions=waves(20), bias=bias)
    tensors = state(reference, opennmt_name, bias=bias)
    table = "embeddings.make_embedding.emb_luts.0.weight"
    tensors |= {f"encoder.{table}": reference.source, f"decoder.{table}": reference.target}
    tensors |= {f"{side}.embeddings.make_embedding.pe.pe": waves(40)[:, None] for side in ("encoder", "decoder")}
    options = Namespace(
        encoder_type="transformer", decoder_type="transformer", layers=LAYERS, heads=HEADS, transformer_ff=INNER,
        position_encoding=True, dropout=[0.1], copy_attn=False,
    )  # fmt: skip
    specials = ["<unk>", "<blank>", "<s>", "</s>"]
    content = {
        "model": tensors, "generator": {"weight": reference.head, "bias": torch.zeros(sizes[1])}, "opt": options,
        "vocab": {"src": specials + SOURCE, "tgt": specials + TARGET, "data_task": "seq2seq"}, "optim": None,
    }  # fmt: skip
    save(content, folder / "model_step_1.pt")
    return reference


def write_sockeye(folder: Path, *, pre: bool) -> Reference:
    sizes = (len(SOURCE) + 4, len(TARGET) + 4)
    positions = waves(20, sines_first=True)
    reference = Reference(pre=pre, epsilon=1e-6, types=sizes, positions=positions, bias=False)
    plain = state(reference, lambda side, number, role: f"{side}.{number}.{role}")
    tensors: dict[str, Tensor] = {}
    place = "pre" if pre else "post"
    for side in ("encoder", "decoder"):
        processes = [f"{place}_self_attention", f"{place}_ff"]
        if side == "decoder":
            processes = [f"{place}_autoregr_layer", f"{place}_enc_attention", f"{place}_ff"]
        for number in range(LAYERS):
            own, layer = f"{side}.{number}", f"{side}.layers.{number}"
            attention = "self_attention" if side == "encoder" else "autoregr_layer"
            query, both = plain[f"{own}.self_attn.q.weight"], _by_head(plain, f"{own}.self_attn")
            tensors[f"{layer}.{attention}.ff_in.weight"] = torch.cat([query, both])
            tensors[f"{layer}.{attention}.ff_out.weight"] = plain[f"{own}.self_attn.o.weight"]
            if side == "decoder":
                tensors[f"{layer}.enc_attention.ff_q.weight"] = plain[f"{own}.multihead_attn.q.weight"]
                tensors[f"{layer}.enc_attention.ff_kv.weight"] = _by_head(plain, f"{own}.multihead_attn")
                tensors[f"{layer}.enc_attention.ff_out.weight"] = plain[f"{own}.multihead_attn.o.weight"]
            for kind in ("weight", "bias"):
                for index, process in enumerate(processes, 1):
                    tensors[f"{layer}.{process}.layer_norm.{kind}"] = plain[f"{own}.norm{index}.{kind}"]
                for index in (1, 2):
                    tensors[f"{layer}.ff.ff{index}.{kind}"] = plain[f"{own}.linear{index}.{kind}"]
                if pre:
                    tensors[f"{side}.final_process.layer_norm.{kind}"] = plain[f"{side}.-1.norm.{kind}"]
        tensors[f"{side}.pos_embedding.weight"] = positions
    tensors |= {
        "embedding_source.embedding.weight": reference.source, "output_layer.weight": reference.head,
        "embedding_target.embedding.weight": reference.target, "output_layer.bias": torch.zeros(sizes[1]),
    }  # fmt: skip
    save(OrderedDict(tensors), folder / "params.best")
    order = ("n", "dr") if pre else ("''", "drn")
    side_lines = "\n".join(
        f"  {key}: {value}" for key, value in {
            "act_type": "relu", "attention_heads": HEADS, "feed_forward_num_hidden": INNER, "model_size": WIDTH,
            "num_layers": LAYERS, "preprocess_sequence": order[0], "postprocess_sequence": order[1],
        }.items()
    )  # fmt: skip
    lines = [f"config_{side}: !TransformerConfig\n{side_lines}" for side in ("encoder", "decoder")]
    (folder / "config").write_text("\n".join(["!ModelConfig", *lines, ""]))
    for name, pieces in (("src", SOURCE), ("trg", TARGET)):
        ids = {piece: id for id, piece in enumerate(["<pad>", "<unk>", "<s>", "</s>", *pieces])}
        (folder / f"vocab.{name}.0.json").write_text(json.dumps(ids))
    return reference


def _by_head(plain: dict[str, Any], attention: str) -> Tensor:
    """Return keys and values of each head next to each other, as Sockeye stores them."""
    key, value = (plain[f"{attention}.{part}.weight"].view(HEADS, -1, WIDTH) for part in "kv")
    return torch.cat([key, value], 1).reshape(2 * WIDTH, WIDTH)
