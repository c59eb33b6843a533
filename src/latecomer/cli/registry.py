"""`latecomer registry`: serves a schema registry, and asks any registry."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.options import File, Format, Formatted, Limit, WrongUsage, load, note, show
from latecomer.cli.verbs import group
from latecomer.errors import RegistryError
from latecomer.model.counting import counted
from latecomer.model.hosts import is_loopback
from latecomer.objects.small_files import small_text

if TYPE_CHECKING:
    from latecomer.config.models import Pipeline
    from latecomer.schemas import Level, Policy
    from latecomer.schemas.registry.client import Client
    from latecomer.schemas.registry.core import Registry

LOG = logging.getLogger(__name__)
TOKEN = "LATECOMER_REGISTRY_TOKEN"  # noqa: S105
STORE = "registry.db"

registry = group("registry")
token = typer.Typer(help="Make the tokens that a registry accepts.", no_args_is_help=True)
registry.add_typer(token, name="token")

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        help="The registry to ask, such as http://127.0.0.1:8081.",
        metavar="URL",
        envvar="LATECOMER_REGISTRY_URL",
        show_envvar=True,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help=f"A file with the token to send; else the variable {TOKEN} has it.",
        metavar="FILE",
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="The registry's own database instead: a file, or a URL of Postgres.",
        metavar="FILE|URL",
    ),
]


@registry.command("serve")
def serve(
    store: Annotated[
        str,
        typer.Option(
            help="Where schemas are kept: a SQLite file, or a URL of Postgres such as "
            "postgresql://ana:${env:PASSWORD}@db/schemas.",
            metavar="FILE|URL",
        ),
    ] = STORE,
    host: Annotated[
        str, typer.Option(help="The address to serve; one that others reach needs tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to serve; 0 for a free one.", min=0, max=65535)] = 8081,
    tokens: Annotated[
        Path | None,
        typer.Option(
            help="The file of the accepted tokens; else the variable LATECOMER_REGISTRY_TOKENS has them.",
            metavar="FILE",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="Serve HTTPS with this certificate.", metavar="FILE")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The key of the certificate.", metavar="FILE")] = None,
) -> None:
    """Serve a schema registry until it is stopped. What it has acknowledged is on the disk."""
    from latecomer.cli.steps import current
    from latecomer.schemas.registry import server
    from latecomer.schemas.registry.core import Registry
    from latecomer.schemas.registry.databases import open_database
    from latecomer.schemas.registry.tokens import tokens_of

    server.require_packages()
    known = tokens_of(tokens)
    server.require_safe(host, known)
    server.require_certificate(tls_cert, tls_key)
    with (
        closing(server.bound_socket(host, port)) as listening,
        closing(Registry(open_database(store))) as kept,
    ):
        shown = f"[{host}]" if ":" in host else host
        place = f"{'https' if tls_cert else 'http'}://{shown}:{listening.getsockname()[1]}"
        current().rest()
        print(f"registry at {place}, kept in {kept.shown}", flush=True)
        if known is None:
            note("there are no tokens: everybody on this machine may change everything")
        elif tls_cert is None and not is_loopback(host):
            note("tokens go over the network unencrypted; give --tls-cert, or put a proxy with TLS before it")
        server.serve(kept, known, listening, tls_cert, tls_key)


@token.command("new")
def new_token(
    name: Annotated[str, typer.Option(help="Whose it is; the audit names it.")],
    scope: Annotated[str, typer.Option(help="What it allows: read, write or admin.")] = "read",
    tokens: Annotated[
        Path | None, typer.Option(help="Add it to this file of tokens.", metavar="FILE")
    ] = None,
) -> None:
    """Make a token. It is printed once; only its hash is kept."""
    from latecomer.schemas.registry.tokens import Scope, add_token, new_token

    try:
        secret, kept = new_token(name, Scope.of(scope))
    except RegistryError as error:
        raise WrongUsage("--name/--scope", f"{name} {scope}", "cannot be used", str(error)) from None
    if tokens is not None:
        add_token(tokens, kept)
        print(secret)
        note(f"{tokens} has its hash; the token itself is not kept")
    else:
        print(secret)
        print(kept.line)
        note("the first line is the token, for whoever uses it; put the second into the file of tokens")


@registry.command("check")
def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the schemas.")],
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Check the schemas of a folder against a registry, for CI. Nothing is registered.

    A file is named after its subject, such as orders-value.avsc. Each problem is a line; exit 1 if there is one.
    """
    from latecomer.schemas.registry.checking import check_folder

    if not folder.is_dir():
        raise WrongUsage("DIR", str(folder), "is not a folder", "give the folder that holds the schemas")
    checked = check_folder(folder, _client(url, token_file))
    for problem in checked.problems:
        print(problem)
    print(
        f"{counted(len(checked.problems), 'problem')}; {checked.registered:,} registered already, "
        f"{counted(checked.new_versions, 'new version')}, {counted(checked.new_subjects, 'new subject')}",
        file=sys.stderr,
    )
    if not (checked.problems or checked.registered or checked.new_versions or checked.new_subjects):
        raise WrongUsage("DIR", str(folder), "has no schema", "schemas are files such as orders-value.avsc")
    if checked.problems:
        raise typer.Exit(1)


