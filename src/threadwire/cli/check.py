"""`threadwire check`: is everything that langgraph.json names there, and does it load?"""

from pathlib import Path

import anyio
from rich.console import Console
from rich.text import Text

from threadwire.errors import ConfigError, GraphUnavailable
from threadwire.graphs.config import load_config, prepare_environment
from threadwire.graphs.registry import GraphRegistry, draw, load_registry


def check(config_path: Path, console: Console) -> int:
    """Print each graph's drawing, or the line that says what is wrong with it; 0 if nothing is."""
    try:
        config = load_config(config_path)
    except ConfigError as mistake:
        _print_problem(console, "configuration", mistake.message)
        return 1
    prepare_environment(config)
    registry = load_registry(config)
    failures = registry.failures() | anyio.run(_draw_all, registry, console)
    for graph_id, problem in failures.items():
        _print_problem(console, graph_id, problem)
    return 1 if failures else 0


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
