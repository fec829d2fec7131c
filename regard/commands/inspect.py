"""``regard inspect``: show a model's attention and alternatives in a browser, a file or the terminal."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast

import typer

from regard.commands import completion
from regard.commands.options import AsJson, CheckpointName, DeviceName, EngineName, Port, Run, Threads, epilog
from regard.commands.output import printable
from regard.commands.setting_options import takes_settings
from regard.config.search_settings import INSPECTED, SearchSettings
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.inspection.build_document import SearchOptions
    from regard.inspection.document import Inspection
    from regard.inspection.inspector import Inspector
    from regard.inspection.pictures import Picture

EPILOG = epilog(
    "regard inspect runs/m30k",
    'regard inspect runs/m30k "A dog runs." --html dog.html',
    'regard inspect runs/m30k "A dog runs." --against runs/gru',
    'regard inspect runs/book "It was a" --terminal --head decoder.1.self:0',
    'regard inspect runs/reviews "a fine film" --svg film.svg --show influence',
    "regard inspect runs/digits seven.wav --html seven.html",
)
HOST = "127.0.0.1"
OUTPUT = "Output"

Text = Annotated[
    str | None,
    typer.Argument(
        metavar="TEXT", help="Text or file to inspect; required with --html, --npz, --json, --svg and --terminal."
    ),
]
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write the page for TEXT to one HTML file.", rich_help_panel=OUTPUT),
]
Npz = Annotated[
    Path | None,
    typer.Option(
        "--npz",
        metavar="FILE",
        help="Write all attention weights, by name, to a NumPy archive.",
        rich_help_panel=OUTPUT,
    ),
]
Against = Annotated[
    Path | None,
    typer.Option("--against", metavar="RUN", help="Show this second run side by side.", autocompletion=completion.runs),
]
Replay = Annotated[bool, typer.Option("--replay", help="Add the same text at every checkpoint to the HTML file.")]
Terminal = Annotated[
    bool,
    typer.Option(
        "--terminal",
        help="Print the answer, a bar for each piece of TEXT, and the weights of one head.",
        rich_help_panel=OUTPUT,
    ),
]
Head = Annotated[
    str | None,
    typer.Option(
        "--head",
        metavar="LAYER[:N]",
        help="Draw this layer with --terminal or --svg, or only its head N, counted from 0.",
        show_default="the pooling, or the last layer",
        rich_help_panel=OUTPUT,
    ),
]
Svg = Annotated[
    Path | None,
    typer.Option("--svg", metavar="FILE", help="Draw a picture to this .svg or .png file.", rich_help_panel=OUTPUT),
]
Show = Annotated[
    Literal["influence", "input", "attention", "heads", "graph", "roll"] | None,
    typer.Option(
        "--show",
        help="Picture of --svg: a bar for each piece, the input, one head, all heads, the graph, or the notes.",
        show_default="influence if pieces can be hidden, otherwise attention",
        rich_help_panel=OUTPUT,
    ),
]
Influence = Annotated[
    bool, typer.Option("--influence", help="Hide each piece of TEXT in turn and report how the prediction changes.")
]
Sentence = Annotated[
    int | None,
    typer.Option("--sentence", min=1, metavar="N", help="Show sentence N of TEXT.", show_default="1"),
]
Browser = Annotated[
    bool,
    typer.Option("--browser/--no-browser", help="Open the page in a browser or only print its address."),
]


def register(app: typer.Typer) -> None:
    """Add ``regard inspect`` to the command line."""
    app.command("inspect", epilog=EPILOG)(inspect)


@takes_settings("search_options", SearchSettings, only=INSPECTED, without=("nbest",))
def inspect(
    run: Run,
    text: Text = None,
    *,
    html: Html = None,
    npz: Npz = None,
    as_json: AsJson = False,
    against: Against = None,
    terminal: Terminal = False,
    svg: Svg = None,
    show: Show = None,
    head: Head = None,
    replay: Replay = False,
    sentence: Sentence = None,
    influence: Influence = False,
    search_options: dict[str, Any],
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
    engine: EngineName = None,
    port: Port = 0,
    browser: Browser = True,
) -> None:
    """Inspect a trained model of any task: the attention of each head and the alternatives at each step.

    Opens a page in the browser and serves it until Ctrl-C. With --html, --npz, --json, --svg or --terminal, writes the
    content of that page for TEXT instead. Translation runs also show the beam and the role of each head; --against,
    --replay, --sentence and the search options apply only to them. Attention weights show which positions a head reads;
    they do not explain a prediction.
    """
    opening: dict[str, Any] = {"device": device, "threads": threads, "engine": engine}
    outputs = _Outputs(html, npz, as_json, terminal, svg, show, head)
    runs = [run, *([against] if against else [])]
    _refuse_misplaced(outputs, replay=replay, influence=influence)
    foreign = {"sentence": sentence, "engine": engine, "against": against, "replay": replay or None}
    _refuse_foreign_options(runs, search_options | foreign)
    if outputs.any:
        request = _Request(text or "", sentence, search_options, replay=replay, influence=influence)
        _write(request, outputs, runs, checkpoint=checkpoint, **opening)
        return
    index = None if sentence is None else sentence - 1
    _serve(runs, text, search_options, index, port=port, browser=browser, checkpoint=checkpoint, **opening)


class _Outputs(NamedTuple):
    """Outputs of a command that does not serve the page: files and standard output."""

    html: Path | None
    npz: Path | None
    as_json: bool
    terminal: bool
    svg: Path | None
    show: Picture | None  # the picture of ``svg``
    head: str | None  # drawn in the terminal and in the picture

    @property
    def any(self) -> bool:
        return any((self.html, self.npz, self.as_json, self.terminal, self.svg))

    @property
    def may_need_influence(self) -> bool:
        return self.svg is not None and self.show in (None, "influence")


def _refuse_misplaced(outputs: _Outputs, *, replay: bool, influence: bool) -> None:
    """Raise ConfigError for options that require another one."""
    if replay and outputs.html is None:
        what = "--replay requires --html; the served page offers all checkpoints"
        raise ConfigError(what, where="--replay", help="--html FILE")
    if influence and not outputs.any:
        what, help = "--influence requires --json, --html, --npz, --svg or --terminal", "--json"
        raise ConfigError(what, where="--influence", help=help)
    if outputs.show is not None and outputs.svg is None:
        raise ConfigError("--show requires --svg", where="--show", help="--svg FILE")
    if outputs.head is not None and not (outputs.terminal or outputs.svg):
        what = "--head requires --terminal or --svg; the page offers all heads"
        raise ConfigError(what, where="--head", help="--terminal")


def _write(request: _Request, outputs: _Outputs, runs: list[Path], *, checkpoint: str | None, **opening: Any) -> None:
    """Write and print the content of the page for a text; a second run is shown next to the first."""
    from regard.commands.incoming_files import line_of_file

    inspector = _inspector(runs[0], checkpoint=checkpoint, **opening)
    if not (inspector.translates or inspector.is_baseline()):
        request = request._replace(text=line_of_file(inspector.predictor, request.text))
    inspection = request.inspect(inspector, outputs)
    if outputs.html is not None:
        other = _inspector(runs[1], **opening) if len(runs) > 1 else None
        _write_page(outputs.html, request, inspector, inspection, other)
    if outputs.npz is not None:
        inspection.save(outputs.npz)
    if outputs.svg is not None:
        from regard.inspection.pictures import save_picture

        drawn = save_picture(inspection.observation, inspection.document, outputs.svg, outputs.show, outputs.head)
        typer.echo(f"wrote {outputs.svg} ({drawn})", err=True)
    if outputs.as_json:
        import json

        print(json.dumps(inspection.document, ensure_ascii=False))
    if outputs.terminal:
        from shutil import get_terminal_size

        from regard.inspection.terminal_observation import draw_inspection

        print(draw_inspection(inspection, outputs.head, columns=get_terminal_size().columns))


def _refuse_foreign_options(paths: list[Path], translation_options: dict[str, Any]) -> None:
    """Raise ConfigError for translation options if a run has another task."""
    from regard.runs.run_folder import RunFolder

    options = ", ".join(
        f"--{name.replace('_', '-')}" for name, value in translation_options.items() if value is not None
    )
    for path in paths if options else ():
        run = RunFolder.open(path)
        if "translate" not in run.task.serves:
            why = f"the task of this run is {run.config.task.kind}"
            raise ConfigError(f"{options}: only for translation runs", where=str(path), why=why)


class _Request(NamedTuple):
    """A text to inspect, and the options of the command line.

    Attributes:
        text: the text.
        sentence: the sentence of the text to inspect, counted from 1.
        search_options: the search options.
        replay: whether an HTML file shows the text at every checkpoint.
        influence: whether each piece is hidden in turn.
    """

    text: str
    sentence: int | None
    search_options: dict[str, Any]
    replay: bool
    influence: bool = False

    def inspect(self, inspector: Inspector, outputs: _Outputs) -> Inspection:
        """Return all that the page shows for the text, and print notes to standard error."""
        from regard.inspection.build_document import ALL_PARTS
        from regard.inspection.inspect_input import PARTS_OF_ALL_TASKS

        if not self.text.strip():
            raise ConfigError("TEXT is missing", help='regard inspect RUN "A dog runs." --html dog.html')
        if outputs.npz is not None and outputs.npz.suffix != ".npz":
            raise ConfigError(f"{outputs.npz} does not end in .npz", where="--npz")
        options = self._options(inspector)
        if options is not None:
            options = options._replace(include=ALL_PARTS, sentence=(self.sentence or 1) - 1)
        costly = outputs.as_json or outputs.html is not None
        parts = PARTS_OF_ALL_TASKS if costly else ()
        inspection = None
        if outputs.may_need_influence and not self.influence:
            with suppress(ConfigError):  # without influence, the picture shows the attention, or names what exists
                inspection = inspector.inspect(self.text, options, influence=True, include=parts)
        if inspection is None:
            inspection = inspector.inspect(self.text, options, influence=self.influence, include=parts)
        _print_notes(inspection.document, self.sentence)
        return inspection

    def document(self, inspector: Inspector, text: str, checkpoint: str | None = None) -> dict[str, Any]:
        """Return the document of a text for another checkpoint or run."""
        return inspector.inspect(text, self._options(inspector), checkpoint=checkpoint).document

    def _options(self, inspector: Inspector) -> SearchOptions | None:
        """Return the search options of a translation run; None for another task."""
        from regard.commands.options import search_settings
        from regard.config.settings import SearchConfig
        from regard.inspection.build_document import SearchOptions

        if not inspector.translates:
            return None
        return SearchOptions(
            search_settings(cast(SearchConfig, inspector.run.config.search_settings), **self.search_options)
        )


def _print_notes(document: dict[str, Any], sentence: int | None) -> None:
    """Print notes to standard error: the number of sentences, and characters that are not in the vocabulary."""
    count = len(document.get("sentences", ()))
    if count > 1 and sentence is None:
        typer.echo(f"the text has {count} sentences; showing the first (--sentence 2 shows the next)", err=True)
    if unknown := document["facts"].get("unknown"):
        typer.echo(f"not in the vocabulary: {' '.join(map(printable, unknown))}", err=True)
    if parts := document["facts"].get("parts"):
        added = ", ".join(f"{name} {value:+.2f}" for name, value in parts.items())
        typer.echo(f"parts of the output: {added}", err=True)


def _write_page(
    path: Path, request: _Request, inspector: Inspector, inspection: Inspection, other: Inspector | None
) -> None:
    from regard.core.atomic_files import write_bytes_atomically
    from regard.inspection.page import offline

    details, main = inspector.details(), inspection.document
    # Of several sentences, one is shown. The text of other documents may only describe a file.
    text = main["text"] if inspector.translates else request.text
    bundle: dict[str, Any] = {"main": main, "model": details}
    if other is not None:
        bundle["other"] = request.document(other, text)
    if request.replay:
        steps = [name for name in details["checkpoints"] if name.isdigit()]
        bundle["replay"] = [request.document(inspector, text, step) for step in steps]
    write_bytes_atomically(path, offline(bundle).encode())
    typer.echo(f"wrote {path}; open it in a browser (no network needed)", err=True)


def _inspector(path: Path, *, checkpoint: str | None = None, **opening: Any) -> Inspector:
    from regard.commands.options import open_predictor
    from regard.inspection.inspector import Inspector
    from regard.runs.run_folder import RunFolder

    def open(which: str | None) -> Any:
        return open_predictor(path, checkpoint=which or checkpoint, **opening)

    return Inspector(RunFolder.open(path), name=path.resolve().name, open=open, checkpoint=checkpoint)


def _serve(
    runs: list[Path], text: str | None, search_options: dict[str, Any], sentence: int | None, *, port: int,
    browser: bool, **opening: Any,
) -> None:  # fmt: skip
    """Serve the page on the loopback address only, until Ctrl-C."""
    from urllib.parse import urlencode

    from regard.commands.server_address import free_port
    from regard.commands.server_plan import ServerPlan, require_libraries
    from regard.inspection.page import require_page

    require_page()
    require_libraries()
    port = free_port(HOST, port)
    server = ServerPlan(_named(runs), HOST, port, log_level="warning", opening=opening).create_server()
    fields = {"text": text, "sentence": sentence, **search_options}
    address = f"http://{HOST}:{port}/#{urlencode({key: value for key, value in fields.items() if value is not None})}"
    typer.echo(f"{address}\nCtrl-C stops the server", err=True)
    if browser:
        _open_when_up(address)
    server.run()


def _named(runs: list[Path]) -> list[str]:
    """Return each run as NAME=RUN, with its folder name; with the parent folder too if two names are equal."""
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
