"""The command line ``regard``: registers the verbs, one file each under ``commands``, and prints failures.

``EXIT_CODES`` lists the exit code of each kind of failure.
"""

from __future__ import annotations

import errno
import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from inspect import getdoc
from types import ModuleType, TracebackType
from typing import Annotated, Any

import typer

from regard.commands import (
    average,
    check,
    classify,
    compare,
    data,
    demo,
    doctor,
    evaluate,
    export,
    fill,
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
    recommend,
    score,
    serve,
    study,
    tag,
    train,
    translate,
)
from regard.core import VERSION
from regard.core.standard_streams import flush_output, guard_streams
from regard.core.untrusted_files import shortened
from regard.core.waiting_threads import wait_briefly
from regard.core.wording import did_you_mean
from regard.errors import DataError, RegardError, StorageError

# In the order of ``regard --help``. A verb's module has ``register(app)``, and its function imports what is heavy.
VERBS: tuple[ModuleType, ...] = (
    train, translate, generate, fill, harmonize, classify, tag, recommend, nodes, links, graphs, predict, inspect,
    serve, keys, export, import_, evaluate, score, info, average, check, data, compare, study, doctor, demo,
)  # fmt: skip

EXIT_CODES = (
    "Exit codes: 0 success · 1 a defect of regard · 2 wrong usage or config · 3 data · 4 model or run folder · "
    "5 training · 6 storage, standard output included · 130 Ctrl-C · 141 closed output pipe · 143 SIGTERM"
)

# Errors of the system that any check of a name may raise, before a reader opens the file.
REFUSED_NAMES = (errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES)

# Wrong options, verbs and values. Depending on its version typer bundles or imports click; both have this name.
_WrongUsage: Any = next(parent for parent in typer.BadParameter.__mro__ if parent.__name__ == "ClickException")


def main() -> None:
    """Run the entry point ``regard``."""
    wait_briefly()
    guard_streams()
    arguments = sys.argv[1:]
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    debug = "--debug" in own  # anywhere, so that it can be appended to a command that has just failed
    if debug:
        arguments.remove("--debug")
    else:
        sys.excepthook = _print_defect
    sys.exit(run(arguments, debug=debug))


def run(arguments: Sequence[str], *, verbs: Sequence[ModuleType] = VERBS, debug: bool = False) -> int:
    """Run one command and return its exit code; with ``debug`` failures are raised instead."""
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
        _print_error("the system refuses this file name", where=shortened(str(error.filename)), why=error.strerror)
        return DataError.exit_code
    except _WrongUsage as error:
        context = getattr(error, "ctx", None)
        what = error.format_message().replace("Value error, ", "")
        _print_error(what, help=_nearest_choice(what) or f"{context.command_path if context else 'regard'} --help")
        return 2


def _named(arguments: Sequence[str], verbs: Sequence[ModuleType]) -> Sequence[ModuleType]:
    """Return the verb that the arguments begin with, or all: to build all takes as long as to import what one needs."""
    name = next(iter(arguments), None)
    return [verb for verb in verbs if verb.__name__.rpartition(".")[2].removesuffix("_") == name] or verbs


def _nearest_choice(what: str) -> str | None:
    """Ask for the value that was probably meant, if the option takes one of a few, or for its brother."""
    if what == "Option '--valid' requires 2 arguments.":
        return "one file of sources and targets, or of a text: --valid-file FILE"
    given, found, known = what.partition(" is not one of ")
    return did_you_mean(given.rpartition(" ")[2].strip("'"), re.findall(r"'([^']+)'", known)) if found else None


def _flush_printed() -> None:
    """Flush what a command printed before it failed; a failure of that is dropped in favor of the first."""
    with suppress(StorageError, OSError):
        flush_output()


def _output_closed() -> int:
    """Return 141: nobody reads the output any more. Python flushes it once more at exit, which must not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


def build_app(verbs: Sequence[ModuleType] = VERBS) -> typer.Typer:
    """Build the program with all its verbs; imports no torch."""
    app = typer.Typer(
        name="regard",
        help="Train, read and serve attention-based sequence models.",
        epilog=EXIT_CODES,
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def options(
        version: Annotated[
            bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print versions and exit.")
        ] = False,
        debug: Annotated[
            bool, typer.Option("--debug", help="Show a traceback on failure; may stand anywhere.")
        ] = False,
    ) -> None:
        pass

    for verb in verbs:
        verb.register(app)
    if predict in verbs:
        predict.register_verbs(app)
    _reflow_help(app)
    return app


def _reflow_help(app: typer.Typer) -> None:
    """Join the lines of each paragraph of a command's docstring, so that help fills the terminal's width."""
    for command in app.registered_commands:
        paragraphs = (getdoc(command.callback) or "").split("\n\n")
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _reflow_help(group.typer_instance)


def _print_version(asked: bool) -> None:
    if asked:
        torch = importlib.metadata.version("torch")
        print(f"regard {VERSION} (Python {platform.python_version()}, torch {torch})")
        raise typer.Exit


def _print_error(what: str, *, where: str | None = None, why: str | None = None, help: str | None = None) -> None:
    """Print one error block on standard error, in the style of rustc."""
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
    if issubclass(kind, KeyboardInterrupt):  # before or after ``run``; Python then ends by this signal
        print("interrupted", file=sys.stderr)
        return
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else None
    _print_error(
        f"{kind.__name__}: {error}",
        where=where,
        why="this is not an error that regard knows, so it is a defect of regard",
        help="run it again with --debug and report what it prints",
    )


if __name__ == "__main__":
    main()
