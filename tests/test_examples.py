"""The scripts of docs/examples run as they are, and type checkers see the types of the package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
PAGE = ROOT / "docs" / "how-to" / "coming-from.md"
OURS = {"regard", "__future__", *sys.stdlib_module_names}
LIBRARIES = {
    script.stem: {*re.findall(r"^(?:import|from) (\w+)", script.read_text("utf-8"), re.MULTILINE)} - OURS
    for script in SCRIPTS
}
EXTRAS = {"onnx_runtime": {"onnx", "onnxscript"}, "fastapi_app": {"httpx"}}  # imported by the package or a library
TYPED = {"fastapi", "numpy", "pydantic", "torch"}

# A user of an installed package sees no errors inside it, and reads libraries without stubs as Any.
MYPY = f"""
[mypy]
strict = True
python_version = 3.11
[mypy-regard.*]
follow_imports = silent
[mypy-{",".join(f"{library}.*" for library in sorted(set().union(*LIBRARIES.values()) - TYPED))}]
ignore_missing_imports = True
follow_imports = skip
"""

# Each line with a comment has an error of this code.
WRONG = """
import regard

text = regard.load("run", regard.Translator)("A dog.").txt  # attr-defined
texts: list[int] = regard.load("run", regard.Translator)(["A dog."])  # assignment
label = regard.load("run", regard.SupervisedPredictor[regard.Classification])("fine").lable  # attr-defined
gaps = regard.fill("run", ["a ___"])[0].gap  # attr-defined
vectors: list[float] = regard.embed("run", ["a"])  # assignment
table: int = regard.load("run").map({"text": ["a"]})  # assignment
text = regard.load("run", regard.Generator)("To be").txt  # attr-defined
bits = regard.score("run", ["a"])[0].bits  # attr-defined
logs: list[str] = regard.score("run", ["a"], ["b"])  # assignment
folder = regard.train("a.csv").folder  # attr-defined
regard.load("run", regard.Classification)  # type-var
regard.train("a.csv", names="first", resume=3)  # arg-type
regard.evaluate("run", "a.csv").figure  # attr-defined
"""


def run_mypy(folder: Path, *files: Path) -> str:
    (folder / "mypy.ini").write_text(MYPY, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(folder / "mypy.ini")]
    cache = ["--cache-dir", str(ROOT / ".mypy_cache" / "examples")]
    done = subprocess.run([*command, *cache, *map(str, files)], cwd=ROOT, capture_output=True, text=True, timeout=280)
    return done.stdout + done.stderr


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_runs(script: Path, tmp_path: Path) -> None:
    for library in sorted(LIBRARIES[script.stem] | EXTRAS.get(script.stem, set())):
        if find_spec(library) is None:
            pytest.skip(f"{library} is not installed")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip()


def test_scripts_and_wrong_attributes_for_a_strict_type_checker(tmp_path: Path) -> None:
    assert (ROOT / "regard" / "py.typed").is_file()
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG, encoding="utf-8")
    output = run_mypy(tmp_path, *SCRIPTS, wrong)
    errors = re.findall(r"^(.*\.py):(\d+): error: .*\[([\w-]+)\]$", output, re.MULTILINE)
    assert [line for line in output.splitlines() if ": error:" in line and "wrong.py" not in line] == []
    expected = {(number, line.split("# ")[1]) for number, line in enumerate(WRONG.splitlines(), 1) if "# " in line}
    assert {(int(number), code) for _, number, code in errors} == expected, output


def test_each_script_is_linked_and_short() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [script.name for script in SCRIPTS if f"(../examples/{script.name})" not in page] == []
    assert [script.name for script in SCRIPTS if len(script.read_text("utf-8").splitlines()) > 50] == []
    assert len(SCRIPTS) >= 12
    named = re.findall(r"`((?:tests|deploy)/[\w/]+(?:\.py)?)`", page)
    assert len(named) >= 5 and [name for name in named if not (ROOT / name).exists()] == []
