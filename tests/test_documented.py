"""Every command that a page, a recipe or a help text shows can be run as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from regard.data.public.catalog import corpora
from regard.runs.config import load_config, recipe_names

from .documented import ROOT, Shown, problem, shown_in_epilogs, shown_in_page, shown_in_recipe

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "bench" / "README.md"]
RECIPES = sorted((ROOT / "regard" / "recipes").glob("*.toml"))
SHOWN = {path.relative_to(ROOT).as_posix(): list(shown_in_page(path.read_text(encoding="utf-8"))) for path in PAGES}
SHOWN |= {path.name: list(shown_in_recipe(path.read_text(encoding="utf-8"))) for path in RECIPES}
SHOWN |= {"--help": list(shown_in_epilogs())}

PAGE = """\
Text with `regard train --resume runs/a`, `regard compare` and `of regard train`.

    FOLDER=x regard evaluate runs/a data/multi30k/nothing.en test.de \\
        --metric bleu | head

```console
$ regard study dictionry >log 2>&1 & echo $! >pid
regard print this
$ scripts/bench decod --beam 5
```

```
regard speaks
```
"""


def test_commands_are_found() -> None:
    assert list(shown_in_page(PAGE)) == [
        Shown(("regard", "study", "dictionry"), True),
        Shown(("scripts/bench", "decod", "--beam", "5"), True),
        Shown(tuple("regard evaluate runs/a data/multi30k/nothing.en test.de --metric bleu".split()), True),
        Shown(("regard", "train", "--resume", "runs/a"), False),
        Shown(("regard", "compare"), False),
    ]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("regard trian", "no verb"),
        ("regard train multi30k --sett a=b", "--sett"),
        ("regard train multi30", "recipe"),
        ("regard train multi30k --set train.rl=1", "train.rl"),
        ("regard evaluate runs/a data/multi30k/nothing.en test.de", "has no file nothing.en"),
        ("regard evaluate runs/a test.en test.de --metric blue", "metric"),
        ("regard evaluate runs/a", "SOURCE"),
        ("regard export runs/a b --to onxn", "onxn"),
        ("regard compare multi30k --vary model.cross_attention.kind=dto --budget 10m", "dto"),
        ("regard compare multi30k --budget ten", "ten"),
        ("regard study dictionry", "dictionry"),
        ("regard data fetch multi31k", "multi31k"),
        ("scripts/gone", "no scripts/gone"),
        ("scripts/bench decod", "decod"),
        ("scripts/bench decode --beams 5", "--beams"),
        (".venv/bin/python bench/gone.py", "bench/gone.py"),
        (".venv/bin/python -m tests.gone", "tests.gone"),
    ],
)
def test_a_command_that_cannot_run_is_told(command: str, found: str) -> None:
    assert found in (problem(Shown(tuple(command.split()), True)) or "nothing")


@pytest.mark.parametrize("where", SHOWN)
def test_every_command_can_be_run_as_written(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    wrong = {" ".join(each.words): problem(each) for each in SHOWN[where]}
    assert {command: why for command, why in wrong.items() if why} == {}


def test_there_are_commands_at_all() -> None:
    assert sum(map(len, SHOWN.values())) > 100


# A notebook trains on data of its own, and only names recipes.
TRAINING = [where for where, shown in SHOWN.items() if shown and where.endswith(".md") and "/notebooks/" not in where]


@pytest.mark.parametrize("where", TRAINING)
def test_a_page_that_trains_a_recipe_says_how_to_get_its_data(where: str) -> None:
    fetched = {each.words[3] for each in SHOWN[where] if each.words[1:3] == ("data", "fetch")}
    trained = [
        each.words[2:] for each in SHOWN[where] if each.words[:2] in (("regard", "train"), ("regard", "compare"))
    ]
    recipes = {word for words in trained for word in words}.intersection(recipe_names())
    assert {name: missing for name in sorted(recipes) if (missing := _corpora_of(name) - fetched)} == {}


RECIPES = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"^```toml\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    )
    if re.search(r"^(extends|name) = ", block, re.MULTILINE)
]


@pytest.mark.parametrize("text", RECIPES)
def test_a_recipe_that_a_page_shows_can_be_read(text: str, tmp_path: Path) -> None:
    recipe = tmp_path / "shown.toml"
    recipe.write_text(text, encoding="utf-8")
    assert load_config(str(recipe)).name


def test_pages_show_recipes() -> None:
    assert len(RECIPES) >= 2


def test_the_readme_reads_a_head_of_the_demo() -> None:
    layers = load_config("demo").model.decoder.layers
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    numbers = [int(number) for number in re.findall(r'attention\["decoder\.(\d+)\.', text)]
    assert numbers and max(numbers) < layers


def _corpora_of(recipe: str) -> set[str]:
    sources = {Path(each.source).parent.name for each in load_config(recipe).data.train}
    return sources.intersection(corpora())


def test_nobody_is_sent_to_a_package_index_that_does_not_have_this() -> None:
    """A name that is not taken there is a stranger's to take."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in PAGES}
    assert [name for name, text in texts.items() if re.search(r"pip install ['\"]?regard\b", text)] == []
