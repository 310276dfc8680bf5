"""`threadwire check`: is everything that langgraph.json names there, and does it load?"""

import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
from rich.console import Console
from rich.text import Text

from threadwire.cli.serving import read_settings
from threadwire.errors import ConfigError, GraphUnavailable
from threadwire.graphs.brought import load_saver, load_store
from threadwire.graphs.config import ProjectConfig, load_config, prepare_environment
from threadwire.graphs.embedding import load_embeddings
from threadwire.graphs.modules import ProjectModules, name_and_message
from threadwire.graphs.registry import GraphRegistry, draw, load_registry
from threadwire.graphs.webhooks import resolve_headers
from threadwire.protocols.copilotkit.agents import default_agent
from threadwire.server.project import load_own_app, refuse_open_door
from threadwire.settings import refuse_unknown

Problems = list[tuple[str, str]]
"""What is wrong, each with where."""


def check(config_path: Path, console: Console) -> int:
    """Print each graph's drawing, and a line for everything that `serve` would refuse; 0 if there is nothing."""
    try:
        config = load_config(config_path)
    except ConfigError as mistake:
        _print_problem(console, "configuration", mistake.message)
        return 1
    prepare_environment(config)
    modules = ProjectModules(config.root)
    registry = load_registry(config, modules)
    problems = [(config.path.name, problem) for problem in config.problems]
    problems += registry.failures().items()
    problems += anyio.run(_draw_all, registry, console)
    problems += anyio.run(_look_around, config, modules)
    for name, problem in problems:
        _print_problem(console, name, problem)
    for warning in config.warnings:
        console.print(Text.assemble(("! ", "yellow"), (config.path.name, "bold"), f"  {warning}"), soft_wrap=True)
    return 1 if problems else 0


async def _look_around(config: ProjectConfig, modules: ProjectModules) -> Problems:
    """What is wrong with what is around the graphs. It is opened as at a start, and closed again."""
    looks: dict[str, Callable[[], Awaitable[None]]] = {
        "settings": partial(_look_at_settings, config),
        "auth": partial(_look_at_auth, config),
        "http": partial(_look_at_application, config, modules),
        "webhooks": partial(_look_at_webhooks, config),
        "checkpointer": partial(_look_at_saver, config, modules),
        "store": partial(_look_at_store, config, modules),
    }
    problems = []
    for name, look in looks.items():
        try:
            await look()
        except ConfigError as mistake:
            problems.append((name, mistake.message))
    return problems


async def _look_at_settings(config: ProjectConfig) -> None:
    refuse_unknown()
    default_agent(read_settings(config=config.path).default_agent, list(config.graphs))


async def _look_at_auth(config: ProjectConfig) -> None:
    refuse_open_door(config)


async def _look_at_application(config: ProjectConfig, modules: ProjectModules) -> None:
    own = load_own_app(config, modules)
    if own is None:
        return
    try:
        async with own.router.lifespan_context(own):
            pass
    except Exception as error:  # the user's code
        raise ConfigError(f'"http"."app": its lifespan failed: {name_and_message(error)}') from error


async def _look_at_webhooks(config: ProjectConfig) -> None:
    resolve_headers(config.webhooks, os.environ)


async def _look_at_saver(config: ProjectConfig, modules: ProjectModules) -> None:
    if (source := config.checkpointer.source) is not None:
        async with load_saver(source, modules).opened():
            pass


async def _look_at_store(config: ProjectConfig, modules: ProjectModules) -> None:
    if (source := config.store.source) is not None:
        async with load_store(source, modules).opened():
            pass
    elif (index := config.store.index) is not None:
        load_embeddings(index.embed, modules)


async def _draw_all(registry: GraphRegistry, console: Console) -> Problems:
    """Draw what loaded; return what went wrong with those whose factory does not give a graph."""
    problems = []
    for graph_id in registry.ids():
        if graph_id in registry.failures():
            continue
        try:
            drawing = await _drawing(registry, graph_id)
        except GraphUnavailable as error:
            problems.append((graph_id, error.message))
        except Exception as error:  # a factory is the user's code
            problems.append((graph_id, f"calling its factory failed: {name_and_message(error)}"))
        else:
            _print_drawing(console, graph_id, registry.description(graph_id), drawing)
    return problems


async def _drawing(registry: GraphRegistry, graph_id: str) -> str:
    async with registry.open(graph_id, {"configurable": {}}, access="assistants.read") as graph:
        return draw(graph)


# Text, not markup: a graph's name or an error may contain square brackets. Never wrapped: one line each.
def _print_drawing(console: Console, graph_id: str, description: str | None, drawing: str) -> None:
    heading = Text.assemble(("✓ ", "green"), (graph_id, "bold"))
    if description:
        heading.append(f"  {description}", style="dim")
    console.print(heading, soft_wrap=True)
    for line in drawing.splitlines():
        console.print(Text(f"    {line}"), soft_wrap=True)


def _print_problem(console: Console, name: str, problem: str) -> None:
    line = Text.assemble(("✗ ", "red"), (name, "bold"), f"  {problem}")
    console.print(line, soft_wrap=True)
