"""No value that a graph puts anywhere ends a run, and what a checkpoint cannot hold is kept as it is shown."""

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
from driving import Notebook, attempt
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

from odd_values import Colour, Unspeakable, anything
from threadwire.core.channels import writing
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.json import native
from threadwire.core.records import Ending
from threadwire.graphs import state
from threadwire.graphs.execution import Execution
from threadwire.graphs.persistence import CheckpointerConfig
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


class Teller:
    def to_dict(self) -> dict[str, Any]:
        return {"k": nested(300)}


def nested(depth: int) -> Any:
    value: Any = "bottom"
    for level in range(depth):
        value = [value] if level % 2 else {"down": value}
    return value


def in_itself() -> Any:
    value: list[Any] = [1]
    value.append({"again": value})
    return value


def held_by_itself() -> Any:
    value = Held(None)
    value.value = [value]
    return value


def chained(length: int) -> Any:
    value: Any = 1j
    for _ in range(length):
        value = Held(value)
    return value


def serializer() -> CheckpointSerializer:
    made = checkpoint_serializer(CheckpointerConfig())
    assert isinstance(made, CheckpointSerializer)
    return made


def read_back(value: Any) -> Any:
    kept = serializer()
    return kept.loads_typed(kept.dumps_typed(value))


# -- what comes back ---------------------------------------------------------------------------------------------------

wide = st.integers(min_value=2**64) | st.integers(max_value=-(2**63) - 1)
exact = st.one_of(
    st.integers(),
    wide,
    st.complex_numbers(allow_nan=False),
    st.fractions(),
    st.builds(range, st.integers(), st.integers(), st.integers(min_value=1)),
)


@given(exact)
def test_numbers_of_every_kind_come_back_as_they_went(value: Any) -> None:
    assert read_back(value) == value
    assert type(read_back(value)) is type(value)
    assert read_back({"deep": [value, {"er": value}]}) == {"deep": [value, {"er": value}]}
    assert read_back({value}) == {value}
    assert read_back(deque([value])) == deque([value])
    assert read_back(Interrupt(value=value, id="1")) == Interrupt(value=value, id="1")
    assert read_back([Send("node", {"x": value})]) == [Send("node", {"x": value})]


@given(wide | st.complex_numbers(allow_nan=False))
def test_messages_with_odd_numbers_come_back_as_they_went(value: Any) -> None:
    message = AIMessage("said", id="1", additional_kwargs={"odd": value})
    assert read_back([message]) == [message]


def test_an_integer_too_long_to_be_written_in_decimal_comes_back() -> None:
    assert read_back(10**5000) == 10**5000
    assert read_back(-(10**5000)) == -(10**5000)


