"""The server of ``regard serve`` and ``regard inspect``: models, limits, keys and the HTTP application."""

from __future__ import annotations

import gc
import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from regard.commands.server_address import check_certificate
from regard.core.installation import extra_command
from regard.errors import ConfigError, ModelError

if TYPE_CHECKING:
    import uvicorn

    from regard.inference.decoding import RequestedEngine
    from regard.server.batching.metrics import ServerMetrics
    from regard.server.batching.models import ModelRegistry
    from regard.server.batching.served import ServedModel
    from regard.server.client_state import ClientState
    from regard.server.draining_server import DrainingServer
    from regard.server.log_lines import LogFormat
    from regard.server.settings import ServerSettings
    from regard.tasks.translation.config import DataConfig


@dataclass(frozen=True)
class ServerPlan:
    """Description of a server to build, in values that can be sent to another process.

    Attributes:
        runs: the run folders, each as NAME=RUN or RUN.
        host: the address to listen on.
        port: the port; 0 chooses a free one.
        settings: the limits, by the names of ``ServerSettings``.
        keys: the file of API keys; None requires no key.
        glossaries: the folder of client glossaries; None keeps them in memory.
        storage: the URI of the counts that several servers share; None keeps them in memory.
        trusted_proxy: the address of a proxy whose X-Forwarded-For header is trusted.
        languages: the languages of the only translation run, such as ``en-de``; None takes them from its config or its
            name.
        grace: the time after SIGTERM for which the port stays open, in seconds.
        preload: whether to load all runs at start, not only the first.
        log_level: the log level of uvicorn.
        log_format: the format of log lines, as in ``configure_logs``.
        certificate: the certificate chain for TLS; None does not encrypt.
        certificate_key: the private key of the certificate; None reads it from the file of the certificate.
        socket: the path of a Unix socket to listen on, in place of host and port.
        opening: keyword arguments of ``open_model``.
    """

    runs: list[str]
    host: str
    port: int
    settings: dict[str, Any] = field(default_factory=dict)
    keys: Path | None = None
    glossaries: Path | None = None
    storage: str | None = None
    trusted_proxy: str | None = None
    languages: str | None = None
    grace: float = 0.0
    preload: bool = False
    log_level: str = "info"
    log_format: LogFormat = "text"
    certificate: Path | None = None
    certificate_key: Path | None = None
    socket: Path | None = None
    opening: dict[str, Any] = field(default_factory=dict)

    def limits(self) -> ServerSettings:
        """Return the limits; raise ConfigError for an invalid public URL."""
        from regard.server.settings import ServerSettings

        return _settings(ServerSettings, self.settings)

    def models(self, metrics: ServerMetrics) -> ModelRegistry:
        """Open the runs without their weights; raise ConfigError or ModelError for a run that cannot be served."""
        from regard.server.batching.models import ModelRegistry

        limits = self.limits()
        if self.languages is not None and len(self.runs) > 1:
            help = "name the runs by their languages: en-de=RUN de-en=RUN"
            raise ConfigError("--languages requires exactly one run", where="--languages", help=help)
        opening = {"languages": self.languages} | self.opening
        opened = [_served(run, limits, metrics, **opening) for run in self.runs]
        models = ModelRegistry(opened, preload=self.preload)
        if self.opening.get("engine") is not None and not (models.translators or models.generators):
            why = "only translation and generation have engines"
            raise ConfigError("this option does not apply", where="--engine", why=why)
        return models

    def check(self) -> None:
        """Raise ConfigError or ModelError for a run that cannot be served. Reads no weights."""
        from regard.server.batching.metrics import ServerMetrics
        from regard.server.keys import KeyStore

        self.models(ServerMetrics())
        check_certificate(self.certificate, self.certificate_key)
        if self.keys:
            KeyStore(self.keys)

    def clients(self) -> ClientState:
        """Create the state of clients: counts and glossaries."""
        from regard.server.client_state import ClientState

        return ClientState.create(self.limits(), glossaries=self.glossaries, storage=self.storage)

    def create_server(self, clients: ClientState | None = None) -> DrainingServer:
        """Return a server that is ready to run; ``clients`` is the state of clients, None for a new one."""
        from regard.server.app import create_app
        from regard.server.batching.metrics import ServerMetrics
        from regard.server.draining_server import DrainingServer
        from regard.server.keys import KeyStore
        from regard.server.reloading import Reloader
        from regard.server.service import Service
        from regard.server.tracing import Tracing

        # The default of oneDNN is 1,024 compiled shapes; requests have as many, which would take hundreds of megabytes.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")
        check_certificate(self.certificate, self.certificate_key)
        metrics = ServerMetrics()
        keys = KeyStore(self.keys) if self.keys else None
        service = Service(
            self._open_models(metrics), self.limits(), metrics, keys=keys, clients=clients or self.clients(),
            tracing=Tracing.from_environment(),
        )  # fmt: skip
        config = self._config(create_app(service), metrics)
        service.reload = Reloader(
            service, partial(self._open_models, metrics), partial(self._reload_certificate, config)
        )
        return DrainingServer(config, service, grace=self.grace)

    def _open_models(self, metrics: ServerMetrics) -> ModelRegistry:
        """Open the runs; their weights are loaded later."""
        models = self.models(metrics)
        for model in models.all:  # a full garbage collection stops all threads, 0.1 s for the objects of libraries
            model.on_loaded = gc.freeze
        return models

    def _reload_certificate(self, config: uvicorn.Config) -> None:
        """Read the certificate again, for new connections."""
        check_certificate(self.certificate, self.certificate_key)
        if config.ssl is not None and self.certificate is not None:
            config.ssl.load_cert_chain(self.certificate, self.certificate_key)

    def _config(self, app: Any, metrics: ServerMetrics) -> uvicorn.Config:
        """Return the settings of uvicorn."""
        import uvicorn

        from regard.server.connections import limited_protocols

        limits, proxy = self.limits(), self.trusted_proxy
        own_lines: dict[str, Any] = {"log_config": None} if self.log_format == "json" else {}
        return uvicorn.Config(
            app, host=self.host, port=self.port, log_level=self.log_level, access_log=False, server_header=False,
            timeout_keep_alive=5, **limited_protocols(limits, proxy, metrics.refuse), **own_lines,
            timeout_graceful_shutdown=round(limits.seconds) + 1,
            ssl_certfile=self.certificate, ssl_keyfile=self.certificate_key,
            proxy_headers=proxy is not None, forwarded_allow_ips=proxy or [],
        )  # fmt: skip


