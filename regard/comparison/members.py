"""Rows of a comparison: recipes and variants under one budget, checked to be comparable. Imports no torch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from regard.config.settings import TRAINING_ENDS
from regard.config.toml_layers import dotted, parse_override
from regard.data.reading import CorpusConfig
from regard.errors import ConfigError, RegardError
from regard.runs.config import find_recipe, load_config
from regard.runs.run_config import RunConfig
from regard.tasks.translation.config import translation_config

STOP_KEYS = tuple(f"train.{key}" for key in TRAINING_ENDS)

_BUDGET = re.compile(r"(\d[\d_]*(?:\.\d+)?)\s*(?:(s|m|h)|(k|M)?\s*(steps|tokens))")
_MINUTES = {"s": 1 / 60, "m": 1.0, "h": 60.0}
_THOUSANDS = {None: 1, "k": 1_000, "M": 1_000_000}


class Budget(NamedTuple):
    """Training budget of each member, as overrides that replace the limits of any config."""

    text: str
    overrides: list[str]
    minutes: float | None  # None unless it is a time budget


class ComparisonRow(NamedTuple):
    """A row of the table: a recipe, or a variant of one, trained with every seed."""

    name: str
    source: str  # the name of a recipe, or a .toml file
    overrides: tuple[str, ...]

    @property
    def folder(self) -> str:
        """The name in the form of a folder name."""
        return re.sub(r"[^\w.=+-]+", "-", self.name).strip("-.") or "row"


class Entry(NamedTuple):
    """A row with its config, or with the error that prevents it."""

    row: ComparisonRow
    config: RunConfig | None
    error: RegardError | None


def parse_budget(text: str) -> Budget:
    """Parse a budget: ``90s``, ``10m``, ``1.5h`` of training, ``2Mtokens`` of the target, ``3000steps``.

    Time counts only updates, not preparation, validation, saving or decoding. Tokens are converted to an exact number
    of updates with each member's own batches. Raises ConfigError.
    """
    match = _BUDGET.fullmatch(text.strip())
    amount = float(match[1].replace("_", "")) if match else 0.0
    if not match or not amount:
        raise ConfigError(
            f"{text!r} is not a budget",
            where="--budget",
            why="it needs an amount and a unit" if not match else "the amount must be above 0",
            help="write a budget as 10m, 90s, 1.5h, 2000000tokens, 2Mtokens or 3000steps",
        )
    if match[2]:
        minutes: float | None = amount * _MINUTES[match[2]]
        key, value = "train.minutes", repr(minutes)
    else:
        minutes, number = None, amount * _THOUSANDS[match[3]]
        if number != int(number):
            raise ConfigError(f"{text!r} is not an integer number of {match[4]}", where="--budget")
        key, value = f"train.{match[4]}", str(int(number))
    return Budget(text.strip(), [f"{stop_key}={value if stop_key == key else ''}" for stop_key in STOP_KEYS], minutes)


def make_rows(
    sources: Sequence[str], varied: Sequence[str], overrides: Sequence[str], budget: Budget | None
) -> list[ComparisonRow]:
    """Return a row for each source and each combination of the values in ``varied``, in this order.

    A source is the name of a recipe or a ``.toml`` file; ``NAME=SOURCE`` names the row. Raises ConfigError if there is
    no source, a source is missing, or two rows have the same name.
    """
    if not sources:
        raise ConfigError("compare requires recipes or .toml files", help="regard compare a.toml b.toml --budget 10m")
    _refuse_other_ends([*overrides, *varied], budget)
    variants = [tuple(_variants(variation)) for variation in varied]
    rows = []
    for source in sources:
        name, recipe = _named(source)
        find_recipe(recipe)
        for chosen in product(*variants):
            labels = [label for label, _ in chosen]
            names = labels if labels and len(sources) == 1 else [name, *labels]
            rows.append(ComparisonRow(" ".join(names), recipe, (*overrides, *(override for _, override in chosen))))
    _refuse_twins(rows)
    return rows


def load_entries(
    rows: Sequence[ComparisonRow], budget: Budget | None, require: Callable[[RunConfig], None] = lambda config: None
) -> list[Entry]:
    """Load each row's config under the budget.

    Errors, including those that ``require`` raises, are stored with their row. Raises ConfigError if there is no budget
    and the configs have different ones.
    """
    entries = [_load_entry(row, budget.overrides if budget else [], require) for row in rows]
    budgets = {_stop_keys(entry.config) for entry in entries if entry.config is not None}
    if budget is None and len(budgets) > 1:
        raise ConfigError(
            "the configs have different training budgets",
            where=" · ".join(", ".join(f"{key}={value}" for key, value in keys) for keys in sorted(budgets, key=str)),
            help="set one budget for all: --budget 10m, 2Mtokens or 3000steps",
        )
    return entries


def choose_test_set(entries: Sequence[Entry], test: CorpusConfig | None, metric: str) -> tuple[CorpusConfig, ...]:
    """Return the test set for all members: ``test``, or their validation data.

    Raises ConfigError if the validation data differ. For the metric loss, also if the vocabularies differ: losses are
    per token.
    """
    configs = {entry.row.name: entry.config for entry in entries if entry.config is not None}
    if metric == "loss":
        _refuse_different(
            {name: _pieces_of(config) for name, config in configs.items()},
            "losses with different vocabularies are not comparable",
            help="use --metric bleu, or another metric of whole outputs",
        )
    if test is not None:
        return (test,)
    valid = {name: config.data.valid for name, config in configs.items()}
    _refuse_different(valid, "the configs have different validation data", help="set one for all: --test SOURCE TARGET")
    for name, corpora in valid.items():
        if not corpora:
            raise ConfigError(f"{name} has no validation data", help="set a test set: --test SOURCE TARGET")
        return corpora
    return ()


def _load_entry(row: ComparisonRow, ends: list[str], require: Callable[[RunConfig], None]) -> Entry:
    try:
        config = load_config(row.source, [*row.overrides, *ends])
        require(config)
        return Entry(row, config, None)
    except RegardError as error:
        return Entry(row, None, error)


def _named(source: str) -> tuple[str, str]:
    name, equals, recipe = source.partition("=")
    if equals and not Path(source).exists():
        return name.strip(), recipe
    return Path(source).name.removesuffix(".toml"), source


def _variants(varied: str) -> Iterator[tuple[str, str]]:
    """Yield label and override for each value of ``key=value,value``; commas in brackets or quotes do not split."""
    key, equals, values = varied.partition("=")
    if not equals or not values.strip():
        raise ConfigError(
            "a variation must have the form KEY=VALUE,VALUE", where=f"--vary {varied}", help="--vary train.lr=1e-3,3e-3"
        )
    for value in _split(values):
        override = f"{key}={value}"
        yield _label(*parse_override(override)), override


def _split(values: str) -> list[str]:
    parts, depth, quote = [""], 0, ""
    for character in values:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        depth += (character in "[{") - (character in "]}") if not quote else 0
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _label(key: tuple[str | int, ...], value: Any) -> str:
    """Return the label of a value: ``dot`` for a kind, ``lr=0.001`` for other keys, all entries of a table."""
    if isinstance(value, dict):
        return " ".join(_label((name,), inner) for name, inner in value.items())
    return str(value) if key[-1] in ("kind", "preset") else f"{key[-1]}={'' if value is None else value}"


def _refuse_twins(rows: Sequence[ComparisonRow]) -> None:
    seen: dict[str, ComparisonRow] = {}
    for row in rows:
        other = seen.setdefault(row.folder, row)
        if other is not row:
            raise ConfigError(
                f"two rows have the name {row.name}",
                why=f"their sources are {other.source} and {row.source}",
                help=f"name one of them: OTHER={row.source}",
            )


def _refuse_other_ends(overrides: Sequence[str], budget: Budget | None) -> None:
    for override in overrides:
        key = dotted(parse_override(override)[0])
        if budget is not None and key in STOP_KEYS:
            raise ConfigError(
                f"{key} and --budget both set the end of training", where=override, help="omit one of them"
            )


def _stop_keys(config: RunConfig) -> tuple[tuple[str, Any], ...]:
    return tuple((key, value) for key in TRAINING_ENDS if (value := getattr(config.train, key)) is not None)


def _pieces_of(config: RunConfig) -> Any:
    data = translation_config(config).data
    return data.train, data.joint, data.tokenizer, data.target_tokenizer if not data.joint else None


def _refuse_different(values: dict[str, Any], what: str, *, help: str) -> None:
    names = list(values)
    for name in names[1:]:
        if values[name] != values[names[0]]:
            raise ConfigError(what, why=f"{names[0]} and {name} differ", help=help)
