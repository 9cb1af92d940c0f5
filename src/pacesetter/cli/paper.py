"""Commands of a running trader: `paper`, `decide`, `halt`, `resume`, `journal`."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pacesetter.serving.risk.halt import KillSwitch

__all__ = ["register"]

HaltFile = Annotated[Path, typer.Option("--file", help="The kill switch of the trader or server.")]
Options = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="e.g. feed=replay first=400")]
JournalUrl = Annotated[str, typer.Argument(help="sqlite:///FILE or postgresql://USER@HOST/NAME")]
RecordOrUrl = Annotated[str, typer.Argument(help="A journal's URL, or the folder of paper --publish.")]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    journal = typer.Typer(help="Show, verify and migrate the journal; every row is kept.", no_args_is_help=True)
    journal.command("upgrade")(upgrade)
    journal.command("downgrade")(downgrade)
    journal.command("verify")(verify)
    journal.command("show")(show)
    app.add_typer(journal, name="journal")
    for command in (paper, decide, halt, resume):
        app.command()(command)


def paper(
    policy: Annotated[str, typer.Argument(metavar="BUNDLE", help="A bundle, a store of them, or a baseline's name.")],
    options: Options = None,
    publish: Annotated[
        Path | None, typer.Option(help="Folder of a public record and its page: decisions chained and stamped.")
    ] = None,
) -> None:
    """Trade on paper: feed=replay|yahoo|alpaca|ccxt broker=paper|alpaca|ccxt data.source=… guard.order_fraction=0.1."""
    from pacesetter.evaluation.baselines.baseline import BASELINES
    from pacesetter.jobs.run.interrupts import exit_on_sigterm, on_sigterm
    from pacesetter.registry import configure
    from pacesetter.serving.trader.display import PaperDisplay
    from pacesetter.serving.trader.session import PaperConfig, open_session

    given = {} if publish is None else {"publish": str(publish)}
    config = configure(PaperConfig, _with_data(options or []) | given, "paper")
    trader = open_session(policy, config, BASELINES)
    display = trader.display = PaperDisplay(trader, partial(typer.echo, err=True), config.bars)
    try:
        with on_sigterm(exit_on_sigterm):
            result = trader.run(config.bars)
    except (KeyboardInterrupt, SystemExit):
        typer.echo("stopped without loss: run the same command to resume", err=True)
        raise
    trader.watch.alerts.close()
    display.close()
    refused = ", ".join(f"{name} {count}" for name, count in sorted(result.denials.items())) or "none"
    typer.echo(
        f"bars decided on: {result.new_bars} new, {result.bars} in all; "
        f"equity {result.equity:,.2f}; {result.state.value}"
        f"{f' ({result.reason})' if result.reason else ''}; orders refused: {refused}"
        f"{_way_out(trader.switch, result.is_at_end)}"
    )


def decide(
    bundle: Annotated[Path, typer.Argument(help="A bundle's folder or zip, or a store.")],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="[data=…]...", help="Other bars than the bundle's own source has.")
    ] = None,
    account: Annotated[
        Path | None, typer.Option(help='Your account as JSON, {"cash": …, "positions": […]}; else the policy\'s own.')
    ] = None,
    daily: Annotated[bool, typer.Option("--daily", help="Check the newest bars, and say what changed.")] = False,
    last: Annotated[Path | None, typer.Option(help="File of the last decision; beside the bundle by default.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    key: Annotated[Path | None, typer.Option("--key", help="File of the signing key.")] = None,
    unverified: Annotated[bool, typer.Option("--unverified", help="Open a signed bundle without a key.")] = False,
) -> None:
    """Decide for the next bar: held, wanted, order, limit, confidence, share of risk and why, of every symbol.

    The bars are those of the bundle's own source, read again, or of data=… The account is the one that the policy would
    hold by now, from its first unseen bar on. --daily is for a timer: it refuses bars with errors, and keeps the
    decision to compare the next one with.
    """
    import json as plain_json

    import pandas as pd
    from rich.console import Console

    from pacesetter.errors import ConfigError
    from pacesetter.registry import configure
    from pacesetter.serving.bundle.signature import SigningKey
    from pacesetter.serving.bundle.store import find_bundle
    from pacesetter.serving.trader import decision
    from pacesetter.serving.trader.session import PaperConfig, load_history, replayed_data
    from pacesetter.words import for_spreadsheets

    if json and csv:
        raise ConfigError("--json and --csv are two formats; give one")
    opened = find_bundle(bundle, SigningKey.find(key), unverified)
    asked = configure(PaperConfig, _with_data(options or []), "decide")
    panel = load_history(asked, opened)
    said = []
    if daily:
        said += decision.check_bars(replayed_data(asked.data, opened), panel, pd.Timestamp.now("UTC"))
    table = decision.decide_at_close(opened, panel, None if account is None else decision.read_account(account))
    if daily:
        kept = last or decision.decision_file(bundle)
        before = decision.read_decision(kept)
        said += ["This is the first decision that is kept."] if before is None else table.changes(before)
        table.save(kept)
    if json:
        typer.echo(plain_json.dumps(table.to_dict() | {"told": said}, indent=2))
    elif csv:
        typer.echo(for_spreadsheets(table.frame()).to_csv(), nl=False)
    else:
        Console().print(table.table())
        typer.echo("\n".join([*filter(None, [table.warning]), *table.notes, table.sentence, *said]))


def _way_out(switch: KillSwitch, is_at_end: bool) -> str:
    """How to release an engaged switch, as the end of a sentence."""
    if not switch.is_engaged():
        return ""
    if is_at_end:
        return f"; there are no more bars, but the kill switch stays engaged until: {switch.way_out}"
    return f"; to resume: {switch.way_out}, then the same command"


def _with_data(options: list[str]) -> dict[str, object]:
    """The options nested; `data=NAME` and its options as every command reads them, `broker=NAME` as `broker.name`."""
    from pacesetter.jobs.hydra.overrides import nest_options

    options = [f"broker.name={text[7:]}" if text.startswith("broker=") else text for text in options]
    if not any(text.startswith("data=") for text in options):
        return nest_options(options)
    from pacesetter.jobs import resolve_study

    chosen = [text for text in options if text.startswith("data")]
    asked = resolve_study(chosen).data
    data = {"source": asked.source} | asked.options
    return nest_options([text for text in options if text not in chosen]) | {"data": data}


def halt(
    reason: Annotated[list[str] | None, typer.Argument(help="Why, in a few words.")] = None,
    file: HaltFile = Path("HALT"),
) -> None:
    """Stop all trading now, until a person resumes; needs no database and no server."""
    from pacesetter.errors import ConfigError
    from pacesetter.serving.risk.halt import KillSwitch

    switch, is_new = KillSwitch(file), False
    # Whether trading is halted is decided by the file below, not by how the attempt ended.
    with suppress(OSError):
        is_new = switch.engage(" ".join(reason or ["halted from the command line"]))
    if not file.is_file():
        raise ConfigError(f"{file} cannot be used as a kill switch, so nothing is halted; give the trader's own --file")
    typer.echo(f"{file} {'is engaged' if is_new else f'was engaged already, at {switch.since()}'}: {switch.reason()}")


def resume(
    by: Annotated[str, typer.Option(help="Your name, for FILE.released and the journal of each trader.")],
    file: HaltFile = Path("HALT"),
) -> None:
    """Allow trading again; the name of the person is recorded."""
    from pacesetter.serving.risk.halt import KillSwitch

    switch = KillSwitch(file)
    typer.echo(f"{file} is released by {by}" if switch.release(by) else f"{file} was not engaged; nothing to resume")


def upgrade(url: JournalUrl, revision: Annotated[str, typer.Option(help="Where to.")] = "head") -> None:
    """Upgrade the journal's tables to a revision."""
    _migrate(url, revision)


