"""Export of a language model as a Llama in GGUF, the file format of llama.cpp.

Only the layout differs from the export to transformers: rotary pairs are neighbors, and one file has weights, sizes and
tokenizer. Names of tensors and keys: the documentation of GGUF and its Python package ``gguf``.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.attention.positions.rotary import relayout
from regard.core.export_forms import CausalForm
from regard.data.tokenizers.catalog import load_tokenizer
from regard.data.tokenizers.subword import HuggingFaceTokenizer
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, UNKNOWN
from regard.models.language_model import LanguageModel
from regard.runs.run_folder import RunFolder
from regard.share.export_format import ExportFormat
from regard.share.llama import LLAMA
from regard.share.logit_parity import LogitParity, compare_logits
from regard.share.transformers_format import CausalExport, own_tensors
from regard.tasks.load import load

FILE = "model.gguf"
NORMAL, CONTROL = 1, 3  # types of pieces
BY_LAYER = {
    "attn_norm": "around_mixer.norm", "attn_q": "mixer.attention.query", "attn_k": "mixer.attention.key",
    "attn_v": "mixer.attention.value", "attn_output": "mixer.attention.output", "ffn_norm": "around_feed_forward.norm",
    "ffn_gate": "feed_forward.gate", "ffn_up": "feed_forward.up", "ffn_down": "feed_forward.down",
}  # fmt: skip


def obstacles(config: Any) -> list[str]:
    """Return all reasons why a model of this config cannot be exported to GGUF."""
    stack = config.model.decoder
    kind = config.data.tokenizer.kind
    reasons = {
        "it interpolates a network with n-grams (`model.wide`)": bool(config.wide),
        f"its activation is {stack.activation}, not swiglu": stack.activation != "swiglu",
        f"its tokenizer has the kind {kind}, not byte-bpe": kind != "byte-bpe",
        "its tokenizer lowercases text": config.data.tokenizer.lowercase,
    }
    own = [reason for reason in LLAMA.obstacles(config) if not reason.startswith("its activation is")]
    return [*(reason for reason, holds in reasons.items() if holds), *own]


def splitting_obstacles(tokenizer: HuggingFaceTokenizer) -> list[str]:
    """Return the reason why the tokenizer cannot be exported: words are split by another rule than GPT-2's."""
    rule = json.loads(tokenizer.model).get("pre_tokenizer") or {}
    plain = rule.get("type") == "ByteLevel" and rule.get("use_regex", True) and not rule.get("add_prefix_space")
    return [] if plain else ["its tokenizer does not split words like that of GPT-2"]


def write(model: LanguageModel, config: Any, tokenizer: HuggingFaceTokenizer, path: Path) -> None:
    """Write the model to a new file, in float32. ``obstacles`` must be empty."""
    gguf: Any = importlib.import_module("gguf")
    stack = config.model.decoder
    writer = gguf.GGUFWriter(path, "llama")
    head = stack.key_width or stack.width // stack.heads
    for key, value in {
        "add_name": config.name or "regard", "add_file_type": 0, "add_vocab_size": len(tokenizer),
        "add_context_length": config.data.context, "add_embedding_length": stack.width, "add_block_count": stack.layers,
        "add_feed_forward_length": stack.feed_forward, "add_head_count": stack.heads, "add_key_length": head,
        "add_value_length": head, "add_head_count_kv": stack.key_heads or stack.heads, "add_rope_dimension_count": head,
        "add_rope_freq_base": stack.position.base, "add_layer_norm_rms_eps": stack.normalization_epsilon or 1e-6,
    }.items():  # fmt: skip
        getattr(writer, key)(value)
    _add_tokenizer(writer, tokenizer)
    for name, tensor in _tensors(model, config):
        writer.add_tensor(name, tensor.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: Any, tokenizer: HuggingFaceTokenizer) -> None:
    document = json.loads(tokenizer.model)
    pieces = {id: piece for piece, id in document["model"]["vocab"].items()}
    pieces |= {added["id"]: added["content"] for added in document["added_tokens"]}
    merges = document["model"]["merges"]
    count = len(tokenizer)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([pieces.get(id, f"<unused{id}>") for id in range(count)])
    writer.add_token_types([CONTROL if id <= END else NORMAL for id in range(count)])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    for add, id in (("bos", BEGIN), ("eos", END), ("pad", PAD), ("unk", UNKNOWN)):
        getattr(writer, f"add_{add}_token_id")(id)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)


def _tensors(model: LanguageModel, config: Any) -> Iterator[tuple[str, Tensor]]:
    stack, own = config.model.decoder, own_tensors(model, config)
    yield "token_embd.weight", own["embedding.weight"]
    for number in range(stack.layers):
        for foreign, name in BY_LAYER.items():
            for part in ("weight", "bias"):
                tensor = own.get(f"layers.{number}.{name}.{part}")
                if tensor is None:
                    continue
                if foreign in ("attn_q", "attn_k"):
                    heads = stack.heads if foreign == "attn_q" else stack.key_heads or stack.heads
                    tensor = relayout(tensor, heads=heads, to="interleaved")
                yield f"blk.{number}.{foreign}.{part}", tensor
    yield "output_norm.weight", own["norm.weight"]
    if config.model.share == "none":
        yield "output.weight", own["head.weight"]


class GgufExport(CausalExport):
    """A run opened for this format: see ``export_format.Export``. The file is read again by transformers."""

    def write(self, folder: Path) -> None:
        assert isinstance(self.model.tokenizer, HuggingFaceTokenizer)
        folder.mkdir(parents=True, exist_ok=True)
        write(self.model.model, self.config, self.model.tokenizer, folder / FILE)

    def compare(self, inputs: Any, folder: Path) -> LogitParity:
        transformers: Any = importlib.import_module("transformers")
        options = {"gguf_file": FILE}
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **options).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options)
        return compare_logits(self.model, model, tokenizer, inputs, never=self.config.model.never_predicted)


def _open(run: RunFolder, checkpoint: str | None) -> GgufExport:
    model: Any = load(run.path, checkpoint=checkpoint, device="cpu")
    return GgufExport(run, run.config, model)


def _codec_obstacles(run: RunFolder) -> list[str]:
    tokenizer = load_tokenizer(run.tokenizers, "text")
    return splitting_obstacles(tokenizer) if isinstance(tokenizer, HuggingFaceTokenizer) else []


FORMAT = ExportFormat(
    form=CausalForm, open=_open, obstacles=obstacles, codec_obstacles=_codec_obstacles, libraries=("gguf",),
    # transformers reads the file with the package accelerate.
    compared_by="accelerate" if find_spec("transformers") else "transformers",
)  # fmt: skip
