"""The notebooks run from top to bottom, their assertions hold, and each was saved with its pictures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import KernelManager

from .notebooks import NOTEBOOKS, execute, kernel


@pytest.fixture(scope="module")
def manager() -> Iterator[KernelManager]:
    with kernel() as manager:
        yield manager


def test_all_are_there() -> None:
    assert {path.stem for path in NOTEBOOKS} >= {
        "1_scaled_dot_product", "2_self_attention", "3_rnn_with_attention", "4_form_transformer",
        "5_kinds_of_rnn",
    }  # fmt: skip


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, manager: KernelManager) -> None:
    saved, again = nbformat.read(path, as_version=4), execute(path, manager)
    for was, now in zip(saved.cells, again.cells, strict=True):
        kinds = [{output.output_type for output in cell.get("outputs", ())} for cell in (was, now)]
        assert kinds[0] == kinds[1], f"saved without running it: scripts/notebooks\n{now.source}"
    pictures = [
        output for cell in saved.cells for output in cell.get("outputs", ()) if "image/png" in output.get("data", {})
    ]
    assert len(pictures) >= 2
