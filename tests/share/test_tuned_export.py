"""Imported models that are fine-tuned with LoRA and exported: transformers computes the same outputs, as does peft."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import regard
from regard.attention.span import Span
from regard.share.import_folder import import_folder
from tests.share.test_causal_import import folder_of
from tests.share.test_encoder_import import folder_of as encoder_folder_of
from tests.test_reading_part import FAST, LABELED, LINES, weights

NAMES = {
    "mixer.attention.query": "self_attn.q_proj", "mixer.attention.key": "self_attn.k_proj",
    "mixer.attention.value": "self_attn.v_proj", "mixer.attention.output": "self_attn.o_proj",
    "feed_forward.gate": "mlp.gate_proj", "feed_forward.up": "mlp.up_proj", "feed_forward.down": "mlp.down_proj",
}  # fmt: skip


def tuned(folder: Path, task: str = "language-model") -> Path:
    """An imported model, fine-tuned with adapters by a large rate so that they count."""
    (folder / "text.txt").write_text("\n".join(LINES) + "\n")
    (folder / "lines.txt").write_text("the cat sat\n")
    (folder / "text.tsv").write_text(LABELED)
    import_folder(folder / "theirs", folder / "base")
    start = str(folder / "base")
    model = {"from": start} if task == "language-model" else {"encoder": {"from": start}, "pooling": "first"}
    file = {"language-model": "text.txt", "classification": "text.tsv"}[task]
    data = {"train": [{"source": str(folder / file)}]} | ({"documents": "line"} if file == "text.txt" else {})
    lora = {"rank": 2, "alpha": 8.0}
    train = FAST | {"steps": 4, "learning_rate": 0.1, "baseline": False}
    regard.train({"task": task, "data": data, "model": model | {"lora": lora}, "train": train}, folder / "tuned")
    return folder / "tuned"


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_tuned_language_model_has_the_logits_of_its_export(kind: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
    folder_of(kind, tmp_path / "theirs")
    run = tuned(tmp_path)
    regard.export(run, tmp_path / "out", to="transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    ours, base = (regard.load(path, device="cpu") for path in (run, tmp_path / "base"))
    ids = torch.tensor([[1, *ours.tokenizer.encode("the cat sat on")]])
    span = Span.without_padding(ids)
    with torch.no_grad():
        mine, before = (one.model.head(one.model(ids, span).features) for one in (ours, base))
        assert (mine - before).abs().max() > 0.01, "training changed the outputs"
        expected = theirs(ids).logits
    predicted = mine > -5e3  # the bias of types that are never predicted is -1e4
    assert predicted.float().mean() > 0.9
    assert (mine - expected)[predicted].abs().max() < 1e-5


def test_a_tuned_classifier_has_the_logits_of_its_export(tmp_path: Path) -> None:
    """An imported BERT, whose classifier onnxruntime computes: transformers has no export of post-norm encoders."""
    pytest.importorskip("onnxscript", reason="needs the extra onnx")
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    encoder_folder_of("bert", tmp_path / "theirs")
    run = tuned(tmp_path, "classification")
    regard.export(run, tmp_path / "out", to="onnx", source=tmp_path / "lines.txt")
    assert json.loads((tmp_path / "out" / "parity.json").read_text())["difference"] < 1e-5


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_peft_merges_the_same_adapters_into_the_same_weights(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="needs peft: pip install peft")
    theirs = folder_of("llama", tmp_path / "theirs")
    run = tuned(tmp_path)
    saved = safetensors.torch.load_file(run / "checkpoints" / "step-000004" / "optimizer.safetensors")
    config = peft.LoraConfig(r=2, lora_alpha=8, target_modules="all-linear")
    model = peft.get_peft_model(theirs, config)
    own: dict[str, Any] = dict(model.named_parameters())
    with torch.no_grad():
        for layer in range(2):
            for ours, other in NAMES.items():
                for a_or_b in "ab":
                    place = f"base_model.model.model.layers.{layer}.{other}.lora_{a_or_b.upper()}.default.weight"
                    own[place].copy_(saved[f"adapter.layers.{layer}.{ours}.lora_{a_or_b}"])
    assert sum(name.startswith("adapter.") and "lora_a" in name for name in saved) == 2 * len(NAMES)
    ids = torch.tensor([[1, 5, 9, 30]])
    unmerged = model(ids).logits
    merged = model.merge_and_unload()
    torch.testing.assert_close(unmerged, merged(ids).logits, rtol=1e-4, atol=1e-4)
    mine = weights(run, "4")
    for layer in range(2):
        for ours, other in NAMES.items():
            expected = merged.get_submodule(f"model.layers.{layer}.{other}").weight
            torch.testing.assert_close(mine[f"layers.{layer}.{ours}.weight"], expected, rtol=0, atol=1e-6)
