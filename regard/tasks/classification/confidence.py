"""Evidence that files without a config are those of a classifier. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.column_names import LABELS, first_of, text_columns
from regard.data.utterance_arrays import holds_transcripts
from regard.runs.run_config import Confidence
from regard.tasks.classification import choose_audio, choose_images
from regard.tasks.classification.class_parts import part_folders
from regard.tasks.classification.inputs import INPUTS
from regard.tasks.detect_files import common_head

LABEL = "label"  # array of the labels of a .npz
READERS = (choose_audio.reads, choose_images.reads)  # of files and of folders of files


def confidence(files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Confidence:
    """See ``RunConfig``. Reads columns named as text and label, columns whose cells may be labels, and arrays."""
    if len(files) == 1 and files[0].is_dir():
        return Confidence.FORM if _reads_folder(files[0]) else Confidence.NONE
    common, set_keys = common_head(files), overrides.get("data", {})
    if common is None:
        return Confidence.NONE
    if common.head.form == "npz":
        arrays = {*common.head.names}
        if holds_transcripts([*arrays]) and LABEL not in arrays:  # frames with a text for each recording
            return Confidence.NONE
        return Confidence.FORM if {place.array for place in INPUTS.values()} & arrays else Confidence.NONE
    if any(reads(common.files[0]) for reads in READERS):
        return Confidence.FORM
    if names := common.head.names:
        texts = text_columns(names) or "text" in set_keys
        labels = first_of([name for name in names if name not in text_columns(names)], LABELS) or "label" in set_keys
        return Confidence.NONE if not texts else Confidence.NAMES if labels else Confidence.CONTENTS
    fasta = common.head.form == "fasta" and overrides.get("task") == "classification"
    return Confidence.CONTENTS if fasta or common.head.form == "tsv" else Confidence.NONE


def _reads_folder(folder: Path) -> bool:
    """Return whether a folder, or its training part, has a folder for each class with files of one input."""
    source = part_folders(folder).get("train", folder)
    return any(reads(source) for reads in READERS)