def downgrade(url: JournalUrl, revision: Annotated[str, typer.Option(help="Where to, e.g. 0001.")] = "-1") -> None:
    """Downgrade the journal's tables; columns that an older revision lacks are kept aside."""
    _migrate(url, revision)


def verify(
    url: RecordOrUrl,
    key: Annotated[Path | None, typer.Option("--key", help="File of the signing key that the heads are by.")] = None,
    heads: Annotated[Path | None, typer.Option(help="Signed heads, e.g. paper/heads.jsonl or a copy of it.")] = None,
    head: Annotated[str, typer.Option(help="Of a public record: a hash that you noted, which must be in it.")] = "",
) -> None:
    """Compare every row with the audit chain, and the chain with its signed heads. Exit 0 whole, 2 refused.

    Of a public record: check its chain, its stamps and its page.
    """
    from pacesetter.errors import ConfigError
    from pacesetter.serving.bundle.signature import SigningKey
    from pacesetter.serving.journal.heads import Heads
    from pacesetter.serving.journal.journal import Journal, check_there, journal_runs
    from pacesetter.serving.trader.record import is_record, verify_record

    if is_record(Path(url)) or (head and Path(url).is_dir()):
        typer.echo(verify_record(Path(url), head, None if key is None else SigningKey.find(key)).describe())
        return
    check_there(url)
    signer = SigningKey.find(key)
    if heads is not None and (signer is None or not heads.is_file()):
        raise ConfigError("--heads needs a file that is there and the key that signed it: --key FILE")
    signed = Heads(heads, signer) if heads is not None and signer is not None else None
    for run in journal_runs(url):
        journal = Journal(url, run, signed)
        count = journal.verify()
        journal.close()
        typer.echo(f"run '{run}' is whole: {count} audit records, and every row as they say")
    if signed is None:
        typer.echo("NO SIGNED HEAD WAS CHECKED, so a rewritten chain would not be detected: give --heads and --key")


def show(
    url: JournalUrl,
    run: Annotated[str, typer.Option(help="Of this run; by default of all.")] = "",
    last: Annotated[int, typer.Option(help="Rows to show, the newest.", min=1)] = 30,
    moved: Annotated[bool, typer.Option("--moved", help="Leave out what holds nothing and does nothing.")] = False,
) -> None:
    """Show what was decided for each symbol: buy, hold or sell, the kind of its order, what it holds and earned."""
    from rich.console import Console

    from pacesetter.serving.journal.actions import action_table

    table = action_table(url, run, moved)
    Console().print(table.newest(last))
    typer.echo(f"{min(last, len(table.rows))} of {len(table.rows)} rows")


def _migrate(url: str, revision: str) -> None:
    from pacesetter.serving.journal.journal import check_there, migrate

    check_there(url)
    typer.echo(f"the journal is at revision {migrate(url, revision)}")
