"""Text that people have seen but that is not in the graph's state, because its run failed or was stopped."""

from collections.abc import Sequence

from threadwire.core.entries import Json
from threadwire.core.message_content import conversation_of, message_type, text_of
from threadwire.core.timeline import Block
from threadwire.protocols.chatkit.wire import Object


def cut_off_messages(values: Json, blocks: Sequence[Block]) -> list[Object]:
    """The assistant messages after the last message of a state's conversation, for the next run to add to it. `blocks`
    are those of the thread's timeline."""
    known = {each.get("id") for each in conversation_of(values)}
    found: list[Object] = []
    for block in reversed(blocks):
        if block["kind"] != "message":
            continue
        message = block["message"]
        if message["id"] in known:
            return found[::-1]
        text = text_of(message.get("content"))
        if message_type(message) == "ai" and not block["ns"] and not block.get("transient") and text.strip():
            found.append({"type": "ai", "id": message["id"], "content": text})
    return []  # the state has none of these messages, so it does not keep a conversation
