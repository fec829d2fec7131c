"""The study of reading before labels: who reads what, what is held out, and a verdict of either kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import ConfigError, DataError
from regard.runs.config import load_config
from regard.studies import pretrain
from regard.studies.pretrain import MINIMAL, STARTS
from regard.studies.study import ignore_report


def test_what_is_held_out_is_read_by_none(tmp_path: Path) -> None:
    course = pretrain._course(tmp_path, None, MINIMAL)
    read = (tmp_path / "texts.txt").read_text().splitlines()
    labeled = [line.split("\t")[0] for line in (tmp_path / "labeled.tsv").read_text().splitlines()]
    assert {*read} < {*labeled} and course.texts == (len(read), len(labeled) - len(read))
    assert 0.1 < course.texts[1] / len(labeled) < 0.3
    for task in ("masked", "language-model"):
        config = load_config(course._reading(task, 1))
        assert [str(each.source) for each in config.data.train] == [str(tmp_path / "texts.txt")]
        assert not config.data.valid
    shares = {name: [each.share for each in getattr(load_config(course._labeling({}, 1)).data, name)]
              for name in ("train", "valid")}  # fmt: skip
    assert shares == {"train": [(0.0, 0.8)], "valid": [(0.8, 1.0)]}


def test_words_are_cut_into_pieces_and_molecules_into_letters(tmp_path: Path) -> None:
    (tmp_path / "dna.tsv").write_text("".join(f"ACGT{n:b}\t{n % 2}\n".replace("1", "A") for n in range(64)))
    assert pretrain._course(tmp_path, tmp_path / "dna.tsv", MINIMAL).tokenizer == {"kind": "character"}
    assert pretrain._course(tmp_path, None, MINIMAL).tokenizer == {"kind": "byte-bpe", "size": MINIMAL.pieces}
    (tmp_path / "one.tsv").write_text("a b\tx\n")
    with pytest.raises(DataError, match="too few texts"):
        pretrain._course(tmp_path, tmp_path / "one.tsv", MINIMAL)


def test_it_needs_texts_and_can_fail(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="requires texts with labels"):
        pretrain.run(seed=1, minimal=False, report=ignore_report)
    same = pretrain.run(seed=1, minimal=True, report=ignore_report, starts={"nothing": None, "the same": None})
    assert not same.holds and same.criteria[0].value == 0.0 and same.criteria[0].threshold == 1.0
    course = pretrain._course(tmp_path, None, MINIMAL)
    found = {"none": [80.0, 81.0, 80.0], "filling gaps": [83.0, 84.0, 84.0], "continuing": [82.0, 83.0, 82.0]}
    assert found.keys() == STARTS.keys() and pretrain._findings(found, course, "x").holds
    for other in ([80.5, 81.5, 80.5], [87.0, 81.0, 80.0]):  # less than a point; more, by one seed
        assert not pretrain._findings({**found, "continuing": other}, course, "x").holds
