"""Automatic choice of a recognizer's config for recordings, with the reason of each setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.core.wording import pluralize
from regard.data.file_names import named_files
from regard.data.npz_files import array_names
from regard.data.rows import form_of
from regard.data.utterance_arrays import array_parts, holds_transcripts
from regard.data.utterance_lists import holds_recordings, list_columns
from regard.errors import RegardError
from regard.runs.run_config import Confidence, Proposal
from regard.tasks.automatic_training import newer_parts, optimizer_settings, training_settings
from regard.tasks.recognition.data_config import RecordingFiles
from regard.tasks.recognition.recordings import read_recordings
from regard.tasks.split import split_shares

FEW = 20_000  # recordings of a small corpus
STATES_PER_CHARACTER = 3  # approximately, of speech with 25 states per second
EPOCHS, SMALLEST_BATCH = 60, 2048  # of a small corpus; states


def confidence(files: Sequence[Path]) -> Confidence:
    """See ``RunConfig``: arrays of frames and texts, a list with columns of sounds and texts, or a folder of both."""
    try:
        paths = [path for file in files for path in named_files(file)]
        kinds = [_confidence(path) for path in paths]
    except RegardError:  # reported by the next reader
        return Confidence.NONE
    return min(kinds, default=Confidence.NONE)


def _confidence(path: Path) -> Confidence:
    if path.is_dir():
        return Confidence.FORM if holds_recordings(path) else Confidence.NONE
    form = form_of(path)
    if not path.is_file() or form not in ("npz", "csv", "tsv", "json-lines", "parquet"):
        return Confidence.NONE
    if form == "npz":
        return Confidence.FORM if holds_transcripts(array_names(path)) else Confidence.NONE
    columns = list_columns(path)
    return Confidence.NONE if columns is None or columns[1] is None else Confidence.FORM


def propose(files: Sequence[Path], valid: Sequence[Path], settings: Mapping[str, Any]) -> Proposal | None:
    """Return the config of a recognizer; None for files of other tasks."""
    if confidence(files) == Confidence.NONE:
        return None
    parts, reason = _parts(files, valid)
    train = [RecordingFiles.model_validate(corpus) for corpus in parts["train"]]
    recordings = list(read_recordings(train))
    audio = recordings[0].frames is None if recordings else True
    texts = [recording.text or "" for recording in recordings]
    characters = sum(map(len, texts))
    speakers = len({recording.speaker for recording in recordings} - {""})
    few, newer = len(recordings) <= FEW, newer_parts(settings)
    optimizer = optimizer_settings(newer, 128 if few else 256, short=few)
    train_settings = training_settings(
        settings, tokens=STATES_PER_CHARACTER * characters, epochs=EPOCHS if few else EPOCHS // 4,
        optimizer=optimizer, smallest=SMALLEST_BATCH,
    )  # fmt: skip
    train_settings |= {"best_by": "wer"} if "valid" in parts else {}
    model: dict[str, Any] = {
        "preset": "tiny" if few else "small", "norm": "pre", "dropout": 0.2, **newer,
        "encoder": {"input": {"subsample": 4}}, "decoder": {"layers": 1},
    }  # fmt: skip
    sound = {"time_masks": 2, "time_width": 40, "speeds": [0.9, 1.0, 1.1]}
    sound |= {"channel_masks": 2, "channel_width": 20} if audio else {"normalization": "recording"}
    data = {**parts, "input": "audio" if audio else "frames", "sound": sound}
    of = f" of {pluralize(speakers, 'speaker')}" if speakers else ""
    what = f"{pluralize(len(recordings), 'recording')}{of}, {pluralize(characters, 'character')} → recognition"
    reasons = [what, reason, "decoder and CTC are trained together (model.ctc = 0.3)"]
    tables = {"task": {"kind": "recognition"}, "data": data, "model": model, "train": train_settings}
    return Proposal(tables, reasons)


def _parts(files: Sequence[Path], valid: Sequence[Path]) -> tuple[dict[str, list[dict[str, Any]]], str]:
    """Return the keys ``train`` and ``valid`` of the data, and the reason."""
    source = str(files[0]) if len(files) == 1 else [str(file) for file in files]
    whole: dict[str, Any] = {"source": source}
    paths = [path for file in files for path in named_files(file)]
    prefixes = array_parts(array_names(paths[0])) if paths[0].is_file() and form_of(paths[0]) == "npz" else {}
    note = ""
    if "train" in prefixes:
        whole["arrays"] = prefixes["train"]
        rest = [f"{part} for regard evaluate" for part in ("test",) if part in prefixes]
        note = f"arrays {prefixes['train']}…{', ' + rest[0] if rest else ''}; "
    if valid:
        return {"train": [whole], "valid": [{"source": str(path)} for path in valid]}, f"{note}validation: given files"
    if "valid" in prefixes:
        return {"train": [whole], "valid": [{**whole, "arrays": prefixes["valid"]}]}, f"{note}validation: its arrays"
    recordings = list(read_recordings([RecordingFiles.model_validate(whole)]))
    shares = split_shares(recording.key for recording in recordings)
    if shares is None:
        return {"train": [whole]}, f"{note}no validation: one recording (--valid adds validation data)"
    by = "speakers" if any(recording.speaker for recording in recordings) else "recordings"
    return {
        name: [{**whole, "share": share}] for name, share in shares.items()
    }, f"{note}validation: a tenth of the {by}, selected by a hash"  # fmt: skip
