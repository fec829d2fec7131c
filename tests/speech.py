"""Spoken letters as tones: a small corpus of sounds, and a recognizer that is trained on it in seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.wav_files import write_wav
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.training.progress import NullReporter
from regard.training.setup import set_up
from regard.training.trainer import Trainer

RATE, SECONDS, GAP = 8000, 0.12, 0.08  # of a letter, and of the silence after it
PITCHES = {"a": 400.0, "b": 900.0, "c": 2000.0, " ": 3000.0}


def spoken(text: str, random: np.random.Generator) -> npt.NDArray[np.int16]:
    """Return samples of a text: a tone for each letter."""
    parts = []
    for letter in text:
        time = np.arange(round(RATE * SECONDS)) / RATE
        tone = np.sin(2 * np.pi * PITCHES[letter] * time) * random.uniform(0.3, 0.6)
        parts += [tone, np.zeros(round(RATE * GAP))]
    samples = np.concatenate(parts) if parts else np.zeros(RATE // 2)
    return ((samples + 0.003 * random.standard_normal(len(samples))) * 20000).astype(np.int16)


def write_list(folder: Path, texts: list[str], seed: int = 0) -> Path:
    """Write a sound for each text, and a list of them as JSON lines; return the list."""
    random = np.random.default_rng(seed)
    lines = []
    for number, text in enumerate(texts):
        name = f"{seed}-{number}.wav"
        (folder / name).write_bytes(write_wav(spoken(text, random), RATE))
        lines.append({"audio_filepath": name, "text": text, "speaker": f"s{seed}{number % 3}"})
    path = folder / f"list-{seed}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def drawn_texts(number: int, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    return ["".join(random.choice([*"abcabc "], random.integers(1, 9))).strip() or "a" for _ in range(number)]


def tables(folder: Path, **model: Any) -> dict[str, Any]:
    """Return the config of a recognizer for sounds in ``folder``."""
    train, valid = write_list(folder, drawn_texts(192, 1), 1), write_list(folder, drawn_texts(12, 2), 2)
    sides = {"encoder": {"layers": 1, "input": {"subsample": 2}}, "decoder": {"layers": 1}} | model
    return {
        "task": {"kind": "recognition"},
        "data": {
            "train": [{"source": str(train)}], "valid": [{"source": str(valid)}],
            "sound": {"rate": RATE, "channels": 40},
        },
        "model": {"width": 32, "feed_forward": 64, "heads": 2, "dropout": 0.0, "norm": "pre", "qk_norm": True,
                  "position": "rotary", **sides},
        "train": {"steps": 400, "batch_tokens": 1280, "optimizer": "muon", "learning_rate": 0.01, "schedule": "linear",
                  "baseline": False, "validate_every": 400, "threads": 1},
    }  # fmt: skip


def trained(folder: Path, *, steps: int = 400, **model: Any) -> RunFolder:
    """Return a trained run."""
    config = tables(folder, **model)
    config["train"] |= {"steps": steps, "validate_every": steps}
    run = RunFolder.create(folder / "run", load_config(config))
    ready = set_up(run, log=lambda line: None)
    Trainer(
        run, ready.net, ready.data, steps=ready.steps, reporter=NullReporter(), interrupted=lambda: False
    ).fit()  # fmt: skip
    return run
