"""Regard's HTTP interface as replicas of Ray Serve, for those who already run Ray.

    pip install 'ray[serve]' and Regard with its extra serve, into one environment
    RUN=/path/to/run REPLICAS=2 serve run deploy.ray_serve:app     # from the folder above; answers at port 8000

``RUN`` is as ``regard serve`` takes it. Plain replicas behind a balancer are quicker (docs/how-to/replicas.md): this is
for autoscaling and placement. Counts are each replica's own unless ``STORE`` names one that they share.
"""

from __future__ import annotations

import os
from typing import Any

from ray import serve

from regard.commands.server_plan import ServerPlan


def application() -> Any:
    """Build the ASGI application, in the replica that will answer."""
    settings = {"requests_per_minute": int(os.environ.get("REQUESTS", "120"))}
    opening = {"threads": int(os.environ.get("THREADS", "1")), "mapped": True}
    plan = ServerPlan(
        [os.environ["RUN"]], "127.0.0.1", 0, settings=settings, storage=os.environ.get("STORE"), opening=opening
    )
    return plan.create_server().config.app


@serve.deployment(
    num_replicas=int(os.environ.get("REPLICAS", "2")),
    ray_actor_options={"num_cpus": float(os.environ.get("CPUS", "1"))},
    max_ongoing_requests=256,  # Regard batches by itself: Ray must not hold requests back
    graceful_shutdown_timeout_s=40,
)
@serve.ingress(application)
class Regard:
    """One replica."""


app = Regard.bind()
