"""``regard info``: describe a run or a preset."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
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

EPILOG = epilog("regard info runs/m30k", "regard info base --types 37000")

RunOrPreset = Annotated[
    str,
    typer.Argument(
        metavar="RUN|PRESET",
        help="Run folder, or a preset: tiny, base, luong, …",
        autocompletion=completion.presets_and_runs,
    ),
]
Types = Annotated[
    int,
    typer.Option("--types", min=5, metavar="N", help="Vocabulary size to assume for a preset, shared by both sides."),
]


def register(app: typer.Typer) -> None:
    """Add ``regard info`` to the command line."""
    app.command("info", epilog=EPILOG)(info)


def info(what: RunOrPreset, *, types: Types = 8000, as_json: AsJson = False) -> None:
    """Show the parameters, data, checkpoints and validation figures of a run, or the sizes of a preset."""
    from regard.models.configuration import ModelConfig
    from regard.models.presets import PRESETS
    from regard.runs.run_folder import RunFolder

    path = Path(what)
    if what in PRESETS and not path.is_dir():
        found = _preset(what, ModelConfig(preset=what), types)
    elif not path.exists() and "/" not in what:
        raise ConfigError(
            f"{what} is neither a preset nor a folder",
            why=f"the presets are {', '.join(PRESETS)}",
            help=did_you_mean(what, PRESETS) or "regard info runs/NAME",
        )
    else:
        found = _run(RunFolder.open(path))
    if as_json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    for line in _lines(found):
        print(line)


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
    from regard.runs import checkpoint
    from regard.runs.shortcomings import shortcomings

    plan = run.read_plan()
    best = checkpoint.read_best(run.checkpoints)
    found: dict[str, Any] = {"run": str(run.path)}
    if plan is not None:
        config, make = run.config, partial(run.task.build, run.config, plan.spec)
        types = [size for name, size in plan.spec.items() if name.endswith("types")]
        found |= {"types": types, **_model(getattr(config, "model", config), make)}
        found["summary"] = config.summary
    found["plan"] = plan.model_dump() if plan else None
    found["checkpoints"] = checkpoint.list_steps(run.checkpoints)
    found["average"] = (run.checkpoints / "average").is_dir()
    found["best"] = best._asdict() if best else None
    found["corpora"] = dict(_corpora(run))
    found["last_validation"] = _last_validation(run.path / "metrics.jsonl")
    found["shortcomings"] = [str(each) for each in shortcomings(run)]
    found["environment"] = _environment(run)
    found["config"] = run.config.model_dump(mode="json", exclude_none=True)
    return found


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
        found = run.read_environment()
        if missing := {"regard", "torch", "processor", "threads"} - set(found):
            raise ValueError(f"it lacks {', '.join(sorted(missing))}")
        return found
    except (OSError, ValueError) as error:
        help = "remove it: it only says on which machine the run began"
        raise ModelError("environment.json is damaged", where=str(path), why=str(error), help=help) from error


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"run         {found['run']}" if "run" in found else f"preset      {found['preset']}"
    if "model" in found:
        yield from _model_lines(found)
    if "run" not in found:
        return
    for part, corpus in found["corpora"].items():
        left_out = f", {corpus['long']:,} over {corpus['max_length']} pieces left out" if corpus["long"] else ""
        yield f"{part:<11} {corpus['name']}: {pluralize(corpus['pairs'], 'pair')}{left_out}"
    plan = found["plan"]
    if plan is None:
        yield "plan        none yet: training has not begun"
    else:
        yield f"plan        {plan['precision']}" + (f", {pluralize(plan['steps'], 'update')}" if plan["steps"] else "")
    steps = found["checkpoints"]
    kept = f"{len(steps)}, steps {steps[0]:,} to {steps[-1]:,}" if steps else "none yet"
    yield f"checkpoints {kept}" + (", and an average" if found["average"] else "")
    if found["best"]:
        best = found["best"]
        yield f"best        step {best['step']:,}: {best['metric']} {best['value']:.4f}"
    if found["last_validation"]:
        figures = ", ".join(f"{name} {value:.4f}" for name, value in found["last_validation"]["validation"].items())
        yield f"validation  step {found['last_validation']['step']:,}: {figures}"
    yield from found["shortcomings"]
    if found["environment"]:
        made = found["environment"]
        versions = f"regard {made['regard']}, torch {made['torch']}"
        yield f"made with   {versions}, {made['processor']}, threads: {made['threads']}"
    yield f"config      {Path(found['run']) / 'config.toml'}"


def _model_lines(found: dict[str, Any]) -> Iterator[str]:
    model = found["model"]
    types = " and ".join(f"{size:,}" for size in dict.fromkeys(found["types"]))
    yield f"model       {found['summary']}"
    if types:
        yield f"vocabulary  {types} pieces" + (f", shared matrices: {model['share']}" if "share" in model else "")
    yield f"parameters  {found['parameters']['all']:,}"
    for part, count in found["parameters"].items():
        if part != "all":
            yield f"            {part:<26} {count:>12,}  {100 * count / found['parameters']['all']:5.1f} %"
