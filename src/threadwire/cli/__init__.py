"""The `threadwire` command. It only parses options; the commands call functions that tests also call."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from threadwire import __version__
from threadwire.cli.debugger import start_debugger
from threadwire.cli.errors import print_error
from threadwire.errors import ThreadwireError
from threadwire.server.listening import listening

app = typer.Typer(
    name="threadwire",
    help="An open server for LangGraph agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

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
        help="Listen on addresses other than loopback without authentication.",
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
    int | None, typer.Option("--n-jobs-per-worker", help="How many runs execute at the same time; by default 1000.")
]
LogLevel = Annotated[str | None, typer.Option("--server-log-level", help="The log level; by default info.")]
DebugPort = Annotated[int | None, typer.Option(help="Listen for a debugger on this port. Requires debugpy.")]
WaitForClient = Annotated[bool, typer.Option("--wait-for-client", help="Wait for the debugger before loading graphs.")]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="No effect: no browser is opened.")]
AllowBlocking = Annotated[
    bool, typer.Option("--allow-blocking", help="No effect: a node that blocks is logged and never an error.")
]
StudioUrl = Annotated[str | None, typer.Option(help="No effect: Studio is not opened.")]
Url = Annotated[
    str, typer.Option(envvar="THREADWIRE_URL", help="The URL of the server, including its prefix if it has one.")
]
ApiKey = Annotated[str | None, typer.Option(envvar="THREADWIRE_API_KEY", help="Sent as x-api-key with every request.")]


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
    """Serve a project during development: reload it when its files change, and accept requests from pages of any
    loopback origin.

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
        options["notes"] = ["--allow-blocking has no effect: a node that blocks is logged and never an error"]
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
) -> None:
    """Serve a project. SIGTERM drains active runs and exits; if the engine fails, the exit code is non-zero."""
    _serve(host, port, insecure_no_auth, {"config": config, "data": data}, dev=False)


@app.command()
def check(config: ConfigPath = Path("langgraph.json"), insecure_no_auth: Insecure = False) -> None:
    """Load the project and every graph, draw each graph, and report every problem."""
    from threadwire.cli.check_command import check as check_project

    details = Console(stderr=True, highlight=False)
    raise typer.Exit(check_project(config, Console(), details, insecure_no_auth=insecure_no_auth))


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


def _serve(
    host: str, port: int, insecure_no_auth: bool, options: dict[str, Any], *, dev: bool, any_port: bool = False
) -> None:
    with listening(host, port, insecure_no_auth=insecure_no_auth, or_next=any_port) as listener:
        from threadwire.cli.serve_command import run_server

        run_server(listener, dev=dev, host=host, port=port, insecure_no_auth=insecure_no_auth, **options)


def main() -> None:
    try:
        app()
    except ThreadwireError as error:
        print_error(Console(stderr=True, highlight=False), error)
        raise SystemExit(1) from None
