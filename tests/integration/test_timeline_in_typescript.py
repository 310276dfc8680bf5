"""The reducer of @threadwire/timeline folds whatever it is fed to the same blocks as the server's."""

import subprocess
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from message_chunks import ai_chunks
from threadwire.core.entries import Entry
from threadwire.core.json import dumps, loads
from threadwire.core.timeline import Timeline, TimelineOptions
from threadwire.core.timeline.chunks import first_chunk, merge_chunk
from timeline_events import EventNormalizer
from timeline_logs import logs, options

PACKAGE = Path(__file__).parents[2] / "js" / "packages" / "timeline"

# The process is started once, and every example is one line. A loaded machine may take longer than the deadline.
compared = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)


class TypeScript:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def __call__(self, **request: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(dumps(request) + b"\n")
        self._process.stdin.flush()
        return loads(self._process.stdout.readline())


@pytest.fixture(scope="module")
def typescript() -> Iterator[TypeScript]:
    assert (PACKAGE / "dist" / "index.js").exists(), "The package is not built: run `npm run build --prefix js`"
    command = ["node", str(PACKAGE / "test" / "support" / "fold-lines.js")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield TypeScript(process)
        process.kill()


def as_json(entry: Entry) -> dict[str, Any]:
    return {
        "seq": entry.seq,
        "run_id": entry.run_id,
        "attempt": entry.attempt,
        "at": entry.at,
        "ns": list(entry.ns),
        "kind": entry.kind,
        "data": entry.data,
    }


def named(chosen: TimelineOptions) -> dict[str, str]:
    return {"partialDisplay": chosen.partial_display}


def shown(timeline: Timeline) -> dict[str, Any]:
    return {"blocks": timeline.blocks(), "values": timeline.values}


@compared
@given(logs(), options, st.integers(0, 30))
def test_a_log_folds_to_the_same_blocks(
    typescript: TypeScript, entries: list[Entry], chosen: TimelineOptions, restore_at: int
) -> None:
    """The client's fold is also stored in the browser and restored, at one of the entries."""
    timeline = Timeline(chosen)
    for entry in entries:
        timeline.feed(entry)
    folded = typescript(entries=[as_json(entry) for entry in entries], options=named(chosen), restoreAt=restore_at)
    assert folded == shown(timeline)


messages = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["AIMessageChunk", "ai", "human", "remove"]),
        "id": st.sampled_from(["a", "b", "c", "__remove_all__", ""]),
        "content": st.sampled_from(["", "x", "xy", [{"type": "text", "text": "t", "index": 0}]]),
    }
)
widgets = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["ui", "ui", "remove-ui", "other"]),
        "id": st.sampled_from(["u", "v"]),
        "name": st.just("card"),
        "props": st.dictionaries(st.sampled_from(["p", "q"]), st.integers(0, 2)),
        "metadata": st.fixed_dictionaries({"merge": st.booleans()}, optional={"message_id": st.sampled_from("ab")}),
    }
)
asked = st.lists(
    st.fixed_dictionaries(
        {"value": st.sampled_from(["ok?", {"a": 1.5, "é": [None, True]}, {"metadata": {"attachmentId": "u"}}])},
        optional={"id": st.sampled_from("pq"), "namespace": st.just(["s"]), "response_schema": st.just({})},
    ),
    max_size=2,
)
states = st.fixed_dictionaries(
    {},
    optional={
        "k": st.integers(0, 2),
        "messages": st.lists(messages, max_size=3),
        "ui": st.lists(widgets, max_size=2),
        "__interrupt__": asked,
    },
)
payloads: dict[str, st.SearchStrategy[Any]] = {
    "metadata": st.fixed_dictionaries({"run_id": st.sampled_from(["r1", "r2"]), "attempt": st.integers(1, 2)}),
    "messages": st.tuples(messages, st.sampled_from([{}, {"langgraph_node": "n", "run_id": "r"}])).map(list),
    "messages/partial": st.lists(messages, max_size=2),
    "messages/complete": st.lists(messages, max_size=2),
    "messages/metadata": st.fixed_dictionaries({"a": st.sampled_from([{"metadata": {"n": 1}}, {"n": 2}])}),
    "values": states | st.sampled_from([7, None]),
    "updates": st.sampled_from([{"node": {}}]) | st.fixed_dictionaries({"__interrupt__": asked}),
    "tasks": st.fixed_dictionaries({"interrupts": asked}),
    "custom": widgets | st.lists(widgets, max_size=2) | st.just("text"),
    "error": st.just({"error": "E", "message": "m"}),
    "input.requested": st.fixed_dictionaries({"interruptId": st.just("z"), "value": st.just(1)}),
    "unknown": st.just({}),
}


@st.composite
def events(draw: st.DrawFn) -> list[dict[str, Any]]:
    found = []
    for _ in range(draw(st.integers(1, 15))):
        name = draw(st.sampled_from(list(payloads)))
        subgraph = draw(st.sampled_from(["", "", "|s", "|s|t:1"]))
        event = {"event": name + subgraph, "data": draw(payloads[name])}
        found.append({**event, **draw(st.sampled_from([{}, {"id": str(draw(st.integers(1, 9)))}, {"id": "1-2"}]))})
    return found


@compared
@given(events(), options)
def test_the_events_of_a_run_stream_fold_to_the_same_blocks(
    typescript: TypeScript, sent: list[dict[str, Any]], chosen: TimelineOptions
) -> None:
    timeline, normalizer = Timeline(chosen), EventNormalizer()
    for event in sent:
        for operation, stamp in normalizer.feed(event):
            timeline.apply(operation, stamp)
    assert typescript(events=sent, options=named(chosen)) == shown(timeline)


@compared
@given(st.lists(ai_chunks(), min_size=1, max_size=4))
def test_chunks_merge_to_the_same_message(typescript: TypeScript, chunks: list[dict[str, Any]]) -> None:
    assert typescript(chunks=chunks) == reduce(merge_chunk, chunks[1:], first_chunk(chunks[0]))
