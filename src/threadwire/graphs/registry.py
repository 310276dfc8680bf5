"""The project's graphs, imported and ready to be opened.

A graph that fails to load does not affect the others. The registry stores a one-line reason, for `threadwire check`,
for the log at startup, and for requests that need the graph.

A graph may be created by a factory: a function or a context manager, sync or async. A factory takes the run's config,
the server's runtime, both or neither; its signature is read once, when it is loaded.
"""

import inspect
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import structlog
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore
from langgraph_sdk.runtime import AccessContext

from threadwire.core.raw_modes import RawModes
from threadwire.errors import ConfigError, GraphUnavailable
from threadwire.graphs.chatkit_config import ChatKitSection, load_chatkit
from threadwire.graphs.config import GraphSource, ProjectConfig
from threadwire.graphs.context_schema import build_context
from threadwire.graphs.langgraph_private.server_runtime import (
    can_create_runtimes,
    context_type,
    is_runtime,
    reading_runtime,
    running_runtime,
)
from threadwire.graphs.project_modules import LoadError, ProjectModules, name_and_message
from threadwire.graphs.ui import UiBundles

logger = structlog.get_logger("threadwire.graphs")

AnyGraph = Pregel[Any, Any, Any, Any]
Role = Literal["config", "runtime"]


class UnfillableParameter(Exception):
    """A factory requires a parameter that the server cannot provide. The message is the parameter's name."""


@dataclass(frozen=True)
class Opening:
    """What the server can pass to a factory."""

    config: dict[str, Any]
    store: Any
    context: Any
    access: AccessContext


@dataclass(frozen=True)
class Argument:
    name: str
    role: Role
    positional: bool
    context_type: Any = None
    """`C` of a parameter annotated `ServerRuntime[C]`."""


@dataclass(frozen=True)
class Factory:
    function: Callable[..., Any]
    arguments: tuple[Argument, ...]

    async def create(self, opening: Opening, resources: AsyncExitStack) -> object:
        """Call the function. Context managers are entered on `resources`, which the caller closes."""
        values = [(argument, _value(argument, opening)) for argument in self.arguments]
        result = self.function(
            *(value for argument, value in values if argument.positional),
            **{argument.name: value for argument, value in values if not argument.positional},
        )
        if inspect.isawaitable(result):
            result = await result
        if isinstance(result, AbstractAsyncContextManager):
            return await resources.enter_async_context(result)
        if isinstance(result, AbstractContextManager):
            return resources.enter_context(result)
        return result


@dataclass(frozen=True)
class GraphSpec:
    """A loaded graph: either the graph itself, shared by all runs, or a factory that is called for every `open`."""

    graph_id: str
    source: GraphSource
    target: AnyGraph | Factory


