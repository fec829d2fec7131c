"""The plan of a comparison: its rows, their configs, the test set and the folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.comparison.execution import Comparison
from regard.comparison.members import choose_test_set, load_entries, make_rows, parse_budget
from regard.core import atomic_files
from regard.data.foreign_errors import unreadable
from regard.data.reading import CorpusConfig
from regard.metrics.text import check_names
from regard.runs.run_config import RunConfig
from regard.tasks.find_config import require_data
from regard.training.setup import require_trainable


def plan_comparison(
    sources: Sequence[str], *, budget: str | None = None, seeds: int = 1, metric: str = "bleu",
    test: Sequence[Path] = (), overrides: Sequence[str] = (), vary: Sequence[str] = (), beam: int | None = None,
    average: int | None = None, out: Path | None = None,
) -> Comparison:  # fmt: skip
    """Return the comparison of recipes, which is not yet trained; see ``regard compare``.

    Args:
        sources: recipes or configs, each ``NAME=RECIPE`` or ``RECIPE``.
        budget: the training budget of each run, such as ``10m``.
        seeds: the number of runs of each row.
        metric: the metric that is compared.
        test: the test set, one or two files; () for the validation data.
        overrides: overrides of every config.
        vary: keys with several values, each a row: ``model.width=128,256``.
        beam: the beam of decoding.
        average: the number of checkpoints that are averaged.
        out: the folder; None for ``runs/compare-NAMES``.

    Raises:
        ConfigError: for a config that cannot be trained or compared.
    """
    if metric != "loss":
        check_names([metric])
    files = dict(zip(("source", "target"), test, strict=False))
    test_set = CorpusConfig.model_validate(files) if files else None
    limit = parse_budget(budget) if budget is not None else None
    rows = make_rows(sources, vary, overrides, limit)
    entries = load_entries(rows, limit, _require)
    corpora = choose_test_set(entries, test_set, metric)
    key = {"metric": metric, "beam": beam, "average": average, "test": _digests(corpora)}
    folder = out or Path("runs") / f"compare-{'-'.join(dict.fromkeys(Path(row.source).stem for row in rows))}"[:100]
    return Comparison(folder, entries, seeds, limit, key)


def _require(config: RunConfig) -> None:
    """Raise any error that would occur before the first update, before the first member is trained."""
    require_data(config)
    require_trainable(config)


def _digests(corpora: tuple[CorpusConfig, ...]) -> list[dict[str, Any]]:
    """Describe the test set with the digests of its files, to evaluate again after a file changed."""
    parts = []
    for corpus in corpora:
        files = [path for one in corpus.each_file() for path in (one.source, one.target) if path is not None]
        for path in files:
            if not path.is_file():
                raise unreadable(path, FileNotFoundError())
        parts.append(
            {"corpus": corpus.model_dump(mode="json"), "sha256": [atomic_files.sha256(path) for path in files]}
        )
    return parts
