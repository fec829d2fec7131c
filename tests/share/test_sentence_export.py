"""Encoders as folders of sentence-transformers: the vectors of ``Predictor.embed``, read by that library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.errors import ConfigError
from regard.share.sentence_format import POOLINGS, VectorParity

from .test_encoder_export import SIZES, TASKS, config_of, trained

TEXTS = ["film one", "one", "film film unknown one"]
MODES = {"mean_tokens": "mean", "max_tokens": "max", "cls_token": "first", "lasttoken": "last"}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "masked, rotary": ("masked", {"position": "rotary"}),
    "masked, learned": ("masked", {"position": {"kind": "learned", "longest": 40}, "activation": "relu"}),
    "class, rotary": ("class", {"position": "rotary", "pooling": "attention"}),
}


def run_of(name: str, folder: Path) -> Path:
    task, model = MODELS[name]
    text = "film one\tgood\none film\tbad\n" if task == "class" else "film one\none film\n"
    return trained(folder, TASKS[task]["task"], SIZES | {"layers": 2} | model, text)


def vectors_there(folder: Path, texts: list[str]) -> Any:
    """The pooled states of transformers, as the written files request."""
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
    modules = json.loads((folder / "modules.json").read_text())
    assert [module["path"] for module in modules] == ["", "1_Pooling"]
    pooling = json.loads((folder / "1_Pooling" / "config.json").read_text())
    (mode,) = (MODES[name] for name in MODES if pooling[f"pooling_mode_{name}"])
    model, notes = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not notes["missing_keys"] and not notes["unexpected_keys"]
    reader, vectors = transformers.AutoTokenizer.from_pretrained(folder), []
    for text in texts:
        with torch.no_grad():
            states = model.eval()(**reader(text, return_tensors="pt")).last_hidden_state[0]
        pooled = {"mean": states.mean(0), "max": states.amax(0), "first": states[0], "last": states[-1]}
        vectors.append(pooled[mode].numpy())
    assert pooling["word_embedding_dimension"] == len(vectors[0])
    return np.stack(vectors)


@pytest.mark.parametrize("name", MODELS)
def test_pooled_states_of_transformers_are_the_embeddings(name: str, tmp_path: Path) -> None:
    run = run_of(name, tmp_path)
    model = regard.load(run)
    for pooling in POOLINGS:
        folder = tmp_path / pooling
        regard.export(run, folder, to="sentence-transformers", pooling=pooling)
        np.testing.assert_allclose(
            vectors_there(folder, TEXTS), model.embed(TEXTS, pooling=pooling), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("name", MODELS)
def test_the_library_returns_the_embeddings(name: str, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")
    run = run_of(name, tmp_path)
    for pooling in POOLINGS:
        folder = tmp_path / pooling
        report = regard.export(run, folder, to="sentence-transformers", pooling=pooling)
        assert report.message.startswith("vectors of 2 texts differ by at most"), report.message
        found = library.SentenceTransformer(str(folder), device="cpu").encode(TEXTS)  # one padded batch
        np.testing.assert_allclose(found, regard.load(run).embed(TEXTS, pooling=pooling), rtol=1e-4, atol=1e-5)


def test_models_and_options_that_cannot_be_exported_are_refused(tmp_path: Path) -> None:
    tagger = trained(tmp_path, "tagging", SIZES | {"position": "rotary"}, "film\tN\n\none\tD\n\n")
    with pytest.raises(ConfigError, match="a tagger reads words"):
        regard.export(tagger, tmp_path / "out", to="sentence-transformers")
    with pytest.raises(ConfigError, match="writes no vectors"):
        regard.export(tagger, tmp_path / "out", to="transformers", pooling="mean")
    with pytest.raises(ConfigError, match="writes mean, max, first, last"):
        regard.export(tagger, tmp_path / "out", to="sentence-transformers", pooling="sum")
    from regard.share.sentence_format import obstacles

    assert obstacles(config_of("masked", {"position": "rotary"})) == []
    (reason,) = obstacles(config_of("masked", {"position": "rotary", "norm": "post"}))
    assert "post-norm" in reason and "--set model.norm=pre" in reason
    assert str(VectorParity(2, 1.0, 1.0)).startswith("warning: the export differs")
