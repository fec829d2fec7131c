"""ONNX: a classifier runs in onnxruntime, without torch."""

import json
from pathlib import Path

import numpy as np
import onnxruntime

import regard

TINY = {"steps": 5, "threads": 1, "workers": 1}

texts, labels = ["a fine film", "a dull film"] * 40, ["good", "bad"] * 40
valid = (texts[:8], labels[:8])
run = regard.train(texts, labels, valid=valid, task="classification", for_="onnx", name="reviews", train=TINY)
print(regard.export(run, "exported", to="onnx").message)

folder = Path("exported")
config = json.loads((folder / "config.json").read_text())
pieces: list[str] = json.loads((folder / "pieces.json").read_text())

words = ["a", "fine", "film"]  # the tokenizer of this run is words; exported/tokenizer has those of others
tokens = np.array([[config["begin"], *map(pieces.index, words), config["end"]]])
session = onnxruntime.InferenceSession(folder / "model.onnx")
(logits,) = session.run(None, {"tokens": tokens, "valid": np.ones_like(tokens, bool)})
probabilities = np.exp(logits[0]) / np.exp(logits[0]).sum()

output = regard.load(run, regard.SupervisedPredictor[regard.Classification])(" ".join(words))
for number, name in config["id2label"].items():
    print(name, f"{probabilities[int(number)]:.6f}", f"{output.probabilities[name]:.6f}")
    assert abs(probabilities[int(number)] - output.probabilities[name]) < 1e-5
