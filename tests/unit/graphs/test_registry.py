import json
import sys
from textwrap import dedent
from types import SimpleNamespace

import pytest

from threadwire.errors import GraphUnavailable
from threadwire.graphs.code_reference import CodeReference
from threadwire.graphs.config import load_config, prepare_environment
from threadwire.graphs.project_modules import ProjectModules
from threadwire.graphs.registry import draw, load_registry

pytestmark = [pytest.mark.anyio, pytest.mark.every_version]

PRELUDE = """
import contextlib
from dataclasses import dataclass
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph_sdk.runtime import ServerRuntime

def step(state):
    return {}

builder = StateGraph(MessagesState).add_node("step", step).add_edge(START, "step")
graph = builder.compile(name="compiled")
seen = []
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Writes files and loads their graphs. Imported modules and `sys.path` are reset after the test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def load(graphs, **files):
        for name, code in files.items():
            (tmp_path / f"{name}.py").write_text(dedent(code))
        (tmp_path / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": graphs}))
        config = load_config(tmp_path / "langgraph.json")
        prepare_environment(config)
        return load_registry(config)

    yield SimpleNamespace(load=load, root=tmp_path)
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def factory(project, code):
    """A registry with one graph, created by the factory `make` in `code`, and the module of the factory."""
    registry = project.load({"agent": "agent:make"}, agent=PRELUDE + dedent(code))
    return registry, sys.modules["agent"]


def failure(project, code, attribute="graph"):
    registry = project.load({"agent": f"./agent.py:{attribute}"}, agent=code)
    return registry.failures()["agent"]


# -- graphs and factories ---------------------------------------------------------------------------------------------


async def test_compiled_graph_is_served_unchanged(project):
    registry = project.load({"agent": "agent:graph"}, agent=PRELUDE)
    assert registry.failures() == {}
    async with registry.open("agent", {}) as graph:
        assert graph is sys.modules["agent"].graph


async def test_builder_is_compiled_once(project):
    registry = project.load({"agent": "./agent.py:builder"}, agent=PRELUDE)
    async with registry.open("agent", {}) as first, registry.open("agent", {}) as second:
        assert first is second
        assert await first.ainvoke({"messages": "hello"})


async def test_entrypoint_is_a_graph(project):
    code = """
    from langgraph.func import entrypoint

    @entrypoint()
    def double(number: int) -> int:
        return 2 * number
    """
    registry = project.load({"double": "./agent.py:double"}, agent=code)
    async with registry.open("double", {}) as graph:
        assert await graph.ainvoke(21) == 42


@pytest.mark.parametrize(
    "code",
    [
        "def make(): return graph",
        "def make(): return builder",
        "async def make(): return graph",
        "@contextlib.contextmanager\ndef make(): yield graph",
        "@contextlib.asynccontextmanager\nasync def make(): yield graph",
        "async def make():\n    return contextlib.nullcontext(graph)",
        "class Maker:\n    def __call__(self): return graph\nmake = Maker()",
        "import functools\nmake = functools.partial(lambda which: which, graph)",
    ],
)
async def test_every_kind_of_factory_is_supported(project, code):
    registry, _ = factory(project, code)
    assert registry.failures() == {}
    async with registry.open("agent", {}) as graph:
        assert await graph.ainvoke({"messages": "hello"})


@pytest.mark.parametrize(
    "signature",
    [
        "config: RunnableConfig",
        "settings: RunnableConfig",
        "settings: RunnableConfig | None",
        "settings: 'RunnableConfig'",
        "settings: dict",
        "settings: 'Missing | RunnableConfig'",
        "config",
        "anything",
        "anything, /",
        "*, config",
        "config=None",
        "config, other=1, *args, **kwargs",
    ],
)
async def test_factory_gets_the_config(project, signature):
    name = signature.replace("*, ", "").partition(",")[0].partition(":")[0].partition("=")[0]
    registry, module = factory(project, f"def make({signature}):\n    seen.append({name})\n    return graph")
    assert registry.failures() == {}
    config = {"configurable": {"thread_id": "t"}}
    async with registry.open("agent", config):
        assert module.seen == [config]


@pytest.mark.parametrize(
    "signature",
    [
        "runtime",
        "server: ServerRuntime",
        "server: ServerRuntime[int]",
        "server: ServerRuntime | None",
        "server: 'ServerRuntime[Missing]'",
    ],
)
async def test_factory_gets_the_runtime(project, signature):
    name = signature.partition(":")[0]
    registry, module = factory(project, f"def make({signature}):\n    seen.append({name})\n    return graph")
    config = {"configurable": {"langgraph_auth_user": "ada"}}
    async with registry.open("agent", config, store="the store", context=7):
        (runtime,) = module.seen
    assert runtime.access_context == "threads.create_run"
    assert (runtime.store, runtime.user) == ("the store", "ada")
    assert runtime.execution_runtime.context == 7


async def test_factory_may_take_config_and_runtime(project):
    registry, module = factory(
        project,
        """
        async def make(runtime: ServerRuntime, config: RunnableConfig):
            seen.append((config, runtime.access_context))
            return graph
        """,
    )
    async with registry.open("agent", {"tags": ["a"]}):
        assert module.seen == [({"tags": ["a"]}, "threads.create_run")]


async def test_factory_can_distinguish_a_read_from_a_run(project):
    registry, module = factory(project, "def make(runtime):\n    seen.append(runtime)\n    return graph")
    async with registry.open("agent", {}, access="assistants.read"):
        assert module.seen[0].access_context == "assistants.read"
        assert module.seen[0].execution_runtime is None


async def test_context_is_converted_to_the_class_in_the_annotation(project):
    registry, module = factory(
        project,
        """
        @dataclass
        class Place:
            city: str

        def make(runtime: ServerRuntime[Place]):
            seen.append(runtime.execution_runtime.context)
            return graph
        """,
    )
    async with registry.open("agent", {}, context={"city": "Bern"}):
        assert module.seen == [module.Place("Bern")]


async def test_parameter_with_a_default_is_not_passed(project):
    registry, module = factory(project, "def make(size=3):\n    seen.append(size)\n    return graph")
    async with registry.open("agent", {}):
        assert module.seen == [3]


async def test_factory_is_called_for_every_open(project):
    registry, module = factory(project, "def make():\n    seen.append(1)\n    return graph")
    for _ in range(3):
        async with registry.open("agent", {}):
            pass
    assert len(module.seen) == 3


RESOURCE = """
@contextlib.asynccontextmanager
async def make():
    seen.append("opened")
    try:
        yield graph
    finally:
        seen.append("closed")
