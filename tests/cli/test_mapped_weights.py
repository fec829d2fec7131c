"""Weights that are the pages of a checkpoint's file, which the workers of a server share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

import regard
from regard.errors import ModelError
from regard.runs.run_folder import RunFolder

from .conftest import TinyRun


def mappings(file: Path) -> list[range]:
    """The addresses at which this process has mapped a file."""
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    found = [line[0].split("-") for line in lines if line[-1] == str(file)]
    return [range(int(begin, 16), int(end, 16)) for begin, end in found]


def copied(run: Path, folder: Path) -> tuple[Path, Path]:
    """A copy of a run, and the file of its weights."""
    shutil.copytree(run, folder / "copy")
    return folder / "copy", RunFolder.open(folder / "copy").weights_path().path / "model.safetensors"


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux to see what is mapped")
def test_mapped_weights_are_the_files_own_and_say_the_same_after_it_is_removed(
    tiny_run: TinyRun, tmp_path: Path
) -> None:
    run, file = copied(tiny_run.path, tmp_path)
    mapped, own = regard.load(run, mapped=True), regard.load(run)
    pages = mappings(file)
    assert pages and all(any(each.data_ptr() in page for page in pages) for each in mapped.model.parameters())
    assert not any(each.data_ptr() in page for each in own.model.parameters() for page in pages)
    pairs = zip(mapped.model.parameters(), own.model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    assert mapped.model.decoder.embedding.weight is mapped.model.head.weight, "tied ones were torn apart"
    shutil.rmtree(run)
    lines = tiny_run.source.read_text(encoding="utf-8").splitlines()[:8]
    assert [each.text for each in mapped.translate(lines)] == [each.text for each in own.translate(lines)]


def test_mapped_weights_are_verified(tiny_run: TinyRun, tmp_path: Path) -> None:
    run, file = copied(tiny_run.path, tmp_path)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(ModelError, match="was changed after it was written"):
        regard.load(run, mapped=True)
    file.write_bytes(data[:-1])
    with pytest.raises(ModelError, match="truncated"):
        regard.load(run, mapped=True)