class GraphRegistry:
    def __init__(
        self,
        config: ProjectConfig,
        loaded: Mapping[str, GraphSpec | LoadError],
        default_configs: Mapping[str, dict[str, Any]] | None = None,
        chatkit: Mapping[str, ChatKitSection] | None = None,
    ) -> None:
        self._sources = dict(config.graphs)
        self._default_configs = dict(default_configs or {})
        self._loaded = dict(loaded)
        self.chatkit: Mapping[str, ChatKitSection] = dict(chatkit or {})
        """How the graphs look in ChatKit. Replaced as a whole when the project is reloaded."""
        self.ui = UiBundles(config.ui)
        self._checked_overrides: set[str] = set()
        self.generation = 0
        """Changes whenever the graphs may have changed."""

    def replace_with(self, fresh: "GraphRegistry") -> None:
        """Serve the graphs of `fresh` from now on. Graphs that are open keep the code they were opened with."""
        self._sources, self._loaded, self.ui = fresh._sources, fresh._loaded, fresh.ui
        self._default_configs, self.chatkit = fresh._default_configs, fresh.chatkit
        self.generation += 1

    def ids(self) -> list[str]:
        """All graphs of the config in order, including those that failed to load."""
        return list(self._sources)

    def failures(self) -> dict[str, str]:
        return {graph_id: str(error) for graph_id, error in self.load_errors().items()}

    def load_errors(self) -> dict[str, LoadError]:
        return {graph_id: result for graph_id, result in self._loaded.items() if isinstance(result, LoadError)}

    def description(self, graph_id: str) -> str | None:
        return self._source(graph_id).description

    def default_config(self, graph_id: str) -> dict[str, Any]:
        """The config with which the graph's default assistant is created."""
        return self._default_configs.get(graph_id, {})

    def stream_models(self, graph_id: str) -> bool:
        return self._source(graph_id).stream_models

    def interrupt_outcome(self, graph_id: str) -> bool:
        """Whether clients receive interrupts as run outcomes. True for removed graphs, whose threads still exist."""
        source = self._sources.get(graph_id)
        return source is None or source.interrupt_outcome

    def raw_events(self, graph_id: str) -> bool | RawModes:
        """Which RAW events AG-UI clients receive by default. False for removed graphs, whose threads still exist."""
        source = self._sources.get(graph_id)
        return source is not None and source.raw_events

    def has_factory(self, graph_id: str) -> bool:
        """Whether a factory creates the graph, so that opening it may depend on the config."""
        return isinstance(self._spec(graph_id).target, Factory)

    @asynccontextmanager
    async def open(
        self,
        graph_id: str,
        config: dict[str, Any],
        *,
        store: Any = None,
        context: Any = None,
        access: AccessContext = "threads.create_run",
    ) -> AsyncIterator[AnyGraph]:
        """Yield the graph, ready to run; the factory's context manager, if any, is closed afterwards.

        The graph may be shared: set a checkpointer on a `copy`, never in place. Raises `GraphUnavailable` if the graph
        is unknown or failed to load, or if its factory did not return a graph. Exceptions of the factory itself and of
        the `async with` block propagate unchanged.
        """
        target = self._spec(graph_id).target
        if isinstance(target, Pregel):
            self._warn_about_ignored(graph_id, target)
            yield target
            return
        resources = AsyncExitStack()
        opening = Opening(config=config, store=store, context=context, access=access)
        try:
            graph = _as_graph(graph_id, await target.create(opening, resources))
            self._warn_about_ignored(graph_id, graph)
            yield graph
        except BaseException as error:
            # Not `async with`: a factory that suppresses exceptions would turn a failed run into a successful one.
            await resources.__aexit__(type(error), error, error.__traceback__)
            raise
        await resources.aclose()

    def _warn_about_ignored(self, graph_id: str, graph: AnyGraph) -> None:
        """Warn once per graph that the checkpointer or store it was compiled with is ignored.

        The API reads the server's, so it would not show what the graph stores elsewhere.
        """
        if graph_id in self._checked_overrides:
            return
        self._checked_overrides.add(graph_id)
        compiled_with = {"checkpointer": graph.checkpointer, "store": graph.store}
        for key, value in compiled_with.items():
            if isinstance(value, (BaseCheckpointSaver, BaseStore)):
                logger.warning(
                    f"graph_{key}_ignored",
                    graph_id=graph_id,
                    type=type(value).__name__,
                    hint=f'The server uses its own. To use yours, set "{key}" in langgraph.json.',
                )

    def _source(self, graph_id: str) -> GraphSource:
        if (source := self._sources.get(graph_id)) is None:
            raise self._missing(graph_id)
        return source

    def _missing(self, graph_id: str) -> GraphUnavailable:
        return GraphUnavailable(f"Graph '{graph_id}' does not exist. Available graphs: {', '.join(self._sources)}.")

    def _spec(self, graph_id: str) -> GraphSpec:
        if (result := self._loaded.get(graph_id)) is None:
            raise self._missing(graph_id)
        if isinstance(result, LoadError):
            raise GraphUnavailable(f"Graph '{graph_id}' could not be loaded: {result}")
        return result


def load_registry(
    config: ProjectConfig,
    modules: ProjectModules | None = None,
    default_configs: Mapping[str, dict[str, Any]] | None = None,
) -> GraphRegistry:
    """Import every graph of the config. Requires `prepare_environment`."""
    modules = modules or ProjectModules(config.root)
    loaded: dict[str, GraphSpec | LoadError] = {}
    chatkit: dict[str, ChatKitSection] = {}
    for graph_id, source in config.graphs.items():
        try:
            loaded[graph_id] = GraphSpec(graph_id, source, _load_target(source, modules))
        except LoadError as failure:
            loaded[graph_id] = failure
        try:
            chatkit[graph_id] = load_chatkit(source.chatkit, config.root, modules)
        except ConfigError as error:
            raise ConfigError(f'{config.path}: "graphs"."{graph_id}".{error.message}') from error
    return GraphRegistry(config, loaded, default_configs, chatkit)


def draw(graph: AnyGraph) -> str:
    """Render the graph as text, one edge per line. Dashed arrows are conditional edges."""
    drawable = graph.get_graph()
    width = max((len(edge.source) for edge in drawable.edges), default=0)
    lines = []
    for edge in drawable.edges:
        arrow, note = ("⇢", " (conditional)") if edge.conditional else ("→", "")
        if edge.conditional and edge.data and edge.data != edge.target:
            note = f" (conditional: {edge.data})"
        lines.append(f"{edge.source.ljust(width)} {arrow} {edge.target}{note}")
    connected = {name for edge in drawable.edges for name in (edge.source, edge.target)}
    lines += [name for name in drawable.nodes if name not in connected]
    return "\n".join(lines)


