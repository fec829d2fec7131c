"""The command line ``regard``: registers the verbs (one file each in ``commands``) and prints errors.

``EXIT_CODES`` lists the exit code of each type of error.
"""

from __future__ import annotations

import errno
import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import MutableMapping, Sequence
from contextlib import suppress
from inspect import getdoc
from types import ModuleType, TracebackType
from typing import Annotated, Any

import typer

from regard.commands import (
    anomalies,
    average,
    check,
    classify,
    compare,
    data,
    demo,
    doctor,
    embed,
    evaluate,
    export,
    fill,
    forecast,
    generate,
    graphs,
    harmonize,
    import_,
    info,
    inspect,
    keys,
    links,
    nodes,
    predict,
    recognize,
    recommend,
    score,
    serve,
    study,
    tag,
    train,
    translate,
)
from regard.commands.help_page import HelpfulCommand, HelpfulGroup
from regard.core import VERSION
from regard.core.processor import THREADS, cpu_quota, usable_cores
from regard.core.standard_streams import flush_output, guard_streams
from regard.core.untrusted_files import shortened
from regard.core.wording import did_you_mean
from regard.errors import DataError, RegardError, StorageError

# In the order of ``regard --help``. A verb's module has ``register(app)``; the command itself imports heavy modules.
VERB_GROUPS: dict[str, tuple[ModuleType, ...]] = {
    "Start": (demo, doctor),
    "Data": (data, check),
    "Train": (train, average),
    "Predict": (
        translate,
        generate,
        fill,
        harmonize,
        classify,
        tag,
        recognize,
        recommend,
        forecast,
        anomalies,
        nodes,
        links,
        graphs,
        predict,
    ),
    "Inspect": (inspect, info, embed),
    "Measure": (evaluate, score, compare, study),
    "Serve and share": (serve, keys, export, import_),
}  # fmt: skip
VERBS = tuple(verb for group in VERB_GROUPS.values() for verb in group)

SUMMARY = """Train, inspect and serve attention-based sequence models.

First step: regard demo trains a small model in four minutes and shows how to use it.
Then: regard train FILE trains on your own data. regard VERB --help shows the options of a verb."""

EXIT_CODES = (
    "Exit codes: 0 success · 1 bug in Regard · 2 invalid usage or config · 3 data · 4 model or run folder · "
    "5 training · 6 storage, including standard output · 130 Ctrl-C · 141 closed output pipe · 143 SIGTERM"
)

# Operating system errors that any check of a file name may raise, before a reader opens the file.
REFUSED_NAMES = (errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES)

# Errors for unknown options, verbs and values. Typer bundles or imports click, depending on its version; the class has
# this name in both.
_WrongUsage: Any = next(parent for parent in typer.BadParameter.__mro__ if parent.__name__ == "ClickException")

# Iterations of libgomp's spin loop, about 0.1 ms, after which an idle thread sleeps. The default is 300,000: if another
# program occupies a core, every operation of torch then waits that long for the thread without a core.
SPINS = "5000"
WAIT_VARIABLES = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}


def main() -> None:
    """Run the entry point ``regard``."""
    _wait_briefly()
    _obey_quota()
    guard_streams()
    arguments = sys.argv[1:]
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    debug = "--debug" in own  # allowed anywhere, to append it to a command that just failed
    if debug:
        arguments.remove("--debug")
    else:
        sys.excepthook = _print_defect
    sys.exit(run(arguments, debug=debug))


def run(arguments: Sequence[str], *, verbs: Sequence[ModuleType] = VERBS, debug: bool = False) -> int:
    """Run one command and return its exit code; with ``debug``, raise errors instead."""
    try:
        command = typer.main.get_command(build_app(_named(arguments, verbs)))
        code = command.main(list(arguments) or ["--help"], prog_name="regard", standalone_mode=False)
        flush_output()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        return _output_closed()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer saw it first
            return _output_closed()
        raise
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted", file=sys.stderr)
        return 130
    except RegardError as error:
        if debug:
            raise
        _flush_printed()
        _print_error(error.what, where=error.where, why=error.why, help=error.help)
        return error.exit_code
    except OSError as error:
        if debug or error.errno not in REFUSED_NAMES or error.filename is None:
            raise
        _flush_printed()
        _print_error(
            "the operating system rejects this file name", where=shortened(str(error.filename)), why=error.strerror
        )
        return DataError.exit_code
    except _WrongUsage as error:
        context = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError":  # a group without its verb: the message is the help page
            print(error.format_message(), file=sys.stderr)
            return 2
        what = error.format_message().replace("Value error, ", "")
        _print_error(what, help=_nearest_choice(what) or f"{context.command_path if context else 'regard'} --help")
        return 2


