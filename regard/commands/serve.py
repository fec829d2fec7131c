"""``regard serve``: serve trained models over HTTP, also to clients of OpenAI, LibreTranslate and DeepL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands import completion
from regard.commands.options import CheckpointName, DeviceName, EngineName, Port, Threads, epilog
from regard.core.installation import extra_command
from regard.errors import ConfigError, ModelError

if TYPE_CHECKING:
    import uvicorn

    from regard.server.batching.metrics import ServerMetrics
    from regard.server.batching.served import Served
    from regard.server.settings import ServerSettings
    from regard.tasks.translation.translator import Engine

__all__ = ["create_server", "register"]

EPILOG = epilog(
    "regard serve runs/m30k",
    "regard serve en-de=runs/m30k de-en=runs/back --port 5000 --engine int8",
    "curl -s localhost:5000/v1/translate -H 'content-type: application/json' -d '{\"text\": \"A dog runs.\"}'",
)
CONNECTIONS = 1024  # at once; more are refused with 503
LOCAL = ("127.0.0.1", "::1", "localhost")

Runs = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]RUN…",
        help="Run folders, each optionally with a NAME; the first is loaded at once.",
        autocompletion=completion.runs,
    ),
]
Host = Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 listens on the whole network.")]
Characters = Annotated[int, typer.Option("--char-limit", min=1, help="Limit of characters in a request.")]
Texts = Annotated[int, typer.Option("--batch-limit", min=1, help="Limit of texts in a request, or to generate for it.")]
Tokens = Annotated[int, typer.Option("--length-limit", min=1, help="Limit of tokens in an output of a language model.")]
Requests = Annotated[int, typer.Option("--req-limit", min=1, help="Limit of requests a minute from one client.")]
Widest = Annotated[int, typer.Option("--beam-limit", min=1, help="Limit of the beam width and of the n-best list.")]
Seconds = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds until a request is given up with 503.")]
Waiting = Annotated[
    int,
    typer.Option("--queue", min=1, help="Queue limit per client, in sentences or texts; more are refused with 429."),
]
RowsOption = Annotated[
    int,
    typer.Option(
        "--rows", min=1, help="Batch limit: hypotheses, or texts in generation, that a model computes together."
    ),
]
Proxy = Annotated[
    str | None,
    typer.Option(
        "--trusted-proxy",
        metavar="ADDRESS",
        help="Address of a reverse proxy whose X-Forwarded-For header is trusted.",
    ),
]
PublicUrl = Annotated[
    str | None,
    typer.Option("--public-url", metavar="URL", help="URL under which clients reach the server, if it differs."),
]
KeysFile = Annotated[
    Path | None, typer.Option("--keys", metavar="FILE", help="Require an API key from this file; see `regard keys`.")
]
GlossariesFolder = Annotated[
    Path | None,
    typer.Option(
        "--glossaries",
        metavar="DIR",
        help="Folder to store client glossaries in.",
        show_default="in memory, until the server stops",
    ),
]
Body = Annotated[int, typer.Option("--body-limit", min=1, help="Limit of bytes in a request body.")]


def register(app: typer.Typer) -> None:
    """Add ``regard serve`` to the command line."""
    app.command("serve", epilog=EPILOG)(serve)


def serve(
    runs: Runs,
    *,
    host: Host = "127.0.0.1",
    port: Port = 5000,
    engine: EngineName = None,
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
    char_limit: Characters = 5_000,
    batch_limit: Texts = 50,
    req_limit: Requests = 120,
    beam_limit: Widest = 10,
    length_limit: Tokens = 1_000,
    timeout: Seconds = 30.0,
    queue: Waiting = 256,
    rows: RowsOption = 256,
    body_limit: Body = 128 * 1024,
    keys: KeysFile = None,
    glossaries: GlossariesFolder = None,
    trusted_proxy: Proxy = None,
    public_url: PublicUrl = None,
) -> None:
    """Serve trained models over HTTP until Ctrl-C or SIGTERM; accepted requests are finished first.

    POST /v1/predict is for runs of any task, POST /v1/translate for translation runs, POST /v1/generate for language
    models; /openapi.json describes them. Clients of OpenAI (/v1/completions, /v1/models), of LibreTranslate
    (/translate, /detect, /languages, /translate_file) and of DeepL (/v2/translate, /v2/glossaries, /v2/languages,
    /v2/usage) work unchanged. /metrics is for Prometheus.
    """
    settings = {
        "body_bytes": body_limit, "texts": batch_limit, "characters": char_limit, "beam": beam_limit,
        "nbest": beam_limit, "length": length_limit, "seconds": timeout, "requests_per_minute": req_limit,
        "waiting": queue, "rows": rows, "public_url": public_url,
    }  # fmt: skip
    server, _ = create_server(
        runs, host=host, port=port, keys=keys, glossaries=glossaries, trusted_proxy=trusted_proxy, settings=settings,
        engine=engine, checkpoint=checkpoint, device=device, threads=threads,
    )  # fmt: skip
    if host not in LOCAL and keys is None:
        typer.echo(
            f"listening at {host}: whoever reaches this address may translate, and sends text unencrypted", err=True
        )
    _log_requests()
    server.run()


def create_server(
    runs: list[str],
    *,
    host: str,
    port: int,
    keys: Path | None = None,
    glossaries: Path | None = None,
    trusted_proxy: str | None = None,
    settings: dict[str, Any] | None = None,
    log_level: str = "info",
    **opening: Any,
) -> tuple[uvicorn.Server, int]:
    """Return a server that is ready to run, and its port.

    runs: run folders, each as NAME=RUN or RUN.
    host, port: address to listen on; port 0 picks a free one.
    keys: file of API keys; without it no key is asked for.
    glossaries: folder for client glossaries; without it they live in memory.
    trusted_proxy: address of a proxy whose X-Forwarded-For header is trusted.
    settings: limits, as ``ServerSettings`` names them.
    log_level: uvicorn's.
    opening: options of ``open_model``.
    """
    # oneDNN keeps code for a thousand shapes otherwise, and requests have as many: hundreds of megabytes.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")
    try:
        import uvicorn

        from regard.server.app import create_app
        from regard.server.batching.metrics import ServerMetrics
        from regard.server.batching.models import ModelRegistry
        from regard.server.keys import KeyStore
        from regard.server.service import Service
        from regard.server.settings import ServerSettings
    except ImportError as error:
        raise ConfigError(
            "the server's libraries are not installed", why=str(error), help=extra_command("serve")
        ) from error

    port = _free_port(host, port)
    chosen, metrics = _settings(ServerSettings, settings or {}), ServerMetrics()
    models = ModelRegistry([_served(given, chosen, metrics, **opening) for given in runs])
    if opening.get("engine") is not None and not (models.translators or models.generators):
        why = "engines are for translation and generation"
        raise ConfigError("no run here translates or generates", where="--engine", why=why)
    service = Service(models, chosen, metrics, keys=KeyStore(keys) if keys else None, glossaries=glossaries)
    address = {"host": host, "port": port, "log_level": log_level}
    return uvicorn.Server(_uvicorn_config(create_app(service), chosen, trusted_proxy, **address)), port


def _uvicorn_config(app: Any, chosen: ServerSettings, trusted_proxy: str | None, **address: Any) -> uvicorn.Config:
    import uvicorn

    from regard.server.connections import limited_protocol

    return uvicorn.Config(
        app, access_log=False, server_header=False, http=limited_protocol(chosen, trusted_proxy), ws="none",
        timeout_graceful_shutdown=round(chosen.seconds) + 1, limit_concurrency=max(CONNECTIONS, 4 * chosen.waiting),
        timeout_keep_alive=5, proxy_headers=trusted_proxy is not None, forwarded_allow_ips=trusted_proxy or [],
        **address,
    )  # fmt: skip


def _settings(kind: type[ServerSettings], given: dict[str, Any]) -> ServerSettings:
    from pydantic import ValidationError

    try:
        return kind(**given)
    except ValidationError as error:
        if error.errors()[0]["loc"] != ("public_url",):
            raise
        help = "for example --public-url https://translate.example.org"
        raise ConfigError("this is no address of a server", where="--public-url", help=help) from error


def _free_port(host: str, port: int) -> int:
    """Return the port, or a free one for 0; raises ConfigError if it is taken, which uvicorn would tell too late."""
    import socket

    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as tried:
            return int(tried.getsockname()[1])
    except OSError as error:
        raise ConfigError(
            f"cannot listen at {host}, port {port}", where="--host, --port", why=error.strerror or str(error),
            help="another --port; 0 takes one that is free",
        ) from error  # fmt: skip


def _log_requests() -> None:
    """Log client, path and duration of each request on standard error; never a text."""
    import logging

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("regard.server")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def _served(
    given: str, settings: ServerSettings, metrics: ServerMetrics, *, engine: Engine | None = None,
    checkpoint: str | None = None, device: str | None = None, threads: int | None = None,
) -> Served[Any, Any]:  # fmt: skip
    """Open a run to be served; weights are read with the first request."""
    from regard.commands.options import open_model, open_predictor
    from regard.inspection.inspector import run_inspector
    from regard.runs.run_folder import RunFolder
    from regard.server.batching.metrics import ModelMetrics
    from regard.server.batching.models import ServedModel
    from regard.server.batching.scheduler import Limits
    from regard.server.batching.served_generator import ServedGenerator
    from regard.server.batching.served_predictor import ServedPredictor
    from regard.tasks.language_model.config import LanguageModelConfig
    from regard.tasks.translation.config import TranslationConfig

    name, path = _name_and_path(given)
    run = RunFolder.open(path)
    chosen = run.weights_path(checkpoint)
    if not chosen.path.is_dir():
        raise ModelError(f"{path} has no checkpoint {chosen.name}", where=str(chosen.path), help=f"regard info {path}")
    config = run.config
    opening: dict[str, Any] = {"device": device, "threads": threads}

    def open(which: str | None) -> Any:
        """Open the model for inspection: the one that is served, or another checkpoint."""
        return open_predictor(path, checkpoint=which, **opening) if which else model.start()[0]

    inspector = run_inspector(run, name=name, open=open, checkpoint=checkpoint)
    common: dict[str, Any] = {"observer": ModelMetrics(metrics, name), "threads": threads, "inspector": inspector}
    model: Served[Any, Any]
    if isinstance(config, TranslationConfig):
        model = ServedModel(
            name, load_translator=lambda: open_model(path, checkpoint=checkpoint, engine=engine, **opening),
            search=config.search, source=config.data.source_language, target=config.data.target_language,
            limits=Limits(rows=settings.rows, waiting=settings.waiting), **common,
        )  # fmt: skip
        return model
    if isinstance(config, LanguageModelConfig):
        model = ServedGenerator(
            name, load_predictor=lambda: open_predictor(path, checkpoint=checkpoint, engine=engine, **opening),
            waiting=settings.waiting, rows=settings.rows, **common,
        )  # fmt: skip
        return model
    model = ServedPredictor(
        name, task=config.task.kind, load_predictor=lambda: open_predictor(path, checkpoint=checkpoint, **opening),
        waiting=settings.waiting, **common,
    )  # fmt: skip
    return model


def _name_and_path(given: str) -> tuple[str, Path]:
    """Split ``en-de=runs/m30k`` into name and path; without a name, the folder's name is taken."""
    name, equals, path = given.partition("=")
    return (name, Path(path)) if equals and name and "/" not in name else (Path(given).resolve().name, Path(given))
