"""Each piece of `graphs/langgraph_private` without the name it relies on: one line in the log, and a fallback.

Removing a name stands in for a LangGraph that has renamed it.
"""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypedDict

import pytest
from attempts import FakeRecorder, attempt
from langchain_core.messages import AIMessage, AIMessageChunk
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde import jsonplus
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.pregel import _messages
from langgraph.store.memory import InMemoryStore
from langgraph.types import Interrupt, interrupt
from packaging.version import Version
from structlog.testing import capture_logs

from threadwire.core.entries import Kind
from threadwire.core.ids import RunId, ThreadId
from threadwire.core.json import native
from threadwire.graphs import langgraph_private
from threadwire.graphs.execution import Execution
from threadwire.graphs.langgraph_private import (
    answers,
    checkpoint_format,
    fallbacks,
    message_decoding,
    message_streams,
    server_runtime,
)
from threadwire.graphs.langgraph_private import strict_resume as strict_resume_module
from threadwire.graphs.langgraph_private.error_texts import names_missing_subgraph
from threadwire.graphs.langgraph_private.node_on_stack import node_of
from threadwire.graphs.langgraph_private.process_patch import ProcessPatch, locate
from threadwire.graphs.langgraph_private.strict_resume import UnknownInterruptError
from threadwire.graphs.persistence_config import CheckpointerConfig
from threadwire.graphs.registry import UnfillableParameter, _read_factory
from threadwire.graphs.serializer import CheckpointSerializer, checkpoint_serializer
from threadwire.graphs.stream_normalizer import Normalizer
from threadwire.server.process_patches import PROCESS_PATCHES

pytestmark = [pytest.mark.anyio, pytest.mark.every_version]

RUN = RunId("01900000-0000-7000-8000-000000000001")
THREAD = ThreadId("01900000-0000-7000-8000-000000000002")
DETECTIONS = (
    answers._interrupt_id,
    checkpoint_format.is_known,
    checkpoint_format.can_restrict_types,
    message_decoding._hook_is_used,
    message_streams.same_stream,
    server_runtime._classes,
    strict_resume_module.strict_resume_key,
)


@pytest.fixture(autouse=True)
def detecting_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing has been detected or reported yet, and nothing that the test detects is remembered."""
    monkeypatch.setattr(fallbacks, "_reported", set())
    for detection in DETECTIONS:
        detection.cache_clear()
    yield
    for detection in DETECTIONS:
        detection.cache_clear()


SINCE = {
    "interrupt ids": ("langgraph", "1.2.20"),
    "strict resume": ("langgraph", "1.2.20"),
    "types of checkpoints": ("langgraph-checkpoint", "4.0.1"),
}


def is_installed(distribution: str, least: str) -> bool:
    return Version(version(distribution)) >= Version(least)


@contextmanager
def one_fallback(piece: str) -> Iterator[None]:
    """Exactly one line is logged, for this piece. Older versions have other fallbacks in any case."""
    with capture_logs() as logs:
        yield
    in_any_case = {other for other, needs in SINCE.items() if not is_installed(*needs)} - {piece}
    fallback_lines = [each for each in logs if each["event"] == "langgraph_fallback_used"]
    reported = [each for each in fallback_lines if each["piece"] not in in_any_case]
    assert [each["piece"] for each in reported] == [piece]
    assert all(reported[0][field] for field in ("reason", "effect", "langgraph"))


class State(TypedDict, total=False):
    said: str


def answering(answer: Any) -> Any:
    """A graph that asks a question, and returns the answer in its state."""
    return StateGraph(State).add_node("ask", lambda state: {"said": answer()}).add_edge(START, "ask").compile()


async def executed(graph: Any, saver: InMemorySaver | None = None, **kwargs: Any) -> list[Any]:
    recorder = FakeRecorder()
    kwargs = kwargs or {"input": {}}
    await Execution(attempt(RUN, THREAD, **kwargs), recorder).drive(graph, saver or InMemorySaver(), InMemoryStore())
    return recorder.drafts


# -- what is replaced in the process ---------------------------------------------------------------------------------


def exists(name: str) -> bool:
    """Whether the installed LangGraph has the name; older ones lack some of them."""
    try:
        locate(name)
    except (ImportError, AttributeError):
        return False
    return True


def removable(name: str) -> tuple[Any, str]:
    """The part of a name to remove: an inherited attribute goes with its class."""
    module, _, path = name.partition(":")
    owner, *rest = importlib.import_module(module), *path.split(".")
    while len(rest) > 1 and rest[1] in vars(getattr(owner, rest[0])):
        owner = getattr(owner, rest.pop(0))
    return owner, rest[0]


@pytest.mark.parametrize(
    ("patch", "name"),
    [(patch, name) for patch in PROCESS_PATCHES for name in patch.names if exists(name)],
    ids=lambda value: value.piece if isinstance(value, ProcessPatch) else value,
)
async def test_a_missing_name_leaves_its_patch_out(
    unpatched_process: None, monkeypatch: pytest.MonkeyPatch, patch: ProcessPatch, name: str
) -> None:
    owner, attribute = removable(name)
    with pytest.MonkeyPatch.context() as removing:
        removing.delattr(owner, attribute)
        with one_fallback(patch.piece):
            patch.apply()
            patch.apply()
        assert not patch.applied
    drafts = await executed(answering(lambda: "hello"))
    assert [each.data["set"] for each in drafts if each.kind == Kind.STATE][-1] == {"said": "hello"}


def test_patches_are_applied_together_and_can_be_undone(unpatched_process: None) -> None:
    class Target:
        one = 1

    target: Any = sys.modules[__name__]
    target.Target = Target
    patch = ProcessPatch(
        "test",
        "nothing",
        {f"{__name__}:Target.one": lambda original: original + 1, f"{__name__}:Target.__doc__": lambda _: "two"},
    )
    patch.apply()
    assert (Target.one, Target.__doc__) == (2, "two")
    patch.undo()
    assert (Target.one, Target.__doc__) == (1, None)


START_WITHOUT_PRIVATE_NAMES = """
import asyncio, importlib, sys
from contextlib import suppress
import httpx
from threadwire.server.process_patches import PROCESS_PATCHES, patch_process
import langgraph_sdk.runtime, langgraph._internal._constants, langgraph.types
from langgraph.checkpoint.serde import jsonplus
from threadwire import create_app

