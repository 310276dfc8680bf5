"""docs/reference/versions.md lists every fallback and the supported versions."""

import ast
import re
import tomllib
from pathlib import Path

from threadwire.server.process_patches import PROCESS_PATCHES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "versions.md").read_text()


def reported_pieces() -> set[str]:
    """The first argument of each call of `report_fallback`, where it is a literal."""
    modules = (ROOT / "src" / "threadwire" / "graphs" / "langgraph_private").glob("*.py")
    calls = [node for path in modules for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    named = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "report_fallback"]
    return {call.args[0].value for call in named if isinstance(call.args[0], ast.Constant)}


def test_every_fallback_is_listed() -> None:
    _, _, table = PAGE.partition("## When LangGraph changes")
    listed = {name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`([^`]+)`", row)}
    assert listed - {"piece"} == reported_pieces() | {patch.piece for patch in PROCESS_PATCHES}


def test_the_oldest_versions_are_those_of_the_package_and_of_the_tests() -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    floors = dict(match.groups() for each in dependencies if (match := re.match(r"(lang[\w-]+)>=([\d.]+)", each)))
    listed = dict(re.findall(r"^\| `(lang[\w-]+)` \| ([\d.]+)", PAGE, re.M))
    assert listed == floors
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints-oldest.txt").read_text(), re.M))
    assert all(pinned[name] in (oldest, f"{oldest}.0") for name, oldest in floors.items())
