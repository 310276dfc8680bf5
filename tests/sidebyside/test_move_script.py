"""The script of docs/how-to/move-from-langgraph-dev.md moves threads from the stock server to Threadwire."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient
from scenarios.inputs import AGAIN, HELLO, TEXT

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "move-from-langgraph-dev.md"


@pytest.fixture
def stock(servers: tuple[str, str]) -> Iterator[SyncLangGraphClient]:
    with get_sync_client(url=servers[0]) as client:
        yield client


@pytest.fixture
def ours(servers: tuple[str, str]) -> Iterator[SyncLangGraphClient]:
    with get_sync_client(url=servers[1]) as client:
        yield client


@pytest.mark.timeout(600)
def test_threads_move_with_their_ids_their_metadata_and_their_newest_state(
    stock: SyncLangGraphClient, ours: SyncLangGraphClient, servers: tuple[str, str], tmp_path: Path
) -> None:
    empty = stock.threads.create(metadata={"empty": True})["thread_id"]
    chat = stock.threads.create(metadata={"user": "ada"})["thread_id"]
    stock.runs.wait(chat, "chat", input=HELLO)
    waiting = stock.threads.create()["thread_id"]
    stock.runs.wait(waiting, "approve", input={"topic": "x"})

    move(tmp_path, *servers)

    assert ours.threads.get(empty)["metadata"] == {"empty": True}
    moved = ours.threads.get(chat)
    assert (moved["status"], moved["metadata"]["user"]) == ("idle", "ada")
    assert essentials(moved["values"]) == essentials(stock.threads.get_state(chat)["values"])
    assert ours.threads.get_state(waiting)["values"] == {"topic": "x"}
    assert len(ours.runs.wait(chat, "chat", input=AGAIN)["messages"]) == 4
    assert ours.runs.wait(waiting, "echo", input=TEXT)["echoed"] == "hi"


def essentials(values: Any) -> list[tuple[str, str, str]]:
    """Ignore the other fields: LangChain reads model metadata differently when a message is given as an object."""
    return [(message["type"], message["id"], message["content"]) for message in values["messages"]]


def move(folder: Path, *addresses: str) -> None:
    [script] = re.findall(r'^```python title="move_threads.py"\n(.*?)^```$', PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (folder / "move_threads.py").write_text(script)
    command = [sys.executable, "-W", "error", "move_threads.py", *addresses]
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr
