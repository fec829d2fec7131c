"""The pages under docs/ are true where a machine can tell: links, modules, keys, and every block marked runnable."""

from __future__ import annotations

import re
from pathlib import Path
from unittest import mock

import pytest

from regard.attention.catalog import MECHANISMS
from regard.config.settings import TrainConfig
from regard.models.attention_config import OTHER_MIXERS

from . import column_names, config_reference, module_reference, notebook_pages

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
MECHANISM_MODULES = {mechanism.__module__ for mechanism in MECHANISMS.values()}
PARTS = ["Idea", "Formula", "Cost", "State", "Use when", "Differs from the paper", "Picture"]

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_RUNNABLE = re.compile(r"^```python runnable\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]\n]+\]\(([^)\s]+)\)")


def prose(text: str) -> str:
    """Without fenced blocks, inline code left in."""
    return _FENCE.sub("", text)


def anchors(text: str) -> set[str]:
    """What the headings of a page can be linked by, as GitHub forms it."""
    headings = re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken(page: Path) -> list[str]:
    """Links of a page that lead nowhere; addresses outside the repository are not followed."""
    found = []
    for link in _LINK.findall(prose(page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if "://" in link:
            continue
        if not target.exists():
            found.append(link)
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            found.append(link)
    return found


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A heading\n\n[a](page.md#a-heading) [b](#nowhere) [c](gone.md)\n\n```\n[d](code.md)\n```\n")
    assert broken(page) == ["#nowhere", "gone.md"]


def test_the_list_of_modules_is_current() -> None:
    written = module_reference.PAGE.read_text(encoding="utf-8")
    assert written == module_reference.page(), "run scripts/config-reference"
    assert "| `dot.py` | Scaled dot-product attention. |" in written


def test_the_pages_of_the_notebooks_are_current() -> None:
    saved = {path: path.read_bytes() for ending in ("*.md", "*.png") for path in notebook_pages.FOLDER.glob(ending)}
    assert saved == notebook_pages.files(), "run .venv/bin/python -m tests.notebook_pages"


def test_the_table_of_column_names_is_current() -> None:
    assert f"{column_names.START}{column_names.table()}\n\n" in column_names.PAGE.read_text(encoding="utf-8"), (
        "run .venv/bin/python -m tests.column_names"
    )


def test_the_messages_of_troubleshooting_are_those_of_the_source() -> None:
    """The first words of each quoted error, warning and problem."""
    text = (DOCS / "how-to" / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^(?:error|warning|problem): ([^\d:;…]+)", text, re.MULTILINE)
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "regard").rglob("*.py"))
    starts = [" ".join(message.split()[:4]) for message in quoted]
    assert len(starts) >= 8 and [start for start in starts if start not in source] == []


RECALLED = ("about 38", "33.36", "29.88")  # published, it is remembered; nobody has read the source


@pytest.mark.parametrize("figure", RECALLED)
def test_a_figure_from_memory_is_marked_wherever_it_stands(figure: str) -> None:
    paths = [*PAGES, ROOT / "README.md", *(ROOT / "regard" / "recipes").glob("*.toml")]
    texts = {name(path): path.read_text(encoding="utf-8") for path in paths}
    places = {
        where: [text[found.end() :][:100] for found in re.finditer(figure, text)] for where, text in texts.items()
    }
    assert any(places.values()), "gone: take it out of this test"
    assert [where for where, after in places.items() for each in after if "recalled" not in each] == []


@pytest.mark.parametrize("page", ["architecture.md", "how-to/add-a-part.md", "how-to/add-a-task.md"])
def test_the_files_and_tables_that_a_page_names_exist(page: str) -> None:
    """Such as the table in which a mixer is entered. NAME and KIND are for the reader to fill in."""
    text = (DOCS / page).read_text(encoding="utf-8")
    roots = (DOCS.parent, DOCS.parent / "regard", DOCS.parent / "tests")

    def found(path: str) -> Path | None:
        return next((root / path for root in roots if (root / path).exists()), None)

    paths = re.findall(r"`([a-z_]+(?:/[a-z_0-9]+)+(?:\.py|/))`", text)
    assert paths and not [path for path in paths if found(path) is None]
    for name, path in re.findall(r"`([A-Z]+(?:_[A-Z]+)*)` (?:in|of) `([a-z_/]+\.py)`", text):
        file = found(path)
        assert file is not None and re.search(rf"^{name}\b", file.read_text(encoding="utf-8"), re.MULTILINE), (
            name,
            path,
        )


def test_pages_stay_short() -> None:
    assert len((DOCS / "architecture.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_the_config_reference_is_current() -> None:
    written = config_reference.PAGE.read_text(encoding="utf-8")
    assert written == config_reference.page(), "run scripts/config-reference"


def test_what_the_reference_says_in_words_is_so() -> None:
    assert TrainConfig().learning_rate == 1e-3
    assert TrainConfig(schedule="noam").learning_rate == 1.0


def test_a_key_without_a_meaning_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(config_reference.MEANINGS, "train.betas")
    with pytest.raises(LookupError, match=r"train\.betas has no meaning"):
        config_reference.page()


def test_a_meaning_without_a_key_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(config_reference.MEANINGS, "train.gone", "nothing")
    with pytest.raises(LookupError, match=r"train\.gone"):
        config_reference.page()


@pytest.mark.parametrize("kind", MECHANISMS)
def test_every_mechanism_has_its_page(kind: str) -> None:
    module = MECHANISMS[kind].__module__.rpartition(".")[2]
    text = (DOCS / "reference" / "mechanisms" / f"{module}.md").read_text(encoding="utf-8")
    assert f'`kind = "{kind}"`' in text
    assert re.findall(r"^## (.+)$", prose(text), re.MULTILINE) == PARTS


@pytest.mark.parametrize("kind", OTHER_MIXERS)
def test_every_mixer_has_its_page(kind: str) -> None:
    module = OTHER_MIXERS[kind].partition(":")[0].rpartition(".")[2]
    text = (DOCS / "reference" / "mixers" / f"{module}.md").read_text(encoding="utf-8")
    assert f'`kind = "{kind}"`' in text
    assert re.findall(r"^## (.+)$", prose(text), re.MULTILINE) == PARTS


RUNNABLE = [
    pytest.param(block[1], page, text.count("\n", 0, block.start(1)), id=f"{name(page)}-{number}")
    for page in PAGES
    for text in [page.read_text(encoding="utf-8")]
    for number, block in enumerate(_RUNNABLE.finditer(text), start=1)
]


def test_pages_have_runnable_blocks() -> None:
    assert len(RUNNABLE) >= 5


@pytest.mark.parametrize("code, page, line", RUNNABLE)
def test_runnable_block(code: str, page: Path, line: int) -> None:
    with mock.patch.dict(MECHANISMS):  # a page may enter one of its own, which must not stay
        exec(compile("\n" * line + code, str(page), "exec"), {"__name__": "page"})


def test_what_a_page_enters_does_not_stay() -> None:
    test_runnable_block("from regard.attention.catalog import MECHANISMS\nMECHANISMS['mine'] = object", Path("page"), 0)
    assert "mine" not in MECHANISMS
