"""Folders of encoders that are damaged, hostile or unsupported: an error with the reason, and nothing remains."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from regard.data.tokenizers.catalog import load_tokenizer
from regard.errors import ModelError
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.share.encoder_format import obstacles
from regard.share.import_folder import import_folder
from regard.tasks.masked.task import TASK
from tests.share.test_causal_import import change, config, instead, pieces, pipe, sharded, tensors
from tests.share.test_encoder_import import TEXTS, WORDPIECES, folder_of

LAYER = "bert__encoder__layer__0__"
REFUSED: list[tuple[str, str, Callable[[Path], None], str]] = [
    ("bert", "another activation", config(hidden_act="tanh"), "activation is tanh"),
    ("bert", "relative positions", config(position_embedding_type="relative_key"), "positions are relative_key"),
    ("bert", "a decoder", config(is_decoder=True), "it is a decoder"),
    ("bert", "quantized", config(quantization_config={"bits": 4}), "weights are quantized"),
    ("bert", "more layers than any memory", config(num_hidden_layers=10**9), "num_hidden_layers"),
    ("bert", "more layers than tensors", config(num_hidden_layers=900), "config.json states 900 layers"),
    ("bert", "one layer more", config(num_hidden_layers=4), "the tensor bert.encoder.layer.3."),
    ("bert", "one layer less", config(num_hidden_layers=2), "the tensor bert.encoder.layer.2."),
    ("bert", "a width for no memory", config(hidden_size=1 << 20), "has the shape"),
    ("bert", "a feed-forward for no memory", config(intermediate_size=1 << 20), "has the shape"),
    ("bert", "rows for no memory", config(vocab_size=1 << 24), "the model has 16,777,216 rows"),
    ("bert", "positions for no memory", config(max_position_embeddings=1 << 20), "has the shape"),
    ("bert", "segments for no memory", config(type_vocab_size=1024), "has the shape"),
    ("bert", "fewer positions", config(max_position_embeddings=19), "has the shape"),
    ("bert", "too few positions", config(max_position_embeddings=1), "context"),
    ("bert", "fewer rows than pieces", config(vocab_size=9), "not all from 0 to 8"),
    ("bert", "heads that do not divide", config(num_attention_heads=3), "does not divide"),
    ("bert", "not a number", config(layer_norm_eps=float("nan")), "layer_norm_eps"),
    ("bert", "a pickle", instead("pytorch_model.bin"), "BertForMaskedLM"),
    ("bert", "no weights", instead("nothing"), "has no model.safetensors"),
    ("bert", "damaged weights", instead("model.safetensors"), "model.safetensors"),
    ("bert", "a tensor too few", tensors(**{LAYER + "output__dense__bias": None}), "output.dense.bias is missing"),
    ("bert", "a tensor too many", tensors(bert__extra=torch.ones(2)), "bert.extra is not part of such a model"),
    ("bert", "half a head", tensors(cls__predictions__transform__LayerNorm__bias=None), "LayerNorm.bias is missing"),
    ("bert", "no output bias", tensors(cls__predictions__bias=None), "cls.predictions.decoder.bias is missing"),
    ("bert", "whole numbers", tensors(bert__embeddings__LayerNorm__weight=torch.ones(16, dtype=torch.int64)),
     "not floating point"),
    ("bert", "files elsewhere", sharded({"bert.extra": "../model-1.safetensors"}), "not the name of"),
    ("bert", "a pipe", pipe, "the file is missing"),
    ("bert", "words", pieces(lambda found: found["model"].update(type="WordLevel")), "neither WordPiece nor BPE"),
    ("bert", "another normalizer", pieces(lambda found: found.update(normalizer={"type": "Lowercase"})),
     "does not split text like that of BERT"),
    ("bert", "words for no time", pieces(lambda found: found["model"].update(max_input_chars_per_word=10**6)),
     "max_input_chars_per_word"),
    ("bert", "two of one number", pieces(lambda found: found["model"]["vocab"].update(zz=9)), "two pieces have"),
    ("bert", "a number that is none", pieces(lambda found: found["model"]["vocab"].update(zz="9")), "not all from 0"),
    ("bert", "two numbers", pieces(lambda found: found["added_tokens"][0].update(id=7)), "has two ids"),
    ("bert", "no mask", pieces(lambda found: (found["model"]["vocab"].pop("[MASK]"), found["added_tokens"].pop())),
     "the mask_token '[MASK]' is not a piece"),
    ("roberta", "padding after all positions", config(pad_token_id=59), "context"),
    ("roberta", "padding beyond any table", config(pad_token_id=1 << 30), "pad_token_id"),
    ("modernbert", "layers in another order", config(layer_types=["sliding_attention"] * 5), "not every n-th"),
    ("modernbert", "scaled positions", config(rope_parameters={"full_attention": {"rope_type": "yarn"}}), "are scaled"),
    ("modernbert", "biases of feed-forwards", config(mlp_bias=True), "feed-forwards have biases"),
    ("esm", "a model of structures", config(is_folding_model=True), "predicts structures"),
]  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    for kind in ("bert", "roberta", "modernbert", "esm"):
        folder_of(kind, folder / kind, **({"max_position_embeddings": 20} if kind == "bert" else {}))
    return folder


@pytest.mark.parametrize(
    ("kind", "wrong", "expected"),
    [(kind, *rest) for kind, _, *rest in REFUSED],
    ids=[f"{k}: {n}" for k, n, *_ in REFUSED],
)
def test_a_wrong_folder_is_refused_and_leaves_nothing(
    folders: Path, tmp_path: Path, kind: str, wrong: Callable[[Path], None], expected: str
) -> None:
    folder = Path(shutil.copytree(folders / kind, tmp_path / "theirs"))
    wrong(folder)
    with pytest.raises(ModelError) as error:
        import_folder(folder, tmp_path / "run")
    assert expected in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def same_weights(folder: Path, other: Path, tmp_path: Path) -> bool:
    one, two = (import_folder(path, tmp_path / f"run-{number}").path for number, path in enumerate((folder, other)))
    there = RunFolder.open(two).weights(None).groups["model"]
    return all(
        torch.equal(tensor, there[name]) for name, tensor in RunFolder.open(one).weights(None).groups["model"].items()
    )


def test_early_names_of_norms_and_other_heads_make_no_difference(folders: Path, tmp_path: Path) -> None:
    """BERT's own checkpoints call a norm's weight and bias gamma and beta, and have a pooler and positions."""
    folder = Path(shutil.copytree(folders / "bert", tmp_path / "early"))
    found = safetensors.torch.load_file(folder / "model.safetensors")
    early = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
             for name, tensor in found.items()}  # fmt: skip
    early |= {"bert.pooler.dense.weight": torch.ones(16, 16), "cls.seq_relationship.bias": torch.ones(2)}
    early["bert.embeddings.position_ids"] = torch.arange(20)
    early["cls.predictions.decoder.weight"] = found["bert.embeddings.word_embeddings.weight"].clone()
    safetensors.torch.save_file(early, folder / "model.safetensors")
    assert same_weights(folders / "bert", folder, tmp_path)


def test_a_list_of_pieces_is_read_where_tokenizer_json_is_missing(folders: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders / "bert", tmp_path / "listed"))
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(WORDPIECES) + "\n")
    assert same_weights(folders / "bert", folder, tmp_path)
    one, two = (load_tokenizer(RunFolder.open(tmp_path / f"run-{number}").tokenizers, "text") for number in (0, 1))
    assert [one.encode(text) for text in TEXTS] == [two.encode(text) for text in TEXTS]
    assert one.pieces(range(len(one))) == two.pieces(range(len(two)))


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_early_files_omit_the_type_of_the_tokenizer(folders: Path, tmp_path: Path, kind: str) -> None:
    folder = Path(shutil.copytree(folders / kind, tmp_path / "early"))
    change(folder / "tokenizer.json", lambda found: found["model"].pop("type"))
    assert same_weights(folders / kind, folder, tmp_path)


def test_a_layer_before_the_output_is_not_lost_in_an_export(tmp_path: Path) -> None:
    model = {"layers": 1, "width": 8, "heads": 2, "norm": "pre", "activation": "gelu", "transform": "gelu"}
    config: Any = load_config({"task": "masked", "data": {"train": []}, "model": model})
    form = TASK.export_form(config)
    assert "model.transform" in str(obstacles(form, config))
    plain: Any = load_config({"task": "masked", "data": {"train": []}, "model": model | {"transform": "none"}})
    assert "model.transform" not in str(obstacles(TASK.export_form(plain), plain))
