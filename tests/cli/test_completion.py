"""What a shell offers: recipes, presets, metrics, corpora, studies, runs and their checkpoints, without torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard.commands import completion


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for run in ("runs/m30k", "runs/mine", "other/deep/run"):
        (tmp_path / run / "checkpoints" / "step-000500").mkdir(parents=True)
        (tmp_path / run / "config.toml").touch()
    (tmp_path / "text.en").touch()
    (tmp_path / ".hidden").touch()
    return tmp_path


def test_runs() -> None:
    assert completion.runs("") == ["runs/m30k", "runs/mine"]
    assert completion.runs("runs/mi") == ["runs/mine"]
    assert completion.runs("other/deep/") == ["other/deep/run"]
    assert completion.runs("oth") == ["other/"]
    assert completion.runs("nowhere/x") == []


def test_names() -> None:
    assert completion.presets_and_runs("ba") == ["base"]
    assert completion.recipes_and_files("multi30k-g") == ["multi30k-gru"]
    assert completion.recipes_and_files("te") == ["text.en"]
    assert ".hidden" not in completion.recipes_and_files("") and "runs/" in completion.recipes_and_files("")
    assert completion.metrics("bleu,chrf,") == [
        "bleu,chrf,bleu-tok-lc",
        "bleu,chrf,ter",
        "bleu,chrf,exact",
        "bleu,chrf,wer",
        "bleu,chrf,per",
        "bleu,chrf,rouge-1",
        "bleu,chrf,rouge-2",
        "bleu,chrf,rouge-l",
    ]
    assert completion.studies("di") == ["dictionary", "dimension"]
    assert "multi30k" in completion.corpora("mul")
    assert completion.runs_and_files("text") == ["text.en"]


def test_checkpoints_of_the_run_that_stands_before() -> None:
    asked = SimpleNamespace(params={"run": None}, args=["runs/mine", "--checkpoint"])
    assert completion.checkpoints(asked, "") == ["average", "best", "last", "500"]  # type: ignore[arg-type]
    assert completion.checkpoints(SimpleNamespace(params={}, args=[]), "5") == []  # type: ignore[arg-type]


def test_a_shell_is_answered_without_torch() -> None:
    """Each word as bash asks for it, in a child of one process."""
    code = """
import os, sys
import regard.cli
for words in sys.argv[1:]:
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = words, str(len(words.split(" ")) - 1)
    print(words, end=":", flush=True)
    if os.fork() == 0:
        sys.argv = ["regard"]
        try:
            regard.cli.main()
        except SystemExit:
            sys.stdout.flush()
            os._exit("torch" in sys.modules)
    assert os.wait()[1] == 0, "torch is imported"
"""
    words = ["regard info rnnsearch-", "regard translate runs/mi", "regard translate runs/mine --checkpoint 5",
             "regard evaluate r a b --metric chr", "regard data fetch cmu", "regard study dict"]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True,
        env=os.environ | {"_REGARD_COMPLETE": "complete_bash"},
    )  # fmt: skip
    assert done.stderr == ""
    found = dict(line.partition(":")[::2] for line in done.stdout.splitlines())
    assert list(found.values()) == ["rnnsearch-small", "runs/mine", "500", "chrf", found[words[4]], "dictionary"]
    assert found[words[4]].startswith("cmu")
