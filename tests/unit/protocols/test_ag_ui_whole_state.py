"""Clients of a live run see the whole state, whatever the graph's output schema omits."""

from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt

from threadwire.core.entries import Draft, Entry, Kind, Namespace
from threadwire.core.ids import AssistantId, RunId, Seq, ThreadId
from threadwire.core.json import native
from threadwire.core.records import Run
from threadwire.graphs.execution import Attempt, Execution
from threadwire.graphs.stream_normalizer import Normalizer
from threadwire.protocols.ag_ui.encode import Options, RunEncoder
from threadwire.protocols.ag_ui.patch import apply
from threadwire.protocols.ag_ui.wire import Event

pytestmark = pytest.mark.anyio

THREAD = ThreadId(str(uuid4()))


class Answer(TypedDict, total=False):
    answer: str


class Fund(Answer, total=False):
    q: str
    metrics: dict[str, int]
    messages: Annotated[list[AnyMessage], add_messages]


def measure(state: Fund) -> Fund:
    metrics = state.get("metrics") or {}
    metrics["runs"] = metrics.get("runs", 0) + 1  # in place, as nodes should not but do
    return {"metrics": metrics}


def answer(state: Fund) -> Fund:
    return {"answer": f"to {state['q']}", "messages": [AIMessage("done", id=f"a{state['metrics']['runs']}")]}


def ask(state: Fund) -> Fund:
    return {"answer": interrupt("sure?")}


def fund(last: Any = answer) -> Any:
    builder = StateGraph(Fund, output_schema=Answer).add_node("measure", measure).add_node("last", last)
    return builder.add_edge(START, "measure").add_edge("measure", "last").compile()


class Client:
    """What a client holds after the events of the runs it followed."""

    def __init__(self) -> None:
        self.state: Any = {}
        self.messages: list[str] = []
        self.metrics_seen: list[Any] = []

    def receive(self, events: list[Event]) -> None:
        for each in events:
            if each["type"] == "STATE_SNAPSHOT":
                self.state = native(each["snapshot"])
            elif each["type"] == "STATE_DELTA":
                self.state = apply(native(self.state), each["delta"])
            elif each["type"] == "MESSAGES_SNAPSHOT":
                self.messages = [message["id"] for message in each["messages"]]
            elif each["type"] == "TEXT_MESSAGE_START":
                self.messages.append(each["messageId"])
            if self.metrics_seen or "metrics" in self.state:
                self.metrics_seen.append(self.state.get("metrics"))


class Recorder:
    queue_full = False

    def __init__(self, run_id: RunId, client: Client) -> None:
        self._run_id = run_id
        self._encoder = RunEncoder(Options("page"))
        self._client = client
        self._seq = 0

    def append(self, drafts: Any) -> None:
        for kind, data, ns, at in drafts:
            self._seq += 1
            entry = Entry(Seq(self._seq), self._run_id, 1, at, ns, kind, native(data))
            self._client.receive(self._encoder.events(entry))

    def end(self) -> None:
        self.append([Draft(Kind.RUN_ENDED, {"status": "success"})])

    async def wait_for_room(self) -> None: ...

    async def flush(self) -> None: ...


async def run(graph: Any, saver: InMemorySaver, client: Client, **kwargs: Any) -> None:
    run_id = RunId(str(uuid4()))
    row = Run(run_id, THREAD, AssistantId("a"), "g", "running", 0, 0, 0, Seq(1), attempt=1, kwargs=kwargs)
    recorder = Recorder(run_id, client)
    await Execution(Attempt(row, resumes=False, base_checkpoint=None), recorder).drive(graph, saver, None)  # type: ignore[arg-type]
    recorder.end()


async def whole_state(graph: Any, saver: InMemorySaver) -> Any:
    bound = graph.copy(update={"checkpointer": saver})
    values = native((await bound.aget_state({"configurable": {"thread_id": THREAD}})).values)
    return {key: value for key, value in values.items() if key != "messages"}


async def test_a_live_run_sends_the_keys_that_the_output_schema_omits() -> None:
    graph, saver, client = fund(), InMemorySaver(), Client()

    for question in ("why?", "how?"):
        message = {"role": "user", "content": question, "id": question}
        await run(graph, saver, client, input={"q": question, "messages": [message]})

        assert client.state == await whole_state(graph, saver)
    assert client.state == {"q": "how?", "metrics": {"runs": 2}, "answer": "to how?"}
    assert client.messages == ["why?", "a1", "how?", "a2"]
    assert {"runs": 1} in client.metrics_seen
    assert None not in client.metrics_seen, "no metric ever vanishes"


async def test_a_resumed_run_sends_the_keys_that_the_output_schema_omits() -> None:
    graph, saver, client = fund(ask), InMemorySaver(), Client()
    await run(graph, saver, client, input={"q": "why?"})
    assert client.state == {"q": "why?", "metrics": {"runs": 1}}

    await run(graph, saver, client, command={"resume": "yes"})

    assert client.state == {"q": "why?", "metrics": {"runs": 1}, "answer": "yes"}
    assert None not in client.metrics_seen


async def test_a_graph_whose_output_is_its_state_stores_nothing_twice() -> None:
    normalizer, ns = Normalizer(frozenset(), {}), ()
    graph = StateGraph(Fund).add_node("measure", measure).add_edge(START, "measure").compile(InMemorySaver())
    entries: list[Draft] = []

    config: Any = {"configurable": {"thread_id": "t"}}
    async for part_ns, mode, part in graph.astream(
        {"q": "why?"}, config, stream_mode=["values", "checkpoints"], subgraphs=True
    ):
        assert part_ns == ns
        entries += normalizer.feed(Namespace(part_ns), mode, part, 0)

    assert all("unstreamed" not in entry.data and "partial" not in entry.data for entry in entries)
