"""The command `threadwire`. Thin: words become `Settings`, and a function that tests call too does the work."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from threadwire.errors import ThreadwireError
from threadwire.server.listening import listening

app = typer.Typer(
    name="threadwire",
    help="An open server for LangGraph agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ConfigPath = Annotated[Path, typer.Option(envvar="THREADWIRE_CONFIG", help="The project file that names the graphs.")]
Host = Annotated[str, typer.Option(envvar="THREADWIRE_HOST", help="The address to listen on.")]
Port = Annotated[int, typer.Option(envvar="THREADWIRE_PORT", help="The port to listen on; 0 picks a free one.")]
Data = Annotated[Path, typer.Option(envvar="THREADWIRE_DATA", help="The directory that holds the database.")]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure-no-auth",
        envvar="THREADWIRE_INSECURE_NO_AUTH",
        help="Listen beyond loopback although nobody is asked who they are.",
    ),
]
Reload = Annotated[
    bool,
    typer.Option(
        "--reload/--no-reload",
        envvar="THREADWIRE_RELOAD",
        help="Load the project anew when its files change.",
    ),
]
Url = Annotated[str, typer.Option(envvar="THREADWIRE_URL", help="The server, with its prefix if it has one.")]
ApiKey = Annotated[str | None, typer.Option(envvar="THREADWIRE_API_KEY", help="Sent as x-api-key with every request.")]


@app.command()
def dev(
    context: typer.Context,
    config: ConfigPath = Path("langgraph.json"),
    host: Host = "127.0.0.1",
    port: Port = 2024,
    data: Data = Path(".threadwire"),
    insecure_no_auth: Insecure = False,
    reload: Reload = True,
) -> None:
    """Serve a project while you work on it: it is loaded anew when its files change, and pages on any loopback port
    may call it.

    If nobody asked for a port and the usual one is taken, the next free one is used.
    """
    source = context.get_parameter_source("port")
    any_port = source is not None and source.name == "DEFAULT"
    given = {"config": config, "data": data, "reload": reload}
    _serve(host, port, insecure_no_auth, given, dev=True, any_port=any_port)


@app.command()
def serve(
    config: ConfigPath = Path("langgraph.json"),
    host: Host = "127.0.0.1",
    port: Port = 2024,
    data: Data = Path(".threadwire"),
    insecure_no_auth: Insecure = False,
) -> None:
    """Serve a project. Exits non-zero when the engine dies; SIGTERM drains."""
    _serve(host, port, insecure_no_auth, {"config": config, "data": data}, dev=False)


@app.command()
def check(config: ConfigPath = Path("langgraph.json")) -> None:
    """Load the project and every graph, draw each, and say what is wrong."""
    from threadwire.cli.check import check as check_project

    raise typer.Exit(check_project(config, Console()))


@app.command()
def watch(
    thread: Annotated[str, typer.Argument(help="The id of the thread.")],
    url: Url = "http://127.0.0.1:2024",
    api_key: ApiKey = None,
) -> None:
    """Show a thread as it happens, run after run: tokens, nodes, tools, custom events, interrupts and errors.

    It begins with the run under way, or the last one, and goes on until Ctrl-C. A connection that breaks is made again.
    """
    from threadwire.cli.watching import run_watch

    run_watch(thread, url, api_key, Console(highlight=False))


def _serve(
    host: str, port: int, insecure_no_auth: bool, given: dict[str, Any], *, dev: bool, any_port: bool = False
) -> None:
    with listening(host, port, insecure_no_auth=insecure_no_auth, or_next=any_port) as listener:
        from threadwire.cli.serving import run_server

        run_server(listener, dev=dev, host=host, port=port, insecure_no_auth=insecure_no_auth, **given)


def main() -> None:
    try:
        app()
    except ThreadwireError as error:
        Console(stderr=True, highlight=False).print(f"[red]threadwire:[/red] {error.message}", soft_wrap=True)
        raise SystemExit(1) from None
