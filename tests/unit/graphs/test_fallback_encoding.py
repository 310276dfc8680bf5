"""No value in a state fails a run. Values that a checkpoint cannot store are stored as their JSON rendering."""

import os
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from attempts import FakeRecorder, attempt
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langchain_core.callbacks import dispatch_custom_event
from langchain_core.messages import AIMessage
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.store.memory import InMemoryStore
from langgraph.types import Interrupt, Send, interrupt
from pydantic import BaseModel, SecretStr
from structlog.testing import capture_logs

from arbitrary_values import AlwaysRaises, Colour, anything
from threadwire.core.channel_of_value import writing_channels
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.json import native
from threadwire.core.records import Ending
from threadwire.graphs import state
from threadwire.graphs.execution import Execution
from threadwire.graphs.persistence_config import CheckpointerConfig
from threadwire.graphs.serializer import CheckpointSerializer, checkpoint_serializer
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage
from threadwire.storage.sqlite import open_sqlite_storage

EXAMPLES = int(os.environ.get("THREADWIRE_HYPOTHESIS_EXAMPLES", "60"))


@dataclass
class Held:
    value: Any


class Model(BaseModel):
    value: Any = None


class DeepDict:
    def to_dict(self) -> dict[str, Any]:
        return {"k": nested(300)}


def nested(depth: int) -> Any:
    value: Any = "bottom"
    for level in range(depth):
        value = [value] if level % 2 else {"down": value}
    return value


def cyclic_list() -> Any:
    value: list[Any] = [1]
    value.append({"again": value})
    return value


def cyclic_object() -> Any:
    value = Held(None)
    value.value = [value]
    return value


def chained(length: int) -> Any:
    value: Any = 1j
    for _ in range(length):
        value = Held(value)
    return value


def create_serializer() -> CheckpointSerializer:
    serializer = checkpoint_serializer(CheckpointerConfig())
    assert isinstance(serializer, CheckpointSerializer)
    return serializer


def round_trip(value: Any) -> Any:
    serializer = create_serializer()
    return serializer.loads_typed(serializer.dumps_typed(value))


# -- round trips -------------------------------------------------------------------------------------------------------

large_integers = st.integers(min_value=2**64) | st.integers(max_value=-(2**63) - 1)
exact = st.one_of(
    st.integers(),
    large_integers,
    st.complex_numbers(allow_nan=False),
    st.fractions(),
    st.builds(range, st.integers(), st.integers(), st.integers(min_value=1)),
)


@given(exact)
def test_numbers_of_every_kind_round_trip(value: Any) -> None:
    assert round_trip(value) == value
    assert type(round_trip(value)) is type(value)
    assert round_trip({"deep": [value, {"er": value}]}) == {"deep": [value, {"er": value}]}
    assert round_trip({value}) == {value}
    assert round_trip(deque([value])) == deque([value])
    assert round_trip(Interrupt(value=value, id="1")) == Interrupt(value=value, id="1")
    assert round_trip([Send("node", {"x": value})]) == [Send("node", {"x": value})]


@given(large_integers | st.complex_numbers(allow_nan=False))
def test_messages_with_unsupported_numbers_round_trip(value: Any) -> None:
    message = AIMessage("said", id="1", additional_kwargs={"odd": value})
    assert round_trip([message]) == [message]


def test_integer_with_too_many_decimal_digits_round_trips() -> None:
    assert round_trip(10**5000) == 10**5000
    assert round_trip(-(10**5000)) == -(10**5000)


def test_supported_values_next_to_unsupported_ones_round_trip() -> None:
    value = {"plain": [1, "a", None, 1.5, b"raw"], "set": {1, 2}, "id": uuid.UUID(int=1), "odd": object}
    assert round_trip(value) == {**value, "odd": "<class 'object'>"}


restricts_types = pytest.mark.needs("langgraph-checkpoint", "4.0.1")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (int, "<class 'int'>"),
        (Held, f"<class '{__name__}.Held'>"),
        (Model, f"<class '{__name__}.Model'>"),
        ([Held], [f"<class '{__name__}.Held'>"]),
        (Interrupt(value=Held, id="1"), Interrupt(value=f"<class '{__name__}.Held'>", id="1")),
        (AlwaysRaises(), "<AlwaysRaises>"),
        ({"\ud800": 1}, {"?": 1}),
        ({1j: "a", frozenset({1}): "b", 10**30: "c"}, {"1j": "a", "[1]": "b", str(10**30): "c"}),
        (cyclic_list(), [1, {"again": "<list>"}]),
        pytest.param(Held(Held(int)), {"value": {"value": "<class 'int'>"}}, marks=restricts_types),
        pytest.param(Model(value=Held(1j)), {"value": {"value": 1j}}, marks=restricts_types),
        pytest.param(cyclic_object(), {"value": ["<Held>"]}, marks=restricts_types),
        (Fraction(1, 3), Fraction(1, 3)),
        (memoryview(b"abcd")[::2], "YWM="),
        pytest.param(Colour.HUGE, 10**30, marks=restricts_types),
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_unsupported_value_is_stored_as_its_json_rendering(value: Any, expected: Any) -> None:
    assert round_trip(value) == expected


