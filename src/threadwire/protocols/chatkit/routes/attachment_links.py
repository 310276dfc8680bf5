"""The addresses of an attachment that a page requests without headers: an upload, and the preview in an `<img>`.

If the server authenticates, each address has its own ticket. A ticket is valid for one request to one address, and long
enough to upload or display a file. Tickets are added to each response separately, because all readers of a thread share
encoders and their frames.
"""

from dataclasses import dataclass

from threadwire.core.json import dumps, loads
from threadwire.core.users import Caller
from threadwire.http.tickets import issue_ticket
from threadwire.protocols.chatkit.attachments import CONTENT, PREVIEW, Attachment, is_attachment_id
from threadwire.protocols.chatkit.wire import Object
from threadwire.storage.abc import Tickets

LINK_SECONDS = 300.0
"""How long such an address can be used. A page may upload several files one after another."""

_DATA, _END = b"data: ", b"\n\n"


@dataclass(frozen=True, slots=True)
class AttachmentLinks:
    tickets: Tickets
    caller: Caller | None
    """None if the server does not authenticate."""
    address: str
    """The URL of the agent's attachments, as the client reaches it."""

    async def of(self, attachment: Attachment, *, upload: bool = False) -> Object:
        """How the caller's page sees the attachment."""
        shown = await self._shown(attachment.as_json(self._url(attachment.attachment_id)))
        if not upload:
            return shown
        url = await self._with_ticket(attachment.attachment_id, CONTENT)
        return {**shown, "upload_descriptor": {"url": url, "method": "PUT", "headers": {}}}

    async def in_page(self, page: Object) -> Object:
        """A page of items, with addresses of previews that the caller's page can display. The items are not changed:
        other requests share them."""
        return page if self.caller is None else {**page, "data": [await self._in_item(each) for each in page["data"]]}

    async def in_frames(self, frames: bytes) -> bytes:
        """Frames of a stream, with addresses of previews that the caller's page can display."""
        if self.caller is None or b'"preview_url"' not in frames:
            return frames
        return b"".join([await self._in_frame(each) for each in frames.split(_END) if each])

    async def _in_frame(self, frame: bytes) -> bytes:
        event = loads(frame.removeprefix(_DATA)) if frame.startswith(_DATA) else None
        if not isinstance(event, dict) or not isinstance(event.get("item"), dict):
            return frame + _END
        return _DATA + dumps({**event, "item": await self._in_item(event["item"])}) + _END

    async def _in_item(self, item: Object) -> Object:
        if not item.get("attachments"):
            return item
        return {**item, "attachments": [await self._shown(each) for each in item["attachments"]]}

    async def _shown(self, attachment: Object) -> Object:
        if self.caller is None or "preview_url" not in attachment or not is_attachment_id(attachment["id"]):
            return attachment
        return {**attachment, "preview_url": await self._with_ticket(attachment["id"], PREVIEW)}

    async def _with_ticket(self, attachment_id: str, part: str) -> str:
        """An address of this server, never the one in the message: any client can write messages, and a ticket must not
        be sent to another server."""
        url = f"{self._url(attachment_id)}{part}"
        if self.caller is None:
            return url
        ticket, _ = await issue_ticket(self.tickets, self.caller, LINK_SECONDS, f"/attachments/{attachment_id}{part}")
        return f"{url}?ticket={ticket}"

    def _url(self, attachment_id: str) -> str:
        return f"{self.address}/{attachment_id}"
