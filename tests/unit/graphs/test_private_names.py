"""Only `graphs/langgraph_private` uses what LangGraph, its SDK and LangChain do not promise."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src" / "threadwire"
PRIVATE = SOURCE / "graphs" / "langgraph_private"
LIBRARIES = ("langgraph", "langgraph_sdk", "langchain_core", "langchain", "langsmith")


def private_uses(source: str) -> Iterator[str]:
    """Private modules, names and attributes of the libraries, assignments to their attributes, and private keys."""
    tree = ast.parse(source)
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            paths = _imported_paths(node)
            yield from (path for path in paths if any(part.startswith("_") for part in path.split(".")))
            imported |= {(alias.asname or alias.name).split(".")[0] for alias in node.names} if paths else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _root(node) in imported:
            is_private = node.attr.startswith("_") and not node.attr.startswith("__")
            if is_private or isinstance(node.ctx, ast.Store | ast.Del):
                yield ast.unparse(node)
        elif isinstance(node, ast.Call) and _is_setattr(node) and _root(node.args[0]) in imported:
            yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and str(node.value).startswith("__pregel"):
            yield repr(node.value)


def _imported_paths(node: ast.Import | ast.ImportFrom) -> list[str]:
    module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
    paths = [f"{module}.{alias.name}".strip(".") for alias in node.names]
    return [path for path in paths if path.split(".")[0] in LIBRARIES]


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _is_setattr(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr") and bool(node.args)


def test_no_other_module_uses_private_names() -> None:
    modules = [path for path in SOURCE.rglob("*.py") if not path.is_relative_to(PRIVATE)]
    found = {str(path.relative_to(SOURCE)): list(private_uses(path.read_text())) for path in modules}
    assert len(found) > 200
    assert {path: uses for path, uses in found.items() if uses} == {}


def test_the_package_imports_nothing_else_of_graphs() -> None:
    allowed = ("threadwire.core.", "threadwire.graphs.langgraph_private.")
    for path in PRIVATE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("threadwire."):
                assert f"{node.module}.".startswith(allowed), path.name


@pytest.mark.parametrize(
    "source",
    [
        "from langgraph.pregel._tools import StreamToolCallHandler",
        "from langgraph_sdk.runtime import _ReadRuntime",
        "import langgraph._internal._constants",
        "from langgraph.checkpoint.serde import jsonplus\njsonplus._option",
        "from langgraph.checkpoint.base import id as ids\nids.time = None",
        "from langgraph.pregel import debug\nsetattr(debug, 'asdict', dict)",
        "config['__pregel_stream']",
    ],
)
def test_private_uses_are_found(source: str) -> None:
    assert list(private_uses(source))


def test_public_uses_are_allowed() -> None:
    source = "from langgraph.types import Command\nCommand.update\nimport threading\nthreading._x = 1\nCommand.__doc__"
    assert list(private_uses(source)) == []
