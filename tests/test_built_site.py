"""The built docs site in a browser, from a disk: the words of the field lead to the page that answers; formulas fit."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RUNNER = ROOT / "tests" / "site_search.mjs"
PARTS: dict[str, dict[str, list[str]]] = tomllib.loads((ROOT / "tests" / "search_terms.toml").read_text("utf-8"))
TERMS = {term: pages for part in PARTS.values() for term, pages in part.items()}
FIRST = 3  # results that a reader sees without scrolling
# Long lists and tables: they may be found, but a page for users comes first. Classes of parts and keys of the config
# may lead where the term is a term of the reference.
LAST = ("results", "reference/modules", "reference/python-testing", "evidence/")
LAST_OF_HOW_TO = (*LAST, "reference/python-parts", "reference/config")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

# Width of the page, errors in formulas, visible formulas without height, and LaTeX that was not converted.
FORMULAS = r"""() => {
  const all = [...document.querySelectorAll("math")];
  const flat = all.filter((one) => one.offsetParent !== null && one.getBoundingClientRect().height < 4);
  const raw = document.querySelector("article").innerText.match(/\$[^$\n]{1,60}\\[a-z]+[^$\n]*\$/g);
  return [document.documentElement.scrollWidth, document.querySelectorAll("merror").length, flat.length, raw];
}"""


def find_node() -> str | None:
    """Return the program node of this machine, or the one that playwright brings along."""
    package = find_spec("playwright")
    bundled = None if package is None or package.origin is None else Path(package.origin).parent / "driver" / "node"
    return shutil.which("node") or (str(bundled) if bundled is not None and bundled.is_file() else None)


NODE = find_node()

pytestmark = [
    pytest.mark.skipif(not (ROOT / "zensical.toml").is_file(), reason="zensical.toml is not in this distribution"),
    pytest.mark.skipif(
        not (find_spec("zensical") and find_spec("mkdocstrings_handlers")), reason="the extra docs is not installed"
    ),
]
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed: the search is JavaScript")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("search")
    shutil.copy(ROOT / "zensical.toml", folder)
    shutil.copytree(DOCS, folder / "docs")
    (folder / "regard").symlink_to(ROOT / "regard")
    subprocess.run(
        [sys.executable, "-m", "zensical", "build"], cwd=folder, check=True, capture_output=True, timeout=120
    )
    return folder / "build" / "site"


@functools.cache
def results_of(site: Path, terms: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the results of the site's own search for each term: locations, best first."""
    command = [str(NODE), str(RUNNER), str(site)]
    done = subprocess.run(command, input=json.dumps(terms), capture_output=True, text=True, check=True, timeout=60)
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def page_of(location: str) -> str:
    return location.partition("#")[0].removesuffix(".html")


def test_the_list_of_terms_is_long_and_its_pages_exist() -> None:
    assert len(TERMS) >= 120
    pages = {page for pages in TERMS.values() for page in pages}
    assert [page for page in sorted(pages) if not (DOCS / page).is_dir() and not (DOCS / f"{page}.md").is_file()] == []


@needs_node
@pytest.mark.parametrize("term", TERMS)
def test_a_term_leads_to_its_page(site: Path, term: str) -> None:
    found = [page_of(location) for location in results_of(site, tuple(TERMS))[term]]
    assert [page for page in found[:FIRST] if page.startswith(tuple(TERMS[term]))], found
    assert not found[0].startswith(LAST_OF_HOW_TO if term in PARTS["how-to"] else LAST), found


@needs_node
def test_the_runner_ranks_as_the_worker_does(site: Path) -> None:
    found = results_of(site, ("zzzzzz", "gradient clipping"))
    assert found["zzzzzz"] == []
    assert found["gradient clipping"][0] == "how-to/train.html#gradient-clipping"


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt install chromium")
def test_the_search_works_from_a_disk_and_fetches_nothing(site: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    requested: list[str] = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("request", lambda request: requested.append(request.url))
        page.goto((site / "index.html").as_uri())
        result = page.locator("a[href*='how-to/train.html#gradient-clipping']").first
        for _ in range(10):  # keys are lost until the scripts of the page have started
            page.keyboard.press("Escape")
            page.keyboard.press("/")
            page.keyboard.type("gradient clipping")
            with suppress(playwright.TimeoutError):
                result.wait_for(timeout=10_000)
                break
        assert result.is_visible()
        browser.close()
    assert [address for address in requested if not address.startswith(("file:", "data:", "about:"))] == []


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt install chromium")
@pytest.mark.skipif(find_spec("latex2mathml") is None, reason="the extra docs is not installed")
def test_formulas_are_typeset_and_fit_on_every_page(site: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    pages = [page for page in sorted(site.rglob("*.html")) if "<math" in page.read_text("utf-8")]
    assert len(pages) >= 40
    faults = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for width in (360, 1280):
            page = browser.new_page(viewport={"width": width, "height": 800})
            for path in pages:
                page.goto(path.as_uri())
                wide, wrong, flat, raw = page.evaluate(FORMULAS)
                if wide > width or wrong or flat or raw:
                    faults.append(f"{path.stem} at {width}: {wide} px, {wrong} errors, {flat} without height, {raw}")
        browser.close()
    assert faults == []
