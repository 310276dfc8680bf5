"""Every operation of the server, and how to call it.

`RULES` has one entry per route of the OpenAPI description; ChatKit's operations, CopilotKit's methods and the commands
of the thread wire have entries of their own. `{…}` in paths and bodies is replaced by ids.
"""

from dataclasses import dataclass, field
from typing import Any

SECRET = "secret of ada"


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    body: Any = None
    kind: str = "row"
    """`row`: a foreign row looks like an unknown one. `created`: an unknown row would be created. `taken`: the id must
    not exist. `list`: lists only own rows. `free`: names no row. `public`: needs no credential."""
    endless: bool = False
    """Whether the response may never end."""
    content: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)


RUN = {"assistant_id": "agent", "input": {"do": "nothing"}}
CRON = {"assistant_id": "agent", "schedule": "0 0 29 2 *", "input": {}}
MESSAGE = {"id": "m1", "role": "user", "content": "Hello"}
AG_UI = {
    "threadId": "{thread}",
    "runId": "r",
    "messages": [MESSAGE],
    "state": {},
    "tools": [],
    "context": [],
    "forwardedProps": {},
}
USER_MESSAGE = {"content": [{"type": "input_text", "text": "Hello"}], "attachments": [], "inference_options": {}}

_CALLS = [
    Call("POST", "/threads", {"thread_id": "{thread}"}, "taken"),
    Call("POST", "/threads/search", {"limit": 1000}, "list"),
    Call("POST", "/threads/count", {}, "list"),
    Call("POST", "/threads/prune", {"thread_ids": ["{thread}"]}),
    Call("GET", "/threads/{thread_id}"),
    Call("PATCH", "/threads/{thread_id}", {"metadata": {"a": 1}}),
    Call("DELETE", "/threads/{thread_id}"),
    Call("GET", "/threads/{thread_id}/state"),
    Call("POST", "/threads/{thread_id}/state", {"values": {"do": "x"}}),
    Call("PATCH", "/threads/{thread_id}/state", {"metadata": {"a": 1}}),
    Call("POST", "/threads/{thread_id}/copy"),
    Call("GET", "/threads/{thread_id}/storage"),
    Call("GET", "/threads/{thread_id}/stream", endless=True),
    Call("POST", "/threads/{thread_id}/stream/events", {"channels": ["values"]}, endless=True),
    Call("POST", "/threads/{thread_id}/commands", {"id": 1, "method": "state.get", "params": {}}),
    Call("GET", "/threads/{thread_id}/state/{checkpoint_id}"),
    Call("POST", "/threads/{thread_id}/state/checkpoint", {"checkpoint": {"checkpoint_id": "{checkpoint}"}}),
    Call("GET", "/threads/{thread_id}/history"),
    Call("POST", "/threads/{thread_id}/history", {}),
    Call("GET", "/threads/{thread_id}/runs"),
    Call("POST", "/threads/{thread_id}/runs", RUN),
    Call("POST", "/threads/{thread_id}/runs/stream", RUN),
    Call("POST", "/threads/{thread_id}/runs/wait", RUN),
    Call("GET", "/threads/{thread_id}/runs/{run_id}"),
    Call("DELETE", "/threads/{thread_id}/runs/{run_id}"),
    Call("GET", "/threads/{thread_id}/runs/{run_id}/join"),
    Call("GET", "/threads/{thread_id}/runs/{run_id}/stream"),
    Call("POST", "/threads/{thread_id}/runs/{run_id}/cancel"),
    Call("POST", "/threads/{thread_id}/runs/crons", CRON),
    Call("GET", "/threads/{thread_id}/timeline"),
    Call("GET", "/threads/{thread_id}/timeline/stream", endless=True),
    Call("PUT", "/threads/{thread_id}/timeline/interrupts/{interrupt_id}", {"value": "yes"}),
    Call("POST", "/assistants", {"graph_id": "agent", "assistant_id": "{assistant}"}, "taken"),
    Call("POST", "/assistants/search", {"limit": 1000}, "list"),
    Call("POST", "/assistants/count", {}, "list"),
    Call("GET", "/assistants/{assistant_id}"),
    Call("PATCH", "/assistants/{assistant_id}", {"name": "mine"}),
    Call("DELETE", "/assistants/{assistant_id}"),
    Call("POST", "/assistants/{assistant_id}/versions", {}),
    Call("POST", "/assistants/{assistant_id}/latest", {"version": 1}),
    Call("GET", "/assistants/{assistant_id}/graph"),
    Call("GET", "/assistants/{assistant_id}/schemas"),
    Call("GET", "/assistants/{assistant_id}/subgraphs"),
    Call("GET", "/assistants/{assistant_id}/subgraphs/{namespace}"),
    Call("POST", "/runs/crons", {**CRON, "assistant_id": "{assistant}"}),
    Call("POST", "/runs/crons/search", {"limit": 1000}, "list"),
    Call("POST", "/runs/crons/count", {}, "list"),
    Call("GET", "/runs/crons/{cron_id}"),
    Call("PATCH", "/runs/crons/{cron_id}", {"enabled": False}),
    Call("DELETE", "/runs/crons/{cron_id}"),
    Call("POST", "/runs", {**RUN, "assistant_id": "{assistant}"}),
    Call("POST", "/runs/stream", {**RUN, "assistant_id": "{assistant}"}),
    Call("POST", "/runs/wait", {**RUN, "assistant_id": "{assistant}"}),
    Call("POST", "/runs/batch", [{**RUN, "assistant_id": "{assistant}"}]),
    Call("POST", "/runs/cancel", {"thread_id": "{thread}", "run_ids": ["{run}"]}),
    Call("GET", "/runs/{run_id}"),
    Call("DELETE", "/runs/{run_id}"),
    Call("GET", "/runs/{run_id}/join"),
    Call("GET", "/runs/{run_id}/stream"),
    Call("POST", "/runs/{run_id}/cancel"),
    Call("PUT", "/store/items", {"namespace": ["notes"], "key": "other", "value": {"text": "mine"}}, "free"),
    Call("GET", "/store/items?namespace=notes&key=note", kind="list"),
    Call("DELETE", "/store/items", {"namespace": ["notes"], "key": "note"}, "free"),
    Call("POST", "/store/items/search", {"namespace_prefix": []}, "list"),
    Call("POST", "/store/namespaces", {}, "list"),
    Call("POST", "/ui/{graph_id}", {"name": "x"}, "free"),
    Call("GET", "/ui/{graph_id}/{file}", kind="free"),
    Call("GET", "/ag-ui", kind="list"),
    Call("GET", "/ag-ui/{agent}", kind="free"),
    Call("POST", "/ag-ui/{agent}", AG_UI, "created"),
    Call("POST", "/ag-ui/{agent}/connect", AG_UI),
    Call("POST", "/ag-ui/{agent}/stop/{thread_id}"),
    Call("GET", "/ag-ui/{agent}/threads/{thread_id}/events", endless=True),
    Call("GET", "/copilotkit/info", kind="list"),
    Call("POST", "/copilotkit/agent/{agent}/run", AG_UI, "created"),
    Call("POST", "/copilotkit/agent/{agent}/suggest", AG_UI, "free"),
    Call("POST", "/copilotkit/agent/{agent}/connect", AG_UI),
    Call("POST", "/copilotkit/agent/{agent}/stop/{thread_id}"),
    Call("GET", "/copilotkit/threads", kind="list"),
    Call("POST", "/copilotkit/threads/subscribe", {}, "free"),
    Call("POST", "/copilotkit/threads/clear", {}, "free"),
    Call("POST", "/copilotkit/threads/{thread_id}/archive", {"agentId": "agent"}),
    Call("PATCH", "/copilotkit/threads/{thread_id}", {"agentId": "agent", "name": "mine"}),
    Call("DELETE", "/copilotkit/threads/{thread_id}", {"agentId": "agent"}),
    Call("GET", "/copilotkit/threads/{thread_id}/messages"),
    Call("GET", "/copilotkit/threads/{thread_id}/events"),
    Call("GET", "/copilotkit/threads/{thread_id}/state"),
    Call("POST", "/copilotkit", {"method": "agent/connect", "params": {"agentId": "agent"}, "body": AG_UI}),
    Call("POST", "/copilotkit/transcribe", {}, "free"),
    Call("POST", "/chatkit", {"type": "threads.get_by_id", "params": {"thread_id": "{thread}"}}),
    Call("POST", "/chatkit/{agent}", {"type": "threads.list", "params": {}}, "list"),
    Call("GET", "/chatkit/{agent}/options", kind="free"),
    Call("GET", "/chatkit/{agent}/threads/{thread_id}/feedback"),
    Call("POST", "/chatkit/{agent}/attachments", kind="free"),
    Call("PUT", "/chatkit/{agent}/attachments/{attachment_id}/content", content=b"\x89PNG\r\n\x1a\n"),
    Call("GET", "/chatkit/{agent}/attachments/{attachment_id}/preview"),
    Call("GET", "/ok", kind="public"),
    Call("GET", "/ready", kind="public"),
    Call("GET", "/", kind="public"),
    Call("GET", "/info", kind="public"),
    Call("GET", "/metrics", kind="free"),
    Call("POST", "/tickets", kind="free"),
]


