"""Reload of all models from their run folders, without losing a request."""

from __future__ import annotations

import gc
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable

from regard.server.api_error import ApiError
from regard.server.batching.models import ModelRegistry
from regard.server.draining_server import DrainingServer
from regard.server.service import Service

log = logging.getLogger("regard.server")


class Reloader:
    """Replaces the models of a service by those that are in the run folders now.

    New requests use the new models once all of them are loaded. Requests that have begun continue with the earlier
    models, which are stopped after the time limit of a request. If a model cannot be loaded, the earlier ones remain.

    Args:
        service: the service.
        open_models: opens the runs without their weights.
        reload_certificate: reads the certificate of the server again.
    """

    def __init__(
        self, service: Service, open_models: Callable[[], ModelRegistry], reload_certificate: Callable[[], None]
    ) -> None:
        self._service, self._open, self._reload_certificate = service, open_models, reload_certificate
        self._running = threading.Lock()

    def __call__(self) -> None:
        """Check the run folders and begin to load; return before the models are loaded.

        Raises:
            ApiError: if a reload is running.
            RegardError: if a run cannot be served.
        """
        if not self._running.acquire(blocking=False):
            raise ApiError(409, "The models are being reloaded.")
        try:
            models = self._open()
            self._reload_certificate()
        except BaseException:
            self._running.release()
            raise
        threading.Thread(target=self._load, args=(models,), name="reloading", daemon=True).start()

    def _load(self, models: ModelRegistry) -> None:
        """Load the models, replace the earlier ones, and stop those."""
        try:
            earlier = self._service.models
            loaded = {model.name for model in earlier.all if model.ready} | {model.name for model in models.at_start}
            for model in models.all:
                if model.name in loaded:
                    model.start()
        except Exception as error:  # noqa: BLE001 - as in ``_try``
            log.error("cannot reload the models; the earlier ones remain: %s", error)
            models.stop()
            return
        finally:
            self._running.release()
        self._service.use_models(models)
        log.info("reloaded the models: %s", ", ".join(model.name for model in models.all))
        time.sleep(self._service.settings.seconds + 1)  # no request that uses the earlier models is older
        earlier.stop()
        del earlier
        gc.unfreeze()  # ``on_loaded`` has exempted the earlier models from garbage collection
        gc.collect()
        gc.freeze()


def reload_on_hangup(server: DrainingServer) -> None:
    """Let SIGHUP reload the models of a server without workers; after its terminal was closed, SIGHUP stops it."""
    if sys.platform == "win32":
        return
    from regard.server.supervisor import hangup_handler

    def reload() -> None:
        threading.Thread(target=_try, args=(server.service.reload,), name="reload", daemon=True).start()

    signal.signal(signal.SIGHUP, hangup_handler(reload, lambda: server.handle_exit(signal.SIGTERM, None)))


def _try(reload: Callable[[], None]) -> None:
    try:
        reload()
    except Exception as error:  # noqa: BLE001 - the server continues with the models that it has
        log.error("cannot reload the models: %s", error)
