"""Processing of blocks by actors of Ray Data, on one machine or on a cluster that shares the folders.

Ray restarts dead actors and repeats their blocks. The guarantee that each line is processed once comes from the block
files, not from Ray. Needs the extra ``ray``.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from regard.bulk.scan import BlockReader
from regard.bulk.work import open_work
from regard.bulk.worker import WAIT, Order, Report, Share, do_block, open_order
from regard.core.installation import extra_command
from regard.core.wording import pluralize
from regard.errors import ConfigError, RegardError
from regard.runs.plugins import VARIABLE


class BlockActor:
    """An actor that holds the model and processes blocks."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self.job = open_order(Order(**order))
        self.work = open_work(order["spec"], self.job.seed)
        self.reader = BlockReader(self.job.paths)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        for number in batch["block"].tolist():
            block = self.job.blocks[number]
            while not do_block(self.job, block, self.reader, self.work, lambda block, done: None):
                time.sleep(WAIT)  # a process outside this cluster works on it
        return batch


def run_on_ray(order: Order, workers: int, report: Report, log: Callable[[str], None]) -> None:
    """Process a share of a job with several actors. Raises the error of an actor."""
    try:
        import ray
        from ray.data import ActorPoolStrategy, DataContext, from_items
        from ray.exceptions import RayError
    except ImportError as error:
        help = extra_command("ray")
        raise ConfigError("--on ray needs Ray", where="--on", why=str(error), help=help) from error
    order = _anywhere(order)
    job = open_order(order)
    missing = job.missing(Share(*order.share).blocks(job))
    if not missing:
        return
    mine = not ray.is_initialized()
    if mine:
        ray.init(
            log_to_driver=False, logging_level=logging.WARNING
        )  # joins the cluster of RAY_ADDRESS, or starts one here
    DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    device = order.spec.get("device") or ""
    resources = {"num_gpus": 1} if device.startswith("cuda") else {"num_cpus": order.spec.get("threads") or 1}
    log(f"{workers} actors on {pluralize(len(ray.nodes()), 'machine')} of Ray")
    try:
        rows = from_items([{"block": block.number} for block in missing], override_num_blocks=len(missing))
        done = rows.map_batches(
            BlockActor,
            fn_constructor_args=(order._asdict(),),
            batch_size=1,
            compute=ActorPoolStrategy(size=workers),
            runtime_env={"env_vars": {VARIABLE: os.environ.get(VARIABLE, "")}},
            **resources,
        )
        for row in done.iter_rows():
            report(row["block"], job.blocks[row["block"]].lines)
    except RayError as error:
        cause = getattr(error, "cause", None)
        raise (cause if isinstance(cause, RegardError) else error) from None
    finally:
        if mine:
            ray.shutdown()


def _anywhere(order: Order) -> Order:
    """Return the order with absolute paths: an actor may have another working folder."""
    spec = {**order.spec, "run": str(Path(order.spec["run"]).resolve())}
    inputs = [str(Path(path).absolute()) for path in order.inputs]
    return order._replace(out=str(Path(order.out).absolute()), inputs=inputs, spec=spec)
