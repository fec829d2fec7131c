"""``docs/reference/modules.md`` from the first line of each module's docstring."""

from __future__ import annotations

import ast
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE, PAGE = ROOT / "regard", ROOT / "docs" / "reference" / "modules.md"
HEAD = """---
search:
  exclude: true
---

# Every module

A row for each file of `regard/`, by folder: the first line of its docstring. [Architecture](../architecture.md)
explains the folders. Written by `scripts/config-reference`.
"""


def page() -> str:
    """The whole page; a module without a docstring is an error."""
    files = sorted(
        (path for path in PACKAGE.rglob("*.py") if path.stat().st_size),
        key=lambda path: (path.parent.relative_to(PACKAGE).parts, path.name),
    )
    parts = [HEAD]
    for folder, inside in groupby(files, key=lambda path: path.parent):
        parts.append(f"\n## `{folder.relative_to(ROOT).as_posix()}/`\n\n| File | Content |\n|---|---|\n")
        parts += [f"| `{path.name}` | {_first_line(path)} |\n" for path in inside]
    return "".join(parts)


def _first_line(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not text:
        raise LookupError(f"{path.relative_to(ROOT)} has no docstring")
    return text.partition("\n\n")[0].replace("\n", " ").replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