def _command(method: str, **params: Any) -> Call:
    return Call("POST", "/threads/{thread_id}/commands", {"id": 1, "method": method, "params": params}, endless=False)


COMMANDS = {
    "run.start": Call(
        "POST",
        "/threads/{thread_id}/commands",
        {"id": 1, "method": "run.start", "params": {"assistant_id": "agent", "input": {}}},
        "created",
    ),
    "input.respond": _command("input.respond", namespace=[], interrupt_id="{interrupt}", response="yes"),
    "input.inject": _command("input.inject", namespace=[], message={"role": "user", "content": "Hello"}),
    "state.get": _command("state.get", namespace=[]),
    "state.listCheckpoints": _command("state.listCheckpoints", namespace=[]),
    "state.fork": _command("state.fork", checkpoint_id="{checkpoint}"),
    "agent.getTree": _command("agent.getTree"),
    "subscription.subscribe": _command("subscription.subscribe", channels=["values"]),
    "subscription.unsubscribe": _command("subscription.unsubscribe", subscription_id="sub-1"),
    "subscription.reconnect": _command("subscription.reconnect", run_id="{run}", subscriptions=[]),
}


def _chatkit(operation: str, kind: str = "row", **params: Any) -> Call:
    return Call("POST", "/chatkit/agent", {"type": operation, "params": params}, kind)


