"""The study of policies: what it requires, what its models learn from, and a verdict that can fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.errors import ConfigError
from regard.inference.streamed import Streamed
from regard.studies import waiting
from regard.studies.catalog import STUDIES
from regard.studies.study import ignore_report
from regard.studies.waiting import FILES, LAGS, MeasuredModel, PolicyPoint

LAALS = (2.0, 3.0, 4.0, 5.0)


def measured(wait: float, agreement: float, first: float, alignatt: float = 0.0) -> MeasuredModel:
    """A model whose policies have these figures at all lags; ``first``: local agreement at its first lag."""
    levels = {"wait-k": wait, "local-agreement": agreement, "alignatt": alignatt}
    points = [
        PolicyPoint(policy, lag, laal, levels[policy])
        for policy in LAGS
        for lag, laal in zip((9, 8, 7, 6), LAALS, strict=True)
    ]
    points = [point._replace(lag=1, bleu=first) if point[:2] == ("local-agreement", 9) else point for point in points]
    return MeasuredModel(points, 40.0, {policy: Streamed(3, "a b", [1, 3]) for policy in LAGS})


@pytest.mark.parametrize(
    ("cut", "holds"),
    [
        (measured(30, 31, 26), [True, True]),
        (measured(30, 29, 26), [True, False]),
        (measured(30, 29, 26, 30), [True, True]),
        (measured(30, 31, 25.9), [False, True]),
    ],
)
def test_the_verdict_follows_from_the_figures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cut: MeasuredModel, holds: list[bool]
) -> None:
    models = iter([measured(20, 25, 25), cut])
    monkeypatch.setattr(waiting, "train", lambda *_: None)
    monkeypatch.setattr(waiting, "_measure", lambda *_: next(models))
    findings = waiting.run(seed=1, minimal=True, report=ignore_report, data=None, folder=tmp_path, options={})
    assert [criterion.holds for criterion in findings.criteria] == holds
    assert len(findings.rows) == 2 * 4 * len(LAGS) and "a (1) b (3)" in findings.remarks[-1]


def test_only_the_share_of_cut_pairs_differs(tmp_path: Path) -> None:
    one, other = (waiting.config(tmp_path, share, 5, 1) for share in waiting.MODELS.values())
    assert one["train"].pop("prefixes") == 0 and other["train"].pop("prefixes") == 0.3
    assert one == other


def test_missing_texts_and_settings_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="requires Multi30k"):
        STUDIES["waiting"].run()
    (tmp_path / "multi30k").mkdir()
    (tmp_path / "multi30k" / FILES[0]).write_text("a\n")
    with pytest.raises(ConfigError, match=r"lacks train\.en, val\.de, val\.en"):
        STUDIES["waiting"].run(data=tmp_path)
    for updates in ("many", 0, True, 2.5):
        with pytest.raises(ConfigError, match="updates cannot be"):
            STUDIES["waiting"].run(data=tmp_path, options={"updates": updates})


def test_an_interrupted_study_goes_on(tmp_path: Path) -> None:
    """Its run folders are kept, and a second run gives the same figures."""
    options: Any = {"seed": 1, "minimal": False, "report": ignore_report, "options": {"updates": 1}}
    folder = tmp_path / "multi30k"
    folder.mkdir()
    for name, lines in waiting._generated().items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "config", lambda *given, **_: CONFIG(*given, minimal=True))
        first, second = (waiting.run(data=tmp_path, folder=tmp_path / "kept", **options).rows for _ in range(2))
    assert first == second and (tmp_path / "kept/whole-pairs-1-1/config.toml").is_file()


CONFIG = waiting.config
