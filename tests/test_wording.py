"""Values that do not fit are told in plain words, whatever pydantic calls it; mistyped names are guessed."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import regard
from regard import cli
from regard.config.explain import explain, fields_of
from regard.config.settings import SearchConfig, TrainConfig
from regard.config.toml_layers import Key
from regard.core.wording import (
    SHOULD_BE,
    describe_error,
    describe_failure,
    describe_validation_error,
    did_you_mean,
    pluralize,
    pluralize_with_verb,
)
from regard.data.public.catalog import corpora, corpus_named
from regard.data.reading import CorpusConfig
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import ConfigError, ModelError, RegardError
from regard.metrics.text import check_names
from regard.models.convolutional.config import ConvolutionalDecoderConfig
from regard.models.recurrent.config import CellConfig, RecurrentDecoderConfig, RecurrentEncoderConfig
from regard.runs.checkpoint import load
from regard.runs.config import load_config
from regard.runs.plan import Plan
from regard.runs.run_folder import RunFolder
from regard.studies.catalog import find_study
from regard.tasks.translation.config import TranslationConfig

RAW = re.compile(r"[Ii]nput should|validation error|type=|Value error|Field required|Unable to|pydantic|For further")
MODELS: list[type[BaseModel]] = [
    TranslationConfig, TrainConfig, SearchConfig, TokenizerConfig, CorpusConfig, Plan, CellConfig,
    RecurrentDecoderConfig, RecurrentEncoderConfig, ConvolutionalDecoderConfig,
]  # fmt: skip
WRONG: list[Any] = [
    None, "x", "", "1.5", "9" * 5_000, 1.5, -1, 0, 1, 10**30, math.nan, math.inf, True, [], [1], ["x"] * 3, [[1]], {},
    {"x": 1}, {"kind": "nope"}, {"kind": 3}, b"\xff", object(),
]  # fmt: skip
BASE: dict[str, Any] = {"data": {"train": [{"source": "a", "target": "b"}]}}


def put(tree: dict[str, Any], key: Key, value: Any) -> dict[str, Any]:
    """``tree`` with a value at ``key``, the tables and lists on the way made."""
    head, rest = key[0], key[1:]
    if not rest:
        return {**tree, str(head): value}
    if rest[0] == "*":
        return {**tree, str(head): [value] if not rest[1:] else [put(BASE["data"]["train"][0], rest[1:], value)]}
    inner = tree.get(str(head))
    return {**tree, str(head): put(inner if isinstance(inner, dict) else {}, rest, value)}


def wrong(model: type[BaseModel]) -> Iterator[ValidationError]:
    """A failure for every key and every wrong value that it refuses."""
    base = BASE if model is TranslationConfig else {}
    for key in {key for key, _ in fields_of(model)}:
        for value in WRONG:
            try:
                model.model_validate(put(base, key, value))
            except ValidationError as error:
                yield error
    for value in WRONG:
        try:
            model.model_validate(value)
        except ValidationError as error:
            yield error


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_no_failure_is_told_in_raw_words(model: type[BaseModel]) -> None:
    told, kinds = set(), set()
    for error in wrong(model):
        found = explain(error, model, (), ())
        told |= {str(found), describe_validation_error(error), *map(describe_failure, error.errors())}
        kinds |= {failure["type"] for failure in error.errors()}
    assert kinds and not [each for each in told if RAW.search(each)]
    plain = {
        "value_error",
        "extra_forbidden",
        "missing",
        "default_factory_not_called",
        "union_tag_invalid",
        "union_tag_not_found",
    }
    assert kinds <= {*SHOULD_BE, *plain}, "a type of failure has no wording"
    assert max(map(len, told)) < 1_000


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("train.steps=x", "it should be a whole number"),
        ("train.steps=0", "it should be greater than 0"),
        ("train.deterministic=perhaps", "it should be true or false"),
        ("train.betas=[0.9, 1.5]", "it should be less than 1"),
        ("model.width=1", "it should be at least 2"),
        ("train=3", "it should be a table of keys"),
        ("train.optimizer=adm", "it should be 'adam', 'adamw', 'adadelta', 'sgd' or 'muon'"),
        ("data.train.0.weight=nan", "it should be a finite number"),
        ("name=3", "it should be a text"),
    ],
)
def test_what_it_should_be(override: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(BASE, [override])
    assert caught.value.why == told


def asking(*arguments: str) -> Any:
    return lambda: cli.run(arguments, debug=True)


@pytest.mark.parametrize(
    ("ask", "meant"),
    [
        (lambda: check_names(["bluo"]), "bleu"),
        (lambda: check_names(["CHRF"]), "chrf"),
        (lambda: find_study("dictionry"), "dictionary"),
        (lambda: corpus_named(next(iter(corpora())) + "x"), next(iter(corpora()))),
        (lambda: load_config("multi3k"), "multi30k"),
        (lambda: load_config(BASE, ["model.preset=tniy"]), "tiny"),
        (lambda: load_config(BASE, ["train.optimizer=adm"]), "adam"),
        (lambda: load_config(BASE, ["model.position=rotery"]), "rotary"),
        (lambda: load_config(BASE, ["data.tokenizer.kind=bep"]), "bpe"),
        (lambda: load_config(BASE, ["train.warmpu=3"]), "train.warmup"),
        (asking("info", "bsae"), "base"),
    ],
)
def test_a_name_that_was_mistyped_is_guessed(ask: Any, meant: str) -> None:
    with pytest.raises(RegardError) as caught:
        ask()
    assert caught.value.help == f"did you mean {meant}?"


def test_kinds_of_parts_are_guessed() -> None:
    from regard.attention.catalog import build_mechanism
    from regard.attention.mask import Causal
    from regard.models.transformer.config import TransformerStackConfig
    from regard.models.transformer.mixers import build_mixer
    from regard.models.transformer.site import mixer_site

    def mix(kind: str, options: Any, *, where: str) -> None:
        build_mixer(mixer_site(TransformerStackConfig(mixer=kind), Causal(), where=where, causal=True))  # type: ignore[arg-type]

    for ask, meant in ((build_mechanism, "additive"), (mix, "average")):
        with pytest.raises(ConfigError) as caught:
            ask(meant.replace("e", "", 1), {}, where="model.x")
        assert caught.value.help == f"did you mean {meant}?" and meant in str(caught.value.why)


def test_a_value_of_an_option_is_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["export", "run", "folder", "--to", "onx"]) == 2
    assert "help: did you mean onnx?" in capsys.readouterr().err


def test_a_run_is_guessed(tmp_path: Path) -> None:
    (tmp_path / "m30k").mkdir()
    (tmp_path / "m30k" / "config.toml").touch()
    with pytest.raises(ModelError) as caught:
        RunFolder.open(tmp_path / "m3k")
    assert caught.value.help == f"did you mean {tmp_path / 'm30k'}?"


def test_nothing_is_guessed_where_nothing_is_near() -> None:
    assert did_you_mean("quite another thing", ["bleu", "chrf"]) is None


def test_files_that_do_not_fit_are_told_in_plain_words(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format": 1, "files": {"a": {"bytes": "x"}}}')
    with pytest.raises(ModelError) as caught:
        load(tmp_path)
    assert not RAW.search(str(caught.value))
    (tmp_path / "plan.json").write_text('{"precision": "float3"}')
    with pytest.raises(ModelError) as caught:
        RunFolder(tmp_path, load_config(BASE)).read_plan()
    assert not RAW.search(str(caught.value)) and caught.value.why == "precision: it should be 'float32' or 'bfloat16'"


def test_a_count_agrees_with_its_noun() -> None:
    assert [pluralize(number, "row") for number in (0, 1, 2, 1500)] == ["0 rows", "1 row", "2 rows", "1,500 rows"]
    assert [pluralize(number, "class", "classes") for number in (1, 3)] == ["1 class", "3 classes"]


PLURAL = re.compile(r" ((?:[a-z-]+ )?[a-z]+s)\b")
NO_NOUNS = {"is", "has", "was", "does", "its", "this", "as", "us", "less", "times", "holds"}
# Numbers that are never 1: limits, and sizes in bytes.
NEVER_ONE = re.compile(
    r"[A-Z_]+|len\([A-Z_]+\)|(self\._?)?limit|size|own|wanted|longest|model\.max_length|(self\._?)?path\.stat\(\)\.st_size|"
    r"file\.size|len\(self\.target\)|settings\.tokens|known\['bytes'\]|cost|count|parameters|weights|total|tokens|plan\.spec\['target_types'\]|"
    r"(?:sum\(.*\))"
)
UNCHECKED = ("server", "studies", "testing", "native", "keys.py")  # checked against limits above 1, or of developers


def uncounted(path: Path) -> Iterator[str]:
    """Yield each number with thousands separators or of a length that is followed by a plural noun as it is."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        parts = node.values if isinstance(node, ast.JoinedStr) else []
        for value, text in pairwise(parts):
            if not (isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant)):
                continue
            found, source = PLURAL.match(str(text.value)), ast.unparse(value.value)
            spec = ast.unparse(value.format_spec) if value.format_spec else ""
            number = source.startswith("len(") or ("," in spec and "." not in spec)
            if found and number and found[1].split()[-1] not in NO_NOUNS and not NEVER_ONE.fullmatch(source):
                yield f"{path.name}: {{{source}}} {found[1]}"


def test_numbers_agree_with_their_nouns() -> None:
    """ "1 lines are done": every message counts by ``pluralize`` and its relatives."""
    package = Path(regard.__file__).parent
    files = [path for path in package.rglob("*.py") if not {*path.relative_to(package).parts} & {*UNCHECKED}]
    assert [each for path in files for each in uncounted(path)] == []


def test_verbs_agree_with_their_number() -> None:
    assert [pluralize_with_verb(n, "line", "is", "are") for n in (0, 1, 2)] == [
        "0 lines are",
        "1 line is",
        "2 lines are",
    ]


@pytest.mark.parametrize(
    "error, told",
    [
        (OSError(13, "Permission denied"), "Permission denied"),
        (ValueError("it has more than 9 bytes"), "it has more than 9 bytes"),
        (KeyError("mean"), "it lacks the key 'mean'"),
        (TypeError("list indices must be integers"), "it does not have the expected form"),
    ],
    ids=str,
)
def test_no_error_of_python_is_shown_raw(error: Exception, told: str) -> None:
    assert describe_error(error) == told
