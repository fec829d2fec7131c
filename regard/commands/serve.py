"""``regard serve``: serve trained models over HTTP, also to clients of OpenAI, LibreTranslate and DeepL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from regard.commands import completion
from regard.commands.options import CheckpointName, DeviceName, EngineName, Port, Threads, epilog
from regard.commands.serve_workers import serve_with_workers
from regard.commands.server_plan import ServerPlan, free_port, log_requests, require_libraries

EPILOG = epilog(
    "regard serve runs/m30k",
    "regard serve en-de=runs/m30k de-en=runs/back --port 5000 --engine int8",
    "regard serve runs/m30k --workers 4 --drain 5 --host 0.0.0.0 --keys keys.json",
    "regard serve runs/m30k --limits-storage redis://localhost:6379 --trusted-proxy 10.0.0.1",
    "curl -s localhost:5000/v1/translate -H 'content-type: application/json' -d '{\"text\": \"A dog runs.\"}'",
)
MAX_WORKERS = 256
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
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        metavar="NAME",
        help="Host name by which clients reach the server; repeat for several, * for any.",
        show_default="on a loopback address its own names; any behind --trusted-proxy or on a network",
    ),
]
Languages = Annotated[
    str | None,
    typer.Option(
        "--languages",
        metavar="SRC-TGT",
        help="Languages of a translation run, as en-de; of several runs, name each SRC-TGT=RUN.",
        show_default="those of its config, or of its NAME",
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
Storage = Annotated[
    str | None,
    typer.Option(
        "--limits-storage", metavar="URI",
        help="Store of the counts of requests and characters, shared by several servers: redis://HOST:6379, ….",
        show_default="memory",
    ),
]  # fmt: skip
Preload = Annotated[bool, typer.Option("--preload", help="Load all runs at start, not the first alone.")]
Drain = Annotated[
    float,
    typer.Option(
        "--drain", min=0.0, metavar="SECONDS",
        help="Seconds from SIGTERM for which the port stays open, while /readyz says 503 so that balancers turn away.",
    ),
]  # fmt: skip
Workers = Annotated[
    int, typer.Option("--workers", min=1, max=MAX_WORKERS, metavar="N", help="Number of processes behind the port.")
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
    workers: Workers = 1,
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
    allow_host: AllowedHosts = None,
    languages: Languages = None,
    limits_storage: Storage = None,
    preload: Preload = False,
    drain: Drain = 0.0,
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
        "hosts": _hosts(allow_host, host, trusted_proxy),
    }  # fmt: skip
    plan = ServerPlan(
        runs, host, port, settings=settings, keys=keys, glossaries=glossaries, storage=limits_storage,
        trusted_proxy=trusted_proxy, languages=languages, grace=drain, preload=preload,
        opening={"engine": engine, "checkpoint": checkpoint, "device": device, "threads": threads},
    )  # fmt: skip
    _run(plan, workers)


def _hosts(allowed: list[str] | None, host: str, proxy: str | None) -> list[str] | None:
    """Return the host names that clients may use; None for those of this machine."""
    if allowed:
        return [name.lower() for name in allowed]
    return None if host in LOCAL and proxy is None else ["*"]


def _run(plan: ServerPlan, workers: int) -> None:
    """Serve until a signal."""
    require_libraries()
    if plan.host not in LOCAL and plan.keys is None:
        what = "whoever reaches this address may translate, and sends text unencrypted"
        typer.echo(f"listening at {plan.host}: {what}", err=True)
    if workers > 1:
        serve_with_workers(plan, workers)
        return
    server = replace(plan, port=free_port(plan.host, plan.port)).create_server()
    log_requests()
    server.run()
