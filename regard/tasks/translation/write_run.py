"""Writing of weights as a run folder, which can be used like the folder of a trained run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from regard.core import atomic_files
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.runs import checkpoint
from regard.runs.plan import Plan
from regard.runs.run_folder import RunFolder
from regard.tasks.translation.codecs import Codecs, save_codecs, spec_of
from regard.tasks.translation.config import TranslationConfig


def plan_without_training(source: Tokenizer, target: Tokenizer, *, threads: int) -> Plan:
    """Return the plan of a run without training: float32, no updates, the sizes of its vocabularies."""
    return Plan(
        precision="float32",
        steps=None,
        threads=threads,
        seconds_per_update={},
        spec=spec_of(Codecs(source, target)),
    )


def write_run(
    path: Path,
    config: TranslationConfig,
    source: Tokenizer,
    target: Tokenizer,
    weights: Mapping[str, Tensor],
    *,
    plan: Plan | None,
    step: int = 0,
    averaged: Sequence[int] = (),
) -> RunFolder:
    """Write a run with one checkpoint to a new folder, and return it.

    Args:
        path: the folder, which must be empty or absent.
        config: the config of the run.
        source: the tokenizer of the source.
        target: the tokenizer of the target.
        weights: the parameters of the model, by name.
        plan: the plan; None writes no plan, as in runs of early versions.
        step: the number of updates that the weights were trained for.
        averaged: the steps of the averaged checkpoints; empty for a plain checkpoint.
    """
    run = RunFolder.create(path, config)
    save_codecs(run, Codecs(source, target))
    if plan is not None:
        run.write_plan(plan)
    state = {"averaged": list(averaged), "newest": step} if averaged else {}
    saved = checkpoint.save(run.checkpoints, step, {"model": dict(weights)}, state, keep=1)
    if averaged:
        atomic_files.commit_folder(saved, run.checkpoints / "average")
    return run