def _named(arguments: Sequence[str], verbs: Sequence[ModuleType]) -> Sequence[ModuleType]:
    """Return the verb named by the first argument, or all verbs; building all of them would double the start time."""
    name = next(iter(arguments), None)
    return [verb for verb in verbs if verb.__name__.rpartition(".")[2].removesuffix("_") == name] or verbs


def _nearest_choice(what: str) -> str | None:
    """Suggest the choice or option that the user probably meant; None if there is no good guess."""
    if what == "Option '--valid' requires 2 arguments.":
        return "for one file with sources and targets, or with text, use --valid-file FILE"
    value, separator, choices = what.partition(" is not one of ")
    return did_you_mean(value.rpartition(" ")[2].strip("'"), re.findall(r"'([^']+)'", choices)) if separator else None


def _flush_printed() -> None:
    """Flush the output printed before an error; an error of the flush itself is dropped, so the first one is shown."""
    with suppress(StorageError, OSError):
        flush_output()


def _output_closed() -> int:
    """Return 141 after the reader closed the pipe; Python's flush at exit then writes to the null device."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


def build_app(verbs: Sequence[ModuleType] = VERBS) -> typer.Typer:
    """Build the program with its verbs. Imports no torch."""
    app = typer.Typer(
        name="regard",
        help=SUMMARY,
        epilog=EXIT_CODES,
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def options(
        version: Annotated[
            bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print versions and exit.")
        ] = False,
        debug: Annotated[
            bool, typer.Option("--debug", help="Show a traceback on failure; allowed anywhere in the command.")
        ] = False,
    ) -> None:
        pass

    titles = {verb: title for title, members in VERB_GROUPS.items() for verb in members}
    for verb in verbs:
        registered = len(app.registered_commands), len(app.registered_groups)
        verb.register(app)
        if verb is predict:
            predict.register_verbs(app)
        for command in app.registered_commands[registered[0] :]:
            command.rich_help_panel = titles.get(verb)
        for group in app.registered_groups[registered[1] :]:
            group.rich_help_panel = titles.get(verb)
    _set_help_pages(app)
    return app


def _set_help_pages(app: typer.Typer) -> None:
    """Set the class of the help pages, and join the lines of each docstring paragraph to fill the terminal's width."""
    app.info.cls = HelpfulGroup
    for command in app.registered_commands:
        paragraphs = (getdoc(command.callback) or "").split("\n\n")
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        command.cls = HelpfulCommand
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _set_help_pages(group.typer_instance)


def _print_version(requested: bool) -> None:
    if requested:
        torch = importlib.metadata.version("torch")
        print(f"regard {VERSION} (Python {platform.python_version()}, torch {torch})")
        raise typer.Exit


def _print_error(what: str, *, where: str | None = None, why: str | None = None, help: str | None = None) -> None:
    """Print an error to standard error, in the style of rustc."""
    colored = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    red, blue, plain = ("\033[1;31m", "\033[1;34m", "\033[0m") if colored else ("", "", "")
    print(f"{red}error{plain}: {what}", file=sys.stderr)
    if where:
        print(f"  {blue}-->{plain} {where}", file=sys.stderr)
    for label, text in (("why", why), ("help", help)):
        if text:
            indented = text.replace("\n", "\n" + " " * (len(label) + 6))
            print(f"  {blue}={plain} {label}: {indented}", file=sys.stderr)


def _print_defect(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):  # outside ``run``; Python then exits by this signal
        print("interrupted", file=sys.stderr)
        return
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else None
    _print_error(
        f"{kind.__name__}: {error}",
        where=where,
        why="unexpected exception: this is a bug in Regard",
        help="run the command again with --debug and report the traceback",
    )


def _wait_briefly(environment: MutableMapping[str, str] = os.environ) -> None:
    """Make idle OpenMP threads sleep soon, unless the environment configures how they wait; called before torch."""
    if not WAIT_VARIABLES & environment.keys():
        environment["GOMP_SPINCOUNT"] = SPINS


def _obey_quota(environment: MutableMapping[str, str] = os.environ) -> None:
    """Give OpenMP as many threads as the quota of a container has cores, here and in all child processes."""
    if cpu_quota() is not None:
        environment.setdefault(THREADS, str(usable_cores()))


if __name__ == "__main__":
    main()