def require_libraries() -> None:
    """Raise ConfigError if the libraries of the server are not installed."""
    try:
        import uvicorn  # noqa: F401

        import regard.server.app
        import regard.server.connections  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "the libraries of the server are not installed", why=str(error), help=extra_command("serve")
        ) from error
    from regard.server.uvicorn_parts import require_parts

    require_parts()


def _settings(kind: type[ServerSettings], fields: dict[str, Any]) -> ServerSettings:
    from pydantic import ValidationError

    try:
        return kind(**fields)
    except ValidationError as error:
        if error.errors()[0]["loc"] != ("public_url",):
            raise
        help = "for example --public-url https://translate.example.org"
        raise ConfigError("the public URL is not an http or https URL", where="--public-url", help=help) from error


def _served(
    name_and_path: str, settings: ServerSettings, metrics: ServerMetrics, *, engine: RequestedEngine | None = None,
    checkpoint: str | None = None, device: str | None = None, threads: int | None = None, mapped: bool = False,
    languages: str | None = None,
) -> ServedModel:  # fmt: skip
    """Open a run to serve; the weights are loaded with the first request."""
    from regard.commands.options import open_predictor
    from regard.inspection.inspector import Inspector
    from regard.runs.run_folder import RunFolder
    from regard.server.batching.jobs import Limits
    from regard.server.batching.metrics import ModelMetrics
    from regard.server.batching.served import ServedModel

    name, path = _name_and_path(name_and_path)
    run = RunFolder.open(path)
    chosen = run.selected(checkpoint)
    if not chosen.path.is_dir():
        what = f"the checkpoint {chosen.name} of {path} does not exist"
        raise ModelError(what, where=str(chosen.path), help=f"regard info {path}")
    config, task = run.config, run.task
    opening: dict[str, Any] = {"device": device, "threads": threads, "mapped": mapped}
    engines: dict[str, Any] = {} if config.search_settings is None else {"engine": engine}

    def open(which: str | None) -> Any:
        """Open the model for inspection: the served model, or another checkpoint."""
        return open_predictor(path, checkpoint=which, **opening) if which else model.start()[0]

    source, target = (
        _languages(name_and_path, languages, cast("DataConfig", config.data))
        if "translate" in task.serves
        else (None, None)
    )
    limits = Limits(rows=settings.rows, waiting=settings.waiting)
    if "generate" in task.serves:  # outputs are long: start each at once, and reserve rows for other clients
        limits = limits._replace(patience=0, shares=True)
    model = ServedModel(
        name, task=config.task.kind, load_predictor=lambda: open_predictor(
            path, checkpoint=checkpoint, **engines, **opening
        ),
        serves=task.serves, settings=config.search_settings, source=source, target=target,
        reads_whole=getattr(config.data, "crops", False), reads_files=config.reads_files,
        limits=limits, observer=ModelMetrics(metrics, name),
        threads=threads, inspector=Inspector(run, name=name, open=open, checkpoint=checkpoint),
    )  # fmt: skip
    return model


def _languages(name_and_path: str, languages: str | None, data: DataConfig) -> tuple[str | None, str | None]:
    """Return the source and target language of a run: from the option, else from its config, else from its name."""
    from regard.data.pair_languages import language_pair

    if languages is not None:
        pair = language_pair(languages)
        if pair is None:
            help = "use two codes joined by a hyphen: --languages en-de"
            raise ConfigError(f"{languages!r} is not a pair of languages", where="--languages", help=help)
        return pair
    if data.source_language is None and data.target_language is None:
        return language_pair(_name_and_path(name_and_path)[0]) or (None, None)
    return data.source_language, data.target_language


def _name_and_path(text: str) -> tuple[str, Path]:
    """Split ``en-de=runs/m30k`` into name and path; the default name is the name of the folder."""
    name, equals, path = text.partition("=")
    return (name, Path(path)) if equals and name and "/" not in name else (Path(text).resolve().name, Path(text))
