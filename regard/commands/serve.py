"""``regard serve``: serve trained models over HTTP, with the APIs of OpenAI, LibreTranslate and DeepL."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.commands import completion
from regard.commands.options import CheckpointName, DeviceName, EngineName, Port, Threads, epilog
from regard.commands.serve_config import PREFIX, ConfigFile
from regard.commands.serve_workers import serve_with_workers
from regard.commands.server_address import free_port, listening_socket, log_address
from regard.commands.server_plan import ServerPlan, require_libraries

log = logging.getLogger("regard.server")
EPILOG = epilog(
    "regard serve runs/m30k",
    "regard serve en-de=runs/m30k de-en=runs/back --port 5000 --engine int8",
    "regard serve runs/m30k --workers 4 --drain 5 --host 0.0.0.0 --keys keys.json",
    "regard serve --config deploy/serve.toml --port 8000",
    "regard serve runs/m30k --limits-storage redis://localhost:6379 --trusted-proxy 10.0.0.1",
    "curl -s localhost:5000/v1/translate -H 'content-type: application/json' -d '{\"text\": \"A dog runs.\"}'",
)
MAX_WORKERS = 256
LOCAL = ("127.0.0.1", "::1", "localhost")

Runs = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]RUN…",
        help="Run folders, each optionally with a NAME; the first is loaded at start.",
        autocompletion=completion.runs,
        envvar=f"{PREFIX}_RUNS",
    ),
]
Host = Annotated[str, typer.Option("--host", help="Listen on this address; 0.0.0.0 listens on all networks.")]
Characters = Annotated[int, typer.Option("--char-limit", min=1, help="Limit the characters of a request.")]
Texts = Annotated[int, typer.Option("--batch-limit", min=1, help="Limit the input or generated texts of a request.")]
Tokens = Annotated[int, typer.Option("--length-limit", min=1, help="Limit the tokens of a generated text.")]
Requests = Annotated[int, typer.Option("--req-limit", min=1, help="Limit the requests per minute and client.")]
BeamLimit = Annotated[int, typer.Option("--beam-limit", min=1, help="Limit the beam width and the n-best list.")]
Seconds = Annotated[float, typer.Option("--timeout", min=0.1, help="Reply 503 to a request after this many seconds.")]
Waiting = Annotated[
    int,
    typer.Option(
        "--queue", min=1, help="Limit the waiting sentences or texts of a client; more are rejected with 429."
    ),
]
RowsOption = Annotated[
    int,
    typer.Option("--rows", min=1, help="Limit the batch of a model: hypotheses, or texts in generation."),
]
Proxy = Annotated[
    str | None,
    typer.Option(
        "--trusted-proxy",
        metavar="ADDRESS",
        help="Trust the X-Forwarded-For header of the reverse proxy at this address.",
    ),
]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        metavar="NAME",
        help="Accept requests to this host name; * accepts any; may be repeated.",
        show_default="local names on a loopback address; any name behind --trusted-proxy or on a network",
    ),
]
Languages = Annotated[
    str | None,
    typer.Option(
        "--languages",
        metavar="SRC-TGT",
        help="Set the languages of a translation run, such as en-de; for several runs, use SRC-TGT=RUN instead.",
        show_default="from the config, or from NAME",
    ),
]
PublicUrl = Annotated[
    str | None,
    typer.Option("--public-url", metavar="URL", help="Announce this URL to clients, if it differs from the address."),
]
KeysFile = Annotated[
    Path | None, typer.Option("--keys", metavar="FILE", help="Require an API key from this file; see `regard keys`.")
]
GlossariesFolder = Annotated[
    Path | None,
    typer.Option(
        "--glossaries",
        metavar="DIR",
        help="Store client glossaries in this folder.",
        show_default="in memory, until the server stops",
    ),
]
Storage = Annotated[
    str | None,
    typer.Option(
        "--limits-storage", metavar="URI",
        help="Store request and character counts at this URI, shared by several servers, such as redis://HOST:6379.",
        show_default="in memory",
    ),
]  # fmt: skip
Preload = Annotated[bool, typer.Option("--preload", help="Load all runs at start, not only the first.")]
Drain = Annotated[
    float,
    typer.Option(
        "--drain", min=0.0, metavar="SECONDS",
        help="Keep the port open for this time after SIGTERM, while /readyz returns 503 to load balancers.",
    ),
]  # fmt: skip
LogFormatName = Annotated[
    Literal["text", "json"],
    typer.Option("--log-format", help="Write log lines as texts, or as JSON objects."),
]
RootPath = Annotated[
    str,
    typer.Option("--root-path", metavar="PATH", help="Serve below this path of a proxy, such as /models."),
]
Certificate = Annotated[
    Path | None,
    typer.Option("--tls-certificate", metavar="FILE", help="Encrypt connections with this certificate chain (PEM)."),
]
TlsKey = Annotated[
    Path | None,
    typer.Option(
        "--tls-key", metavar="FILE",
        help="Read the private key of the certificate from this file.", show_default="the file of the certificate",
    ),
]  # fmt: skip
SocketPath = Annotated[
    Path | None,
    typer.Option("--socket", metavar="PATH", help="Listen on this Unix socket, in place of --host and --port."),
]
Workers = Annotated[
    int, typer.Option("--workers", min=1, max=MAX_WORKERS, metavar="N", help="Run N processes behind the port.")
]
Body = Annotated[int, typer.Option("--body-limit", min=1, help="Limit the bytes of a request body.")]
FileBody = Annotated[
    int, typer.Option("--file-limit", min=1, help="Limit the bytes of a request with the contents of files.")
]


def register(app: typer.Typer) -> None:
    """Add ``regard serve`` to the command line."""
    app.command("serve", epilog=EPILOG, context_settings={"auto_envvar_prefix": PREFIX})(serve)


def serve(
    runs: Runs, *, host: Host = "127.0.0.1", port: Port = 5000,
    engine: EngineName = None, checkpoint: CheckpointName = None, device: DeviceName = None, threads: Threads = None,
    workers: Workers = 1, char_limit: Characters = 5_000, batch_limit: Texts = 50, req_limit: Requests = 120,
    beam_limit: BeamLimit = 10, length_limit: Tokens = 1_000, timeout: Seconds = 30.0, queue: Waiting = 256,
    rows: RowsOption = 256, body_limit: Body = 128 * 1024, file_limit: FileBody = 16 << 20,
    keys: KeysFile = None, glossaries: GlossariesFolder = None, trusted_proxy: Proxy = None,
    public_url: PublicUrl = None, allow_host: AllowedHosts = None, languages: Languages = None,
    limits_storage: Storage = None, preload: Preload = False, drain: Drain = 0.0,
    root_path: RootPath = "", tls_certificate: Certificate = None, tls_key: TlsKey = None, socket: SocketPath = None,
    log_format: LogFormatName = "text", config: ConfigFile = None,
) -> None:  # fmt: skip
    """Serve trained models over HTTP until Ctrl-C or SIGTERM; accepted requests are completed first.

    POST /v1/predict serves runs of any task, POST /v1/translate translation runs, POST /v1/generate language models;
    /openapi.json describes them. Each option can be set by a variable, such as REGARD_SERVE_PORT, or in the file
    --config. Clients of OpenAI, LibreTranslate and DeepL work without changes: /v1/chat/completions, /v1/completions,
    /v1/embeddings, /v1/audio/transcriptions, /v1/models; /translate, /detect, /languages, /translate_file;
    /v2/translate, /v2/glossaries, /v2/languages, /v2/usage. /metrics serves Prometheus.
    """
    settings = {
        "body_bytes": body_limit, "file_bytes": file_limit, "texts": batch_limit, "characters": char_limit,
        "beam": beam_limit, "nbest": beam_limit, "length": length_limit, "seconds": timeout,
        "requests_per_minute": req_limit,
        "waiting": queue, "rows": rows, "public_url": public_url,
        "hosts": _hosts(allow_host, host, trusted_proxy), "root_path": f"/{root_path.strip('/')}".rstrip("/"),
    }  # fmt: skip
    plan = ServerPlan(
        runs, host, port, settings=settings, keys=keys, glossaries=glossaries, storage=limits_storage,
        trusted_proxy=trusted_proxy, languages=languages, grace=drain, preload=preload,
        log_format=log_format, certificate=tls_certificate, certificate_key=tls_key, socket=socket,
        opening={"engine": engine, "checkpoint": checkpoint, "device": device, "threads": threads},
    )  # fmt: skip
    _run(plan, workers)


def _hosts(allowed: list[str] | None, host: str, proxy: str | None) -> list[str] | None:
    """Return the host names that clients may use; None for the names of this machine."""
    if allowed:
        return [name.lower() for name in allowed]
    return None if host in LOCAL and proxy is None else ["*"]


def _run(plan: ServerPlan, workers: int) -> None:
    """Serve until a signal."""
    require_libraries()
    from regard.server.log_lines import configure_logs
    from regard.server.reloading import reload_on_hangup

    configure_logs(plan.log_format)
    if plan.socket is None and plan.host not in LOCAL and plan.keys is None:
        warning = "anyone who can reach this address can use the models"
        warning += "" if plan.certificate else ", and text is not encrypted"
        log.warning("listening on %s: %s; see --keys", plan.host, warning)
    if workers > 1:
        serve_with_workers(plan, workers)
        return
    if plan.socket is None:
        plan = replace(plan, port=free_port(plan.host, plan.port))
    server = plan.create_server()
    reload_on_hangup(server)
    if plan.socket is None:
        server.run()
        return
    with listening_socket(plan.host, plan.port, plan.socket) as listener:
        server.on_serving = lambda: log_address(listener, encrypted=plan.certificate is not None)
        server.run([listener])
