"""Papers that the docs cite by author and year are links, and each has one."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from .papers import ADDRESS, DOCS, TABLE, linked, pages, papers, unlinked

PAGES = sorted(DOCS.rglob("*.md"))
_PAPER = re.compile(r"https?://(?:\w+\.)*(?:arxiv|doi)\.org[^\s)>\"]*")


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(DOCS)))
def test_citations_are_links(page: Path) -> None:
    text = page.read_text("utf-8")
    assert linked(text) == text, "run python -m tests.papers"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_links_to_papers_are_those_of_the_table(page: Path) -> None:
    found = set(_PAPER.findall(page.read_text("utf-8")))
    assert [address for address in found if not ADDRESS.fullmatch(address)] == []
    assert found <= set(papers().values()), "add the paper to docs/reference/papers.md"


def test_the_table_is_in_order_and_has_each_paper_once() -> None:
    rows = [line for line in TABLE.read_text("utf-8").splitlines() if line.startswith("| ") and "Cited as" not in line]
    addresses = [address for row in rows for address in _PAPER.findall(row)]
    assert len(rows) == len(addresses) >= 80 and max(Counter(addresses).values()) == 1
    assert rows == sorted(rows, key=str.casefold)
    for row in rows:
        address, number = re.findall(r"\]\((\S+)\), (?:arXiv|DOI) (\S+) \|$", row)[0]
        assert address.endswith(f"/{number}") and ADDRESS.fullmatch(address)
        assert re.fullmatch(r"\| (?:[^|;]+ (?:19|20)\d\d(?:; |(?= \|)))+ \| [^|]+ \|", row), row


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("See Vaswani et al. 2017, §3.", 1),
        ("Luong et al. (2015) and\nBahdanau et al.\n2015", 2),
        ("Jain and Wallace 2019; Jain & Wallace 2019", 2),
        ("# Vaswani et al. 2017\n\n`Vaswani et al. 2017`\n\n    Vaswani et al. 2017\n", 0),
        ("```\nVaswani et al. 2017\n```\n", 0),
        ("Nobody et al. 2017, Vaswani et al. 2018, Vaswani et al. 20170", 0),
    ],
)
def test_what_becomes_a_link(text: str, links: int) -> None:
    assert linked(text).count("](https://") == links
    assert linked(linked(text)) == linked(text) and unlinked(linked(text)) == text


@pytest.mark.parametrize(
    "address", ["https://arxiv.org/pdf/1706.03762", "https://arxiv.org/abs/1706.3", "https://doi.org/x"]
)
def test_a_malformed_address_is_found(address: str) -> None:
    assert _PAPER.fullmatch(address) and not ADDRESS.fullmatch(address)
