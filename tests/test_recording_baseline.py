"""The baseline of recognition: parity with scikit-learn, what is saved, and its comparison by `regard evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.baselines import nearest_recording
from regard.baselines.nearest_recording import PLACES, NearestRecording
from regard.baselines.packed_texts import packed_texts
from regard.core.baseline import ARRAYS_FILE, FOLDER, SavedBaseline, copy_baseline
from regard.core.task import find_task
from regard.errors import ModelError
from regard.runs.config import load_config
from regard.tasks.evaluate import evaluate
from regard.training.progress import NullReporter
from regard.training.start import train


def recordings(number: int, seed: int = 0) -> list[Any]:
    random = np.random.default_rng(seed)
    return [random.standard_normal((int(random.integers(5, 90)), 3)).astype(np.float32) for _ in range(number)]


def fitted(number: int = 30) -> NearestRecording:
    model = NearestRecording()
    model.learn(recordings(number).__getitem__, [f"text {place} ä\n" for place in range(number)])
    return model


def test_the_nearest_is_that_of_scikit_learn() -> None:
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import StandardScaler

    def numbers(frames: Any) -> Any:
        standard = (frames - frames.mean(0)) / (frames.std(0) + 1e-3)
        places = [round(place * (len(frames) - 1) / (PLACES - 1)) for place in range(PLACES)]
        duration = [np.log(len(frames))] * round(0.2 * PLACES * 3)
        return np.concatenate([standard[places].ravel(), duration])

    known, unseen = recordings(200), recordings(50, seed=1)
    scale = StandardScaler().fit([numbers(frames) for frames in known])
    neighbors = NearestNeighbors(n_neighbors=1).fit(scale.transform([numbers(frames) for frames in known]))
    places = neighbors.kneighbors(scale.transform([numbers(frames) for frames in unseen]), return_distance=False)
    expected = places[:, 0]
    model = NearestRecording()
    model.learn(known.__getitem__, [str(place) for place in range(200)])
    assert np.mean([int(text) for text in model.outputs(unseen)] == expected) >= 0.96  # of deviations, 1e-3 is added


def test_the_text_of_a_known_recording_is_its_own() -> None:
    model = fitted()
    assert model.outputs(recordings(30)) == model.texts
    assert model.outputs([3 * frames + 7 for frames in recordings(30)]) == model.texts  # at any loudness


def test_of_many_recordings_a_sample_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest_recording, "MAX_RECORDINGS", 4)
    read: list[int] = []
    NearestRecording().learn(lambda index: read.append(index) or recordings(12)[index], ["a"] * 12)  # type: ignore[func-returns-value]
    assert read == [0, 3, 6, 9]  # and no other recording is loaded
    assert [text.split()[1] for text in fitted(12).texts] == ["0", "3", "6", "9"]


def test_a_saved_one_is_the_same() -> None:
    model, unseen = fitted(), recordings(9, seed=2)
    opened = NearestRecording().open(model.save())
    assert opened.texts == model.texts and opened.outputs(unseen) == model.outputs(unseen)


DAMAGES: dict[str, Any] = {
    "texts": lambda arrays: arrays.update({"texts.starts": arrays["texts.starts"][:-1]}),
    "fewer texts": lambda arrays: arrays.update(packed_texts("texts", ["one", "two"])),
    "nothing": lambda arrays: arrays.update(packed_texts("texts", []), known=arrays["known"][:0]),
    "a frame": lambda arrays: arrays.update(known=arrays["known"] * np.nan),
    "a deviation": lambda arrays: arrays.update(scale=arrays["scale"] * 0),
    "width": lambda arrays: arrays.update(scale=arrays["scale"][:-1]),
    "missing": lambda arrays: arrays.pop("known"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_arrays_are_refused(damage: str) -> None:
    arrays = dict(fitted().save().arrays)
    DAMAGES[damage](arrays)
    with pytest.raises((ValueError, LookupError)):
        NearestRecording().open(SavedBaseline(arrays, {}))


class Log(NullReporter):
    """The messages of a training."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, message: str) -> None:
        self.lines.append(message)


def test_a_recognizer_is_compared_with_it(tmp_path: Path) -> None:
    sample, log = find_task("recognition").sample(tmp_path), Log()
    settings = ["train.steps=2", "train.baseline=true", "train.threads=1"]
    config = load_config({"task": "recognition", **sample}, settings)
    run = train(config, tmp_path / "run", reporter=log)
    (line,) = [line for line in log.lines if line.startswith("baseline: ")]
    assert "text of the training recording with the nearest frames: wer 0.0000 on the validation data" in line
    source = tmp_path / "sample.npz"
    compared = evaluate(run, source, metrics=["wer", "words_in_silence"]).baseline
    assert compared is not None and compared.figures == {"wer": 0.0} and compared.differences["wer"][0] > 50
    copy_baseline(run / FOLDER, tmp_path / "published")
    assert not (tmp_path / "published").exists()  # it contains texts
    (run / FOLDER / ARRAYS_FILE).write_bytes(b"")
    with pytest.raises(ModelError, match="cannot be read"):
        evaluate(run, source, metrics=["wer"])
