"""What a comparison would train: budgets, rows and variants, what may be compared; and its figures, by hand."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from regard.comparison.members import Budget, Entry, choose_test_set, load_entries, make_rows, parse_budget
from regard.comparison.results import markdown, summarize, text_table
from regard.data.reading import CorpusConfig
from regard.errors import ConfigError, DataError
from regard.runs.config import dump_config, load_config


def write(folder: Path, name: str, *overrides: str) -> str:
    base = {"data": {"train": [{"source": "a.tsv"}], "valid": [{"source": "v.tsv"}]}, "train": {"steps": 100}}
    path = folder / f"{name}.toml"
    path.write_text(dump_config(load_config(base, overrides)))
    return str(path)


def entries(*sources: str, budget: Budget | None = None) -> list[Entry]:
    return load_entries(make_rows(sources, [], [], budget), budget)


@pytest.mark.parametrize(
    "text, key, value",
    [
        ("10m", "minutes", 10),
        ("90s", "minutes", 1.5),
        ("1.5h", "minutes", 90),
        ("3000steps", "steps", 3000),
        ("3k steps", "steps", 3000),
        ("2_000_000tokens", "tokens", 2_000_000),
        (" 2.5M tokens ", "tokens", 2_500_000),
    ],
)
def test_a_budget_replaces_whatever_else_ends_training(tmp_path: Path, text: str, key: str, value: float) -> None:
    budget = parse_budget(text)
    ends = ("train.epochs=3", "train.minutes=1", "train.tokens=5", "train.early_stopping=2")
    [entry] = entries(write(tmp_path, "a", *ends), budget=budget)
    assert entry.config is not None
    train = entry.config.train
    found = {name: getattr(train, name) for name in ("steps", "epochs", "minutes", "tokens", "early_stopping")}
    assert found == dict.fromkeys(found) | {key: pytest.approx(value)}
    assert budget.minutes == (pytest.approx(value) if key == "minutes" else None)


@pytest.mark.parametrize("text", ["", "10", "m", "-3m", "0m", "0steps", "3epochs", "1.5steps", "10Mm", "10m 3steps"])
def test_what_is_no_budget(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_budget(text)
    assert repr(text) in caught.value.what and caught.value.where in (None, "--budget")


def test_a_budget_and_an_override_do_not_both_end_training(tmp_path: Path) -> None:
    source, budget = write(tmp_path, "a"), parse_budget("3steps")
    for varied, overrides in (([], ["train.steps=5"]), (["train.minutes=1,2"], [])):
        with pytest.raises(ConfigError, match="both set the end of training"):
            make_rows([source], varied, overrides, budget)
    assert make_rows([source], ["train.steps=1,2"], [], None)


def names(*sources: str, vary: tuple[str, ...] = ()) -> list[str]:
    return [row.name for row in make_rows(sources, vary, [], None)]


def test_rows_are_named_by_what_they_differ_in(tmp_path: Path) -> None:
    a, b = write(tmp_path, "a"), write(tmp_path, "b")
    assert names(a, b, f"other={a}", "multi30k") == ["a", "b", "other", "multi30k"]
    assert names(a, vary=("model.cross_attention.kind=dot, general", "train.lr=1e-3,3e-3")) == [
        "dot lr=0.001", "dot lr=0.003", "general lr=0.001", "general lr=0.003",
    ]  # fmt: skip
    assert names(a, b, vary=("model.norm=pre,post",)) == ["a norm=pre", "a norm=post", "b norm=pre", "b norm=post"]
    tables = 'model.cross_attention={kind="dot"},{kind="local-m", window=3}'
    assert names(a, vary=(tables,)) == ["dot", "local-m window=3"]


def test_a_variant_is_its_config(tmp_path: Path) -> None:
    rows = make_rows(
        [write(tmp_path, "a")], ["train.betas=[0.9,0.98],[0.8,0.9]", "model.width=32,64"], ["seed=7"], None
    )
    found = [entry.config for entry in load_entries(rows, None)]
    assert all(config is not None and config.seed == 7 for config in found)
    assert [(config.train.betas[0], config.model.decoder.width) for config in found if config is not None] == [
        (0.9, 32), (0.9, 64), (0.8, 32), (0.8, 64),
    ]  # fmt: skip


def test_two_rows_have_two_names(tmp_path: Path) -> None:
    a = write(tmp_path, "a")
    (tmp_path / "b").mkdir()
    for sources, vary in (((a, write(tmp_path / "b", "a")), ()), ((a,), ("seed=1,1",)), ((f"x y={a}", f"x-y={a}"), ())):
        with pytest.raises(ConfigError, match="two rows have the name"):
            names(*sources, vary=vary)


def test_nothing_to_compare(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"recipes or \.toml files"):
        names()
    with pytest.raises(ConfigError, match="config file"):
        names(str(tmp_path / "none.toml"))
    for varied in ("model.width", "model.width="):
        with pytest.raises(ConfigError, match="the form KEY=VALUE") as caught:
            names(write(tmp_path, "a"), vary=(varied,))
        assert str(caught.value.where).endswith(varied)


def test_without_a_budget_the_configs_must_agree_on_one(tmp_path: Path) -> None:
    a, b = write(tmp_path, "a"), write(tmp_path, "b", "train.steps=200")
    with pytest.raises(ConfigError, match="different training budgets") as caught:
        entries(a, b)
    assert caught.value.where == "steps=100 · steps=200"
    assert len(entries(a, b, budget=parse_budget("3steps"))) == 2


def test_a_failure_stays_its_row_s(tmp_path: Path) -> None:
    def require(config: Any) -> None:
        if config.seed == 2:
            raise DataError("no data")

    rows = make_rows([write(tmp_path, "a")], ["seed=1,2,x"], [], None)
    found = load_entries(rows, None, require)
    assert [entry.config is None for entry in found] == [False, True, True]
    assert [type(entry.error) for entry in found] == [type(None), DataError, ConfigError]


def test_all_are_measured_on_the_same_text(tmp_path: Path) -> None:
    a, b = write(tmp_path, "a"), write(tmp_path, "b", "data.valid.0.source=w.tsv")
    given = CorpusConfig(source=Path("t.tsv"))
    assert choose_test_set(entries(a), None, "bleu") == (CorpusConfig(source=Path("v.tsv")),)
    with pytest.raises(ConfigError, match="different validation data"):
        choose_test_set(entries(a, b), None, "bleu")
    assert choose_test_set(entries(a, b), given, "bleu") == (given,)
    with pytest.raises(ConfigError, match="no validation data"):
        choose_test_set(entries(write(tmp_path, "c", "data.valid=")), None, "bleu")


def test_losses_compare_only_over_one_vocabulary(tmp_path: Path) -> None:
    found = entries(write(tmp_path, "a"), write(tmp_path, "b", "data.tokenizer.kind=word"))
    with pytest.raises(ConfigError, match="losses with different vocabularies"):
        choose_test_set(found, None, "loss")
    assert choose_test_set(found, None, "bleu")


def member(value: float | None, **figures: Any) -> dict[str, Any]:
    if value is None:
        return {"state": "failed", "error": {"what": "the weights diverged"}}
    known = {"parameters": 1_234_567, "updates": 1000, "train_seconds": 90.0, "peak_memory": 300 * 2**20}
    speeds = {"train_tokens_per_second": 4000.0, "decode_tokens_per_second": 300.0}
    return {"state": "done", "value": value} | known | speeds | figures


def test_figures_of_a_row_by_hand() -> None:
    row = summarize("x", [member(3.0), member(7.0, train_seconds=30.0, peak_memory=400 * 2**20), member(None)])
    assert row.mean == 5 and row.spread == pytest.approx(math.sqrt(8))  # (2² + 2²) / (2 − 1)
    assert row.minutes == 1 and row.memory == 400 * 2**20 and row.errors == ["the weights diverged"]
    assert summarize("y", [member(3.0)]).spread is None
    assert summarize("z", [{"state": "waiting"}]).mean is None


def test_the_table_fits_into_100_columns_and_stays_aligned() -> None:
    large = member(41.25, parameters=1_300_000_000, updates=1_000_000, peak_memory=99_999 * 2**20)
    rows = [
        summarize("a", [member(3.0), member(7.0)]),
        summarize("a name that is much longer than its column", [large, member(None)]),
        summarize("b", [member(None)]),
    ]
    lines = text_table(rows, "bleu-tok-lc").splitlines()
    assert max(map(len, lines)) <= 100
    head, first, second, why, third, _ = lines
    assert why.strip() == "the weights diverged"
    ends = [found.end() for found in re.finditer(r"\S+", head)]
    assert len(ends) == 9
    for line in (first, second, third):
        assert all(line[end - 1] != " " and line[end : end + 1] in ("", " ") for end in ends)
    assert first.split()[:4] == ["a", "5.00", "2.83", "2"]
    assert " 1/2 " in second and " 1.3G " in second and "99,999 MB" in second
    assert third.split()[1:4] == ["failed", "–", "0/1"]


def test_the_page_says_what_decides_its_figures() -> None:
    machine = {
        "accelerator": None, "processor": "Some Processor", "cores": 2, "system": "Linux", "regard": "1", "torch": "2",
        "python": "3.11", "written": "2026-01-01T00:00:00+00:00",
    }  # fmt: skip
    results = {
        "metric": "wer", "environment": machine, "test": "test.tsv", "command": "regard compare a b",
        "budget": "3steps", "seeds": 2, "signatures": ["WER|nrefs:1"],
    }  # fmt: skip
    page = markdown(results, [summarize("a|b", [member(3.0), member(None)])])
    for part in ("lower is better", "`regard compare a b`", "3steps; seeds: 2", "Some Processor, 2 cores", "torch 2",
                 "2026-01-01", "`WER|nrefs:1`", "- a|b: the weights diverged"):  # fmt: skip
        assert part in page
    table = [line for line in page.splitlines() if line.startswith("|")]
    assert len(table) == 3 and {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {11}
