"""Parts of corpora of files: folders with a folder for each class, tables of paths, and .npz files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.wording import listed, pluralize
from regard.data.column_names import PARTS
from regard.data.rows import FileHead
from regard.data.shared_files import FilesConfig
from regard.tasks.detect_files import DetectedCorpus, detect_corpus


class FileCorpusParts(NamedTuple):
    """A corpus of files or folders.

    Attributes:
        files: the files or folders of the training part, or of the whole corpus.
        detected: the corpus, for ``detect_files.held_out_parts``.
        whole: the training part, or the whole corpus, as a config names it.
        parts: the keys ``train`` and ``valid``, and their reason, if folders or files of the user state them.
    """

    files: list[Path]
    detected: DetectedCorpus
    whole: FilesConfig
    parts: tuple[dict[str, list[dict[str, Any]]], str] | None = None


def part_folders(folder: Path) -> dict[str, Path]:
    """Return the folders of the parts train, valid and test inside a folder; {} unless one of them is of training."""
    named = {PARTS[path.name.lower()]: path for path in sorted(folder.iterdir()) if path.name.lower() in PARTS}
    folders = {part: path for part, path in named.items() if path.is_dir()}
    return folders if "train" in folders else {}


def corpus_of(files: Sequence[Path], valid: Sequence[Path], reads: Callable[[Path], bool]) -> FileCorpusParts | None:
    """Return the corpus of files or of one folder; None if ``reads`` is false for one of them.

    Folders named train, valid and test inside a folder are its parts; the test part is not read.
    """
    if len(files) == 1 and files[0].is_dir():
        return _of_folder(files[0], valid, reads)
    detected = detect_corpus(files, lambda common: reads(common.files[0]))
    if detected is None:
        return None
    whole: dict[str, Any] = {"source": detected.source}
    if detected.split is not None and detected.parts.get("train"):
        whole["part"] = [detected.split, "train"]
    return FileCorpusParts([detected.first], detected, FilesConfig.model_validate(whole))


def _of_folder(folder: Path, valid: Sequence[Path], reads: Callable[[Path], bool]) -> FileCorpusParts | None:
    folders = {part: path for part, path in part_folders(folder).items() if reads(path)}
    source = folders.get("train", folder)
    if not reads(source):
        return None
    detected = DetectedCorpus(str(source), source, FileHead("text", ()), None, {})
    whole = FilesConfig(source=source)
    if "valid" not in folders or valid:
        return FileCorpusParts([source], detected, whole)
    parts = {part: [{"source": str(folders[part])}] for part in ("train", "valid")}
    test = f"; {folders['test']} for regard evaluate" if "test" in folders else ""
    return FileCorpusParts([source], detected, whole, (parts, f"validation: {folders['valid']}{test}"))


def single_examples(labels: Iterable[str | None]) -> list[str]:
    """Return the warning about classes with one example, which validation cannot measure; [] without such classes."""
    alone = sorted(str(label) for label, count in Counter(labels).items() if count == 1)
    if not alone:
        return []
    classes = pluralize(len(alone), "class", "classes")
    return [f"{classes} with one example, which is used for training only: {listed(alone, 'and')}"]