"""


async def test_factory_context_is_open_while_the_graph_is(project):
    registry, module = factory(project, RESOURCE)
    async with registry.open("agent", {}):
        assert module.seen == ["opened"]
    assert module.seen == ["opened", "closed"]


async def test_factory_context_is_closed_when_the_run_fails(project):
    registry, module = factory(project, RESOURCE)
    with pytest.raises(ZeroDivisionError):
        async with registry.open("agent", {}):
            raise ZeroDivisionError
    assert module.seen == ["opened", "closed"]


async def test_factory_cannot_suppress_the_error_of_a_run(project):
    registry, _ = factory(
        project,
        """
        @contextlib.contextmanager
        def make():
            with contextlib.suppress(Exception):
                yield graph
        """,
    )
    with pytest.raises(ZeroDivisionError):
        async with registry.open("agent", {}):
            raise ZeroDivisionError


async def test_error_of_a_factory_propagates(project):
    registry, _ = factory(project, "def make():\n    raise PermissionError('no key')")
    with pytest.raises(PermissionError, match="no key"):
        async with registry.open("agent", {}):
            pass


# -- errors -----------------------------------------------------------------------------------------------------------


async def test_error_for_an_unknown_graph_lists_the_known_ones(project):
    registry = project.load({"a": "agent:graph", "b": "agent:graph"}, agent=PRELUDE)
    with pytest.raises(GraphUnavailable, match=r"^Graph 'c' does not exist\. Available graphs: a, b\.$"):
        async with registry.open("c", {}):
            pass


async def test_graph_that_fails_to_load_does_not_affect_the_others(project):
    registry = project.load({"bad": "./bad.py:graph", "good": "./agent.py:graph"}, agent=PRELUDE)
    assert registry.ids() == ["bad", "good"]
    assert list(registry.failures()) == ["bad"]
    async with registry.open("good", {}) as graph:
        assert graph.name == "compiled"
    with pytest.raises(GraphUnavailable, match=r"^Graph 'bad' could not be loaded: file not found"):
        async with registry.open("bad", {}):
            pass


def test_missing_file_is_named(project):
    registry = project.load({"agent": "./sub/agent.py:graph"})
    assert registry.failures() == {"agent": f"file not found: ./sub/agent.py ({project.root / 'sub' / 'agent.py'})"}


def test_javascript_is_rejected(project):
    (project.root / "agent.ts").write_text("export const graph = 1")
    registry = project.load({"agent": "./agent.ts:graph"})
    assert registry.failures()["agent"] == (
        "./agent.ts is not a Python file. Only Python graphs are supported. "
        "Serve this one with npx @langchain/langgraph-cli dev."
    )


def test_missing_package_is_reported_with_the_line_of_the_import(project):
    assert failure(project, "import json\nimport no_such_package\n") == (
        "importing ./agent.py failed: ModuleNotFoundError: No module named 'no_such_package' (agent.py:2)"
    )


def test_error_in_an_imported_module_is_located_there(project):
    registry = project.load(
        {"agent": "./agent.py:graph"},
        agent="import settings_of_agent",
        settings_of_agent="x = 1\ny = x / 0\n",
    )
    assert registry.failures()["agent"] == (
        "importing ./agent.py failed: ZeroDivisionError: division by zero (settings_of_agent.py:2)"
    )


def test_error_inside_a_library_is_located_at_the_call(project):
    message = failure(project, "import json\n\ngraph = json.loads('{')\n")
    assert message.startswith("importing ./agent.py failed: JSONDecodeError: ")
    assert message.endswith("(agent.py:3)")


def test_syntax_error_is_located(project):
    message = failure(project, "x = 1\ndef broken(:\n")
    assert message == "importing ./agent.py failed: SyntaxError: invalid syntax (agent.py:2)"


def test_only_the_first_line_of_an_error_is_shown(project):
    message = failure(project, "raise ValueError('first\\nsecond')")
    assert message == "importing ./agent.py failed: ValueError: first (agent.py:1)"


def test_module_that_exits_does_not_stop_the_server(project):
    assert failure(project, "raise SystemExit(3)") == "importing ./agent.py failed: SystemExit: 3 (agent.py:1)"


def test_failed_import_leaves_no_module_behind(project):
    before = set(sys.modules)
    failure(project, "raise ValueError")
    assert set(sys.modules) == before


def test_missing_module_of_a_project_that_can_be_installed_suggests_to_install_it(project):
    (project.root / "pyproject.toml").touch()
    registry = project.load({"agent": "no_such_package.agent:graph"})
    assert registry.failures()["agent"] == (
        "importing no_such_package.agent failed: ModuleNotFoundError: No module named 'no_such_package'."
        " Is the project installed? Run pip install -e ."
    )


@pytest.mark.parametrize("source", ["copied_package/agent.py", "src/copied_package/agent/__init__.py"])
def test_installed_copy_of_the_projects_own_module_is_noted(tmp_path, monkeypatch, source):
    installed = tmp_path / "venv/site-packages/copied_package/agent.py"
    for file in (installed, tmp_path / source):
        file.parent.mkdir(parents=True)
        file.touch()
    monkeypatch.setattr(sys, "path", [str(installed.parents[1]), *sys.path])
    modules = ProjectModules(tmp_path)
    try:
        modules.load(CodeReference("copied_package.agent", "graph"))
        modules.load(CodeReference("json.decoder", "JSONDecoder"))
    finally:
        for name in ("copied_package.agent", "copied_package"):
            sys.modules.pop(name, None)
    assert modules.notes == [
        f"copied_package.agent was imported from {installed}, an installed copy of {source}:"
        " edits have no effect. Run pip install -e ."
    ]


def test_missing_module_is_named(project):
    registry = project.load({"agent": "no_such_package.agent:graph"})
    assert registry.failures()["agent"] == (
        "importing no_such_package.agent failed: ModuleNotFoundError: No module named 'no_such_package'"
    )


def test_error_for_a_missing_name_lists_the_candidates(project):
    code = PRELUDE + "def make_agent(): return graph\ndef other(): pass\n_hidden_graph = graph\n"
    assert failure(project, code, "grph") == "./agent.py has no 'grph'. It defines: builder, graph, make_agent."


def test_module_without_graphs_is_reported(project):
    assert failure(project, "x = 1") == "./agent.py has no 'graph'. Nothing in it looks like a graph."


@pytest.mark.parametrize(
    ("code", "description"),
    [
        ("graph = 'text'", "an object of type str"),
        ("graph = None", "None"),
        ("class graph: pass", "a class (graph)"),
        ("graph = max", "an object of type builtin_function_or_method"),
    ],
)
def test_object_that_is_not_a_graph_is_described(project, code, description):
    assert failure(project, code) == (
        f"./agent.py:graph is {description}. It must be a compiled graph, a StateGraph, an @entrypoint, "
        "or a function that returns one."
    )


def test_compile_error_of_a_builder_is_reported(project):
    code = PRELUDE + "broken = StateGraph(MessagesState).add_edge(START, 'nowhere')"
    message = failure(project, code, "broken")
    assert message.startswith("./agent.py:broken does not compile: ValueError: ")
    assert "nowhere" in message


def test_required_parameter_without_a_value_is_named(project):
    registry, _ = factory(project, "def make(config, database): return graph")
    assert registry.failures()["agent"] == (
        "agent:make requires a parameter 'database' that the server cannot provide. "
        "A factory may take 'config: RunnableConfig' and 'runtime: ServerRuntime'."
    )


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "def make(): return 'text'",
            "The factory of graph 'agent' returned an object of type str, not a graph.",
        ),
        ("def make(): pass", "The factory of graph 'agent' returned None, not a graph."),
        (
            "async def make(): yield graph",
            "The factory of graph 'agent' is a generator. Decorate it with @contextlib.asynccontextmanager.",
        ),
        (
            "def make(): yield graph",
            "The factory of graph 'agent' is a generator. Decorate it with @contextlib.contextmanager.",
        ),
    ],
)
async def test_factory_that_returns_something_else_is_rejected(project, code, message):
    registry, _ = factory(project, code)
    with pytest.raises(GraphUnavailable) as caught:
        async with registry.open("agent", {}):
            pass
    assert caught.value.message == message


# -- modules ----------------------------------------------------------------------------------------------------------


def test_graphs_in_one_file_share_its_module(project):
    code = PRELUDE + "import counted_imports; counted_imports.count += 1"
    project.load({"a": "./agent.py:graph", "b": "./agent.py:builder"}, agent=code, counted_imports="count = 0")
    assert sys.modules["counted_imports"].count == 1


async def test_module_of_a_file_can_be_found_by_name(project):
    code = PRELUDE + "@dataclass\nclass Stored:\n    x: int\ndef make():\n    seen.append(Stored)\n    return graph"
    project.load({"agent": "./agent.py:make"}, agent=code)
    (module,) = [m for m in sys.modules.values() if getattr(m, "__file__", "") == str(project.root / "agent.py")]
    assert sys.modules[module.Stored.__module__] is module


def test_module_name_does_not_depend_on_the_location_of_the_project(project, tmp_path_factory):
    def module_name(root):
        (root / "agent.py").write_text(PRELUDE)
        (root / "langgraph.json").write_text(json.dumps({"graphs": {"agent": "./agent.py:graph"}}))
        before = set(sys.modules)
        load_registry(load_config(root / "langgraph.json"))
        (name,) = {name for name in set(sys.modules) - before if name.startswith("threadwire_graphs_")}
        del sys.modules[name]
        return name

    assert module_name(project.root) == module_name(tmp_path_factory.mktemp("elsewhere"))


async def test_two_projects_may_have_files_with_the_same_name(project, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    first = project.load({"agent": "./agent.py:graph"}, agent=PRELUDE)
    (other / "agent.py").write_text(PRELUDE.replace('"compiled"', '"another"'))
    (other / "langgraph.json").write_text(json.dumps({"graphs": {"agent": "./agent.py:graph"}}))
    before = set(sys.modules)
    second = load_registry(load_config(other / "langgraph.json"))
    async with first.open("agent", {}) as one, second.open("agent", {}) as two:
        assert (one.name, two.name) == ("compiled", "another")
    (name,) = set(sys.modules) - before
    del sys.modules[name]


# -- options of a graph -----------------------------------------------------------------------------------------------


def test_options_of_a_failed_graph_are_available(project):
    entry = {
        "path": "./missing.py:graph",
        "description": "Does it.",
        "stream_models": False,
        "interrupt_outcome": False,
        "raw_events": ["updates", "custom"],
    }
    registry = project.load({"bad": entry, "plain": "./missing.py:graph"})
    options = [
        (registry.description(each), registry.stream_models(each), registry.interrupt_outcome(each))
        for each in ("bad", "plain")
    ]
    assert options == [("Does it.", False, False), (None, True, True)]
    with pytest.raises(GraphUnavailable, match="Graph 'other' does not exist"):
        registry.description("other")
    assert registry.interrupt_outcome("other"), "its threads still exist"
    raw = [registry.raw_events(each) for each in ("bad", "plain", "other")]
    assert raw == [("updates", "custom"), False, False]


# -- drawing and reloading --------------------------------------------------------------------------------------------


async def test_drawing_shows_every_edge(project):
    code = PRELUDE + (
        "def route(state): return 'again'\n"
        "loop = (StateGraph(MessagesState).add_node('model', step).add_node('tools', step)\n"
        "    .add_edge(START, 'model').add_edge('tools', 'model')\n"
        "    .add_conditional_edges('model', route, {'again': 'tools', END: END}))\n"
    )
    registry = project.load({"loop": "./agent.py:loop"}, agent=code)
    async with registry.open("loop", {}) as graph:
        assert draw(graph).splitlines() == [
            "__start__ → model",
            "model     ⇢ __end__ (conditional)",
            "model     ⇢ tools (conditional: again)",
            "tools     → model",
        ]


async def test_registry_can_be_replaced_while_a_graph_is_open(project):
    serving = project.load({"agent": "./agent.py:graph", "old": "./agent.py:builder"}, agent=PRELUDE)
    fresh = project.load({"agent": "./other.py:graph", "new": "./other.py:builder"}, other=PRELUDE)
    async with serving.open("agent", {}) as before:
        serving.replace_with(fresh)
        assert serving.ids() == ["agent", "new"]
        async with serving.open("agent", {}) as after:
            assert before is not after
    with pytest.raises(GraphUnavailable, match=r"Graph 'old' does not exist\. Available graphs: agent, new\."):
        async with serving.open("old", {}):
            pass
