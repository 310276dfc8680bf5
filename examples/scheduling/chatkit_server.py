"""The scheduling assistant behind OpenAI's own `ChatKitServer`, for those who write their own server.

Threadwire serves the same graph at `/chatkit/scheduling` without any of this. Here, the adapter turns what the graph
streams into ChatKit's events, and the `ChatKitServer` stores the items.
"""

from collections.abc import AsyncIterator
from typing import Any

from chatkit.server import ChatKitServer
from chatkit.store import Store
from chatkit.types import ThreadMetadata, ThreadStreamEvent, UserMessageItem
from langgraph.checkpoint.memory import InMemorySaver

from scheduling.agent import graph
from scheduling.chatkit_formats import formats
from threadwire.chatkit import LangGraphAdapter


class LangGraphSchedulingServer(ChatKitServer[dict[str, Any]]):
    def __init__(self, store: Store[dict[str, Any]]) -> None:
        super().__init__(store)
        self.adapter = LangGraphAdapter(graph.copy(update={"checkpointer": InMemorySaver()}), formats)

    async def respond(
        self, thread: ThreadMetadata, input_user_message: UserMessageItem | None, context: dict[str, Any]
    ) -> AsyncIterator[ThreadStreamEvent]:
        if input_user_message is None:  # after a client tool or a structured input, which this agent does not use
            return
        text = "".join(part.text for part in input_user_message.content)
        async for event in self.adapter.stream_agent_response_from_langgraph(text, thread.id):
            yield event
