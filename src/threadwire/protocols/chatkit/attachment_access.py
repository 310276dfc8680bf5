"""Who may use an attachment: its uploader until it is part of a thread, and then everyone who may see the thread."""

from threadwire.core.ids import ThreadId
from threadwire.core.records import Assistant
from threadwire.engine.access import current_owner, is_restricted
from threadwire.engine.lifecycle import Engine
from threadwire.errors import NotFound
from threadwire.protocols.chatkit.attachments import Attachment, AttachmentStore, not_found


async def find_attachment(engine: Engine, store: AttachmentStore, agent: Assistant, attachment_id: str) -> Attachment:
    """Find an attachment of the agent. A foreign one is not found. Raises `NotFound`."""
    attachment = await store.get(attachment_id)
    if attachment is None or attachment.graph_id != agent.graph_id or not await _is_accessible(engine, attachment):
        raise not_found(attachment_id)
    return attachment


async def _is_accessible(engine: Engine, attachment: Attachment) -> bool:
    if attachment.thread_id is None:
        return not is_restricted() or attachment.owner == current_owner()
    try:
        await engine.threads.get(ThreadId(attachment.thread_id), with_state=False)
    except NotFound:
        return False
    return True
