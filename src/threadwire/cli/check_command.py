"""`threadwire check`: does everything in langgraph.json exist and load?"""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
from rich.console import Console
from rich.text import Text

from threadwire.cli.errors import print_traceback
from threadwire.cli.serve_command import read_settings
from threadwire.engine.clock import system_clock
from threadwire.errors import ConfigError, GraphUnavailable
from threadwire.graphs.config import ProjectConfig, load_config, prepare_environment
from threadwire.graphs.custom_persistence import load_saver, load_store
from threadwire.graphs.item_embeddings import load_embeddings
from threadwire.graphs.persistence_config import TtlConfig
from threadwire.graphs.project_modules import ProjectModules, load_traceback, name_and_message
from threadwire.graphs.registry import GraphRegistry, draw, load_registry
from threadwire.graphs.store import ItemStore
from threadwire.graphs.tracebacks import render_traceback
from threadwire.graphs.webhook_config import resolve_headers
from threadwire.server.combined_settings import check_settings, reject_unknown_variables
from threadwire.server.project import load_project_auth, load_user_app
from threadwire.server.stock_variables import graph_configs
from threadwire.storage.memory import open_memory_storage


@dataclass(frozen=True)
class Problem:
    location: str
    description: str
    traceback: str | None = None
    """The traceback of the project's code, if the problem is an exception that it raised."""


Problems = list[Problem]


def check(
    config_path: Path, console: Console, details: Console | None = None, *, insecure_no_auth: bool = False
) -> int:
    """Print a drawing of each graph and a line for each problem. Tracebacks are printed to `details`. Return 1 if there
    are problems, otherwise 0."""
    try:
        config = load_config(config_path)
    except ConfigError as error:
        _print_problem(console, Problem("configuration", error.message))
        return 1
    prepare_environment(config)
    modules = ProjectModules(config.root)
    registry = load_registry(config, modules)
    problems = [Problem(config.path.name, description) for description in config.problems]
    problems += [Problem(name, str(error), error.traceback) for name, error in registry.load_errors().items()]
    problems += anyio.run(_draw_all, registry, console)
    problems += anyio.run(_check_sections, config, modules, insecure_no_auth)
    for problem in problems:
        _print_problem(console, problem)
        if details is not None:
            print_traceback(details, problem.traceback)
    for warning in [*config.warnings, *dict.fromkeys(modules.notes)]:
        console.print(Text.assemble(("! ", "yellow"), (config.path.name, "bold"), f"  {warning}"), soft_wrap=True)
    return 1 if problems else 0


async def _check_sections(config: ProjectConfig, modules: ProjectModules, insecure_no_auth: bool) -> Problems:
    """Return the problems of everything except the graphs. Opens and closes everything that the server would open."""
    checks: dict[str, Callable[[], Awaitable[None]]] = {
        "settings": partial(_check_settings, config),
        **({} if insecure_no_auth else {"auth": partial(_check_auth, config, modules)}),
        "http": partial(_check_application, config, modules),
        "webhooks": partial(_check_webhooks, config),
        "checkpointer": partial(_check_saver, config, modules),
        "store": partial(_check_store, config, modules),
    }
    problems = []
    for name, check_section in checks.items():
        try:
            await check_section()
        except ConfigError as error:
            problems.append(Problem(name, error.message, load_traceback(error)))
    return problems


async def _check_settings(config: ProjectConfig) -> None:
    reject_unknown_variables()
    graph_configs(os.environ)
    check_settings(read_settings(config=config.path), list(config.graphs))


async def _check_auth(config: ProjectConfig, modules: ProjectModules) -> None:
    load_project_auth(config, modules)


async def _check_application(config: ProjectConfig, modules: ProjectModules) -> None:
    own = load_user_app(config, modules)
    if own is None:
        return
    try:
        async with own.router.lifespan_context(own):
            pass
    except Exception as error:  # the project's code
        raise ConfigError(f'"http"."app": its lifespan failed: {name_and_message(error)}') from error


async def _check_webhooks(config: ProjectConfig) -> None:
    resolve_headers(config.webhooks, os.environ)


async def _check_saver(config: ProjectConfig, modules: ProjectModules) -> None:
    if (source := config.checkpointer.source) is not None:
        async with load_saver(source, modules).opened():
            pass


async def _check_store(config: ProjectConfig, modules: ProjectModules) -> None:
    if (source := config.store.source) is not None:
        async with load_store(source, modules).opened():
            pass
    elif (index := config.store.index) is not None:
        load_embeddings(index.embed, modules)


async def _draw_all(registry: GraphRegistry, console: Console) -> Problems:
    """Draw the graphs that loaded; return the problems of those whose factory fails or does not return a graph."""
    problems = []
    async with open_memory_storage() as storage:
        store = ItemStore(storage.items, None, TtlConfig(), None, system_clock)
        for graph_id in registry.ids():
            if graph_id in registry.failures():
                continue
            try:
                drawing = await _drawing(registry, graph_id, store)
            except GraphUnavailable as error:
                problems.append(Problem(graph_id, error.message))
            except Exception as error:  # a factory is the project's code
                description = f"its factory failed: {name_and_message(error)}"
                problems.append(Problem(graph_id, description, render_traceback(error)))
            else:
                _print_drawing(console, graph_id, registry.description(graph_id), drawing)
    return problems


async def _drawing(registry: GraphRegistry, graph_id: str, store: ItemStore) -> str:
    async with registry.open(graph_id, {"configurable": {}}, store=store, access="assistants.read") as graph:
        return draw(graph)


# Text, not markup: a graph's name or an error may contain square brackets. Lines are never wrapped.
def _print_drawing(console: Console, graph_id: str, description: str | None, drawing: str) -> None:
    heading = Text.assemble(("✓ ", "green"), (graph_id, "bold"))
    if description:
        heading.append(f"  {description}", style="dim")
    console.print(heading, soft_wrap=True)
    for line in drawing.splitlines():
        console.print(Text(f"    {line}"), soft_wrap=True)


def _print_problem(console: Console, problem: Problem) -> None:
    line = Text.assemble(("✗ ", "red"), (problem.location, "bold"), f"  {problem.description}")
    console.print(line, soft_wrap=True)
