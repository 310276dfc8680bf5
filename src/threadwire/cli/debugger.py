"""Debugging a project with debugpy: the options `--debug-port` and `--wait-for-client` of `threadwire dev`."""

import importlib

import typer

from threadwire.errors import ConfigError


def start_debugger(port: int | None, *, wait: bool) -> None:
    """Listen for a debugger on loopback and, with `wait`, return once it has connected. Raises `ConfigError`."""
    if port is None:
        raise ConfigError("--wait-for-client requires --debug-port")
    try:
        debugpy = importlib.import_module("debugpy")
    except ImportError:
        raise ConfigError("--debug-port requires debugpy: pip install debugpy") from None
    debugpy.listen(("127.0.0.1", port))
    if wait:
        typer.echo(f"Waiting for a debugger on 127.0.0.1:{port}")
        debugpy.wait_for_client()
