"""The README's commands are executed as they stand there, and the tool that does it is right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.readme import ENVIRONMENT, Failed, Ran, commands_of, digest_of, refreshed, run_all, written_digest

ROOT = Path(__file__).parents[2]

PAGE = """\
# A page

```console
$ scripts/test
900 passed
$ echo one
stale
  lines

$ printf '%s\\n' two \\
    three
```

```python
$ not a command
```
"""

FRESH = """\
# A page

```console
$ scripts/test
900 passed
$ echo one
one

$ printf '%s\\n' two \\
    three
two
three
```

```python
$ not a command
```
"""


TRAINING = """\
```console
$ train
began
…
step 7 of 9, loss 2.1
…
step 9: validation loss 2
done in 5 s
next
```
"""

needs_environment = pytest.mark.skipif(
    not (ENVIRONMENT / "bin" / "activate").is_file(), reason="this Python is in no virtual environment"
)


def test_commands_are_run_and_their_output_written_below_them(tmp_path: Path) -> None:
    commands = commands_of(PAGE)
    assert commands == ["echo one", "printf '%s\\n' two \\\n    three"]
    assert _without_digest(refreshed(PAGE, run_all(commands, tmp_path, {}))) == FRESH
    assert _without_digest(refreshed(FRESH, [Ran("", "one"), Ran("", "two\nthree")])) == FRESH


def test_commands_share_a_shell(tmp_path: Path) -> None:
    """As a reader's do: a variable, a folder, an activated environment hold for the next."""
    ran = run_all(["name=there && mkdir there && cd there", 'echo "$name"; pwd', "cat"], tmp_path, {})
    assert [each.output for each in ran] == ["", f"there\n{tmp_path}/there\n", ""]


def test_a_failing_command_is_told_with_what_it_printed(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"\$ echo oh no; exit 3\noh no\n\nexit code 3"):
        run_all(["echo yes", "echo oh no; exit 3", "echo never"], tmp_path, {})


@needs_environment
def test_regard_is_found_only_where_the_page_activates_it(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"regard: (command )?not found"):
        run_all(["regard --help"], tmp_path, {})
    [_, ran] = run_all([". .venv/bin/activate", "regard --help"], tmp_path, {})
    assert "translate" in ran.output


def test_output_is_shortened_where_the_page_was() -> None:
    output = ["began", "a", *(f"step {n} of 8, loss {n}" for n in (1, 2)), "step 4: validation loss 9"]
    output += ["step 5 of 8, loss 1", "step 8: validation loss 1.5", "done in 7 s", "and", "more"]
    shown = _without_digest(refreshed(TRAINING, [Ran("train", "\n".join(output))])).splitlines()
    assert shown == [
        *("```console", "$ train", "began", "…", "step 1 of 8, loss 1", "…"),
        *("step 8: validation loss 1.5", "done in 7 s", "and", "more", "```"),
    ]
    with pytest.raises(Failed, match="no such lines after …:\nstep 9"):
        refreshed(TRAINING, [Ran("train", "\n".join(output[:-4]))])


def test_outputs_of_two_runs_cannot_be_mixed_by_hand() -> None:
    page = refreshed(PAGE, [Ran("", "one"), Ran("", "two")])
    assert written_digest(page) == digest_of(page)
    assert refreshed(page, [Ran("", "one"), Ran("", "two")]) == page
    mixed = page.replace("\none\n", "\nanother\n")
    assert written_digest(mixed) != digest_of(mixed)
    assert written_digest(PAGE) is None


README = (ROOT / "README.md").read_text(encoding="utf-8") if (ROOT / "README.md").is_file() else ""
needs_readme = pytest.mark.skipif(not README, reason="README.md is not in this distribution")


@needs_readme
@needs_environment
@pytest.mark.timeout(420)
def test_every_command_of_the_readme_runs(tmp_path: Path) -> None:
    commands = commands_of(README)
    assert commands, "the README shows no command"
    ran = run_all(commands, tmp_path, {"REGARD_QUICK": "1"})
    assert len(ran) == len(commands)
    assert refreshed(README, ran), "what scripts/readme shortens is found in the output"


@needs_readme
def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 100


@needs_readme
def test_the_transcript_of_the_readme_is_of_one_run() -> None:
    if written_digest(README) is None:
        pytest.skip("scripts/readme has not been run on this README.md")
    assert written_digest(README) == digest_of(README), "run scripts/readme"


@needs_readme
def test_the_table_of_the_readme_says_what_its_transcript_says() -> None:
    error = re.search(r"held-out words: ([\d.]+ %) WER", README)
    minutes = re.search(r"^finished .* in ([\d.]+) minutes$", README, re.MULTILINE)
    [row] = [line for line in README.splitlines() if line.startswith("|") and "`scripts/demo`" in line]
    assert error and minutes
    assert f"| {error[1]}, {minutes[1]} min (" in row, "write the figures of the transcript into the table"


def _without_digest(page: str) -> str:
    assert written_digest(page)
    return page.rpartition("\n<!--")[0]
