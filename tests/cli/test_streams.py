"""Standard streams that cannot be written: one clear error and a documented exit code, whatever the verb."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli import VERBS

from .conftest import TinyRun

NAMES = [verb.__name__.rpartition(".")[2].rstrip("_") for verb in VERBS]
WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC

# Runs command lines in forked children, each with standard output and error closed or put elsewhere.
CHILDREN = """
import json, os, sys
import regard.cli
if {heavy}:
    import torch, regard.tasks.translation.task, regard.tasks.translation.translator, regard.metrics.text
    import regard.models.build, sacrebleu.metrics
    torch.set_num_threads(1)
for number, (arguments, *places) in enumerate(json.loads(sys.argv[1])):
    child = os.fork()
    if child == 0:
        opened = [None if place is None else os.open(place, {flags}, 0o600) for place in places]
        for stream, found in enumerate(opened, start=1):
            os.close(stream) if found is None else os.dup2(found, stream)
        sys.argv = ["regard", *arguments]
        try:
            regard.cli.main()
        except SystemExit as error:
            code = error.code or 0
        sys.stdout.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def ends(jobs: list[tuple[list[str], str | None, str | None]], *, heavy: bool = False) -> list[int]:
    """The exit code of each command line, with what its standard output and its standard error are."""
    code = CHILDREN.format(heavy=heavy, flags=WRITE)
    done = subprocess.run([sys.executable, "-c", code, json.dumps(jobs)], capture_output=True, text=True)
    assert done.stderr == ""
    return [int(line) for line in done.stdout.split()]


needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full, a disk without room")


@needs_full
def test_help_that_cannot_be_written(tmp_path: Path) -> None:
    commands = [["--help"], ["--version"], *([name, "--help"] for name in NAMES[::4])]
    jobs = [*((each, "/dev/full") for each in commands), *((each, None) for each in commands[:3])]
    told = [tmp_path / str(number) for number in range(len(jobs))]
    assert ends([(*job, str(said)) for job, said in zip(jobs, told, strict=True)]) == [6] * len(jobs)
    for (_, place), said in zip(jobs, told, strict=True):
        text = said.read_text()
        assert text.count("error: ") == 1 and text.startswith("error: cannot write to standard output\n")
        assert ("it is closed" if place is None else "No space left") in text and "defect" not in text


def work(run: TinyRun, folder: Path) -> list[list[str]]:
    """Verbs that print of a model, or of much else."""
    path, source, target = map(str, run)
    (folder / "keys.json").write_text('{"format": 1, "keys": []}')
    return [
        ["translate", path, source, "--beam", "1"],
        ["translate", path, source, "--beam", "1", "--json"],
        ["score", path, source, target],
        ["evaluate", path, source, target, "--beam", "1"],
        ["info", path],
        ["info", path, "--json"],
        ["check", source, target],
        ["inspect", path, "a b", "--json"],
        ["data", "list"],
        ["study", "list"],
        ["doctor"],
    ]


@needs_full
def test_work_that_cannot_be_written(tiny_run: TinyRun, tmp_path: Path) -> None:
    commands = work(tiny_run, tmp_path)
    jobs = [*((each, "/dev/full") for each in commands), *((each, None) for each in commands[:3])]
    told = [str(tmp_path / str(number)) for number in range(len(jobs))]
    codes = ends([(*job, said) for job, said in zip(jobs, told, strict=True)], heavy=True)
    assert codes == [6] * len(told)
    for said in told:
        text = Path(said).read_text()
        assert text.count("error: cannot write to standard output") == 1 and "defect" not in text, text


@needs_full
def test_messages_that_nobody_hears_are_no_failure(tiny_run: TinyRun, tmp_path: Path) -> None:
    path, source, target = map(str, tiny_run)
    jobs = []
    for number, place in enumerate(("/dev/full", None)):
        for command in (["score", path, source, target], ["translate", path, "no-such-file"], ["--help"]):
            jobs.append((command, str(tmp_path / f"{command[0]}-{number}"), place))
    assert ends(jobs, heavy=True) == [0, 3, 0] * 2
    for number in range(2):
        assert len((tmp_path / f"score-{number}").read_text().splitlines()) == 40


def test_a_closed_stream_is_not_the_next_file_that_is_opened(tmp_path: Path) -> None:
    """A number that is free goes to whatever is opened next, and receives what is printed."""
    code = (
        "import sys, regard.core.standard_streams; regard.core.standard_streams.guard_streams(); "
        f"file = open({str(tmp_path / 'kept')!r}, 'w'); print('lost', file=sys.stderr); file.write('kept')"
    )
    subprocess.run(["sh", "-c", '"$0" -c "$1" >&- 2>&- <&-', sys.executable, code], check=True)
    assert (tmp_path / "kept").read_text() == "kept"


def test_a_character_that_the_terminal_lacks_is_spelled() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import regard.cli; regard.cli.main()", "study", "list"],
        capture_output=True, env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == b"" and b"\\xa7" in done.stdout
