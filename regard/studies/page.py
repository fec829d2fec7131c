"""Markdown page of all studies, made from their results on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.core.atomic_files import explain_os_errors, write_bytes_atomically
from regard.studies.catalog import STUDIES
from regard.studies.record import read_record
from regard.studies.study import Cell, format_cell

HEAD = """\
# Studies

Claims of the literature, run on this code. Each verdict is computed: a study *holds* if all its criteria do. The page
is written by `regard study all --page docs/evidence/studies.md`; one study is run by `regard study NAME`, and its file
in `regard/studies/` says how it measures and where its thresholds come from. Times are those of one machine, with
whatever else it did.
"""


def write_page(page: Path, runs: Path) -> list[str]:
    """Write ``page`` from the results under ``runs``, and the figures into a folder of the page's name beside it.

    Returns the names of the studies without a result; the page names them, too.
    """
    pictures = page.with_suffix("")
    found = {name: read_record(runs / name / "result.json") for name in STUDIES if (runs / name).is_dir()}
    with explain_os_errors(page):
        page.parent.mkdir(parents=True, exist_ok=True)
    drawn = dict(_copy_pictures(found, runs, pictures))
    text = "\n".join([HEAD, *_overview(found), *(_section(record, drawn.get(name)) for name, record in found.items())])
    write_bytes_atomically(page, text.encode())
    return [name for name in STUDIES if name not in found]


def verdict(record: Mapping[str, Any]) -> str:
    """Return the verdict in words: holds or does not hold."""
    return "holds" if record["holds"] else "does not hold"


def _copy_pictures(found: Iterable[str], runs: Path, pictures: Path) -> Iterator[tuple[str, str]]:
    for name in found:
        source = runs / name / "figure.svg"
        if source.is_file():
            with explain_os_errors(pictures):
                pictures.mkdir(exist_ok=True)
            write_bytes_atomically(pictures / f"{name}.svg", source.read_bytes())
            yield name, f"{pictures.name}/{name}.svg"


def _overview(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    rows: list[tuple[Cell, ...]] = []
    for name, study in STUDIES.items():
        record = found.get(name)
        if record is None:
            rows.append((name, study.claim, "not run", ""))
        else:
            rows.append((f"[{name}](#{name})", study.claim, verdict(record), f"{record['seconds']:,.0f} s"))
    yield _table(("study", "claim", "verdict", "took"), rows)


def _section(record: Mapping[str, Any], picture: str | None) -> str:
    name = record["name"]
    criteria = [
        (
            each["what"],
            each["value"],
            f"{each['comparison']} {format_cell(each['threshold'])}",
            "yes" if each["holds"] else "no",
        )
        for each in record["criteria"]
    ]
    parts = [
        f"## {name}\n",
        f"> {record['claim']}\n>\n> {record['source']}\n",
        f"**{verdict(record)[0].upper()}{verdict(record)[1:]}.**" + (" (quick form)" if record["quick"] else "") + "\n",
        f"![{name}]({picture})\n" if picture else "",
        _table(("criterion", "measured", "threshold", "holds"), criteria),
        _table(record["columns"], record["rows"]),
        *(f"{remark}\n" for remark in record["remarks"]),
        f"`regard study {name} --seed {record['seed']}` · {record['seconds']:,.0f} s with {record['threads']} "
        f"{'thread' if record['threads'] == 1 else 'threads'}, torch {record['versions']['torch']}\n",
    ]
    return "\n".join(part for part in parts if part)


def _table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    lines = [columns, ["---"] * len(columns), *([format_cell(cell) for cell in row] for row in rows)]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
