"""``regard inspect``: show a model's attention, alternatives and beam in a browser or a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands import completion
from regard.commands.options import (
    AsJson,
    Beam,
    CheckpointName,
    CoveragePenalty,
    DeviceName,
    EngineName,
    LengthPenalty,
    Port,
    Run,
    Threads,
    epilog,
)
from regard.commands.output import printable
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.config.settings import SearchConfig
    from regard.inspection.inspector import Inspector
    from regard.tasks.translation.translator import Translator

__all__ = ["register"]

EPILOG = epilog(
    "regard inspect runs/m30k",
    'regard inspect runs/m30k "A dog runs." --html dog.html',
    'regard inspect runs/m30k "A dog runs." --against runs/gru',
)
HOST = "127.0.0.1"

Text = Annotated[
    str | None,
    typer.Argument(metavar="TEXT", help="Text to show first; required with --html, --npz and --json."),
]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write the page with TEXT as one HTML file.")]
Npz = Annotated[
    Path | None,
    typer.Option("--npz", metavar="FILE", help="Write all attention weights by name as a NumPy archive."),
]
Against = Annotated[
    Path | None,
    typer.Option("--against", metavar="RUN", help="Second run to show side by side.", autocompletion=completion.runs),
]
Replay = Annotated[bool, typer.Option("--replay", help="Add the same text at every checkpoint to the HTML file.")]
Sentence = Annotated[
    int | None,
    typer.Option(
        "--sentence", min=1, metavar="N", help="Sentence of TEXT to show, if there are several.", show_default="1"
    ),
]
Browser = Annotated[
    bool,
    typer.Option("--browser/--no-browser", help="Open the page in a browser, or only print its address."),
]


def register(app: typer.Typer) -> None:
    """Add ``regard inspect`` to the command line."""
    app.command("inspect", epilog=EPILOG)(inspect)


def inspect(
    run: Run,
    text: Text = None,
    *,
    html: Html = None,
    npz: Npz = None,
    as_json: AsJson = False,
    against: Against = None,
    replay: Replay = False,
    sentence: Sentence = None,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    coverage_penalty: CoveragePenalty = None,
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
    engine: EngineName = None,
    port: Port = 0,
    browser: Browser = True,
) -> None:
    """Look into a trained model: attention of every head, alternatives at each step, the beam, the role of heads.

    Opens a page in the browser and serves it until Ctrl-C; with --html, --npz or --json the contents of that page for
    TEXT are written instead. Attention shows where a model looked, not why it decided.
    """
    opening: dict[str, Any] = {"device": device, "threads": threads, "engine": engine}
    given = {"beam": beam, "length_penalty": length_penalty, "coverage_penalty": coverage_penalty}
    if html is not None or npz is not None or as_json:
        inspector = _inspector(run, checkpoint=checkpoint, **opening)
        other = _inspector(against, **opening) if against else None
        _write(inspector, other, text, sentence, given, html=html, npz=npz, as_json=as_json, replay=replay)
        return
    if replay:
        raise ConfigError(
            "--replay needs --html; the page offers every checkpoint", where="--replay", help="--html FILE"
        )
    runs = [run, *([against] if against else [])]
    which = None if sentence is None else sentence - 1
    _serve(runs, text, given, which, port=port, browser=browser, checkpoint=checkpoint, **opening)


def _write(
    inspector: Inspector, other: Inspector | None, text: str | None, sentence: int | None, given: dict[str, Any], *,
    html: Path | None, npz: Path | None, as_json: bool, replay: bool,
) -> None:  # fmt: skip
    """Write what the page would show of a text to the files that were asked for.

    inspector, other: the run and, if given, a second one to show beside it in the HTML file.
    text, sentence: what is shown; of a text of several sentences this one, counted from 1.
    given: search options of the command line.
    html, npz, as_json: which outputs are written.
    replay: whether the HTML file shows the text at every checkpoint.
    """
    if text is None or not text.strip():
        raise ConfigError("TEXT is missing", help='regard inspect RUN "A dog runs." --html dog.html')
    if npz is not None and npz.suffix != ".npz":
        raise ConfigError(f"{npz} does not end in .npz", where="--npz")
    settings = _settings(inspector, given)
    found = inspector.inspect(
        text, settings=settings, include=("ablation", "beam", "vectors"), sentence=(sentence or 1) - 1
    )
    _print_notes(found.document, sentence)
    if html is not None:
        _write_page(html, inspector, found.document, other, found.document["source"]["text"], given, replay=replay)
    if npz is not None:
        found.save(npz)
    if as_json:
        import json

        print(json.dumps(found.document, ensure_ascii=False))


def _print_notes(document: dict[str, Any], asked: int | None) -> None:
    """Print notes on standard error: which of several sentences is shown, and characters unknown to the model."""
    count = len(document["sentences"])
    if count > 1 and asked is None:
        typer.echo(f"the text has {count} sentences; this is the first, --sentence 2 shows the next", err=True)
    if document["unknown"]:
        typer.echo(f"never seen in training: {' '.join(map(printable, document['unknown']))}", err=True)


def _write_page(
    path: Path, inspector: Inspector, document: dict[str, Any], other: Inspector | None, text: str,
    given: dict[str, Any], *, replay: bool,
) -> None:  # fmt: skip
    from regard.core.atomic_files import write_bytes_atomically
    from regard.inspection.page import offline

    details = inspector.details()
    bundle: dict[str, Any] = {"main": document, "model": details}
    if other is not None:
        bundle["other"] = other.inspect(text, settings=_settings(other, given)).document
    if replay:
        steps = [name for name in details["checkpoints"] if name.isdigit()]
        settings = _settings(inspector, given)
        bundle["replay"] = [inspector.inspect(text, checkpoint=step, settings=settings).document for step in steps]
    write_bytes_atomically(path, offline(bundle).encode())
    typer.echo(f"wrote {path}: open it in a browser; it needs no network", err=True)


def _inspector(path: Path, *, checkpoint: str | None = None, **opening: Any) -> Inspector:
    from regard.commands.options import open_model
    from regard.inspection.inspector import Inspector
    from regard.runs.run_folder import RunFolder

    def open(which: str | None) -> Translator:
        return open_model(path, checkpoint=which or checkpoint, **opening)

    return Inspector(RunFolder.open(path), name=path.resolve().name, open=open, checkpoint=checkpoint)


def _settings(inspector: Inspector, given: dict[str, Any]) -> SearchConfig:
    from regard.commands.options import search_settings
    from regard.tasks.translation.config import translation_config

    return search_settings(translation_config(inspector.run).search, **given)


def _serve(
    runs: list[Path], text: str | None, given: dict[str, Any], sentence: int | None, *, port: int, browser: bool,
    **opening: Any,
) -> None:  # fmt: skip
    """Serve the page on this machine's loopback address alone, until Ctrl-C."""
    from urllib.parse import urlencode

    from regard.commands.serve import create_server
    from regard.inspection.page import require_page

    require_page()
    server, where = create_server(_named(runs), host=HOST, port=port, log_level="warning", **opening)
    asked = {"text": text, "sentence": sentence, **given}
    address = f"http://{HOST}:{where}/#{urlencode({key: value for key, value in asked.items() if value is not None})}"
    typer.echo(f"{address}\nCtrl-C stops the server", err=True)
    if browser:
        _open_when_up(address)
    server.run()


def _named(runs: list[Path]) -> list[str]:
    """Spell each run as NAME=RUN, by its folder; where two folders share a name, by the one above it, too."""
    folders = [run.resolve() for run in runs]
    names = [folder.name for folder in folders]
    if len(set(names)) < len(names):
        names = [f"{folder.parent.name}-{folder.name}" for folder in folders]
    if len(set(names)) < len(names):
        names = [f"{number}-{name}" for number, name in enumerate(names, start=1)]
    return [f"{name.replace('=', '-')}={run}" for name, run in zip(names, runs, strict=True)]


def _open_when_up(address: str) -> None:
    import threading
    import webbrowser

    threading.Timer(0.5, webbrowser.open, [address]).start()
