"""Environments of peers: one virtual environment each under .envs/, made when first needed."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def peer_python(name: str, requirements: Path) -> Path:
    """The interpreter of .envs/``name``, which holds what ``requirements`` pins; made anew when that changes."""
    folder = ROOT / ".envs" / name
    python, stamp = folder / "bin" / "python", folder / "requirements.txt"
    if stamp.is_file() and stamp.read_text() == requirements.read_text() and python.exists():
        return python
    print(f"installing {requirements.name} into {folder.relative_to(ROOT)}; this fetches torch once more", flush=True)
    venv.create(folder, clear=True, with_pip=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements]
    if subprocess.run(install).returncode:
        sys.exit(f"pip could not install {requirements.relative_to(ROOT)}; its message is above")
    stamp.write_text(requirements.read_text())
    return python