CHATKIT = {
    "threads.create": _chatkit("threads.create", "free", input=USER_MESSAGE),
    "threads.add_user_message": _chatkit("threads.add_user_message", thread_id="{thread}", input=USER_MESSAGE),
    "threads.add_client_tool_output": _chatkit("threads.add_client_tool_output", thread_id="{thread}", result={}),
    "threads.add_structured_input": _chatkit(
        "threads.add_structured_input", thread_id="{thread}", item_id="i", input={}
    ),
    "threads.retry_after_item": _chatkit("threads.retry_after_item", thread_id="{thread}", item_id="i"),
    "threads.custom_action": _chatkit("threads.custom_action", thread_id="{thread}", action={"type": "a"}),
    "threads.sync_custom_action": _chatkit("threads.sync_custom_action", thread_id="{thread}", action={"type": "a"}),
    "threads.get_by_id": _chatkit("threads.get_by_id", thread_id="{thread}"),
    "threads.list": _chatkit("threads.list", "list"),
    "threads.update": _chatkit("threads.update", thread_id="{thread}", title="mine"),
    "threads.delete": _chatkit("threads.delete", thread_id="{thread}"),
    "items.list": _chatkit("items.list", thread_id="{thread}"),
    "items.feedback": _chatkit("items.feedback", thread_id="{thread}", item_ids=["i"], kind="positive"),
    "attachments.create": _chatkit("attachments.create", "free", name="a.png", size=8, mime_type="image/png"),
    "input.transcribe": _chatkit("input.transcribe", "free", audio_base64="AAAA", mime_type="audio/webm"),
    "attachments.delete": _chatkit("attachments.delete", attachment_id="{attachment}"),
}

COPILOTKIT = {
    "info": Call("POST", "/copilotkit", {"method": "info"}, "list"),
    "agent/run": Call(
        "POST", "/copilotkit", {"method": "agent/run", "params": {"agentId": "agent"}, "body": AG_UI}, "created"
    ),
    "agent/connect": Call(
        "POST", "/copilotkit", {"method": "agent/connect", "params": {"agentId": "agent"}, "body": AG_UI}
    ),
    "agent/suggest": Call(
        "POST", "/copilotkit", {"method": "agent/suggest", "params": {"agentId": "agent"}, "body": AG_UI}, "free"
    ),
    "agent/stop": Call(
        "POST", "/copilotkit", {"method": "agent/stop", "params": {"agentId": "agent", "threadId": "{thread}"}}
    ),
    "inspector/metadata": Call("POST", "/copilotkit", {"method": "inspector/metadata"}, "free"),
    "inspector/learning": Call("POST", "/copilotkit", {"method": "inspector/learning"}, "free"),
    "transcribe": Call("POST", "/copilotkit", {"method": "transcribe", "body": {}}, "free"),
    "resource/request": Call(
        "POST",
        "/copilotkit",
        {"method": "resource/request", "params": {"path": "/threads/{thread}/messages", "httpMethod": "GET"}},
    ),
}

RULES = {f"{call.method} {call.path.partition('?')[0]}": call for call in _CALLS}

EVERYTHING = {
    **RULES,
    **{f"command {n}": c for n, c in COMMANDS.items()},
    **{f"chatkit {n}": c for n, c in CHATKIT.items()},
    **{f"copilotkit {n}": c for n, c in COPILOTKIT.items()},
}
