"""Every released format loads for ever, and one that is newer than this program is refused clearly."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import regard
from regard import cli
from regard.core.installation import upgrade_advice
from regard.errors import ConfigError, ModelError

from .make import write_text

VERSIONS = sorted(Path(__file__).parent.glob("v*/"))
every = pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
NEWEST = VERSIONS[-1]


def test_there_is_one_and_they_stay_small() -> None:
    assert [version.name for version in VERSIONS] == ["v1", "v2"]
    assert sum(path.stat().st_size for version in VERSIONS for path in version.rglob("*")) < 100_000 * len(VERSIONS)


@every
@pytest.mark.parametrize("which", [None, "average", "best", "last", "2000"])
def test_it_translates(version: Path, which: str | None) -> None:
    model = regard.load(version, checkpoint=which)
    for line in ("a b c d", "d d", "c", "b a d", "a c c b"):
        found = model(line)
        assert found.text == line.upper()
        assert found.candidates[0].log_probability > -0.7  # it was trained until it was sure


@every
def test_info_and_resume_read_it(
    version: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is at its last update, so that going on only reads all of it, and ends."""
    run = shutil.copytree(version, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path)
    assert cli.run(["info", "run"], debug=True) == 0
    assert "best        step 2,000: loss 0.5000" in capsys.readouterr().out
    before = (run / "checkpoints" / "step-002000" / "manifest.json").read_bytes()
    assert cli.run(["train", "--resume", "run"], debug=True) == 0
    said = capsys.readouterr().err
    assert "resuming at step 2,000" in said and "finished (steps): 2,000 updates" in said
    assert (run / "checkpoints" / "step-002000" / "manifest.json").read_bytes() == before


NEWER = {"config.toml": ConfigError, "tokenizer/source.json": ModelError, "tokenizer/target.json": ModelError,
         "checkpoints/step-002000/manifest.json": ModelError}  # fmt: skip


@pytest.mark.parametrize("file", NEWER)
def test_a_newer_format_is_refused_by_name(tmp_path: Path, file: str) -> None:
    path = shutil.copytree(NEWEST, tmp_path / "run") / file
    text = path.read_text()
    if path.suffix == ".toml":
        path.write_text(text.replace("format = 2", "format = 99\nwhat_this_one_has_not = 1", 1))
    else:
        head = json.loads(text)
        key = "format" if file.endswith("manifest.json") else "version"
        assert head[key] == (3 if key == "format" else 1)
        path.write_text(json.dumps(head | {key: 99, "what_this_one_has_not": 1}))
    with pytest.raises(NEWER[file], match=r"format.* 99") as caught:
        regard.load(tmp_path / "run", checkpoint="last")
    assert caught.value.help == upgrade_advice()
    assert path.name in f"{caught.value.where}"
