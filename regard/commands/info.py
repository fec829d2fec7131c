"""``regard info``: describe a run or a preset."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands import completion
from regard.commands.options import AsJson, epilog
from regard.core.wording import did_you_mean, pluralize
from regard.errors import ConfigError, ModelError

if TYPE_CHECKING:
    from pydantic import BaseModel
    from torch.nn import Module

    from regard.models.configuration import ModelConfig
    from regard.runs.run_folder import RunFolder

EPILOG = epilog("regard info runs/m30k", "regard info runs/m30k --draw curves.svg", "regard info base --types 37000")

RunOrPreset = Annotated[
    str,
    typer.Argument(
        metavar="RUN|PRESET",
        help="Run folder, or a preset such as tiny, base or luong.",
        autocompletion=completion.presets_and_runs,
    ),
]
Types = Annotated[
    int,
    typer.Option("--types", min=5, metavar="N", help="Assume this vocabulary size for a preset, on both sides."),
]
Draw = Annotated[
    Path | None,
    typer.Option("--draw", metavar="FILE", help="Draw the training curves of a run to this .svg or .png file."),
]


def register(app: typer.Typer) -> None:
    """Add ``regard info`` to the command line."""
    app.command("info", epilog=EPILOG)(info)


def info(what: RunOrPreset, *, types: Types = 8000, draw: Draw = None, as_json: AsJson = False) -> None:
    """Show the parameters, data, checkpoints and validation metrics of a run, or the sizes of a preset."""
    from regard.models.configuration import ModelConfig
    from regard.models.presets import PRESETS
    from regard.runs.run_folder import RunFolder

    path = Path(what)
    if draw is not None:
        _draw(path, draw)
    if what in PRESETS and not path.is_dir():
        facts = _preset(what, ModelConfig(preset=what), types)
    elif not path.exists() and "/" not in what:
        raise ConfigError(
            f"{what} is neither a preset nor a folder",
            why=f"the presets are {', '.join(PRESETS)}",
            help=did_you_mean(what, PRESETS) or "regard info runs/NAME",
        )
    else:
        facts = _run(RunFolder.open(path))
    if as_json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    for line in _lines(facts):
        print(line)


def _draw(run: Path, path: Path) -> None:
    """Draw the training curves of a run, and print the path of the file."""
    from regard.core.figure import Caption, require_drawing, write_figure
    from regard.inspection.curve_figure import draw_curves
    from regard.runs.run_folder import RunFolder

    if path.suffix not in (".svg", ".png"):
        raise ConfigError(f"the format of {path.name} is unknown", where="--draw", help="end it in .svg or .png")
    require_drawing("--draw")
    folder = RunFolder.open(run)
    caption = Caption(f"training · {folder.path.resolve().name} · {folder.config.task.kind}", f"regard info {run.name}")
    write_figure(partial(draw_curves, run=folder), [path], caption)
    typer.echo(f"wrote {path}", err=True)


def _preset(name: str, config: ModelConfig, types: int) -> dict[str, Any]:
    from regard.models.build import build
    from regard.models.summary import one_line_summary

    make = partial(build, config, source_types=types, target_types=types)
    return {"preset": name, "types": [types, types], **_model(config, make), "summary": one_line_summary(config)}


def _model(config: BaseModel, build: Callable[[], Module]) -> dict[str, Any]:
    from regard.runs.parameter_counts import parameters_by_part

    parts = parameters_by_part(build)
    return {
        "parameters": {**parts, "all": sum(parts.values())},
        "model": config.model_dump(mode="json", exclude_none=True),
    }


def _run(run: RunFolder) -> dict[str, Any]:
    from regard.core.baseline import FOLDER, baseline_summary
    from regard.runs import checkpoint
    from regard.runs.baseline_choice import read_choice
    from regard.runs.network_comparison import read_comparison
    from regard.runs.shortcomings import shortcomings

    plan = run.read_plan()
    best = checkpoint.read_best(run.checkpoints)
    facts: dict[str, Any] = {"run": str(run.path)}
    if plan is not None:
        config, make = run.config, partial(run.task.build, run.config, plan.spec)
        types = [size for name, size in plan.spec.items() if name.endswith("types")]
        facts |= {"types": types, **_model(getattr(config, "model", config), make)}
        if config.lora is not None:
            facts["lora"] = _lora(run, plan.spec)
        facts["summary"] = config.summary
    facts["plan"] = plan.model_dump() if plan else None
    facts["checkpoints"] = checkpoint.list_steps(run.checkpoints)
    facts["average"] = (run.checkpoints / "average").is_dir()
    facts["best"] = best._asdict() if best else None
    facts["corpora"] = dict(_corpora(run))
    facts["last_validation"] = _last_validation(run.path / "metrics.jsonl")
    baseline = baseline_summary(run.path / FOLDER)
    facts["baseline"] = None if baseline is None else baseline._asdict()
    choice, comparison = read_choice(run.path), read_comparison(run.path)
    facts["comparison"] = None if comparison is None else comparison.as_dict()
    facts["compared"] = [] if comparison is None else comparison.lines(run.task.metrics)
    facts["choice"] = None if choice is None else choice.as_dict()
    facts["shortcomings"] = [str(shortcoming) for shortcoming in shortcomings(run)]
    facts["environment"] = _environment(run)
    facts["config"] = run.config.model_dump(mode="json", exclude_none=True)
    return facts


def _lora(run: RunFolder, spec: Mapping[str, int]) -> dict[str, Any]:
    from regard.runs.size_check import sketch
    from regard.training.trainable import set_trainable, trainable_count

    net = sketch(partial(run.task.build, run.config, spec))
    set_trainable(run.config, net)
    lora = run.config.lora
    return {"rank": None if lora is None else lora.rank, "trained": trainable_count(net)}


def _corpora(run: RunFolder) -> Iterator[tuple[str, Any]]:
    from regard.data.corpus import Corpus

    for path in sorted(run.data.glob("*/corpus.json")):  # absent if the token arrays were deleted after training
        corpus = Corpus.open(path.parent)
        yield path.parent.name, {"name": corpus.name, **corpus.report.model_dump()}


def _last_validation(path: Path) -> dict[str, Any] | None:
    from regard.runs.metrics_log import read_validations

    validations = list(read_validations(path, strict=True))
    return {"step": validations[-1].step, "validation": validations[-1].figures} if validations else None


def _environment(run: RunFolder) -> dict[str, Any] | None:
    path = run.path / "environment.json"
    if not path.exists():
        return None
    try:
        environment = run.read_environment()
        if missing := {"regard", "torch", "processor", "threads"} - set(environment):
            raise ValueError(f"missing keys: {', '.join(sorted(missing))}")
        return environment
    except (OSError, ValueError) as error:
        help = "remove the file; it only records the machine that started the run"
        raise ModelError("environment.json is damaged", where=str(path), why=str(error), help=help) from error


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    yield f"run         {facts['run']}" if "run" in facts else f"preset      {facts['preset']}"
    if "model" in facts:
        yield from _model_lines(facts)
    if "run" not in facts:
        return
    for part, corpus in facts["corpora"].items():
        left_out = f", {corpus['long']:,} longer than {corpus['max_length']} pieces left out" if corpus["long"] else ""
        yield f"{part:<11} {corpus['name']}: {pluralize(corpus['pairs'], 'pair')}{left_out}"
    plan = facts["plan"]
    if plan is None:
        yield "plan        none yet: training has not started"
    else:
        yield f"plan        {plan['precision']}" + (f", {pluralize(plan['steps'], 'update')}" if plan["steps"] else "")
    steps = facts["checkpoints"]
    saved = f"{len(steps)}, steps {steps[0]:,} to {steps[-1]:,}" if steps else "none yet"
    yield f"checkpoints {saved}" + (", and an average" if facts["average"] else "")
    if facts["best"]:
        best = facts["best"]
        yield f"best        step {best['step']:,}: {best['metric']} {best['value']:.4f}"
    if facts["last_validation"]:
        figures = ", ".join(f"{name} {value:.4f}" for name, value in facts["last_validation"]["validation"].items())
        yield f"validation  step {facts['last_validation']['step']:,}: {figures}"
    if facts["baseline"]:
        figures = "".join(f", {name} {value:.4f}" for name, value in facts["baseline"]["figures"].items())
        yield f"baseline    {facts['baseline']['description']}{figures}"
    yield from (f"compared    {line}" for line in facts["compared"] if not facts["choice"])
    if facts["choice"]:
        yield f"choice      {facts['choice']['model']}, by {facts['choice']['figures']}"
    yield from facts["shortcomings"]
    if facts["environment"]:
        environment = facts["environment"]
        versions = f"regard {environment['regard']}, torch {environment['torch']}"
        yield f"trained on  {versions}, {environment['processor']}, threads: {environment['threads']}"
    yield f"config      {Path(facts['run']) / 'config.toml'}"


def _model_lines(facts: dict[str, Any]) -> Iterator[str]:
    model = facts["model"]
    types = " and ".join(f"{size:,}" for size in dict.fromkeys(facts["types"]))
    yield f"model       {facts['summary']}"
    if types:
        yield f"vocabulary  {types} pieces" + (f", shared matrices: {model['share']}" if "share" in model else "")
    yield f"parameters  {facts['parameters']['all']:,}"
    for part, count in facts["parameters"].items():
        if part != "all":
            yield f"            {part:<26} {count:>12,}  {100 * count / facts['parameters']['all']:5.1f} %"
    if "lora" in facts:
        yield f"trained     {pluralize(facts['lora']['trained'], 'weight')}, LoRA of rank {facts['lora']['rank']}"