def _load_target(source: GraphSource, modules: ProjectModules) -> AnyGraph | Factory:
    if source.problem is not None:
        raise LoadError(source.problem)
    module = modules.load(source)
    try:
        found = getattr(module, source.attribute)
    except AttributeError:
        raise LoadError(f"{source.location} has no '{source.attribute}'. {_candidates(module)}") from None
    match found:
        case Pregel():
            return found
        case StateGraph():
            return _compile(source, found)
        case _ if callable(found) and not inspect.isclass(found):
            return _factory(source, found)
        case _:
            raise _wrong_type(source, found)


def _wrong_type(source: GraphSource, found: object) -> LoadError:
    return LoadError(
        f"{source} is {_describe(found)}. It must be a compiled graph, a StateGraph, an @entrypoint, "
        f"or a function that returns one."
    )


def _compile(source: GraphSource, builder: StateGraph[Any, Any, Any, Any]) -> AnyGraph:
    try:
        return builder.compile()
    except Exception as error:
        raise LoadError(f"{source} does not compile: {name_and_message(error)}") from error


def _factory(source: GraphSource, function: Callable[..., Any]) -> Factory:
    try:
        return _read_factory(function)
    except UnfillableParameter as parameter:
        raise LoadError(
            f"{source} requires a parameter '{parameter}' that the server cannot provide. "
            f"A factory may take 'config: RunnableConfig' and 'runtime: ServerRuntime'."
        ) from None
    except (TypeError, ValueError):  # a built-in without a signature
        raise _wrong_type(source, function) from None


def _read_factory(function: Callable[..., Any]) -> Factory:
    """Raises `UnfillableParameter` for a required parameter that is neither a config nor a runtime."""
    annotations = _annotations(function)
    parameters = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    required = [parameter for parameter in parameters if parameter.default is parameter.empty]
    arguments = []
    for parameter in parameters:
        annotation = annotations.get(parameter.name, parameter.annotation)
        role = _role(parameter.name, annotation)
        if role is None and required == [parameter] and annotation in (parameter.empty, dict):
            role = "config"  # `def make(cfg)`, the oldest form
        if role == "config" or (role == "runtime" and can_create_runtimes()):
            positional = parameter.kind is parameter.POSITIONAL_ONLY
            arguments.append(Argument(parameter.name, role, positional, context_type(annotation)))
        elif parameter in required:
            raise UnfillableParameter(parameter.name)
    return Factory(function, tuple(arguments))


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(inspect.unwrap(function))
    except Exception:
        # Names imported under TYPE_CHECKING do not exist at runtime. The annotation strings and the parameter
        # names are enough to find the roles.
        return {}


def _role(name: str, annotation: Any) -> Role | None:
    for candidate in (annotation, *get_args(annotation)):
        origin = get_origin(candidate) or candidate
        if origin is RunnableConfig:
            return "config"
        if is_runtime(origin):
            return "runtime"
    if isinstance(annotation, str):
        if "ServerRuntime" in annotation:
            return "runtime"
        if "RunnableConfig" in annotation:
            return "config"
    if name == "config":
        return "config"
    return "runtime" if name == "runtime" else None


def _value(argument: Argument, opening: Opening) -> Any:
    if argument.role == "config":
        return opening.config
    user = opening.config.get("configurable", {}).get("langgraph_auth_user")
    if opening.access != "threads.create_run":
        return reading_runtime(opening.access, user=user, store=opening.store)
    context = build_context(opening.context, argument.context_type)
    return running_runtime(opening.access, user=user, store=opening.store, context=context)


def _as_graph(graph_id: str, result: object) -> AnyGraph:
    match result:
        case Pregel():
            return result
        case StateGraph():
            return result.compile()
        case _ if inspect.isgenerator(result) or inspect.isasyncgen(result):
            decorator = "asynccontextmanager" if inspect.isasyncgen(result) else "contextmanager"
            raise GraphUnavailable(
                f"The factory of graph '{graph_id}' is a generator. Decorate it with @contextlib.{decorator}."
            )
        case _:
            raise GraphUnavailable(f"The factory of graph '{graph_id}' returned {_describe(result)}, not a graph.")


def _candidates(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if _looks_like_graph(name, value, module)]
    if not names:
        return "Nothing in it looks like a graph."
    return "It defines: " + ", ".join(names) + "."


def _looks_like_graph(name: str, value: object, module: ModuleType) -> bool:
    if name.startswith("_"):
        return False
    if isinstance(value, (Pregel, StateGraph)):
        return True
    is_own_function = inspect.isfunction(value) and value.__module__ == module.__name__
    return is_own_function and re.search("graph|agent|workflow", name, re.IGNORECASE) is not None


def _describe(value: object) -> str:
    if value is None:
        return "None"
    if inspect.isclass(value):
        return f"a class ({value.__name__})"
    return f"an object of type {type(value).__name__}"
