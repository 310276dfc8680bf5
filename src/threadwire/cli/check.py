"""`threadwire check`: is everything that langgraph.json names there, and does it load?"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
from rich.console import Console
from rich.text import Text

from threadwire.errors import ConfigError, GraphUnavailable
from threadwire.graphs.config import ProjectConfig, load_config, prepare_environment
from threadwire.graphs.memory import load_memory
from threadwire.graphs.modules import ProjectModules
from threadwire.graphs.registry import GraphRegistry, draw, load_registry
from threadwire.server.project import load_own_app, refuse_open_door


def check(config_path: Path, console: Console) -> int:
    """Print each graph's drawing, or the line that says what is wrong with it; 0 if nothing is."""
    try:
        config = load_config(config_path)
    except ConfigError as mistake:
        _print_problem(console, "configuration", mistake.message)
        return 1
    prepare_environment(config)
    modules = ProjectModules(config.root)
    registry = load_registry(config, modules)
    problems = registry.failures() | anyio.run(_draw_all, registry, console) | _about_the_rest(config, modules)
    for name, problem in problems.items():
        _print_problem(console, name, problem)
    for warning in config.warnings:
        console.print(Text.assemble(("! ", "yellow"), (config.path.name, "bold"), f"  {warning}"), soft_wrap=True)
    return 1 if problems else 0


def _about_the_rest(config: ProjectConfig, modules: ProjectModules) -> dict[str, str]:
    """What is wrong with what is around the graphs."""
    looks: dict[str, Callable[[], object]] = {
        "auth": partial(refuse_open_door, config),
        "http": partial(load_own_app, config, modules),
        "configuration": partial(load_memory, config, modules),
    }
    problems = {}
    for name, look in looks.items():
        try:
            look()
        except ConfigError as mistake:
            problems[name] = mistake.message
    return problems


async def _draw_all(registry: GraphRegistry, console: Console) -> dict[str, str]:
    """Draw what loaded; return what went wrong with those whose factory does not give a graph."""
    problems = {}
    for graph_id in registry.ids():
        if graph_id in registry.failures():
            continue
        try:
            drawing = await _drawing(registry, graph_id)
        except GraphUnavailable as error:
            problems[graph_id] = error.message
        except Exception as error:  # a factory is the user's code
            reason = str(error).partition("\n")[0]
            problems[graph_id] = f"calling its factory failed: {type(error).__name__}: {reason}"
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
