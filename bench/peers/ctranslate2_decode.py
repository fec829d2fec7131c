"""CTranslate2's worker: the job's own weights in its format, decoding the job's sources whenever asked.

    python bench/peers/ctranslate2_decode.py JOB int8|float32 WORKERS

Tokens are the numbers of pieces written as words, so that both sides see the same ones. OMP_NUM_THREADS threads are
dealt out to WORKERS. All sources are given at once, in batches of ``rows`` sentences of like length, as its users do.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
from ctranslate2.specs import common_spec, transformer_spec
from safetensors.numpy import load_file
from serving import Served

Weights = dict[str, np.ndarray]


def main(job: Path, precision: str, workers: int) -> None:
    served = Served()
    settings = json.loads((job / "job.json").read_text())
    model = job / f"ctranslate2-{precision}"
    if not model.exists():
        model.mkdir()
        spec = convert(settings, load_file(job / "model.safetensors"))
        spec.validate()
        spec.optimize(quantization=precision)
        spec.save(str(model))
    threads = int(os.environ["OMP_NUM_THREADS"])
    translator = ctranslate2.Translator(
        str(model), device="cpu", compute_type=precision, inter_threads=workers, intra_threads=threads // workers
    )
    sources = [[str(token) for token in source] for source in settings["sources"]]
    options: dict[str, Any] = {
        "beam_size": settings["beam"],
        "length_penalty": settings["length_penalty"],
        "max_batch_size": settings["rows"],
        "batch_type": "examples",
        "return_scores": True,
        "max_decoding_length": settings["longest"],
    }
    if settings["fixed"]:
        options["min_decoding_length"] = settings["longest"]
    served.answer(version=ctranslate2.__version__, threads=threads, workers=workers)
    for _ in served:
        found = translator.translate_batch(sources, **options)
        outputs = [[int(token) for token in each.hypotheses[0]] for each in found]
        served.answer(tokens=sum(map(len, outputs)) + (0 if settings["fixed"] else len(outputs)))
        (job / f"outputs-ctranslate2-{precision}.json").write_text(json.dumps(outputs))


def convert(settings: dict[str, Any], weights: Weights) -> transformer_spec.TransformerSpec:
    """Post- or pre-norm, sinusoids, one matrix for both embeddings and the output, ReLU, projections without bias."""
    sides = settings["model"]["encoder"], settings["model"]["decoder"]
    model = sides[0]
    known = {"activation": "relu", "attention_bias": False, "normalization": "layer", "key_heads": None}
    wrong = [key for key, value in known.items() if any(side[key] != value for side in sides)]
    if wrong or model["position"]["kind"] != "sinusoidal" or settings["model"]["share"] != "all":
        sys.exit(f"this conversion does not know the model's {', '.join(wrong) or 'position or sharing'}")
    spec = transformer_spec.TransformerSpec.from_config(
        tuple(side["layers"] for side in sides),
        model["heads"],
        pre_norm=model["norm"] == "pre",
        activation=common_spec.Activation.RELU,
    )
    table = sinusoids(512, model["width"])
    for side in (spec.encoder, spec.decoder):
        side.position_encodings.encodings = table
        side.scale_embeddings = True
    embedding = weights["head.weight"]
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = spec.decoder.projection.weight = embedding
    for number, layer in enumerate(spec.encoder.layer):
        name = f"encoder.layers.{number}"
        attention(weights, f"{name}.mixer.attention", layer.self_attention, own=True)
        norm(weights, f"{name}.around_mixer.norm", layer.self_attention.layer_norm)
        feed_forward(weights, name, layer.ffn)
    for number, layer in enumerate(spec.decoder.layer):
        name = f"decoder.layers.{number}"
        attention(weights, f"{name}.mixer.attention", layer.self_attention, own=True)
        norm(weights, f"{name}.around_mixer.norm", layer.self_attention.layer_norm)
        attention(weights, f"{name}.reader.attention", layer.attention, own=False)
        norm(weights, f"{name}.around_reader.norm", layer.attention.layer_norm)
        feed_forward(weights, name, layer.ffn)
    if model["norm"] == "pre":
        norm(weights, "encoder.norm", spec.encoder.layer_norm)
        norm(weights, "decoder.norm", spec.decoder.layer_norm)
    vocabulary = [str(number) for number in range(settings["types"])]
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    begin, end, unknown = (str(settings[name]) for name in ("begin", "end", "unknown"))
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = begin, end, unknown
    spec.config.decoder_start_token = begin
    spec.config.layer_norm_epsilon = 1e-5
    return spec


def sinusoids(length: int, width: int) -> np.ndarray:
    angle = np.arange(length)[:, None] * 10000.0 ** (-np.arange(0, width, 2) / width)
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(length, width).astype(np.float32)


def attention(weights: Weights, name: str, spec: Any, *, own: bool) -> None:
    query, key, value, output = (weights[f"{name}.{part}.weight"] for part in ("query", "key", "value", "output"))
    matrices = [np.concatenate([query, key, value]), output] if own else [query, np.concatenate([key, value]), output]
    for linear, matrix in zip(spec.linear, matrices, strict=True):
        linear.weight = matrix


def norm(weights: Weights, name: str, spec: Any) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def feed_forward(weights: Weights, name: str, spec: Any) -> None:
    norm(weights, f"{name}.around_feed_forward.norm", spec.layer_norm)
    for linear, part in ((spec.linear_0, "up"), (spec.linear_1, "down")):
        linear.weight, linear.bias = (weights[f"{name}.feed_forward.{part}.{kind}"] for kind in ("weight", "bias"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