def remove(name):
    module, _, path = name.partition(":")
    with suppress(ImportError, AttributeError):
        delattr(importlib.import_module(module), path.split(".")[0])

for name in [name for patch in PROCESS_PATCHES for name in patch.names]:
    remove(name)
for name in ("_ExecutionRuntime", "_ReadRuntime"):
    remove(f"langgraph_sdk.runtime:{name}")
for name in ("_msgpack_default", "_option", "_msgpack_enc"):
    remove(f"langgraph.checkpoint.serde.jsonplus:{name}")
remove("langgraph._internal._constants:CONFIG_KEY_STRICT_RESUME")

async def main():
    patch_process()
    app = create_app(sys.argv[1], storage="memory")
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")
    async with app.lifespan(), client:
        print("status", (await client.get("/ok")).status_code)

asyncio.run(main())
"""


def test_the_server_starts_without_any_of_the_private_names(tmp_path: Path) -> None:
    (tmp_path / "langgraph.json").write_text('{"graphs": {"agent": "./agent.py:graph"}}')
    (tmp_path / "agent.py").write_text(
        "from langgraph.graph import START, MessagesState, StateGraph\n"
        "graph = StateGraph(MessagesState).add_node('n', lambda s: s).add_edge(START, 'n').compile()\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", START_WITHOUT_PRIVATE_NAMES, str(tmp_path / "langgraph.json")]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "status 200" in printed.stdout, printed.stderr
    reported = [line for line in printed.stdout.splitlines() if "langgraph_fallback" in line]
    pieces = [*(patch.piece for patch in PROCESS_PATCHES), "checkpoint format"]
    assert [piece for piece in pieces if not any(f"piece='{piece}'" in line for line in reported)] == []
    assert len(set(reported)) == len(reported)


# -- what is detected ------------------------------------------------------------------------------------------------


def test_chunks_are_compared_by_value_if_their_metadata_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def copying(handler: Any, meta: Any, message: Any, **_: Any) -> None:
        handler.stream((meta[0], "messages", (message, dict(meta[1]))))

    monkeypatch.setattr(_messages.StreamMessagesHandler, "_emit", copying)
    with one_fallback("message streams"):
        normalizer = Normalizer(frozenset(), {})
        Normalizer(frozenset(), {})
    for text in ("a", "b"):
        (draft,) = normalizer.feed((), "messages", (AIMessageChunk(content=text, id="m"), {"langgraph_node": "n"}), 0)
    assert draft.data == [0, "b"]


def test_chunks_are_compared_by_value_without_the_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(_messages, "StreamMessagesHandler")
    with one_fallback("message streams"):
        Normalizer(frozenset(), {})


@pytest.mark.parametrize("name", ["_msgpack_default", "_option", "EXT_PYDANTIC_V2"])
def test_without_its_private_names_langgraph_serializes_checkpoints(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delattr(jsonplus, name)
    with one_fallback("checkpoint format"):
        serializers = [checkpoint_serializer(CheckpointerConfig()) for _ in range(2)]
    assert [type(each) for each in serializers] == [JsonPlusSerializer] * 2


def test_without_the_hook_langgraph_decodes_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_hook(serializer: Any, data: tuple[str, bytes]) -> Any:
        return original(JsonPlusSerializer(), data)

    original = JsonPlusSerializer.loads_typed
    monkeypatch.setattr(JsonPlusSerializer, "loads_typed", without_hook)
    with one_fallback("message decoding"):
        serializers = [checkpoint_serializer(CheckpointerConfig()) for _ in range(2)]
    message = AIMessage("hello", id="m")
    assert serializers[1].loads_typed(serializers[1].dumps_typed(message)) == message


def test_with_another_format_langgraph_serializes_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JsonPlusSerializer, "dumps_typed", lambda self, value: ("msgpack", b"another format"))
    with one_fallback("checkpoint format"):
        assert type(checkpoint_serializer(CheckpointerConfig())) is JsonPlusSerializer


def test_a_serializer_that_cannot_restrict_types_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unrestricted(CheckpointSerializer):
        def __init__(self, *, pickle_fallback: bool, allowed_json_modules: Any) -> None:
            super().__init__(pickle_fallback=pickle_fallback, allowed_json_modules=allowed_json_modules)

    monkeypatch.setattr(checkpoint_format, "JsonPlusSerializer", Unrestricted)
    monkeypatch.setattr("threadwire.graphs.serializer.CheckpointSerializer", Unrestricted)
    monkeypatch.setattr(checkpoint_format, "is_known", lambda: True)
    with one_fallback("types of checkpoints"):
        serializer = checkpoint_serializer(CheckpointerConfig())
    message = AIMessage("hello", id="m")
    assert serializer.loads_typed(serializer.dumps_typed(message)) == message


@pytest.mark.parametrize("name", ["_ExecutionRuntime", "_ReadRuntime"])
def test_only_factories_that_require_a_runtime_do_not_load_without_its_classes(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delattr(f"langgraph_sdk.runtime.{name}")
    with one_fallback("server runtime"):
        assert [each.role for each in _read_factory(lambda config: None).arguments] == ["config"]
        assert _read_factory(lambda runtime=None: None).arguments == ()
        with pytest.raises(UnfillableParameter):
            _read_factory(lambda runtime: None)


async def test_threadwire_rejects_unknown_answers_if_langgraph_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    constants = importlib.import_module("langgraph._internal._constants")
    monkeypatch.delattr(constants, "CONFIG_KEY_STRICT_RESUME", raising=False)
    graph, saver = answering(lambda: interrupt("and?")), InMemorySaver()
    drafts = await executed(graph, saver)
    (asked,) = next(each.data["interrupts"] for each in drafts if each.kind == Kind.INPUT_REQUESTED)
    with one_fallback("strict resume"):
        for unknown, message in (({"0" * 32: "yes"}, "already-consumed"), ({}, "names no interrupt")):
            with pytest.raises(UnknownInterruptError, match=message):
                await executed(graph, saver, command={"resume": unknown}, strict_resume=True)
        drafts = await executed(graph, saver, command={"resume": {asked["id"]: "yes"}}, strict_resume=True)
    assert [each.data["set"] for each in drafts if each.kind == Kind.STATE][-1] == {"said": "yes"}


@pytest.mark.parametrize("also_missing", [False, True])
async def test_answers_are_recorded_although_interrupt_ids_cannot_be_computed(
    monkeypatch: pytest.MonkeyPatch, also_missing: bool
) -> None:
    graph, saver = answering(lambda: interrupt("and?")), InMemorySaver()
    drafts = await executed(graph, saver)
    (asked,) = next(each.data["interrupts"] for each in drafts if each.kind == Kind.INPUT_REQUESTED)
    monkeypatch.delattr(importlib.import_module("langgraph.types"), "_interrupt_id", raising=False)
    if also_missing:
        monkeypatch.delattr(Interrupt, "from_ns")
    with one_fallback("interrupt ids"):
        execution = Execution(attempt(RUN, THREAD, command={"resume": "yes"}), FakeRecorder())
        (answered,) = await execution._answer_entries(graph, saver)
    assert native(answered.data["answers"]) == [{"id": asked["id"], "response": "yes"}]


def test_a_frame_without_a_config_names_no_node() -> None:
    frame = sys._getframe()
    assert node_of(frame) is None


async def test_langgraph_names_a_missing_subgraph_in_the_expected_words() -> None:
    graph = answering(lambda: "hello").copy(update={"checkpointer": InMemorySaver()})
    with pytest.raises(ValueError) as raised:
        await graph.aget_state({"configurable": {"thread_id": "t", "checkpoint_ns": "nowhere:1"}})
    assert names_missing_subgraph(raised.value)
    assert not names_missing_subgraph(ValueError("another"))


def test_every_piece_says_what_it_is_for_and_what_a_changed_langgraph_does() -> None:
    (folder,) = langgraph_private.__path__
    without_pieces = {"__init__", "fallbacks", "process", "process_patch"}
    for path in Path(folder).glob("*.py"):
        if path.stem not in without_pieces:
            module = importlib.import_module(f"{langgraph_private.__name__}.{path.stem}")
            assert "**For:**" in (module.__doc__ or ""), path.stem
            assert "**Changed " in (module.__doc__ or ""), path.stem