def test_nothing_is_lost_beside_what_is_odd() -> None:
    kept = {"plain": [1, "a", None, 1.5, b"raw"], "set": {1, 2}, "id": uuid.UUID(int=1), "odd": object}
    assert read_back(kept) == {**kept, "odd": "<class 'object'>"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (int, "<class 'int'>"),
        (Held, "<class 'test_odd_values.Held'>"),
        (Model, "<class 'test_odd_values.Model'>"),
        ([Held], ["<class 'test_odd_values.Held'>"]),
        (Interrupt(value=Held, id="1"), Interrupt(value="<class 'test_odd_values.Held'>", id="1")),
        (Unspeakable(), "<Unspeakable>"),
        ({"\ud800": 1}, {"?": 1}),
        ({1j: "a", frozenset({1}): "b", 10**30: "c"}, {"1j": "a", "[1]": "b", str(10**30): "c"}),
        (in_itself(), [1, {"again": "<list>"}]),
        (Held(Held(int)), {"value": {"value": "<class 'int'>"}}),
        (Model(value=Held(1j)), {"value": {"value": 1j}}),
        (held_by_itself(), {"value": ["<Held>"]}),
        (Fraction(1, 3), Fraction(1, 3)),
        (memoryview(b"abcd")[::2], "YWM="),
        (Colour.HUGE, 10**30),
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_what_cannot_be_kept_is_kept_as_it_is_shown(value: Any, expected: Any) -> None:
    assert read_back(value) == expected


@pytest.mark.parametrize("value", [nested(300), nested(5_000), Teller(), chained(300), Model(value=nested(300))])
def test_depth_is_cut(value: Any) -> None:
    native(read_back(value))


@given(anything)
def test_every_value_can_be_written_and_read(value: Any) -> None:
    native(read_back(value))
    native(read_back([value]))
    assert isinstance(read_back(Interrupt(value=value, id="1")), Interrupt)
    (sent,) = read_back((Send("node", value),))
    assert isinstance(sent, Send)


def test_a_secret_stays_one() -> None:
    assert read_back({"key": SecretStr("abc")}) == {"key": SecretStr("abc")}


# -- what is told ------------------------------------------------------------------------------------------------------


def test_what_is_kept_only_as_json_is_told_once_with_its_type_and_channel() -> None:
    kept, values = serializer(), {"fine": [1j], "odd": {"a": [len]}}
    with capture_logs() as logs, writing(values.items()):
        for value in (*values.values(), *values.values()):
            kept.dumps_typed(value)
    (told,) = logs
    assert told["log_level"] == "warning"
    assert told["event"] == "checkpoint_holds_only_json"
    assert told["type"] == "builtins.builtin_function_or_method"
    assert told["channel"] == "odd"


# -- whole runs --------------------------------------------------------------------------------------------------------


class State(TypedDict, total=False):
    which: int
    value: Any
    answer: Any
    messages: Annotated[list[Any], add_messages]


def graph_of(value: Any) -> Any:
    def says(_: State) -> Any:
        get_stream_writer()(value)
        dispatch_custom_event("odd", value)
        message = AIMessage("said", additional_kwargs={"odd": value}, response_metadata={"odd": [value]})
        return {"value": value, "messages": [message]}

    def asks(_: State) -> Any:
        return {"answer": interrupt(value)}

    graph = StateGraph(State).add_node("says", says).add_node("asks", asks)
    return graph.add_edge(START, "says").add_edge("says", "asks").compile()


async def drive(storage: Storage, graph: Any, thread_id: ThreadId, **kwargs: Any) -> Ending:
    modes = ["values", "debug", "tasks", "checkpoints", "events"]
    asked = attempt(RunId(str(uuid.uuid4())), thread_id, stream_mode=modes, **kwargs)
    execution = Execution(asked, Notebook())
    return await execution.drive(graph, storage.checkpoints.saver(durability="sync"), InMemoryStore())


async def runs_to_the_end(storage: Storage, value: Any) -> None:
    graph, thread_id = graph_of(value), ThreadId(str(uuid.uuid4()))
    ending = await drive(storage, graph, thread_id, input={"which": 1})
    assert ending.status == "success", ending
    assert len(ending.interrupts) == 1
    saver, place = storage.checkpoints.saver(), {"thread_id": thread_id, "checkpoint_ns": ""}
    shown = await state.read(graph, saver, place, subgraphs=False)
    assert len(shown["interrupts"]) == 1
    assert len(await state.history(graph, saver, place, limit=10, before=None, metadata=None)) == 3
    ending = await drive(storage, graph, thread_id, command={"resume": "yes"})
    assert ending.status == "success", ending
    shown = await state.read(graph, saver, place, subgraphs=False)
    assert (shown["values"]["answer"], shown["next"]) == ("yes", [])


@contextmanager
def opened(driver: str, folder: Path) -> Iterator[tuple[BlockingPortal, Storage]]:
    made = checkpoint_serializer(CheckpointerConfig())
    opening = (
        open_memory_storage(serializer=made) if driver == "memory" else open_sqlite_storage(folder, serializer=made)
    )
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opening) as storage:
        yield portal, storage


@pytest.fixture(scope="module", params=["memory", "sqlite"])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with opened(request.param, tmp_path_factory.mktemp("odd")) as it:
        yield it


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=anything)
@example(value={"\ud800": 1})
@example(value=[1j, int, 10**30])
@example(value=in_itself())
@example(value=held_by_itself())
@example(value=nested(300))
def test_no_value_ends_a_run(home: tuple[BlockingPortal, Storage], value: Any) -> None:
    portal, storage = home
    portal.call(runs_to_the_end, storage, value)


class Loner:
    """A type that no other test puts into a state."""


def test_the_channel_of_a_run_is_named(home: tuple[BlockingPortal, Storage]) -> None:
    portal, storage = home
    with capture_logs() as logs:
        portal.call(runs_to_the_end, storage, Loner())
    told = [each["channel"] for each in logs if each.get("type") == "test_odd_values.Loner"]
    assert sorted(told) == ["__interrupt__", "messages", "value"]
