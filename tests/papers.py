"""Links from citations to papers: ``Vaswani et al. 2017`` becomes a link by the table of docs/reference/papers.md.

``python -m tests.papers`` writes the links into the pages.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
TABLE = DOCS / "reference" / "papers.md"
GENERATED = ("results.md", "reference/modules.md")  # from files that have no links
ADDRESS = re.compile(r"https://(?:arxiv\.org/abs/\d{4}\.\d{4,5}|doi\.org/10\.\d{4,9}/\S*[^\s.,;])")

_ROW = re.compile(r"^\| ([^|]+) \| \[[^\]]+\]\((\S+)\), (?:arXiv|DOI) \S+ \|$", re.MULTILINE)
_PROTECTED = re.compile(
    r"^ *```.*?^ *```$|^(?: {4}|#|:::)[^\n]*$|`[^`\n]*`|\[[^\]]*\]\([^)]*\)|\$[^$\n]*\$", re.MULTILINE | re.DOTALL
)


@functools.cache
def papers() -> dict[str, str]:
    """Return the address of each paper by how it is cited."""
    rows = _ROW.findall(TABLE.read_text("utf-8"))
    return {name: address for names, address in rows for name in names.split("; ")}


def pages() -> list[Path]:
    """Return the pages whose citations are links."""
    own = (TABLE, *(DOCS / name for name in GENERATED))
    return [page for page in sorted(DOCS.rglob("*.md")) if page not in own]


def linked(text: str) -> str:
    """Return a page whose citations are links, except in code, headings and other links."""
    text, pieces, start = unlinked(text), [], 0
    for protected in _PROTECTED.finditer(text):
        pieces += [_citation().sub(_link, text[start : protected.start()]), protected[0]]
        start = protected.end()
    return "".join([*pieces, _citation().sub(_link, text[start:])])


def unlinked(text: str) -> str:
    """Return a page without the links of its citations."""
    return re.sub(rf"\[({_citation().pattern})\]\((?:{ADDRESS.pattern})\)", lambda found: found[1], text)


def write() -> None:
    for page in pages():
        text = page.read_text("utf-8")
        if linked(text) != text:
            page.write_text(linked(text), encoding="utf-8")


def _link(citation: re.Match[str]) -> str:
    return f"[{citation[0]}]({_addresses()[_key(citation[0])]})"


@functools.cache
def _addresses() -> dict[str, str]:
    return {_key(name): address for name, address in papers().items()}


def _key(citation: str) -> str:
    """Return a citation in one form: ``Luong et al. (2015)`` and ``Luong et al. 2015`` are one."""
    return re.sub(r"[\s()]+", " ", citation).strip().replace(" and ", " & ")


@functools.cache
def _citation() -> re.Pattern[str]:
    patterns = []
    for name in sorted(papers(), key=len, reverse=True):
        authors, year = name.rsplit(" ", 1)
        words = [r"(?:&|and)" if word == "&" else re.escape(word) for word in authors.split(" ")]
        patterns.append(r"\s+".join(words) + rf",?\s+(?:{year}|\({year}\))")
    return re.compile(rf"(?<!\w)(?:{'|'.join(patterns)})(?!\w)")


if __name__ == "__main__":
    write()