@registry.command("dry-run")
def dry_run(
    level: Annotated[str, typer.Option(help="The level to suppose, such as FULL.")],
    url: Url = None,
    store: Store = None,
    token_file: TokenFile = None,
    prefix: Annotated[str, typer.Option(help="Only subjects that begin with this.")] = "",
    policy: Annotated[
        str, typer.Option(help="The policy to suppose for JSON Schemas: STRICT or LENIENT.")
    ] = "STRICT",
) -> None:
    """Print which versions of the history a level would have refused. Exit 1 if it would have refused any."""
    from latecomer.schemas.registry import checking

    supposed, by = _supposed(level, policy)
    refused = set()
    with _asked(store, url, token_file) as history:
        for each in checking.dry_run(history, supposed, prefix, by):
            refused.add((each.subject, each.version))
            print(f"{each.subject} version {each.version} (id {each.id}): {each.complaint.text}")
    print(f"{supposed} would have refused {counted(len(refused), 'version')}", file=sys.stderr)
    if refused:
        raise typer.Exit(1)


@registry.command("inventory")
def inventory(
    file: File,
    topics: Annotated[
        bool,
        typer.Option(
            "--topics", help="Read the messages of the pipeline's topics, instead of its event log."
        ),
    ] = False,
    newest: Annotated[
        int | None,
        typer.Option(help="With --topics: only so many messages of each partition.", min=1, metavar="N"),
    ] = None,
    url: Url = None,
    token_file: TokenFile = None,
    form: Formatted = Format.TABLE,
) -> None:
    """Show which schemas were seen in an event log or in topics, how often and when, and which no registry knows.

    The schema of a message is the one whose id it names, else the shape of its JSON. Exit 1 if a schema is registered
    nowhere.
    """
    from latecomer.after.inventory import of_log, of_topics
    from latecomer.schemas.inventory import NOWHERE, as_rows
    from latecomer.store.store import open_store

    if newest is not None and not topics:
        raise WrongUsage(
            "--newest", str(newest), "has no meaning without --topics", "add --topics, or leave it out"
        )
    pipeline = load(file)
    seen = of_topics(pipeline, newest, _log_progress) if topics else of_log(open_store(pipeline))
    rows = as_rows(seen, _registry_of(pipeline, url, token_file))
    show(rows, form, "nothing was seen yet")
    if NOWHERE in rows["registered"].to_pylist():
        raise typer.Exit(1)


def _log_progress(read: int, total: int) -> None:
    LOG.info("%s of %s messages read", f"{read:,}", f"{total:,}")


def _registry_of(pipeline: Pipeline, url: str | None, token_file: Path | None) -> Client | None:
    """The registry of --url, or that of the pipeline's format; None where there is none."""
    from latecomer.config.registered import Registered
    from latecomer.store.schemas import client_of

    if url is not None:
        return _client(url, token_file)
    for view in pipeline.views.values():
        if isinstance(view.format, Registered) and view.format.registry is not None:
            return client_of(view.format, pipeline.base)
    note("no registry was asked; say which: --url http://127.0.0.1:8081")
    return None


def _supposed(level: str, policy: str) -> tuple[Level, Policy]:
    from latecomer.schemas.registry.policy import level_of, policy_of

    try:
        return level_of(level), policy_of(policy)
    except RegistryError as error:
        raise WrongUsage("--level/--policy", f"{level} {policy}", "cannot be used", str(error)) from None


@registry.command("audit")
def audit(
    url: Url = None,
    store: Store = None,
    token_file: TokenFile = None,
    subject: Annotated[str | None, typer.Option(help="Only changes of this subject.")] = None,
    after: Annotated[int, typer.Option(help="Only changes after this number.", min=0)] = 0,
    form: Formatted = Format.TABLE,
    limit: Limit = None,
) -> None:
    """Print every change: who, when, from where, what it was before and after. The token needs the scope admin."""
    import pyarrow as pa

    texts = []
    with _asked(store, url, token_file) as asked:
        while page := asked.audit(after, _PAGE, subject):
            for each in page:
                change = each if isinstance(each, dict) else each.body()
                texts.append(change | {name: json.dumps(change[name]) for name in ("before", "after")})
            after = texts[-1]["number"]
    kinds = pa.schema([(name, pa.int64() if name in _NUMBERS else pa.string()) for name in _COLUMNS])
    show(pa.Table.from_pylist(texts, kinds), form, "nothing was changed yet", limit)


_PAGE = 1000
_COLUMNS = ("number", "at", "who", "from", "action", "subject", "version", "before", "after")
_NUMBERS = ("number", "version")


@contextmanager
def _asked(store: str | None, url: str | None, token_file: Path | None) -> Iterator[Registry | Client]:
    """The registry of --store, opened from its database, or that of --url."""
    from latecomer.schemas.registry.core import Registry
    from latecomer.schemas.registry.databases import open_database

    if store is None:
        yield _client(url, token_file)
        return
    if url is not None:
        raise WrongUsage("--store", store, "cannot go with --url", "give one of them")
    with closing(Registry(open_database(store, create=False))) as kept:
        yield kept


def _client(url: str | None, token_file: Path | None) -> Client:
    from latecomer.schemas.registry.client import Client

    if url is None:
        raise WrongUsage(
            "--url", False, "is missing", "say which registry to ask: --url http://127.0.0.1:8081"
        )
    return Client(url, token=_token(token_file))


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(TOKEN) or None
    try:
        return small_text(file).strip()
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        raise WrongUsage("--token-file", str(file), reason, "correct the path") from None
