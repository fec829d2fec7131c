"""Greedy decoding of an ONNX export with only onnxruntime and NumPy: part of its README, and used for parity."""

import json

import numpy as np
import onnxruntime


class Exported:
    def __init__(self, folder: str) -> None:
        with open(f"{folder}/config.json", encoding="utf-8") as file:
            self.config = json.load(file)
        self.encoder, self.decoder = (onnxruntime.InferenceSession(f"{folder}/{it}coder.onnx") for it in ("en", "de"))

    def greedy(self, sources: list[list[int]], longest: int = 100) -> list[list[int]]:
        config, end, width = self.config, self.config["end"], max(map(len, sources)) + 1
        known = {"source": np.array([[*ids, end] + [config["pad"]] * (width - 1 - len(ids)) for ids in sources])}
        known["valid"] = np.arange(width) <= np.array([[len(ids)] for ids in sources])
        known |= zip(config["encoder"]["outputs"], self.encoder.run(None, known), strict=True)
        outputs = np.full((len(sources), 1), config["begin"])
        while outputs.shape[1] <= longest and not (outputs == end).any(1).all():
            known["tokens"] = outputs[:, -1]
            log_p, *state = self.decoder.run(None, {name: known[name] for name in config["decoder"]["inputs"]})
            known |= zip(config["decoder"]["state"], state, strict=True)
            log_p[:, config["never"]] = -np.inf
            outputs = np.concatenate([outputs, log_p.argmax(1)[:, None]], 1)
        return [row[: row.index(end)] if end in row else row for row in outputs[:, 1:].tolist()]
