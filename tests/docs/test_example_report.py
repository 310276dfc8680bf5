"""The report example: what a long job streams while it runs, and that it survives a killed server."""

from typing import Any

import pytest
from langgraph_sdk import get_sync_client

SOURCES = ["Interviews", "Order books", "Price lists", "Patents", "Newspapers", "Customs data", "Job adverts", "Forums"]
NO_DELAY = {"seconds": 0}


def topic(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def stream(client, thread_id: str, **options: Any) -> list[Any]:
    options = {"input": topic("Report on electric bicycles"), "context": NO_DELAY, **options}
    return list(client.runs.stream(thread_id, "report", **options))


def custom(parts: list[Any], kind: str) -> list[dict[str, Any]]:
    events = [part.data for part in parts if part.event.partition("|")[0] == "custom"]
    return [each for each in events if each["type"] == kind]


def test_progress_is_streamed_from_inside_the_subgraph(client, thread_id):
    parts = stream(client, thread_id, stream_mode="custom", stream_subgraphs=True)
    progress = custom(parts, "progress")
    assert [each["doing"] for each in progress] == [*(f"Reading: {source}" for source in SOURCES), "Writing"]
    assert [each["done"] for each in progress] == list(range(9))
    namespaces = {part.event for part in parts if part.data.get("doing", "").startswith("Reading")}
    (namespace,) = namespaces
    assert namespace.startswith("custom|research:")


def test_without_subgraphs_only_root_steps_are_streamed(client, thread_id):
    parts = stream(client, thread_id, stream_mode="custom")
    assert [each["doing"] for each in custom(parts, "progress")] == ["Writing"]
    assert [each["id"] for each in custom(parts, "ui")] == ["report-1-progress", "report-1-chart"]


def test_a_widget_is_pushed_as_a_custom_event(client, thread_id):
    parts = stream(client, thread_id, stream_mode=["custom", "values"])
    (chart,) = [each for each in custom(parts, "ui") if each["name"] == "bar-chart"]
    message = parts[-1].data["messages"][-1]
    assert set(chart) == {"type", "id", "name", "props", "metadata"}
    assert set(chart["metadata"]) == {"merge", "run_id", "tags", "name", "message_id"}
    assert (chart["metadata"]["message_id"], chart["metadata"]["merge"]) == (message["id"], False)
    assert set(chart["props"]["bars"]) == set(SOURCES)


def test_widgets_are_updated_in_place_and_stored_in_the_state_until_they_are_removed(client, thread_id):
    parts = stream(client, thread_id, stream_mode=["custom", "values"], stream_subgraphs=True)
    pushed = [each for each in custom(parts, "ui") if each["name"] == "progress"]
    assert {each["id"] for each in pushed} == {"report-1-progress"}
    assert [each["metadata"]["merge"] for each in pushed] == [False, *[True] * 8]
    assert [each["props"]["done"] for each in pushed] == list(range(9))
    inside = [part.data["ui"] for part in parts if part.event.startswith("values|research:")]
    assert [[widget["props"]["done"] for widget in ui] for ui in inside] == [[done] for done in range(9)]

    states = [part.data["ui"] for part in parts if part.event == "values" and part.data.get("ui")]
    (progress,) = states[-2]
    assert progress["props"] == {"title": "Research on electric bicycles", "done": 8, "of": 8, "last": "Forums"}
    assert [each.data["id"] for each in parts if each.event == "custom" and each.data["type"] == "remove-ui"] == [
        "report-1-progress"
    ]
    (chart,) = client.threads.get_state(thread_id)["values"]["ui"]
    assert chart["name"] == "bar-chart"
    assert client.threads.get(thread_id)["values"]["ui"] == [chart]


def test_the_text_is_streamed(client, thread_id):
    parts = stream(client, thread_id, stream_mode=["messages-tuple", "values"])
    chunks = [part.data[0] for part in parts if part.event == "messages" and part.data[0]["type"] == "AIMessageChunk"]
    assert sum(bool(chunk["content"]) for chunk in chunks) > 30
    written = parts[-1].data["messages"][-1]["content"]
    assert "".join(chunk["content"] for chunk in chunks) == written
    assert written.startswith("# Demand for electric bicycles\n\nWe read 8 sources.")
    assert [finding["source"] for finding in parts[-1].data["findings"]] == SOURCES


def test_a_second_report_has_its_own_widgets(client, thread_id):
    stream(client, thread_id)
    stream(client, thread_id, input=topic("Report on tea."))
    values = client.threads.get_state(thread_id)["values"]
    assert [each["id"] for each in values["ui"]] == ["report-1-chart", "report-2-chart"]
    assert (values["topic"], len(values["findings"])) == ("tea", 8)
    assert values["messages"][-1]["content"].startswith("# Demand for tea")


@pytest.mark.parametrize("at", [0, 4])
def test_after_a_kill_the_run_resumes_with_the_source_it_was_reading(own_server, at):
    attempts: list[list[Any]] = []
    with get_sync_client(url=own_server.url) as client:
        thread_id = client.threads.create()["thread_id"]
        for part in client.runs.stream(
            thread_id,
            "report",
            input=topic("Report on electric bicycles"),
            context={"seconds": 2},
            stream_mode=["custom", "values"],
            stream_subgraphs=True,
        ):
            if part.event == "metadata":
                attempts.append([])
            attempts[-1].append(part)
            if len(attempts) == 1 and part.data.get("done") == at:
                own_server.kill()
                own_server.start()
        values = client.threads.get_state(thread_id)["values"]
    before, after = ([each["done"] for each in custom(parts, "progress")] for parts in attempts)
    assert before == list(range(len(before)))
    # Only the source that was being read is read again, unless it was just finished.
    assert after in (list(range(before[-1], 9)), list(range(before[-1] + 1, 9)))
    assert [finding["source"] for finding in values["findings"]] == SOURCES
    assert [each["id"] for each in values["ui"]] == ["report-1-chart"]
    assert [each["type"] for each in values["messages"]] == ["human", "ai"]
