"""Commands that deploy a policy: `bundle`, `serve`, `keys`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from pacesetter.serving.bundle.bundle import Bundle

__all__ = ["register"]

SigningKey = Annotated[
    Path | None, typer.Option("--key", help="File of a signing key: a secret, or an Ed25519 PEM key.")
]
Unverified = Annotated[
    bool, typer.Option("--unverified", help="Open a signed bundle without a key to check its signature by.")
]
StoreFolder = Annotated[Path, typer.Option("--store", help="Folder of bundles.")]
KeyFile = Annotated[Path, typer.Option("--keys", help="File of hashed API keys.")]


class _RunFirst(TyperGroup):
    """`bundle RUN` is short for `bundle make RUN`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-") and not self._is_command(args[0]):
            args = ["make", *args]
        return super().parse_args(ctx, args)

    def _is_command(self, word: str) -> bool:
        """Whether it is one, or looks like one that was typed wrong, which is then refused by its name."""
        return word in self.commands or (not Path(word).exists() and bool(get_close_matches(word, self.commands)))


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    bundles = typer.Typer(cls=_RunFirst, help="Make, check and roll back bundles: bundle RUN.", no_args_is_help=True)
    keys = typer.Typer(help="API keys with scopes and an expiry date.", no_args_is_help=True)
    commands: dict[typer.Typer, list[Callable[..., None]]] = {
        bundles: [bundle_make, bundle_check, bundle_list, bundle_rollback],
        keys: [keys_add, keys_list, keys_revoke],
    }
    for group, members in commands.items():
        for command in members:
            group.command(command.__name__.partition("_")[2])(command)
    app.add_typer(bundles, name="bundle")
    app.add_typer(keys, name="keys")
    app.command()(serve)


# ---- bundles --------------------------------------------------------------------------------------------------------


def bundle_make(
    run: Annotated[Path, typer.Argument(help="A finished run of pacesetter train or pacesetter run.")],
    store: StoreFolder = Path("bundles"),
    key: SigningKey = None,
    zip: Annotated[bool, typer.Option(help="Also write a zip next to the folder.")] = False,
    torchscript: Annotated[bool, typer.Option(help="Add the policy as TorchScript.")] = False,
    int8: Annotated[bool, typer.Option(help="Weights and products in int8; refused where orders change.")] = False,
    observations: Annotated[int, typer.Option(help="Observations for comparing graph and policy.", min=2)] = 10_000,
    despite_no_go: Annotated[bool, typer.Option(help="Bundle a run that `pacesetter validate` found a NO-GO.")] = False,
) -> None:
    """Bundle a run's best policy: ONNX, features, limits, card, hashes. It becomes the current bundle."""
    from pacesetter.evaluation.stored_run import fitted_risk
    from pacesetter.jobs.evaluate import agents_of
    from pacesetter.serving.bundle.hashed_files import pack
    from pacesetter.serving.bundle.packaging import bundle_run
    from pacesetter.serving.bundle.signature import SigningKey as Signer

    signer, agents = Signer.find(key), agents_of(run)
    folder, bundle = bundle_run(
        agents,
        store,
        judged=run / "judge" if agents != run else None,
        risk=fitted_risk(agents),
        key=signer,
        has_torchscript=torchscript,
        is_int8=int8,
        observations=observations,
        despite_no_go=despite_no_go,
    )
    _warn(bundle)
    parity = bundle.manifest["parity"]
    typer.echo(
        f"graph equals policy within {parity['max_difference']:.1e} on {parity['count']:,} observations; "
        f"model {bundle.model.sha256[:12]} → {folder}"
    )
    if replayed := bundle.manifest.get("replay"):
        off, on = replayed["breakers_off"], replayed["breakers_on"]
        same = "as its card says" if replayed["card"] is not None else "it has no card to compare with"
        typer.echo(f"replayed {replayed['from'][:10]} to {replayed['to'][:10]}, breakers off: {off['told']}; {same}")
        typer.echo(f"breakers on: {on['told']}")
    if int8:
        agreement = bundle.manifest["int8"]
        typer.echo(
            f"int8 gives the same order in {agreement['same'] / agreement['count']:.2%} of "
            f"{agreement['count']:,} decisions"
        )
    if zip:
        typer.echo(f"→ {pack(folder)}")


def bundle_check(
    bundle: Annotated[Path, typer.Argument(help="A bundle's folder or zip, or a store.")],
    key: SigningKey = None,
    unverified: Unverified = False,
) -> None:
    """Check hashes, signature and every part, and run one inference. Exit 0 if intact, 2 if refused."""
    from pacesetter.serving.bundle.signature import SigningKey as Signer
    from pacesetter.serving.bundle.store import find_bundle

    signer = Signer.find(key)
    opened = find_bundle(bundle, signer, unverified)
    opened.check()
    signed = (
        "signed by this key" if signer else "SIGNATURE NOT CHECKED: give --key" if opened.is_signed else "not signed"
    )
    _warn(opened)
    typer.echo(f"{opened.name} is intact: {len(opened.files)} files, model {opened.model.sha256[:12]}, {signed}")


def bundle_list(
    store: StoreFolder = Path("bundles"),
    matrix: Annotated[
        Path | None, typer.Option(help="Page to write: every bundle with what it was made of; Markdown is next to it.")
    ] = None,
) -> None:
    """Show every bundle and which one serves; --matrix writes a page with the versions of each."""
    from rich.console import Console

    from pacesetter.serving.bundle.store import Store

    shelf = Store(store)
    Console().print(shelf.table())
    if matrix is not None:
        from pacesetter.evaluation.report.judgement_page import write_pages
        from pacesetter.lab.versions import matrix_sections

        matrix.parent.mkdir(parents=True, exist_ok=True)
        pages = write_pages(matrix, "Model versions", matrix_sections(shelf))
        typer.echo(f"→ {', '.join(map(str, pages))}")


