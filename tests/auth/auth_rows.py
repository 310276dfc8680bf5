"""Rows of one user, rows that do not exist, and calls of operations on them."""

import json
import uuid
from dataclasses import dataclass
from typing import Any

import httpx
from auth_operations import SECRET, Call

ENDLESS_SECONDS = 0.5


@dataclass(frozen=True)
class Rows:
    """The ids of rows, existing or not."""

    thread: str
    run: str
    assistant: str
    cron: str
    checkpoint: str
    attachment: str
    interrupt: str

    def fill(self, text: str) -> str:
        for name, value in vars(self).items():
            text = text.replace(f"{{{name}}}", value).replace(f"{{{name}_id}}", value)
        for name, value in {"agent": "agent", "graph_id": "agent", "file": "a.js", "namespace": "act"}.items():
            text = text.replace(f"{{{name}}}", value)
        return text


def unknown_rows() -> Rows:
    new = [str(uuid.uuid4()) for _ in range(5)]
    return Rows(*new, attachment=f"atc_{uuid.uuid4().hex}", interrupt=uuid.uuid4().hex)


def rows_of(ada: httpx.Client) -> Rows:
    """One row of every kind that belongs to Ada."""
    thread = ada.post("/threads", json={}).json()["thread_id"]
    ada.post(f"/threads/{thread}/runs/wait", json={"assistant_id": "agent", "input": {"do": "ask"}}).raise_for_status()
    state = ada.get(f"/threads/{thread}/state").json()
    assistant = ada.post("/assistants", json={"graph_id": "agent", "name": SECRET}).json()["assistant_id"]
    cron = ada.post(f"/threads/{thread}/runs/crons", json={"assistant_id": "agent", "schedule": "0 0 29 2 *"}).json()
    ada.put("/store/items", json={"namespace": ["notes"], "key": "note", "value": {"text": SECRET}}).raise_for_status()
    attachment = {"type": "attachments.create", "params": {"name": "a.png", "size": 8, "mime_type": "image/png"}}
    return Rows(
        thread,
        ada.get(f"/threads/{thread}/runs").json()[0]["run_id"],
        assistant,
        cron["cron_id"],
        state["checkpoint"]["checkpoint_id"],
        ada.post("/chatkit/agent", json=attachment).json()["id"],
        state["interrupts"][0]["id"],
    )


def send(client: httpx.Client, call: Call, rows: Rows) -> tuple[int, str]:
    """The status and the body, or the part of it that arrives immediately."""
    url = rows.fill(call.path)
    options: dict[str, Any] = {}
    if call.content is not None:
        options["content"] = call.content
    elif call.body is not None:
        options["content"] = rows.fill(json.dumps(call.body))
        options["headers"] = {"content-type": "application/json"}
    timeout = httpx.Timeout(30, read=ENDLESS_SECONDS if call.endless else 30)
    received = b""
    with client.stream(call.method, url, timeout=timeout, **options) as response:
        try:
            for part in response.iter_raw():
                received += part
        except httpx.ReadTimeout:
            assert call.endless
    return response.status_code, received.decode(errors="replace")
