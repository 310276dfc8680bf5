"""The dashboard example: state that a page can render immediately, updated by background runs."""

from datetime import UTC, datetime
from typing import Any

import pytest

METRICS = {
    "income_7d": ("7-day income", "usd"),
    "apy": ("APY", "percent"),
    "users": ("Users", "count"),
    "aum": ("AUM", "usd"),
    "points": ("Points", "count"),
}


def refresh(client, thread_id: str, **options: Any) -> dict[str, Any]:
    """Refresh in a background run, wait for it, and return the state."""
    run = client.runs.create(thread_id, "dashboard", input={"refresh": True}, **options)
    client.runs.join(thread_id, run["run_id"])
    return client.threads.get_state(thread_id)["values"]


def ask(client, thread_id: str, text: str) -> list[dict[str, Any]]:
    question = {"messages": [{"role": "user", "content": text}]}
    return client.runs.wait(thread_id, "dashboard", input=question)["messages"]


def test_a_refresh_provides_everything_a_page_renders(client, thread_id):
    before = datetime.now(UTC).replace(microsecond=0)
    board = refresh(client, thread_id)
    assert set(board) == {"messages", "metrics", "days", "updated_at", "refreshes"}
    assert {name: (each["label"], each["unit"]) for name, each in board["metrics"].items()} == METRICS
    for metric in board["metrics"].values():
        assert len(metric["history"]) == 7
        assert metric["value"] == metric["history"][-1]
        assert metric["text"]
    assert len(board["days"]) == 7
    assert datetime.fromisoformat(board["updated_at"]) >= before
    # The thread has the same values, for a thread list that shows metrics.
    assert client.threads.get(thread_id)["values"] == board


def test_metric_texts_are_formatted(client, thread_id):
    metrics = refresh(client, thread_id)["metrics"]
    assert {name: each["text"] for name, each in metrics.items()} == {
        "income_7d": "$19,363",
        "apy": "8.31 %",
        "users": "1,391",
        "aum": "$12,144,722",
        "points": "89,825",
    }
    assert metrics["apy"]["change"] == -0.24


def test_every_refresh_is_the_next_day(client, thread_id):
    first, second = refresh(client, thread_id), refresh(client, thread_id)
    assert (first["refreshes"], second["refreshes"]) == (1, 2)
    assert second["days"][:-1] == first["days"][1:]
    for name, metric in second["metrics"].items():
        assert metric["history"][:-1] == first["metrics"][name]["history"][1:]


def test_a_fund_has_the_same_metrics_in_every_thread(client):
    one, same, other = (client.threads.create()["thread_id"] for _ in range(3))
    metrics = refresh(client, one)["metrics"]
    assert refresh(client, same)["metrics"] == metrics
    assert refresh(client, other, context={"seed": 2})["metrics"] != metrics


def test_a_refresh_can_be_delayed(client, thread_id):
    run = client.runs.create(thread_id, "dashboard", input={"refresh": True}, after_seconds=1)
    assert run["status"] == "pending"
    assert client.threads.get_state(thread_id)["values"] == {}
    client.runs.join(thread_id, run["run_id"])
    assert client.threads.get_state(thread_id)["values"]["refreshes"] == 1


def test_a_subscriber_sees_the_metrics_of_a_background_run(client, thread_id):
    run = client.runs.create(thread_id, "dashboard", input={"refresh": True}, after_seconds=1)
    shown = [part.data for part in client.runs.join_stream(thread_id, run["run_id"]) if part.event == "values"]
    assert shown[-1] == client.threads.get_state(thread_id)["values"]
    assert shown[-1]["metrics"]["users"]["value"] == 1391


def test_a_question_is_answered_from_the_board_and_streamed(client, thread_id):
    refresh(client, thread_id)
    question = {"messages": [{"role": "user", "content": "What is our APY?"}]}
    parts = list(client.runs.stream(thread_id, "dashboard", input=question, stream_mode=["messages-tuple", "values"]))
    chunks = [part.data[0] for part in parts if part.event == "messages" and part.data[0]["type"] == "AIMessageChunk"]
    assert sum(bool(chunk["content"]) for chunk in chunks) > 8
    assert any(chunk["tool_call_chunks"] for chunk in chunks)
    messages = parts[-1].data["messages"]
    assert [each["type"] for each in messages] == ["human", "ai", "tool", "ai"]
    assert messages[1]["tool_calls"][0]["args"] == {"names": ["apy"]}
    assert messages[-1]["content"] == "- **APY**: 8.31 % (-0.24 % since the day before)"


def test_a_question_does_not_change_the_metrics(client, thread_id):
    board = refresh(client, thread_id)
    ask(client, thread_id, "How are we doing?")
    after = client.threads.get_state(thread_id)["values"]
    assert {**after, "messages": []} == board
    assert len(after["messages"][-1]["content"].splitlines()) == 5


def test_the_assistant_can_refresh_the_board(client, thread_id):
    answer = ask(client, thread_id, "Refresh the numbers, please")[-1]["content"]
    board = client.threads.get_state(thread_id)["values"]
    assert board["refreshes"] == 1
    assert f"- **AUM**: {board['metrics']['aum']['text']}" in answer


def test_a_question_after_a_refresh_does_not_refresh_again(client, thread_id):
    """`refresh` applies to one run only."""
    refresh(client, thread_id)
    assert "**Users**: 1,391" in ask(client, thread_id, "How many users?")[-1]["content"]
    assert client.threads.get_state(thread_id)["values"]["refreshes"] == 1


def test_an_empty_board_is_filled_by_the_first_question(client, thread_id):
    assert ask(client, thread_id, "What is our APY?")[-1]["content"].startswith("- **APY**: 8.31 %")
    assert client.threads.get_state(thread_id)["values"]["refreshes"] == 1
    assert ask(client, thread_id, "What is our APY?")[-1]["content"].startswith("- **APY**: 8.31 %")
    assert client.threads.get_state(thread_id)["values"]["refreshes"] == 1


def test_any_other_message_is_answered_with_help(client, thread_id):
    assert "or say **refresh**" in ask(client, thread_id, "Hello!")[-1]["content"]


@pytest.mark.parametrize("sent", [{"metrics": {}, "days": []}, {"refreshes": 40}], ids=["emptied", "advanced"])
def test_a_page_that_sends_its_state_cannot_change_the_metrics(client, thread_id, sent):
    board = refresh(client, thread_id)
    question = {"messages": [{"role": "user", "content": "Hello!"}], **sent}
    client.runs.wait(thread_id, "dashboard", input=question)
    after = client.threads.get_state(thread_id)["values"]
    assert {**after, "messages": []} == board


def test_a_background_refresh_waits_for_the_conversation(client, thread_id):
    """Both runs use one thread: the second starts when the first has ended, and no update is lost."""
    question = {"messages": [{"role": "user", "content": "Refresh the numbers"}]}
    client.runs.create(thread_id, "dashboard", input=question)
    board = refresh(client, thread_id)
    assert board["refreshes"] == 2
    assert len(board["messages"]) == 4
