"""What a client does with the project of this folder, whatever version of LangGraph serves it."""

from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_client

PROJECT = Path(__file__).with_name("project") / "langgraph.json"
MODES = ["values", "updates", "messages-tuple", "custom", "debug", "tasks", "checkpoints", "events"]


async def stream_an_agent(url: str) -> None:
    """All modes at once, with a tool call."""
    async with get_client(url=url) as client:
        thread_id = (await client.threads.create())["thread_id"]
        question = {"messages": [{"role": "user", "content": "Oslo"}]}
        stream = client.runs.stream(thread_id, "agent", input=question, stream_mode=MODES, stream_subgraphs=True)
        parts = [part async for part in stream]
        by_mode: dict[str, list[Any]] = {}
        for part in parts:
            by_mode.setdefault(part.event.split("|")[0], []).append(part.data)
        assert "error" not in by_mode, by_mode["error"]
        assert {"metadata", "values", "updates", "messages", "custom", "debug", "tasks", "events"} <= by_mode.keys()
        said = [message["content"] for message, _ in by_mode["messages"] if message["type"] == "AIMessageChunk"]
        assert "".join(said) == "Let me look.It is sunny in Oslo."
        assert by_mode["custom"] == [{"looking up": "Oslo"}]
        assert "on_tool_end" in {event["event"] for event in by_mode["events"]}
        state = await client.threads.get_state(thread_id)
        kinds = [message["type"] for message in state["values"]["messages"]]
        assert kinds == ["human", "ai", "tool", "ai"]
        history = await client.threads.get_history(thread_id)
        assert [each["metadata"]["step"] for each in history] == [3, 2, 1, 0, -1]


async def answer_two_interrupts(url: str) -> None:
    async with get_client(url=url) as client:
        thread_id = (await client.threads.create())["thread_id"]
        first = await client.runs.wait(thread_id, "asker", input={})
        assert [each["value"] for each in first["__interrupt__"]] == ["first?"]
        interrupt_id = first["__interrupt__"][0]["id"]
        second = await client.runs.wait(thread_id, "asker", command={"resume": {interrupt_id: "one"}})
        assert [each["value"] for each in second["__interrupt__"]] == ["second?"]
        assert await client.runs.wait(thread_id, "asker", command={"resume": "two"}) == {"answers": ["one", "two"]}


async def reject_an_unknown_answer(url: str) -> None:
    """Not with the SDK, whose older versions lack `strict_resume`."""
    async with httpx.AsyncClient(base_url=url, timeout=30) as http:
        thread_id = (await http.post("/threads", json={})).json()["thread_id"]
        await http.post(f"/threads/{thread_id}/runs/wait", json={"assistant_id": "asker", "input": {}})
        unknown = {"assistant_id": "asker", "command": {"resume": {"0" * 32: "one"}}, "strict_resume": True}
        ended = (await http.post(f"/threads/{thread_id}/runs/wait", json=unknown)).json()
        assert ended["__error__"]["error"] == "UnknownInterruptError"
        assert ended["__error__"]["message"] == f"Unknown or already-consumed interrupt: {'0' * 32}"


async def call_a_factory(url: str) -> None:
    async with get_client(url=url) as client:
        assert await client.runs.wait(None, "made", input={}) == {"answers": ["threads.create_run"]}


async def stream_ag_ui(url: str) -> None:
    request = {
        "threadId": "weather",
        "runId": "run-1",
        "messages": [{"id": "u-1", "role": "user", "content": "Oslo"}],
        "state": {},
        "tools": [],
        "context": [],
        "forwardedProps": {},
    }
    async with httpx.AsyncClient(base_url=url, timeout=30) as http:
        body = (await http.post("/ag-ui/agent", json=request, headers={"accept": "text/event-stream"})).text
    for event in ("RUN_STARTED", "TEXT_MESSAGE_CONTENT", "TOOL_CALL_START", "TOOL_CALL_RESULT", "RUN_FINISHED"):
        assert f'"type":"{event}"' in body.replace('": "', '":"'), body


DIALOGUES = (stream_an_agent, answer_two_interrupts, reject_an_unknown_answer, call_a_factory, stream_ag_ui)
