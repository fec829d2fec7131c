"""Run docs/tutorials/notebooks in a kernel; as a program, save them with their new outputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode

__all__ = ["NOTEBOOKS", "execute", "kernel"]

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@contextmanager
def kernel() -> Iterator[KernelManager]:
    """Yield a kernel for several notebooks: each would import torch and matplotlib again in a kernel of its own."""
    manager = KernelManager(kernel_name="python3")
    try:
        yield manager
    finally:
        if manager.has_kernel:
            manager.shutdown_kernel(now=True)


def execute(path: Path, manager: KernelManager) -> NotebookNode:
    """Return the notebook with new outputs, executed without names of earlier notebooks.

    Raises:
        CellExecutionError: a cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))
    resources = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, km=manager, timeout=300, resources=resources)
    try:
        client.execute()
    finally:
        if client.kc is not None:
            client.kc.stop_channels()
    del notebook.cells[0]
    for cell in notebook.cells:
        if "execution_count" in cell:
            cell.execution_count -= 1
        for output in cell.get("outputs", ()):
            if "execution_count" in output:
                output.execution_count -= 1
    return notebook


def strip(notebook: NotebookNode) -> NotebookNode:
    """Remove metadata that differ between runs or machines."""
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"language_info": {"name": "python"}, "kernelspec": kernel}
    return notebook


if __name__ == "__main__":
    with kernel() as manager:
        for path in NOTEBOOKS:
            nbformat.write(strip(execute(path, manager)), path)
