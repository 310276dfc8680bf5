"""The `threadwire` command. It only parses options; the commands call functions that tests also call."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from threadwire import __version__
from threadwire.cli.debugger import start_debugger
from threadwire.cli.errors import print_error
from threadwire.errors import ThreadwireError
from threadwire.server.listening import LOOPBACK, listening

app = typer.Typer(
    name="threadwire",
    help="An open server for LangGraph agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

keys = typer.Typer(help="Create, list and revoke API keys.", no_args_is_help=True)
app.add_typer(keys, name="keys")

ConfigPath = Annotated[
    Path, typer.Option("--config", "-c", envvar="THREADWIRE_CONFIG", help="The project file that names the graphs.")
]
Host = Annotated[str, typer.Option(envvar="THREADWIRE_HOST", help="The address to listen on.")]
Port = Annotated[int, typer.Option(envvar="THREADWIRE_PORT", help="The port to listen on; 0 picks a free port.")]
Data = Annotated[Path, typer.Option(envvar="THREADWIRE_DATA", help="The directory that holds the database.")]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure-no-auth",
        envvar="THREADWIRE_INSECURE_NO_AUTH",
        help="Serve without authentication, on any address, even if the project uses auth or there are API keys.",
    ),
]
Reload = Annotated[
    bool,
    typer.Option(
        "--reload/--no-reload",
        envvar="THREADWIRE_RELOAD",
        help="Reload the project when its files change.",
    ),
]
Jobs = Annotated[
    int | None, typer.Option("--n-jobs-per-worker", help="How many runs may execute at the same time; by default 1000.")
]
Workers = Annotated[
    int | None,
    typer.Option(
        envvar="THREADWIRE_WORKERS",
        help="How many worker processes execute runs. With 0, the server executes them itself. Default: one per core; "
        "0 with PostgreSQL.",
    ),
]
LogLevel = Annotated[str | None, typer.Option("--server-log-level", help="The log level; by default info.")]
DebugPort = Annotated[int | None, typer.Option(help="Listen for a debugger on this port. Requires debugpy.")]
WaitForClient = Annotated[bool, typer.Option("--wait-for-client", help="Wait for the debugger before loading graphs.")]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="No effect: no browser is opened.")]
AllowBlocking = Annotated[bool, typer.Option("--allow-blocking", help="No effect: a node that blocks is only logged.")]
StudioUrl = Annotated[str | None, typer.Option(help="No effect: Studio is not opened.")]
StorageAddress = Annotated[
    str | None,
    typer.Option(
        "--storage",
        envvar="THREADWIRE_STORAGE",
        help="sqlite, memory or postgresql://…; by default sqlite, in --data. worker, migrate and move need "
        "postgresql://….",
    ),
]
RedisAddress = Annotated[
    str | None,
    typer.Option(
        "--redis", envvar="THREADWIRE_REDIS", help="The address of a Redis or Valkey server. Only with PostgreSQL."
    ),
]
Role = Annotated[
    str | None,
    typer.Option(
        envvar="THREADWIRE_ROLE", help="all, api (execute no runs) or worker (only execute runs); by default all."
    ),
]
BaseImage = Annotated[
    str | None,
    typer.Option(help="The image to start from; by default base_image of the project file, or python:3.x-slim."),
]
AddCompose = Annotated[
    bool,
    typer.Option(
        "--add-docker-compose",
        help="Also write a docker-compose.yml with PostgreSQL and Redis, and an empty .env file.",
    ),
]
Url = Annotated[
    str, typer.Option(envvar="THREADWIRE_URL", help="The URL of the server, including its prefix if it has one.")
]
ApiKey = Annotated[str | None, typer.Option(envvar="THREADWIRE_API_KEY", help="Sent as x-api-key with every request.")]


User = Annotated[str, typer.Option("--user", help="The identity of the user that the key authenticates.")]
KeyName = Annotated[str, typer.Option("--name", help="What the key is for.")]
Permissions = Annotated[
    list[str] | None,
    typer.Option("--permission", help="A permission of the user; repeatable. `admin` allows access to everything."),
]
ExpiresIn = Annotated[str | None, typer.Option(help="How long the key is valid, such as 30d, 12h or 45m.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"threadwire {__version__}")
        raise typer.Exit


@app.callback()
def threadwire(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def dev(
    context: typer.Context,
    config: ConfigPath = Path("langgraph.json"),
    host: Host = "127.0.0.1",
    port: Port = 2024,
    data: Data = Path(".threadwire"),
    insecure_no_auth: Insecure = False,
    reload: Reload = True,
    n_jobs_per_worker: Jobs = None,
    server_log_level: LogLevel = None,
    debug_port: DebugPort = None,
    wait_for_client: WaitForClient = False,
    no_browser: NoBrowser = False,
    allow_blocking: AllowBlocking = False,
    studio_url: StudioUrl = None,
) -> None:
    """Serve a project during development, and reload it when its files change.

    Pages of any loopback origin may call the server.
    If no port is given and the default port is in use, the next free port is used.
    """
    source = context.get_parameter_source("port")
    any_port = source is not None and source.name == "DEFAULT"
    options: dict[str, Any] = {"config": config, "data": data, "reload": reload}
    if n_jobs_per_worker is not None:
        options["concurrency"] = n_jobs_per_worker
    if server_log_level is not None:
        options["log_level"] = server_log_level.lower()
    if allow_blocking:
        options["notes"] = ["--allow-blocking has no effect: a node that blocks is only logged"]
    if debug_port is not None or wait_for_client:
        start_debugger(debug_port, wait=wait_for_client)
    _serve(host, port, insecure_no_auth, options, dev=True, any_port=any_port)


@app.command()
def serve(
    config: ConfigPath = Path("langgraph.json"),
    host: Host = "127.0.0.1",
    port: Port = 2024,
    data: Data = Path(".threadwire"),
    insecure_no_auth: Insecure = False,
    storage: StorageAddress = None,
    redis: RedisAddress = None,
    role: Role = None,
    workers: Workers = None,
) -> None:
    """Serve a project. On SIGTERM, drain active runs and exit; if the engine fails, exit with a non-zero code."""
    options = {"config": config, "data": data, **_given(storage=storage, redis=redis, role=role, workers=workers)}
    _serve(host, port, insecure_no_auth, options, dev=False)


@app.command()
def worker(
    config: ConfigPath = Path("langgraph.json"),
    host: Host = "127.0.0.1",
    port: Port = 2024,
    insecure_no_auth: Insecure = False,
    storage: StorageAddress = None,
    redis: RedisAddress = None,
    workers: Workers = None,
) -> None:
    """Execute the runs of a project whose data is in PostgreSQL. The same as serve --role worker.

    The process serves /ok, /ready, /info and /metrics, and no other route.
    """
    options = {"config": config, "role": "worker", **_given(storage=storage, redis=redis, workers=workers)}
    _serve(host, port, insecure_no_auth, options, dev=False)


@app.command()
def migrate(storage: StorageAddress = None) -> None:
    """Bring the tables of a PostgreSQL database up to date. Running servers can keep using it meanwhile."""
    from threadwire.cli.migrate_command import run_migration

    run_migration(storage, Console(highlight=False, soft_wrap=True))


@app.command()
def move(data: Data = Path(".threadwire"), storage: StorageAddress = None) -> None:
    """Copy a SQLite data directory into an empty PostgreSQL database, and read everything back to compare it.

    Stop the server first. The directory is left as it is.
    """
    from threadwire.cli.move_command import run_move

    run_move(data, storage, Console(highlight=False, soft_wrap=True))


@app.command()
def check(config: ConfigPath = Path("langgraph.json"), insecure_no_auth: Insecure = False) -> None:
    """Load the project and every graph, draw each graph, and report every problem.

    With --insecure-no-auth, the project's auth is not loaded.
    """
    from threadwire.cli.check_command import check as check_project

    details = Console(stderr=True, highlight=False)
    raise typer.Exit(check_project(config, Console(), details, insecure_no_auth=insecure_no_auth))


@app.command()
def dockerfile(
    path: Annotated[Path, typer.Argument(help="The file to write, in the folder of the project file.")],
    config: ConfigPath = Path("langgraph.json"),
    base_image: BaseImage = None,
    add_docker_compose: AddCompose = False,
) -> None:
    """Write a Dockerfile for a project, and a .dockerignore beside it.

    The image contains Threadwire and the packages and folders of "dependencies". It runs threadwire serve.
    """
    from threadwire.cli.dockerfile_command import write_dockerfile

    console = Console(highlight=False)
    write_dockerfile(path, config, console, base_image=base_image, compose=add_docker_compose)


@app.command()
def watch(
    thread: Annotated[str, typer.Argument(help="The id of the thread.")],
    url: Url = "http://127.0.0.1:2024",
    api_key: ApiKey = None,
) -> None:
    """Show a thread live, run after run: tokens, nodes, tools, custom events, interrupts and errors.

    It starts with the current or latest run and continues until Ctrl-C. It reconnects if the connection breaks.
    """
    from threadwire.cli.watch_command import run_watch

    run_watch(thread, url, api_key, Console(highlight=False))


@keys.command("create")
def keys_create(
    user: User,
    name: KeyName = "",
    permission: Permissions = None,
    expires_in: ExpiresIn = None,
    config: ConfigPath = Path("langgraph.json"),
    data: Data = Path(".threadwire"),
    storage: StorageAddress = None,
) -> None:
    """Create a key and print it. Only its hash is stored, so it cannot be shown again.

    Once there is a key, every request needs a credential. Restart servers that were started before the first key was
    created.
    """
    from threadwire.cli.keys_command import create_key

    create_key(_keys_of(config, data, storage), user, name, permission or (), expires_in, Console(highlight=False))


@keys.command("list")
def keys_list(
    config: ConfigPath = Path("langgraph.json"),
    data: Data = Path(".threadwire"),
    storage: StorageAddress = None,
) -> None:
    """List all keys, including revoked and expired ones."""
    from threadwire.cli.keys_command import list_keys

    list_keys(_keys_of(config, data, storage), Console(highlight=False, soft_wrap=True))


@keys.command("revoke")
def keys_revoke(
    key_id: Annotated[str, typer.Argument(help="The id of the key, as `keys list` shows it.")],
    config: ConfigPath = Path("langgraph.json"),
    data: Data = Path(".threadwire"),
    storage: StorageAddress = None,
) -> None:
    """Revoke a key. Servers reject it from now on, and end its open streams."""
    from threadwire.cli.keys_command import revoke_key

    revoke_key(_keys_of(config, data, storage), key_id, Console(highlight=False))


def _keys_of(config: Path, data: Path, storage: str | None) -> dict[str, Any]:
    """The project and the storage that the keys belong to."""
    return {"config": config, "data": data, **_given(storage=storage)}


def _given(**options: str | int | None) -> dict[str, Any]:
    """The options that were given. The others come from environment variables, or are defaults."""
    return {name: value for name, value in options.items() if value is not None}


def _has_auth(options: dict[str, Any], *, dev: bool) -> bool:
    """Whether requests will be authenticated: by the project's own code or by API keys."""
    from threadwire.cli.keys_command import has_keys
    from threadwire.graphs.config import load_config

    return load_config(options["config"]).auth is not None or has_keys(options, in_container=not dev)


def _serve(
    host: str, port: int, insecure_no_auth: bool, options: dict[str, Any], *, dev: bool, any_port: bool = False
) -> None:
    is_allowed = host in LOOPBACK or insecure_no_auth or _has_auth(options, dev=dev)
    with listening(host, port, beyond_loopback=is_allowed, or_next=any_port) as listener:
        from threadwire.cli.serve_command import run_server

        run_server(listener, dev=dev, host=host, port=port, insecure_no_auth=insecure_no_auth, **options)


def main() -> None:
    try:
        app()
    except ThreadwireError as error:
        print_error(Console(stderr=True, highlight=False), error)
        raise SystemExit(1) from None
