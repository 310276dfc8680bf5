"""Attempts without an engine, and a recorder for their entries."""

from collections.abc import Sequence
from typing import Any

from threadwire.core.entries import Draft
from threadwire.core.ids import AssistantId, RunId, Seq, ThreadId
from threadwire.core.json import native
from threadwire.core.records import Run
from threadwire.graphs.execution import Attempt


class FakeRecorder:
    queue_full = False

    def __init__(self) -> None:
        self.drafts: list[Draft] = []

    def append(self, drafts: Sequence[Draft]) -> None:
        native([draft.data for draft in drafts])
        self.drafts += drafts

    async def wait_for_room(self) -> None: ...

    async def flush(self) -> None: ...


def attempt(run_id: RunId, thread_id: ThreadId, **kwargs: Any) -> Attempt:
    run = Run(
        run_id=run_id,
        thread_id=thread_id,
        assistant_id=AssistantId("a"),
        graph_id="g",
        status="running",
        created_at=0,
        updated_at=0,
        due_at=0,
        queued_seq=Seq(1),
        attempt=1,
        kwargs=kwargs,
    )
    return Attempt(run, resumes=False, base_checkpoint=None)