@pytest.mark.parametrize("value", [nested(300), nested(5_000), DeepDict(), chained(300), Model(value=nested(300))])
def test_depth_is_limited(value: Any) -> None:
    native(round_trip(value))


@given(anything)
def test_arbitrary_values_can_be_written_and_read(value: Any) -> None:
    native(round_trip(value))
    native(round_trip([value]))
    assert isinstance(round_trip(Interrupt(value=value, id="1")), Interrupt)
    (sent,) = round_trip((Send("node", value),))
    assert isinstance(sent, Send)


def test_secret_stays_a_secret() -> None:
    assert round_trip({"key": SecretStr("abc")}) == {"key": SecretStr("abc")}


# -- warnings ----------------------------------------------------------------------------------------------------------


def test_fallback_is_logged_once_per_type_and_channel() -> None:
    serializer, values = create_serializer(), {"fine": [1j], "odd": {"a": [len]}}
    with capture_logs() as logs, writing_channels(values.items()):
        for value in (*values.values(), *values.values()):
            serializer.dumps_typed(value)
    (log,) = logs
    assert log["log_level"] == "warning"
    assert log["event"] == "checkpoint_value_stored_as_json"
    assert log["type"] == "builtins.builtin_function_or_method"
    assert log["channel"] == "odd"


# -- whole runs --------------------------------------------------------------------------------------------------------


class State(TypedDict, total=False):
    which: int
    value: Any
    answer: Any
    messages: Annotated[list[Any], add_messages]


def graph_of(value: Any) -> Any:
    def emit(_: State) -> Any:
        get_stream_writer()(value)
        dispatch_custom_event("odd", value)
        message = AIMessage("said", additional_kwargs={"odd": value}, response_metadata={"odd": [value]})
        return {"value": value, "messages": [message]}

    def ask(_: State) -> Any:
        return {"answer": interrupt(value)}

    graph = StateGraph(State).add_node("emit", emit).add_node("ask", ask)
    return graph.add_edge(START, "emit").add_edge("emit", "ask").compile()


async def drive(storage: Storage, graph: Any, thread_id: ThreadId, **kwargs: Any) -> Ending:
    modes = ["values", "debug", "tasks", "checkpoints", "events"]
    new_attempt = attempt(RunId(str(uuid.uuid4())), thread_id, stream_mode=modes, **kwargs)
    execution = Execution(new_attempt, FakeRecorder())
    return await execution.drive(graph, storage.checkpoints.saver(durability="sync"), InMemoryStore())


async def run_to_the_end(storage: Storage, value: Any) -> None:
    graph, thread_id = graph_of(value), ThreadId(str(uuid.uuid4()))
    ending = await drive(storage, graph, thread_id, input={"which": 1})
    assert ending.status == "success", ending
    assert len(ending.interrupts) == 1
    saver, configurable = storage.checkpoints.saver(), {"thread_id": thread_id, "checkpoint_ns": ""}
    thread_state = await state.read(graph, saver, configurable, subgraphs=False)
    assert len(thread_state["interrupts"]) == 1
    assert len(await state.history(graph, saver, configurable, limit=10, before=None, metadata=None)) == 3
    ending = await drive(storage, graph, thread_id, command={"resume": "yes"})
    assert ending.status == "success", ending
    thread_state = await state.read(graph, saver, configurable, subgraphs=False)
    assert (thread_state["values"]["answer"], thread_state["next"]) == ("yes", [])


@contextmanager
def open_storage(driver: str, folder: Path) -> Iterator[tuple[BlockingPortal, Storage]]:
    serializer = checkpoint_serializer(CheckpointerConfig())
    opening = (
        open_memory_storage(serializer=serializer)
        if driver == "memory"
        else open_sqlite_storage(folder, serializer=serializer)
    )
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opening) as storage:
        yield portal, storage


@pytest.fixture(scope="module", params=["memory", "sqlite"])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with open_storage(request.param, tmp_path_factory.mktemp("unsupported")) as opened:
        yield opened


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=anything)
@example(value={"\ud800": 1})
@example(value=[1j, int, 10**30])
@example(value=cyclic_list())
@example(value=cyclic_object())
@example(value=nested(300))
def test_no_value_fails_a_run(home: tuple[BlockingPortal, Storage], value: Any) -> None:
    portal, storage = home
    portal.call(run_to_the_end, storage, value)


class Unique:
    """A type that no other test puts into a state."""


def test_warnings_name_the_channel(home: tuple[BlockingPortal, Storage]) -> None:
    portal, storage = home
    with capture_logs() as logs:
        portal.call(run_to_the_end, storage, Unique())
    channels = [each["channel"] for each in logs if each.get("type") == f"{__name__}.Unique"]
    assert sorted(channels) == ["__interrupt__", "messages", "value"]
