"""The README's commands are executed, and the tool that does it is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.readme import Failed, Ran, commands_of, refreshed, run_all

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


def test_commands_are_run_and_their_output_written_below_them(tmp_path: Path) -> None:
    commands = commands_of(PAGE)
    assert commands == ["echo one", "printf '%s\\n' two \\\n    three"]
    assert refreshed(PAGE, run_all(commands, tmp_path, {})) == FRESH
    assert refreshed(FRESH, [Ran("", "one"), Ran("", "two\nthree")]) == FRESH


def test_a_failing_command_is_told_with_what_it_printed(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="oh no\n\nexit code 3"):
        run_all(["echo oh no; exit 3"], tmp_path, {})


@pytest.mark.skipif(not (ROOT / "README.md").is_file(), reason="there is no README.md yet")
@pytest.mark.timeout(420)
def test_every_command_of_the_readme_runs(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = commands_of(text)
    assert commands, "the README shows no command"
    assert len(text.splitlines()) <= 150
    assert len(run_all(commands, tmp_path, {"REGARD_QUICK": "1"})) == len(commands)
