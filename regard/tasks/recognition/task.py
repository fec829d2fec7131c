"""The task of speech recognition: the loss, the network, the predictor, and an example."""

from __future__ import annotations

from collections.abc import Mapping
from json import dumps
from pathlib import Path
from typing import Any, cast

import numpy as np
from torch import nn

from regard.attention.span import Span
from regard.core.state import State
from regard.core.task import Card, LossTerms, Metric, Objective, Task
from regard.data.npz_files import read_arrays
from regard.data.pairs import PairBatch
from regard.models.build import build_recognizer
from regard.tasks.recognition.baseline import fit_recognition_baseline, open_recognition_baseline
from regard.tasks.recognition.codecs import SpeechCodecs, open_run
from regard.tasks.recognition.config import RecognitionConfig
from regard.tasks.recognition.lint import lint
from regard.tasks.recognition.measure import compute_metrics, tables
from regard.tasks.recognition.prepare import prepare
from regard.tasks.recognition.recognizer import Recognizer

CHANNELS = 3  # of the sample


def objective(config: RecognitionConfig) -> Objective:
    """Return the loss of a batch: the weighted sum of the decoder's and that of CTC, summed over pieces."""
    smoothing = config.train.label_smoothing

    def loss(net: nn.Module, batch: PairBatch, carry: State = ()) -> LossTerms:
        spans = Span.of(batch.source_valid), Span.of(batch.target_valid)
        terms = cast(Any, net).loss(
            batch.source, spans[0], batch.target_input, spans[1], batch.target_output, smoothing=smoothing
        )
        sums = {"nll": terms.nll.detach(), "tokens": batch.target_valid.sum()}
        sums |= {} if terms.ctc is None else {"ctc": terms.ctc.detach()}
        return LossTerms(terms.smoothed, sums)

    return loss


def _build(config: RecognitionConfig, spec: Mapping[str, int]) -> nn.Module:
    return build_recognizer(config.model, channels=spec["channels"], target_types=spec["types"])


def _predictor(net: Any, codecs: SpeechCodecs, config: RecognitionConfig, **options: Any) -> Recognizer:
    return Recognizer(net, codecs, config, **options)


def _sample(folder: Path) -> dict[str, Any]:
    """Write recordings of letters, each a few frames with the same sound, in several orders."""
    random, texts = np.random.default_rng(1), ["ab", "b a", "cab", "abc", "ca", "b", "acb", "cc", "a", "bc"]
    voices = {letter: random.standard_normal(CHANNELS) * 2 for letter in "abc "}
    frames = [
        np.concatenate([voices[letter] + 0.1 * random.standard_normal((6, CHANNELS)) for letter in text])
        for text in texts
    ]
    offsets = np.cumsum([0, *map(len, frames)])
    speakers = np.array([f"s{number % 3}" for number in range(len(texts))])
    arrays: dict[str, Any] = {
        "frames": np.concatenate(frames).astype(np.float32), "offsets": offsets, "text": np.array(texts),
        "speaker": speakers,
    }  # fmt: skip
    np.savez(folder / "sample.npz", **arrays)
    corpus = {"source": str(folder / "sample.npz")}
    small = {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2}
    return {
        "data": {
            "train": [corpus], "valid": [corpus], "input": "frames", "silence": 0.2,
            "sound": {"time_masks": 1, "time_width": 3, "speeds": [0.9, 1.0]},
        },
        "model": {**small, "dropout": 0.0, "encoder": {"input": {"subsample": 2}}},
        "train": {"batch_tokens": 24},
    }  # fmt: skip


def _held_out_samples(folder: Path, sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the sample, and a copy whose validation recordings have other frames and texts."""
    arrays = read_arrays(Path(sample["data"]["train"][0]["source"]))
    changed: dict[str, Any] = arrays | {
        "frames": arrays["frames"][::-1] + 1,
        "text": np.array(["c"] * len(arrays["text"])),
    }
    np.savez(folder / "valid.npz", **changed)
    valid = [{"source": str(folder / "valid.npz")}]
    return [dict(sample), {**sample, "data": {**sample["data"], "valid": valid}}]


def _lines(lengths: tuple[int, ...]) -> tuple[str, ...]:
    """Return frames as lines of JSON."""
    random = np.random.default_rng(2)
    frames = (random.standard_normal((length, CHANNELS)).round(2).tolist() for length in lengths)
    return tuple(dumps({"frames": part}) for part in frames)


def _card(config: RecognitionConfig) -> Card:
    audio = config.data.input == "audio"
    usage = 'print(model([open("a.wav", "rb").read()])[0].text)' if audio else "print(model([frames])[0].text)"
    return Card("automatic-speech-recognition", usage, "recognize {run} a.wav" if audio else "recognize {run} data.npz")


TASK = Task(
    name="recognition",
    serves=frozenset({"transcribe"}),
    open=open_run,
    prepare=prepare,
    build=_build,
    small_spec={"channels": 2, "types": 8},
    objective=objective,
    predictor=_predictor,
    compute_metrics=compute_metrics,
    tables=tables,
    metrics={
        "wer": Metric(lower_is_better=True, by_predictor=True),
        "cer": Metric(lower_is_better=True, by_predictor=True),
        "words_in_silence": Metric(lower_is_better=True, by_predictor=True),
    },
    sample=_sample,
    held_out_samples=_held_out_samples,
    sample_lines=_lines((12, 7, 20, 2)),
    card=_card,
    fit_baseline=fit_recognition_baseline,
    open_baseline=open_recognition_baseline,
    lint=lint,
    examples=lambda config, data: cast(Any, data.valid).lines(),
)
