"""The table of tasks by file forms by verbs: each cell is right, or refused with a reason; docs show the table."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

import regard
from regard import cli
from regard.bulk import processes
from regard.bulk.work import open_work
from regard.bulk.worker import Order, Share, do_share, open_order
from regard.core.task_table import TASKS
from regard.data.text_files import read_lines
from regard.errors import RegardError
from regard.runs.run_folder import RunFolder
from regard.tasks.check import check
from regard.tasks.find_config import find_config
from regard.tasks.row_inputs import has_rows, read_row_inputs

from .file_forms import FORMS, VERBS, training_files, write

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "files.md"


def _in_this_process(order: Order, workers: int, report: Any, log: Any) -> None:
    job = open_order(order)
    do_share(job, Share(*order.share), open_work(order.spec, job.seed), report)


class Cells:
    """The cells of one task, each ``yes``, another task's name, or ``–`` for what is refused with a reason."""

    def __init__(self, kind: str, run: Path, folder: Path, capsys: pytest.CaptureFixture[str], address: str) -> None:
        self.kind, self.run, self.folder, self._capsys, self._address = kind, run, folder, capsys, address
        self.verb = "predict" if kind == "masked" else TASKS[kind].verb  # regard fill reads lines alone
        self.bulk_verb = self.verb if kind not in ("forecasting", "recognition") else "predict"
        self.settings = ["--seed", "1", "--length", "2"] if kind == "language-model" else []

    def cell(self, form: str, verb: str) -> str:
        files = training_files(self.folder / f"{form}-train", self.kind, form)
        inputs = write(self.folder / f"{form}-read", self.kind, form)
        work: dict[str, Callable[[], str]] = {
            "train": lambda: find_config([str(file) for file in files], [], ["train.steps=1"]).task.kind,
            "check": lambda: "yes" if check(*files).trainable else "–",
            "evaluate": lambda: self.command("evaluate", str(self.run), *map(str, files), "--json")[0],
            "read": lambda: self.read(inputs),
            "bulk": lambda: self.bulk(inputs, form),
            "serve": lambda: self.serve(inputs),
        }
        try:
            found = work[verb]()
        except RegardError as error:
            assert error.what and (error.where or error.why), error
            return "–"
        return "yes" if found == self.kind else found

    def command(self, *arguments: str) -> tuple[str, str]:
        """Whether a command succeeds, and its output; a failure has a message, and none is a defect."""
        self._capsys.readouterr()
        code = cli.run(list(arguments))
        out, error = self._capsys.readouterr()
        assert code == 0 or (code in (2, 3, 4) and "error:" in error), (arguments, code, error)
        assert "defect" not in error and "Traceback" not in error, error
        return ("yes" if code == 0 else "–"), out

    @cache  # noqa: B019
    def expected(self) -> list[str]:
        """The outputs of the inputs as lines of text."""
        lines = write(self.folder / "lines", self.kind, "jsonl" if self.kind == "graphs" else "txt")[0]
        inputs = read_row_inputs(RunFolder.open(self.run), lines) if has_rows(lines) else None
        texts = lines.read_text().splitlines() if inputs is None else [text for _, text in inputs]
        model = regard.load(self.run, device="cpu")
        settings = {"seed": 1, "length": 2} if self.kind == "language-model" else {}
        return [model.write(each, json=True) for each in model([model.read(text) for text in texts], **settings)]

    def read(self, inputs: list[Path]) -> str:
        found, out = self.command(self.verb, str(self.run), *map(str, inputs), "--json", *self.settings)
        return found if found != "yes" else self.judged(out.splitlines())

    def judged(self, outputs: list[str]) -> str:
        """``yes`` where outputs are those of the lines; else what they are."""
        one = [_bare(each) for each in outputs]
        return (
            "yes" if one == [_bare(each) for each in self.expected()] * (len(one) // len(self.expected())) else "wrong"
        )

    def bulk(self, inputs: list[Path], form: str) -> str:
        out = self.folder / f"out-{form}"
        settings = [each for each in self.settings if each not in ("--length", "2")]
        settings += ["--length", "2"] if self.settings else []
        found, _ = self.command(self.bulk_verb, str(self.run), *map(str, inputs), "-o", f"{out}/", "--json", *settings)
        if found != "yes":
            return found
        if (out / "quarantine.jsonl").exists():  # every line that is no input, with the reason
            return "–"
        files = sorted(path for path in out.iterdir() if path.is_file())
        return self.judged([line for path in files for line in path.read_text().splitlines()])

    def serve(self, inputs: list[Path]) -> str:
        """The same rows over HTTP, as a client sends them."""
        if len(inputs) != 1 or not inputs[0].is_file():
            return "–"
        path = inputs[0]
        rows = read_row_inputs(RunFolder.open(self.run), path) if has_rows(path) else None
        texts = [text for _, text in rows] if rows is not None else list(read_lines(path))
        settings = {"seed": 1, "length": 2} if self.kind == "language-model" else {}
        body = {"model": self.kind, "inputs": texts, "settings": settings}
        answer = httpx.post(f"{self._address}/v1/predict", json=body, timeout=60)
        if answer.status_code != 200:
            assert answer.status_code == 400, answer.text
            return "–"
        return self.judged([json.dumps(each) for each in answer.json()["outputs"]])


def _bare(line: str) -> Any:
    """An output without its line, file, dates and names of columns, which arrays do not have.

    Numbers have three digits: rows of other batches differ by rounding.
    """
    found = json.loads(line)
    for name in ("line", "file"):
        found.pop(name, None)
    if "date" in found:
        found = [column for name, column in found.items() if name != "date"]
    return json.loads(json.dumps(found), parse_float=lambda text: round(float(text), 3))


@pytest.mark.parametrize("kind", TASKS)
def test_each_cell_is_right_or_refused(
    kind: str,
    runs: dict[str, Path],
    address: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(processes, "run_processes", _in_this_process)
    cells = Cells(kind, runs[kind], tmp_path, capsys, address)
    table = {form: {verb: cells.cell(form, verb) for verb in VERBS} for form in FORMS}
    lines = [f"| {form} | " + " | ".join(table[form][verb] for verb in VERBS) + " |" for form in FORMS]
    section = "\n".join([f"## {kind}", "", f"| | {' | '.join(VERBS)} |", "|---" * (len(VERBS) + 1) + "|", *lines, ""])
    assert section in PAGE.read_text(encoding="utf-8"), section
