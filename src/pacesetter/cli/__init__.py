"""The command line: one module per group of commands. Heavy libraries are imported on use."""

from __future__ import annotations

import errno
import io
import logging
import os
import sys
from typing import Annotated, Any

import typer

from pacesetter.cli import assistant, dashboard, data, demo, jobs, lab, paper, results, serve
from pacesetter.errors import PacesetterError, extra_with
from pacesetter.late import import_late
from pacesetter.progress import with_heartbeat
from pacesetter.words import escape_controls

__all__ = ["app", "main"]

UNBROKEN = "200"  # letters a line of what goes to a file or another program, where no table is to be broken

LESS = "take fewer symbols or bars, fewer train.envs, or a machine with more memory"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
DISK_ERRORS = (*FULL, errno.EIO, errno.EROFS)

app = typer.Typer(
    help="Find which assets lead others, and train agents that trade on it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for group in (demo, jobs, results, lab, data, serve, paper, dashboard, assistant):
    group.register(app)
PANELS = {  # of `pacesetter --help --all`, in this order
    "Look": ("demo", "run", "leadlag", "data", "dashboard", "mcp"),
    "Train": ("train", "distill", "config", "verify", "lab"),
    "Judge": ("evaluate", "validate", "compare", "baseline", "inspect", "tag"),
    "Deploy": ("bundle", "decide", "serve", "keys"),
    "Trade": ("paper", "online", "halt", "resume", "journal"),
}
FIRST = (
    "demo",
    "run",
    "leadlag",
    "data",
    "dashboard",
    "train",
    "evaluate",
    "compare",
    "bundle",
    "paper",
)  # of `--help`


def _arrange_help(show_all: bool) -> None:
    """Sort commands into the panels of `--help`, as a user meets them; the first ten only, unless all are asked for."""
    places = {name: (title, place) for title, names in PANELS.items() for place, name in enumerate(names)}
    order = list(PANELS)
    for listed in (app.registered_commands, app.registered_groups):
        for command in listed:
            command.rich_help_panel = places.get(_name(command), ("Trade", 0))[0]
            command.hidden = not show_all and _name(command) not in FIRST
        listed.sort(key=lambda c: _rank(c, places, order))


def _name(command: Any) -> str:
    return str(command.name or getattr(command.callback, "__name__", ""))


def _rank(command: object, places: dict[str, tuple[str, int]], order: list[str]) -> tuple[int, int]:
    title, place = places.get(_name(command), ("Trade", len(places)))
    return order.index(title), place


# A shell that completes words offers every command.
_arrange_help("--all" in sys.argv or "_PACESETTER_COMPLETE" in os.environ)


class _Printable(logging.Formatter):
    """Lines without what would steer a terminal: names in them may be a stranger's."""

    def format(self, record: logging.LogRecord) -> str:
        return escape_controls(super().format(record))


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show log messages.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="With --help: show all commands, not the first ten.")] = False,
) -> None:
    if version:
        from pacesetter import __version__

        typer.echo(f"pacesetter {__version__}")
        raise typer.Exit
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING)
    for handler in logging.getLogger().handlers:
        # `basicConfig` takes a format string and no formatter, so handlers get theirs afterwards.
        handler.setLevel(logging.INFO if verbose else logging.WARNING)  # a library may lower the level of all loggers
        handler.setFormatter(_Printable("%(name)s: %(message)s" if verbose else "%(message)s"))


def main() -> None:
    """Run the command line; an error that the user can fix is one sentence and exit code 2, never a traceback."""
    if not sys.stdout.isatty():
        # Before the first table: without a terminal, Rich takes its width from COLUMNS, or else breaks lines at 80.
        os.environ.setdefault("COLUMNS", UNBROKEN)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a console of Windows has no letter for ≥ or →: it shows ? instead
            stream.reconfigure(errors="replace")
    # Before numpy is imported. Its matrices are small: two threads take several times as long where cores are busy, and
    # the numbers do not depend on how many cores a machine has.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import_late("pandas")  # a fifth of a second; most refusals, and `config`, need none of it
    try:
        with with_heartbeat(sys.argv[1:]):
            app()
    except PacesetterError as problem:
        typer.echo(f"error: {escape_controls(problem)}", err=True)
        sys.exit(2)
    except ModuleNotFoundError as problem:
        extra = extra_with(problem.name or "")
        if extra is None:
            raise
        typer.echo(f"error: this needs {problem.name}; install it with: pip install 'pacesetter[{extra}]'", err=True)
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output went away, e.g. `| head`
        # The interpreter flushes stdout once more at exit, which would raise again. 141 is a shell's code for SIGPIPE,
        # 128 + 13.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except (MemoryError, RuntimeError) as problem:
        # PyTorch has no MemoryError of its own for what numpy calls so.
        if not isinstance(problem, MemoryError) and "memory" not in str(problem):
            raise
        typer.echo(f"error: not enough memory ({escape_controls(_first_line(problem))}); {LESS}", err=True)
        sys.exit(2)
    except OSError as problem:  # a folder that may not be written to, a full disk, a file where a folder should be
        # Neither a file nor the disk (a socket, say): the user cannot mend that, so the traceback is kept.
        if problem.filename is None and problem.errno not in DISK_ERRORS:
            raise
        where = "the disk" if problem.filename is None else escape_controls(problem.filename)
        more = "; make room, then go on with the same command" if problem.errno in FULL else ""
        typer.echo(f"error: {where} cannot be used: {problem.strerror}{more}", err=True)
        sys.exit(2)


def _first_line(problem: BaseException) -> str:
    return next(iter(str(problem).splitlines()), type(problem).__name__)
