"""Uploading and reading attachments."""

from dataclasses import replace
from uuid import uuid4

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from threadwire.core.records import Assistant
from threadwire.engine.access import current_owner
from threadwire.engine.clock import system_clock
from threadwire.errors import Conflict, Invalid
from threadwire.graphs.chatkit_config import ChatKitConfig
from threadwire.protocols.chatkit.attachments import (
    Attachment,
    AttachmentStore,
    check_content,
    check_declared,
    file_name,
    not_found,
    uploaded,
)
from threadwire.protocols.chatkit.decode import AttachmentParams

# What an attachment contains is unknown, so a browser must not run any of it.
_SAFE = {
    "cache-control": "private, max-age=3600",
    "content-security-policy": "default-src 'none'; sandbox",
    "x-content-type-options": "nosniff",
}


async def create_attachment(
    store: AttachmentStore, graph_id: str, params: AttachmentParams, config: ChatKitConfig
) -> Attachment:
    """The first phase of an upload: the client declares what it will send."""
    mime_type = check_declared(params.mime_type, params.size, config.attachments)
    attachment = Attachment(
        f"atc_{uuid4().hex}",
        file_name(params.name),
        mime_type,
        params.size,
        graph_id,
        system_clock(),
        owner=current_owner(),
    )
    await store.put(attachment)
    return attachment


async def upload_content(
    store: AttachmentStore, attachment: Attachment, content: bytes, config: ChatKitConfig
) -> Attachment:
    """The second phase: the content."""
    if attachment.is_uploaded:
        raise Conflict("The attachment was already uploaded")
    check_content(attachment.mime_type, content, config.attachments)
    await store.write(attachment.attachment_id, content)
    attachment = uploaded(attachment, content)
    await store.put(attachment)
    return attachment


async def upload_directly(
    store: AttachmentStore, agent: Assistant, request: Request, config: ChatKitConfig
) -> Attachment:
    """An upload in one request: a form with the field `file`."""
    async with request.form(max_files=1, max_fields=10) as form:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise Invalid("file: must be a file")
        content = await file.read()
        params = AttachmentParams(
            name=file.filename or "file",
            size=len(content),
            mime_type=file.content_type or "application/octet-stream",
        )
    mime_type = check_declared(params.mime_type, params.size, config.attachments)
    check_content(mime_type, content, config.attachments)
    created = await create_attachment(store, agent.graph_id, params, config)
    await store.write(created.attachment_id, content)
    attachment = replace(created, is_uploaded=True)
    await store.put(attachment)
    return attachment


async def delete_of_thread(store: AttachmentStore, thread_id: str) -> None:
    """Delete the attachments of a thread that was deleted."""
    for attachment_id in await store.of_thread(thread_id):
        await store.delete(attachment_id)


async def preview(store: AttachmentStore, attachment: Attachment) -> Response:
    """The image itself. Other files have no preview."""
    content = await store.read(attachment.attachment_id) if attachment.is_image else None
    if content is None:
        raise not_found(attachment.attachment_id)
    return Response(content, media_type=attachment.mime_type, headers=_SAFE)
