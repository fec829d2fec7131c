"""One member of a comparison, run in its own process to measure memory and speed separately.

``regard compare`` starts it with a JSON job as its argument. Results are in the run folder:

    training.json   after training: updates, tokens, seconds, memory
    measured.json   quality and decoding speed, and the conditions of measurement
    failure.json    why the other files are missing
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.core import atomic_files
from regard.errors import DataError, ModelError, RegardError

if TYPE_CHECKING:
    from regard.runs.run_folder import RunFolder
    from regard.tasks.translation.translator import Translator
    from regard.training.start import OpenDisplay

TRAINING, MEASURED, FAILURE = "training.json", "measured.json", "failure.json"
WARM_UP = 8  # inputs decoded before the clock starts


def main(open_display: OpenDisplay) -> None:
    """Work on the job until it is done, fails or is interrupted; exits with the codes of ``regard train``."""
    from regard.core.interrupt import Interrupts

    job: dict[str, Any] = json.loads(sys.argv[1])
    path = Path(job["run"])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    atomic_files.remove_file(path / FAILURE)
    try:
        with Interrupts():
            sys.exit(
                _prepare(path, open_display)
                if job["stage"] == "prepare"
                else _train_and_measure(path, job, open_display)
            )
    except KeyboardInterrupt:
        sys.exit(130)
    except RegardError as error:
        atomic_files.write_json(path / FAILURE, error_as_json(error))
        sys.exit(error.exit_code)


def error_as_json(error: RegardError) -> dict[str, Any]:
    """Return an error as a JSON object."""
    return {
        "what": error.what, "where": error.where, "why": error.why, "help": error.help, "exit_code": error.exit_code,
    }  # fmt: skip


def _end_with_parent() -> None:
    """Wait until standard input closes, as it does when the parent exits; then save and exit."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _prepare(path: Path, open_display: OpenDisplay) -> int:
    """Create vocabularies, corpora and plan, in a separate process, whose memory does not count toward training."""
    from regard.runs.run_folder import RunFolder
    from regard.training.setup import set_up

    run = RunFolder.open(path)
    with run.training(), open_display(path) as display:
        set_up(run, log=display.log, progress=display.prepared)
    return 0


def _train_and_measure(path: Path, job: dict[str, Any], open_display: OpenDisplay) -> int:
    from regard.runs.run_folder import RunFolder
    from regard.training.start import train_run

    run = RunFolder.open(path)
    record = path / TRAINING
    before = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {"finished": False}
    if not before["finished"]:
        code = train_run(run, open_display)
        peak = max(_peak_memory(), before.get("peak_memory", 0))  # over all processes
        atomic_files.write_json(record, {"finished": not code, **_training_figures(path), "peak_memory": peak})
        if code:
            return code
    atomic_files.write_json(path / MEASURED, {"key": job["key"], **_measure(run, job["key"])})
    return 0


def _training_figures(path: Path) -> dict[str, Any]:
    """Return the totals over the updates of a run: number, target tokens, seconds; zeros without updates."""
    from regard.runs.metrics_log import read_updates

    updates = list(read_updates(path / "metrics.jsonl"))
    tokens, seconds = (sum(update.figures.get(key, 0.0) for update in updates) for key in ("tokens", "seconds"))
    return {
        "updates": updates[-1].step if updates else 0,
        "target_tokens": int(tokens),
        "train_seconds": seconds,
        "train_tokens_per_second": tokens / seconds if seconds else 0.0,
    }


def _peak_memory() -> int:
    """Return the peak memory in bytes: of tensors on the accelerator, if any, otherwise of this process."""
    import resource

    import torch

    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    status = Path("/proc/self/status")  # getrusage includes the parent's memory at the fork
    lines = status.read_text().splitlines() if status.exists() else []
    for line in lines:
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _measure(run: RunFolder, key: dict[str, Any]) -> dict[str, Any]:
    """Measure quality and decoding speed of a trained run; ``key`` has metric, beam, average and test set."""
    import torch

    from regard.config.settings import override_search
    from regard.runs.averaging import average_run
    from regard.tasks.translation.config import translation_config
    from regard.tasks.translation.translator import load

    plan = run.read_plan()
    if plan is not None:
        torch.set_num_threads(plan.all_threads(run.config.train.workers))  # the number that training used
    if key["average"]:
        average_run(run, last=key["average"])
    chosen = run.network_path()  # the average, if this or train.average has created one
    model = load(run.path, checkpoint=chosen.name)
    search = override_search(model.search, beam=key["beam"], nbest=1)
    pairs = _pairs(key["test"])
    distinct = list(dict.fromkeys(source for source, _ in pairs))
    model.translate(distinct[:WARM_UP], search=search)
    began = time.perf_counter()
    outputs = model.translate(distinct, search=search)
    seconds = time.perf_counter() - began
    best = [one.candidates[0] for one in outputs]
    texts = {line: one.text for line, one in zip(distinct, best, strict=True)}
    value, signature = _score(key["metric"], model, texts, pairs, translation_config(run).data.target_language)
    if not math.isfinite(value):
        raise ModelError("the model computes no probabilities", where=str(run.path), why="training diverged")
    return {
        "value": value,
        "signature": signature,
        "checkpoint": str(chosen),
        "parameters": sum(parameter.numel() for parameter in model.model.parameters()),
        "decode_tokens_per_second": sum(len(one.pieces) + one.finished for one in best) / seconds,
        "decode_lines_per_second": len(distinct) / seconds,
        "search": search.model_dump(mode="json", exclude_none=True),
    }


def _pairs(test: list[dict[str, Any]]) -> list[tuple[str, str]]:
    from regard.data.reading import CorpusConfig, read_pairs

    corpora = [CorpusConfig.model_validate(part["corpus"]) for part in test]
    pairs = [(source, target) for corpus in corpora for _, source, target in read_pairs(corpus)]
    if not pairs:
        raise DataError("the test set is empty")
    return pairs


def _score(
    metric: str, model: Translator, texts: dict[str, str], pairs: list[tuple[str, str]], language: str | None
) -> tuple[float, str]:
    from regard.metrics.text import EvaluationSet, score_texts

    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    if metric == "loss":
        pieces = model.score(sources, targets)
        value = -sum(map(sum, pieces)) / sum(map(len, pieces))
        return value, "nats per target piece, end symbols included, no smoothing"
    examples = EvaluationSet(sources, [[model.target.config.remove_joiners(target)] for target in targets])
    score = score_texts(metric, texts, examples, language=language)
    return score.value, score.signature
