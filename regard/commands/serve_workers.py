"""``regard serve --workers N``: N processes behind one port, and one process that supervises them.

All workers share the port's queue of connections: another worker accepts the connections that a dead worker has not
accepted. The supervising process keeps the state of clients, such as counts and glossaries.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import sys
import tempfile
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.commands.server_address import listening_socket, log_address
from regard.commands.server_plan import ServerPlan, require_libraries
from regard.core.processor import usable_cores
from regard.errors import ConfigError, RegardError

if TYPE_CHECKING:
    from regard.server.draining_server import DrainingServer

log = logging.getLogger("regard.server")
QUEUE = 2048  # maximum number of connections waiting to be accepted
AT_ONCE = 4  # connections that a worker accepts in one turn; a larger number would leave idle workers without any
LATE = 10.0  # seconds after the time limit of the last request, when a worker that still runs is killed


def serve_with_workers(plan: ServerPlan, count: int) -> None:
    """Serve until a signal; raise the signal again after all requests are completed."""
    if sys.platform == "win32":
        raise ConfigError("--workers above 1 requires Linux or macOS", where="--workers")
    from regard.server.batching.metrics import SHARED_FOLDER, ServerMetrics
    from regard.server.client_state import SharedClientState
    from regard.server.supervisor import Supervisor

    require_libraries()
    plan.check()
    plan = _share(plan, count)
    limits = plan.limits()
    with (
        listening_socket(plan.host, plan.port, plan.socket) as port,
        tempfile.TemporaryDirectory(prefix="regard-") as shared,
    ):
        host = SharedClientState(plan.clients(), str(Path(shared, "clients")))
        os.environ[SHARED_FOLDER] = shared
        work = partial(_work, plan, port, host.address)
        supervisor = Supervisor(
            work, count, patience=plan.grace + limits.seconds + LATE, on_death=partial(ServerMetrics.forget, shared)
        )
        log_address(port, encrypted=plan.certificate is not None, workers=count)
        stopped_by, code = supervisor.run(on_stop=port.close)
    if stopped_by is not None:
        signal.raise_signal(stopped_by)
    sys.exit(code)


def _share(plan: ServerPlan, count: int) -> ServerPlan:
    """Return the plan of each worker: its share of threads and of connections per address, and mapped weights."""
    cores = usable_cores()
    if count > cores:
        log.warning("note: %d workers share %d cores; more workers than cores are not faster", count, cores)
    threads = plan.opening.get("threads") or max(1, cores // count)
    connections = math.ceil(plan.limits().connections / count)
    opening = plan.opening | {"threads": threads, "mapped": True}
    return replace(plan, opening=opening, settings=plan.settings | {"connections": connections})


def _work(
    plan: ServerPlan, port: socket.socket, state: Any, number: int, replaces: bool, supervisor: Connection
) -> None:
    """Serve as one of the workers: the main function of its process."""
    from regard.server.client_state import SharedClientState
    from regard.server.log_lines import configure_logs
    from regard.server.supervisor import begin_work

    begin_work()
    configure_logs(plan.log_format, f"worker {number}")
    try:
        server = plan.create_server(SharedClientState.connect(state))
        for model in server.service.models.at_start if replaces else ():  # before it takes requests
            model.start()
    except RegardError as error:
        log.error("cannot start: %s", error)
        sys.exit(error.exit_code)
    _serve(plan, server, port, supervisor)


def _serve(plan: ServerPlan, server: DrainingServer, port: socket.socket, supervisor: Connection) -> None:
    """Serve at a port that several workers share."""
    from regard.server.supervisor import AT_ONCE as STOP_AT_ONCE
    from regard.server.supervisor import RETIRE

    def serving() -> None:
        """Report to the supervisor that the worker is ready."""
        port.listen(QUEUE)  # asyncio shortened the queue to the backlog of one worker
        supervisor.send(True)
        supervisor.close()

    def reload() -> None:
        """Let the supervisor replace all workers."""
        plan.check()
        os.kill(os.getppid(), signal.SIGHUP)

    server.on_serving, server.service.reload = serving, reload
    server.config.backlog = AT_ONCE
    signal.signal(RETIRE, lambda number, frame: server.retire())
    signal.signal(STOP_AT_ONCE, lambda number, frame: server.handle_exit(signal.SIGINT, frame))
    server.run([port])
