"""Every verb that trains, predicts, evaluates or converts is a function with its arguments, and the same outputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import Result

import regard as package
from regard.cli import build_app
from regard.commands.bulk import BULK_OPTIONS
from regard.config.prediction_settings import GapSettings, LinkedNodeSettings
from regard.config.search_settings import GenerationSettings, SearchSettings
from regard.config.setting import settings_of
from regard.tasks.forecasting.parts import series_in

from .file_forms import rows_of

# Names that Python forbids, or that packages of Regard hold.
RENAMED = {"import": "import_model"}
# Verbs for people and operators; ``data`` fetches corpora, ``info`` and ``inspect`` show a run.
EXEMPT = {"demo", "doctor", "serve", "keys", "data", "info", "inspect"}
ALIASES = {"harmonise"}

STREAMS = {
    "streaming", "policy", "lag", "agree", "revise", "raw", "step", "silence", "longest", "translate",
    "translate_policy", "translate_lag", "translate_agree",
}  # fmt: skip
PICTURES = {"plot", "draw", "curve", "log", "page"}

# Options of all verbs that a function has in another form.
ELSEWHERE: dict[str, str] = {
    "as_json": "a function returns values",
    "output": "a function returns values; predict_files writes files",
    "set_": "settings are keyword arguments",
    "prefix": "a text as prefixes",
    "valid_file": "a name as valid",
    "test_file": "a name as test",
    "resume": "predict_files resumes",
    "tensorboard": 'reporter, or train={"report": ["tensorboard"]}',
    "format": "methods of a Transcript",
    "windows": "measures of events are for labeled files",
    "max_named": "max_findings",
    "metric": "metrics",
    "rank_timeout": "an option of processes that a scheduler starts",
    "folds": "regard.cross_validate",
    "chat": "model.chat of a Generator",
    "errors": "outcomes=True returns all",
    "sort": "outcomes=True returns all",
    "against": "regard.evaluate of both runs",
    "rate": "a table of rates is printed",
    "together": "a table of weights is printed",
    **dict.fromkeys(STREAMS, "streams: docs/reference/python-streams.md"),
    **dict.fromkeys(PICTURES, "pictures are files"),
}
# The inputs of a function, which are files of a verb.
INPUTS = {
    "inputs", "texts", "prompts",
    "prompt", "sessions", "tables", "recordings", "files", "what", "sources", "names", "name",
    "targets", "target", "source", "graph", "text", "file", "test",
}  # fmt: skip


def verbs() -> dict[str, Any]:
    commands: Any = typer.main.get_command(build_app())
    return {name: command for name, command in commands.commands.items() if name not in EXEMPT | ALIASES}


def settings(function: Callable[..., Any]) -> set[str]:
    """Return the names that a function takes as settings of its predictor."""
    if not any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in inspect.signature(function).parameters.values()
    ):
        return set()
    known = (SearchSettings, GenerationSettings, GapSettings, LinkedNodeSettings)
    return {name for declared in known for name in settings_of(declared)} | {
        "seed",
        "horizon",
        "level",
        "stride",
        "memory",
    }


@pytest.mark.parametrize("verb", verbs())
def test_a_verb_is_a_function_with_its_arguments(verb: str) -> None:
    function = getattr(package, RENAMED.get(verb, verb))
    own = {name.removesuffix("_") for name in inspect.signature(function).parameters} | settings(function)
    bulk = {*inspect.signature(package.predict_files).parameters}
    options = {parameter.name.removesuffix("_") for parameter in verbs()[verb].params} - {"help"}
    missing = options - own - INPUTS - {name.removesuffix("_") for name in ELSEWHERE}
    if options & {*BULK_OPTIONS} == {*BULK_OPTIONS}:
        missing -= bulk
    assert missing == set()


def test_bulk_processing_is_one_function() -> None:
    assert {*BULK_OPTIONS} <= {*inspect.signature(package.predict_files).parameters}


def test_the_table_has_no_option_that_does_not_exist() -> None:
    known = {parameter.name for command in verbs().values() for parameter in command.params}
    assert {name for name in ELSEWHERE if name not in known} == set()


FUNCTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "classification": ("classify", {}), "tagging": ("tag", {}), "next-item": ("recommend", {"top_k": 2}),
    "translation": ("translate", {"beam": 2}), "nodes": ("nodes", {}), "links": ("links", {}),
}  # fmt: skip


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_a_function_returns_the_outputs_of_inputs_and_of_files(
    runs: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    (name, options), lines = FUNCTIONS[kind], rows_of(kind).inputs[:4]
    model = package.load(runs[kind])
    expected = [model.write(one, json=True) for one in model.predict([model.read(line) for line in lines], **options)]
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines))
    function = getattr(package, name)
    for inputs in ([model.read(line) for line in lines], tmp_path / "in.txt", [tmp_path / "in.txt"]):
        outputs = function(runs[kind], inputs, **options)
        assert [model.write(one, json=True) for one in outputs] == expected
    outputs = package.predict(runs[kind], tmp_path / "in.txt", **options)
    assert [model.write(one, json=True) for one in outputs] == expected


def test_generation_fills_and_scores_are_those_of_the_predictors(runs: dict[str, Path]) -> None:
    generator = package.load(runs["language-model"], package.Generator)
    texts = package.generate(runs["language-model"], ["the", "a"], length=5, seed=1)
    assert [one.text for one in texts] == [one.text for one in generator(["the", "a"], length=5, seed=1)]
    assert len(package.generate(runs["language-model"], "the", samples=3, length=5, seed=1)) == 3
    assert package.score(runs["language-model"], ["the cat"])[0].nll == generator.score("the cat").nll
    pairs = package.score(runs["translation"], ["a b"], ["b a"])
    assert pairs == package.load(runs["translation"], package.Translator).score(["a b"], ["b a"])
    line = package.load(runs["masked"], package.Filler)
    text = f"{line.settings.blank} a"
    assert package.fill(runs["masked"], text, top_k=2)[0] == line(text, top_k=2)
    with pytest.raises(package.ConfigError, match="does not score"):
        package.score(runs["tagging"], ["a"])
    with pytest.raises(package.ConfigError, match="with their targets"):
        package.score(runs["translation"], ["a"])


def test_a_function_refuses_the_run_of_another_task(runs: dict[str, Path]) -> None:
    with pytest.raises(package.ConfigError, match="requires a translation run"):
        package.translate(runs["classification"], ["a"])
    with pytest.raises(package.ConfigError, match="unknown setting"):
        package.classify(runs["classification"], ["a"], beam=3)


def test_an_error_in_a_file_names_its_line(runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("n1\nno-such-node\n")
    with pytest.raises(package.DataError, match="no node"):
        package.nodes(runs["nodes"], tmp_path / "in.txt")
    (tmp_path / "gaps.txt").write_text("no gap\n")
    with pytest.raises(package.DataError) as caught:
        package.fill(runs["masked"], tmp_path / "gaps.txt")
    assert str(caught.value.where).endswith("gaps.txt:1")


def test_large_files_are_processed_as_by_the_command(
    runs: dict[str, Path], tmp_path: Path, regard: Callable[..., Result]
) -> None:
    lines = rows_of("classification").inputs
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines))
    arguments = ("--workers", "1", "--block", "16", "--json")
    assert (
        regard(
            "classify", runs["classification"], tmp_path / "in.txt", "-o", tmp_path / "theirs/", *arguments
        ).exit_code
        == 0
    )
    result = package.predict_files(
        runs["classification"], tmp_path / "in.txt", output=tmp_path / "ours", workers=1, block=16, json=True
    )
    assert (tmp_path / "ours" / "in.txt").read_bytes() == (tmp_path / "theirs" / "in.txt").read_bytes()
    assert (result.lines, result.quarantined) == (len(lines), 0)


def test_averages_and_imports_are_functions(tiny_copy: Any, tmp_path: Path) -> None:
    assert package.average(tiny_copy.path, last=2)
    with pytest.raises(package.ConfigError, match="cannot be combined"):
        package.average(tiny_copy.path, last=2, steps=[1])
    with pytest.raises(package.ConfigError, match="last must be at least 1"):
        package.average(tiny_copy.path, last=0)
    with pytest.raises(package.ConfigError, match="seeds must be at least 1"):
        package.study("waiting", seeds=0)
    with pytest.raises(package.ModelError):
        package.import_model(tmp_path, tmp_path / "run")


def test_the_options_of_single_verbs_have_their_effect(runs: dict[str, Path]) -> None:
    translator = package.load(runs["translation"], package.Translator)
    texts = rows_of("translation").inputs[:2]
    prefix = translator.target.pieces([len(translator.target) - 1])[0]
    forced = package.translate(runs["translation"], texts, prefixes=[prefix, ""], beam=1)
    expected = translator.translate(texts, search=translator.adjusted({"beam": 1}), prefixes=[prefix, ""])
    assert [one.text for one in forced] == [one.text for one in expected]
    assert package.translate(runs["translation"], texts[0], prefixes=prefix, beam=1)[0].text == expected[0].text
    assert expected[0].text.startswith(prefix)
    table = {"id": ["a", "b"], "words": texts}
    read = package.translate(runs["translation"], table, column="words", beam=1)
    assert [one.text for one in read] == [one.text for one in translator(texts, beam=1)]

    linker = package.load(runs["links"], package.Linker)
    assert package.links(runs["links"], missing=3) == linker.missing(3)
    node = rows_of("links").columns["source"][0]
    assert len(package.links(runs["links"], node, top_k=2)[0].links) == 2

    label = package.classify(runs["classification"], ["a fine film"], abstain_below=1.0)[0]
    assert label.label is None
    recommended = package.recommend(runs["next-item"], ("i0", "i1"), top_k=3, new=True)[0]
    assert len(recommended.items) == 3 and not {"i0", "i1"} & {*recommended.items}
    assert package.predict(runs["classification"], ["a fine film"], checkpoint="last")
    with pytest.raises(package.ModelError):
        package.predict(runs["classification"], ["a fine film"], checkpoint="average")


def test_forecasts_and_anomalies_are_those_of_the_predictor(runs: dict[str, Path]) -> None:
    model: Any = package.load(runs["forecasting"], package.ForecastPredictor)
    (path,) = [corpus.source for corpus in model.config.data.train][:1]
    last = package.forecast(runs["forecasting"], path)[0]
    (series,) = list(series_in(path, model.config.data))[:1]
    (begin,) = series.labels([len(series) - 2])
    earlier = package.forecast(runs["forecasting"], path, begin=begin)[0]
    assert earlier.dates[0] == begin != last.dates[0]
    (found,) = package.anomalies(runs["forecasting"], path, budget="1/10 rows")
    (fewer,) = package.anomalies(runs["forecasting"], path, budget="1/50 rows")
    (averaged,) = package.anomalies(runs["forecasting"], path, budget="1/10 rows", over=3)
    (leveled,) = package.anomalies(runs["forecasting"], path, budget="1/10 rows", level=True)
    assert leveled.threshold != found.threshold
    assert len(found.alarms) > len(fewer.alarms) and averaged.threshold != found.threshold


@pytest.mark.parametrize("kind", ["classification", "translation", "forecasting"])
@pytest.mark.parametrize(("name", "message"), [("device", "the device quick is not"), ("engine", "unknown engine")])
def test_an_unknown_device_or_engine_is_an_error(runs: dict[str, Path], kind: str, name: str, message: str) -> None:
    with pytest.raises(package.ConfigError, match=message):
        package.load(runs[kind], **{name: "quick"})


def test_files_are_predicted_by_processes_or_ray(runs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(package.ConfigError, match="unknown value 'dask'"):
        package.predict_files(runs["classification"], tmp_path / "in.txt", output=tmp_path / "out", on="dask")  # type: ignore[arg-type]
