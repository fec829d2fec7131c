"""The changelog follows Keep a Changelog 1.1.0: sections in order, one line for each entry."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CHANGELOG.md"
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
LONGEST = 120

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="CHANGELOG.md is not in this distribution")


def versions() -> list[tuple[str, str]]:
    """Return the heading and text of each version."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def test_unreleased_changes_are_on_top() -> None:
    headings = [heading for heading, _ in versions()]
    assert headings[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", heading) for heading in headings[1:])


def test_kinds_of_change_are_in_order() -> None:
    for _, text in versions():
        kinds = re.findall(r"^### (.+)$", text, re.MULTILINE)
        assert kinds == [kind for kind in KINDS if kind in kinds]


def test_an_entry_is_one_short_line() -> None:
    for _, text in versions():
        for section in re.split(r"^### .+$", text, flags=re.MULTILINE)[1:]:
            lines = [line for line in section.splitlines() if line]
            assert lines and len(lines) == len(set(lines))
            assert [line for line in lines if not line.startswith("- ") or not line.endswith(".")] == []
            assert [line for line in lines if len(line.removeprefix("- ")) > LONGEST] == []


def test_links_lead_to_pages() -> None:
    links = re.findall(r"\]\(([^)]+)\)", PAGE.read_text(encoding="utf-8"))
    assert links and [link for link in links if "://" not in link and not (ROOT / link).is_file()] == []