def bundle_rollback(
    store: StoreFolder = Path("bundles"), key: SigningKey = None, unverified: Unverified = False
) -> None:
    """Make the previous bundle the current one again, after checking it."""
    from pacesetter.serving.bundle.signature import SigningKey as Signer
    from pacesetter.serving.bundle.store import Store

    left, taken = Store(store).rollback(Signer.find(key), unverified)
    typer.echo(f"{taken.name} serves now, in place of {left.name}; restart: pacesetter serve {store}")


def _warn(bundle: Bundle) -> None:
    """Say what must be said of a bundle, on stderr so that it is read beside any output."""
    if bundle.warning:
        typer.echo(bundle.warning, err=True)


# ---- serving --------------------------------------------------------------------------------------------------------


def serve(
    bundle: Annotated[Path, typer.Argument(help="A bundle's folder or zip, or a store.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on; loopback only unless another is given.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port.", min=1, max=65535)] = 8000,
    keys: KeyFile = Path("keys.json"),
    halt_file: Annotated[Path, typer.Option(help="Kill switch: while it exists, nothing is traded.")] = Path("HALT"),
    history: Annotated[Path | None, typer.Option(help="Stored panel whose latest bars the server starts with.")] = None,
    symbols: Annotated[str, typer.Option(help="Symbols to serve, comma-separated; by default those of training.")] = "",
    max_body_bytes: Annotated[int, typer.Option(help="Longest request.")] = 65_536,
    rate: Annotated[float, typer.Option(help="Requests per second and key.")] = 50.0,
    threads: Annotated[int, typer.Option(help="Threads that share the model's work.", min=1, max=64)] = 2,
    proxy: Annotated[str, typer.Option(help="Address of a reverse proxy, whose X-Forwarded-For is believed.")] = "",
    min_confidence: Annotated[
        float, typer.Option(help="Refuse entries the policy is less sure of, e.g. 0.6; 0 is off.", min=0, max=1)
    ] = 0.0,
    limit_below: Annotated[
        float, typer.Option(help="Below this confidence an order is a limit order.", min=0, max=1)
    ] = 0.5,
    device: Annotated[
        str, typer.Option(help="cpu, or gpu: TensorRT or CUDA where they are there and give the same.")
    ] = "cpu",
    why: Annotated[bool, typer.Option(help="Say why each order: one more inference per feature.")] = False,
    key: SigningKey = None,
    unverified: Unverified = False,
) -> None:
    """Serve a bundle over HTTP: POST /v1/decide, /v1/state, /v1/halt, /v1/resume, /livez, /readyz, /metrics.

    A lookback agent's bundle answers POST /v1/lookback instead: the window in force, its confidence and its matrix.
    """
    from pacesetter.serving.api.admission import ApiSettings
    from pacesetter.serving.api.keys import Keys
    from pacesetter.serving.api.server import serve as serve_bundle
    from pacesetter.serving.bundle.signature import SigningKey as Signer
    from pacesetter.serving.bundle.store import find_bundle
    from pacesetter.serving.risk.halt import KillSwitch
    from pacesetter.serving.trader.desk import OrderOptions

    served = find_bundle(bundle, Signer.find(key), unverified)
    _warn(served)
    settings = ApiSettings(host=host, port=port, max_body_bytes=max_body_bytes, rate=rate, proxy=proxy)
    serve_bundle(
        replace(served, threads=threads, device=device),
        Keys(keys),
        KillSwitch(halt_file),
        # Two seconds' worth of requests at once; a burst of 0, from a rate of 0.25 or less, would be refused.
        replace(settings, burst=max(1, round(2 * rate))),
        symbols=tuple(symbol for symbol in symbols.split(",") if symbol) or None,
        history=history,
        orders=OrderOptions(min_confidence=min_confidence, limit_below=limit_below),
        has_why=why,
    )


# ---- keys -----------------------------------------------------------------------------------------------------------


def keys_add(
    name: Annotated[str, typer.Argument(help="Name of the key's owner.")],
    scopes: Annotated[str, typer.Option(help="read, trade, admin, comma-separated.")] = "read",
    days: Annotated[float, typer.Option(help="Until it ends.")] = 90.0,
    keys: KeyFile = Path("keys.json"),
) -> None:
    """Create a key; its token is shown once and only its hash is stored."""
    from pacesetter.serving.api.keys import Keys

    typer.echo(Keys(keys).add(name, scopes.split(","), days))


def keys_list(keys: KeyFile = Path("keys.json")) -> None:
    """List names, scopes and expiry dates of all keys."""
    from pacesetter.serving.api.keys import Keys

    rows = [f"{key.name}  {','.join(key.scopes)}  until {key.expires}" for key in Keys(keys).keys]
    typer.echo("\n".join(rows) or f"{keys} has no key yet; create one: pacesetter keys add NAME")


def keys_revoke(
    name: Annotated[str, typer.Argument(help="Whose key goes.")], keys: KeyFile = Path("keys.json")
) -> None:
    """Forget a key."""
    from pacesetter.serving.api.keys import Keys

    Keys(keys).revoke(name)
    typer.echo(f"'{name}' is revoked; restart servers that read {keys}")
