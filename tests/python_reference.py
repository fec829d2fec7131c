"""Names that the pages ``docs/reference/python*.md`` document, and the tables of names and laws on these pages.

A page has one ``::: package.module.NAME`` for each class or function. ``python -m tests.python_reference`` writes the
tables between the marks ``<!-- names -->`` and ``<!-- laws TABLE -->`` and their ends.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import regard.testing
from regard.attention.catalog import MECHANISMS
from regard.models.attention_config import OTHER_MIXERS
from tests.papers import linked

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
PAGES = sorted(FOLDER.glob("python*.md"))

_BLOCK = re.compile(r"^::: (\S+)\n((?:    .*\n)*)", re.MULTILINE)
_MEMBERS = re.compile(r"^      members: \[(.*)\]$", re.MULTILINE)
_NAMES = re.compile(r"(<!-- names -->\n).*?(<!-- end of names -->)", re.DOTALL)
_LAWS = re.compile(r"(<!-- laws (\w+) -->\n).*?(<!-- end of laws -->)", re.DOTALL)


class Documented(NamedTuple):
    """One block of a page: the path of a class or function, and the members that the block selects (() for all)."""

    path: str
    members: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]

    def resolve(self) -> Any:
        """Return the class or function. Raises ImportError or AttributeError if it does not exist."""
        module, _, name = self.path.rpartition(".")
        return getattr(import_module(module), name)

    def missing_members(self) -> list[str]:
        """Return the selected members that the class does not have."""
        documented = self.resolve()
        return [name for name in self.members if inspect.getattr_static(documented, name, None) is None]


def documented(text: str) -> Iterator[Documented]:
    """Yield the blocks of a page, in order."""
    for path, options in _BLOCK.findall(text):
        members = _MEMBERS.search(options)
        yield Documented(path, tuple(members[1].split(", ")) if members else ())


def identity(named: Any) -> str:
    """Return the module and the name of a class or function, where it is defined."""
    return f"{named.__module__}.{named.__qualname__}"


def summary(named: Any) -> str:
    """Return the first sentence or line of a docstring, as a cell of a table. Raises LookupError without one."""
    text = inspect.cleandoc(vars(named).get("__doc__") or "" if inspect.isclass(named) else named.__doc__ or "")
    if not text:
        raise LookupError(f"{identity(named)} has no docstring")
    return _cell(text.partition("\n\n")[0])


def _cell(paragraph: str) -> str:
    joined = paragraph.replace("\n", " ").replace("``", "`")
    first = re.match(r".*?[^.A-Z][.:](?= [A-Z`]|$)", joined)
    return (first[0] if first else joined).removesuffix(".").removesuffix(":").replace("|", "\\|")


def kinds() -> dict[str, str]:
    """Return the ``kind`` that selects a mechanism or mixer in a config, with a link to its page, by its identity."""
    mechanisms = {identity(mechanism): (kind, "mechanisms") for kind, mechanism in MECHANISMS.items()}
    mixers = {path.replace(":", "."): (kind, "mixers") for kind, path in OTHER_MIXERS.items()}
    return {
        path: f"[{kind}]({folder}/{path.split('.')[-2]}.md): "
        for path, (kind, folder) in {**mechanisms, **mixers}.items()
    }


def names_table(text: str) -> str:
    """Return the table of the names of a page."""
    links, rows = kinds(), ["| Name | Content |\n", "|---|---|\n"]
    for block in documented(text):
        named = block.resolve()
        link = links.get(identity(named), "")
        first = _cell(inspect.cleandoc(import_module(named.__module__).__doc__ or "")) if link else summary(named)
        rows.append(f"| [{block.name}][{block.path}] | {link}{first} |\n")
    return "".join(rows)


def laws_table(name: str) -> str:
    """Return the table of laws of that name in ``regard.testing``."""
    laws = getattr(regard.testing, name)
    return "| Law | Statement |\n|---|---|\n" + "".join(f"| `{law.name}` | {summary(law.check)} |\n" for law in laws)


def written(text: str) -> str:
    """Return a page with current tables."""
    text = _NAMES.sub(lambda marks: marks[1] + names_table(text) + marks[2], text)
    return linked(_LAWS.sub(lambda marks: marks[1] + laws_table(marks[2]) + marks[3], text))


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
