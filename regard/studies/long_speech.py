"""Speech of five times the trained length.

Claim: attention by content alone loses its position in speech that is longer than that of the training. Location-aware
attention, trained and searched with CTC, keeps it (Chorowski et al. 2015, §4; Watanabe et al. 2017).

Measured: strings of spoken digits, joined from the Free Spoken Digit Dataset. Three recognizers learn from 3,000
strings of 1 to 5 digits with the same encoder, whose states have no positions: gated convolutions, one state for 40 ms.
One is CTC alone. The others have a GRU in Bahdanau's order that writes words and attends by location or by content.
Both are trained jointly with CTC (weight 0.3), and searched with and without it. They read 300 strings of 1 to 5
digits and 40 of 25 digits, of recordings that no training string has. Greedy searches also multiply the energies by 2
(sharpening, Chorowski et al. 2015, §2.3).

Thresholds: with CTC, location-aware attention has at most 10 % of word errors on 25 digits, and content-only attention
at least twice its errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from regard.attention.additive_score import AdditiveScore
from regard.attention.observe import observe
from regard.attention.span import Span
from regard.core.wording import pluralize
from regard.data.tokenizers.tokenizer import BEGIN
from regard.errors import ConfigError
from regard.metrics.edits import Edits, count_edits, units
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.studies.digit_strings import NUMBERS, read_digits, tones, write_strings
from regard.studies.study import Findings, Report, at_least, at_most, number_of_updates
from regard.tasks.load import load
from regard.tasks.recognition.data_config import RecordingFiles
from regard.tasks.recognition.examples import padded_frames
from regard.tasks.recognition.recordings import read_recordings
from regard.training.progress import NullReporter
from regard.training.setup import set_up
from regard.training.trainer import Trainer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UPDATES, SHARP = 1400, 2.0
CORPUS = Path("fsdd") / "fsdd_8khz_int16.npz"
PARTS = ("test", "long")
ENCODER: dict[str, Any] = {
    "kind": "convolutional", "position": "none", "width": 128, "blocks": [[128, 5, 4]], "input": {"subsample": 4},
}  # fmt: skip
DECODER: dict[str, Any] = {"kind": "recurrent", "cell": "gru", "order": "bahdanau", "layers": 1, "width": 128}
ONE_HEAD: dict[str, Any] = {"heads": 1, "project": []}
LOCATION: dict[str, Any] = {"kind": "location-aware", **ONE_HEAD, "reach": 30, "channels": 10, "initial": "first"}
CONTENT: dict[str, Any] = {"kind": "additive", **ONE_HEAD}
MODELS: dict[str, dict[str, Any]] = {
    "location-aware": {"decoder": {**DECODER, "cross_attention": LOCATION}, "ctc": 0.3},
    "content-only": {"decoder": {**DECODER, "cross_attention": CONTENT}, "ctc": 0.3},
    "CTC alone": {"decoder": "none"},
}


class Search(NamedTuple):
    """A search with a model: its settings, and the factor of the energies of the attention."""

    model: str
    settings: dict[str, Any]
    factor: float = 1.0


SEARCHES: dict[str, Search] = {
    "CTC alone": Search("CTC alone", {}),
    **{
        f"{model} attention{name}": Search(model, settings, factor)
        for model in ("location-aware", "content-only")
        for name, settings, factor in (
            (" and CTC", {"ctc_weight": 0.3}, 1.0), ("", {"ctc_weight": 0.0}, 1.0),
            (", greedy", {"ctc_weight": 0.0, "beam": 1}, 1.0),
            (", greedy, sharpened", {"ctc_weight": 0.0, "beam": 1}, SHARP),
        )
    },
}  # fmt: skip


def run(
    *, seed: int, minimal: bool, report: Report, data: Path | None, folder: Path | None, options: Mapping[str, Any]
) -> Findings:
    """Train and measure the recognizers.

    Args:
        seed: of all random numbers.
        minimal: whether a few tones and two updates suffice.
        report: receives the share of work done.
        data: folder with ``fsdd/fsdd_8khz_int16.npz``.
        folder: folder of strings and run folders, from which an interrupted study continues; None: a temporary one.
        options: ``updates`` of each training.
    """
    if data is None and not minimal:
        raise ConfigError("the study long-speech requires recordings of digits", help=f"--data FOLDER with {CORPUS}")
    updates = 2 if minimal else number_of_updates(options, UPDATES)
    with TemporaryDirectory() as temporary:
        place = Path(temporary) if folder is None or minimal else folder
        strings = place / "strings"
        if not (strings / "long.jsonl").exists():
            numbers = dict.fromkeys(NUMBERS, 4) | {"train": 24} if minimal else NUMBERS
            source = tones(seed) if data is None or minimal else read_digits(data / CORPUS)
            write_strings(source, strings, numbers=numbers)
        rates, weights = _measure(strings, place / f"runs-{updates}", updates, seed, report)
    short, long = (rates["location-aware attention and CTC"][place] for place in range(2))
    content = rates["content-only attention and CTC"][1]
    return Findings(
        columns=("search", "word errors on 1 to 5 digits, %", "on 25 digits, %"),
        rows=[(name, *pair) for name, pair in rates.items()],
        criteria=[
            at_most("location-aware attention and CTC: word errors on 25 digits, %", long, 10),
            at_least("content-only − twice location-aware, both with CTC, on 25 digits", content - 2 * long, 0),
        ],
        remarks=(
            f"Each model learned in {pluralize(updates, 'update')}; on 1 to 5 digits the first has {short:.1f} % of "
            f"word errors. Location-aware attention without CTC has {rates['location-aware attention'][1]:.1f} % on 25 "
            f"digits: a beam prefers to end early. The first threshold was set before the first run, the second after "
            f"it.",
        ),
        draw=lambda figure: _draw(figure, weights),
    )


def config(strings: Path, model: str, updates: int, seed: int) -> dict[str, Any]:
    """Return the config of a model."""
    return {
        "seed": seed, "task": "recognition",
        "data": {
            "train": [{"source": str(strings / "train.jsonl")}], "valid": [{"source": str(strings / "valid.jsonl")}],
            "tokenizer": {"kind": "word"},
            "sound": {"rate": 8000, "channels": 40, "normalization": "recording", "channel_masks": 1,
                      "channel_width": 8, "time_masks": 1, "time_width": 20},
        },
        "model": {"encoder": ENCODER, "share": "none", "dropout": 0.1, **MODELS[model]},
        "train": {"steps": updates, "optimizer": "adam", "learning_rate": 3e-3, "schedule": "linear", "threads": 1,
                  "batch_tokens": 2048, "clip_norm": 1.0, "best_by": "wer", "validate_every": 200, "baseline": False},
    }  # fmt: skip


Rates = dict[str, tuple[float, float]]
Weights = dict[str, list[list[float]]]


def _measure(strings: Path, runs: Path, updates: int, seed: int, report: Report) -> tuple[Rates, Weights]:
    """Return the word error rates of all searches, and the attention of both models over one string of 25 digits."""
    rates: Rates = {}
    loaded: dict[str, Any] = {}
    for index, model in enumerate(MODELS):
        path = runs / f"{model.replace(' ', '-')}-{seed}"
        _train(path, config(strings, model, updates, seed))
        loaded[model] = load(path)
        report((index + 0.9) / len(MODELS))
    for name, search in SEARCHES.items():
        own = loaded[search.model]
        _sharpen(own, search.factor)
        first, second = (_edits(own, strings / f"{part}.jsonl", search.settings).rate for part in PARTS)
        rates[name] = (first, second)
    report(1)
    *_, recording = read_recordings([RecordingFiles(source=strings / "long.jsonl")])
    return rates, {model: _weights(own, recording) for model, own in loaded.items() if model != "CTC alone"}


def _train(path: Path, tables: dict[str, Any]) -> None:
    """Train a run, or resume it."""
    run = (
        RunFolder.open(path) if (path / "config.toml").exists() else RunFolder.create(path, load_config(tables))
    )  # fmt: skip
    ready = set_up(run, log=lambda line: None)
    trainer = Trainer(
        run, ready.net, ready.data, steps=ready.steps, reporter=NullReporter(), interrupted=lambda: False
    )  # fmt: skip
    trainer.resume()
    trainer.fit()


def _edits(model: Any, path: Path, settings: dict[str, Any]) -> Edits:
    """Return the edits of words on the recordings of a list."""
    recordings = list(read_recordings([RecordingFiles(source=path)]))
    outputs = model([model.hear(recording) for recording in recordings], **settings)
    total = Edits(0, 0, 0, 0)
    for recording, output in zip(recordings, outputs, strict=True):
        edits = count_edits(units("wer", recording.text or ""), units("wer", output.text))
        total = Edits(*map(sum, zip(total, edits, strict=True)))
    return total


def _sharpen(model: Any, factor: float) -> None:
    for module in model.network.modules():
        if isinstance(module, AdditiveScore):
            module.sharpening = factor


def _weights(model: Any, recording: Any) -> list[list[float]]:
    """Return the sharpened attention (words and END, states) over a recording, each row by its largest weight."""
    _sharpen(model, SHARP)
    frames, valid = padded_frames([model.features.standardized(model.hear(recording).frames)])
    (pieces,) = model.tokenizer.encode_lines([recording.text])
    with torch.no_grad(), observe(model.net) as seen:
        model.net.step(torch.tensor([[BEGIN, *pieces]]), model.net.session(frames, Span.of(valid)))
    (table,) = (own[0, 0] for name, own in seen.items() if name.endswith("source"))
    rows: list[list[float]] = (table / table.amax(1, keepdim=True)).tolist()
    return rows


def _draw(figure: Figure, weights: Weights) -> None:
    for axes, (name, table) in zip(figure.subplots(2, 1), weights.items(), strict=True):
        axes.imshow(table, aspect="auto", cmap="Greys", vmin=0, vmax=1, interpolation="none")
        axes.set(title=f"{name} attention, sharpened", xlabel="encoder state (40 ms)", ylabel="word")
