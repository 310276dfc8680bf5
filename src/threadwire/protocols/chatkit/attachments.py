"""Attachments: what is stored about a file, what clients and models see of it, and which files are accepted."""

import re
from base64 import b64encode
from dataclasses import dataclass, replace
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Protocol

from threadwire.errors import Invalid, NotFound, TooLarge
from threadwire.graphs.chatkit_config import AttachmentSection
from threadwire.protocols.chatkit.wire import Object, without_none

CONTENT = "/content"
PREVIEW = "/preview"
"""Appended to the address of an attachment: the addresses of its content and of its preview."""

_ID = re.compile(r"atc_[0-9a-f]{32}")
_MIME_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")

_SIGNATURES = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
    "application/pdf": re.compile(rb"%PDF-"),
}
"""The first bytes of files of these types."""


@dataclass(frozen=True, slots=True)
class Attachment:
    attachment_id: str
    name: str
    mime_type: str
    size: int
    graph_id: str
    """The agent that it was uploaded to."""
    created_at: int
    is_uploaded: bool = False
    thread_id: str | None = None
    """The thread whose message has it. No other thread can use it."""
    owner: str | None = None
    """Who uploaded it, if that is known."""

    @property
    def is_image(self) -> bool:
        return self.mime_type.startswith("image/")

    def as_json(self, address: str) -> Object:
        """How clients see it. `address` is its own URL."""
        return without_none(
            {
                "id": self.attachment_id,
                "type": "image" if self.is_image else "file",
                "name": self.name,
                "mime_type": self.mime_type,
                "preview_url": f"{address}{PREVIEW}" if self.is_image else None,
            }
        )


class AttachmentStore(Protocol):
    """Where attachments are stored. Operations on one attachment may be concurrent; the last one wins."""

    async def put(self, attachment: Attachment) -> None:
        """Store the description of an attachment. It is durable on return."""

    async def get(self, attachment_id: str) -> Attachment | None: ...

    async def write(self, attachment_id: str, content: bytes) -> None:
        """Store the content, all of it or nothing. It is durable on return."""

    async def read(self, attachment_id: str) -> bytes | None: ...

    async def of_thread(self, thread_id: str) -> list[str]:
        """The ids of the attachments that belong to a thread."""

    async def delete(self, attachment_id: str) -> None:
        """Delete an attachment and its content. It is not an error if there is none."""


def is_attachment_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def not_found(attachment_id: str) -> NotFound:
    return NotFound(f"Attachment {attachment_id[:100]!r} not found")


def file_name(name: str) -> str:
    """The name of a file without its folder, and without control characters."""
    last = PureWindowsPath(PurePosixPath(name).name).name
    printable = "".join(each for each in last if each.isprintable()).strip()
    return printable[:255] if printable.strip(".") else "file"


def check_declared(mime_type: str, size: int, limits: AttachmentSection) -> str:
    """Return the type without parameters. Raises `Invalid` or `TooLarge` for a file that is not accepted."""
    plain = mime_type.partition(";")[0].strip().lower()
    if not limits.enabled:
        raise Invalid("This agent accepts no attachments")
    if not _MIME_TYPE.fullmatch(plain):
        raise Invalid("mime_type: must be a media type, such as image/png")
    if not limits.accepts(plain):
        raise Invalid(f"mime_type: {plain} is not accepted. Accepted types: {', '.join(limits.accept)}")
    if size > limits.max_bytes:
        raise TooLarge(f"The file is larger than {limits.max_bytes} bytes")
    return plain


def check_content(mime_type: str, content: bytes, limits: AttachmentSection) -> None:
    """Raises `Invalid` or `TooLarge` if the content is not what was declared."""
    if len(content) > limits.max_bytes:
        raise TooLarge(f"The file is larger than {limits.max_bytes} bytes")
    if not content:
        raise Invalid("The file is empty")
    if not _matches(mime_type, content):
        raise Invalid(f"The content of the file is not {mime_type}")
    if mime_type.startswith("text/"):
        try:
            content.decode()
        except UnicodeDecodeError:
            raise Invalid(f"The content of the file is not {mime_type} in UTF-8") from None


def _matches(mime_type: str, content: bytes) -> bool:
    """Whether the content may be of the type. Content of a known type must not be declared as another kind of file."""
    actual = next((each for each, signature in _SIGNATURES.items() if signature.match(content)), None)
    if mime_type in _SIGNATURES:
        return actual == mime_type
    kind = mime_type.partition("/")[0]
    return actual is None or kind == "application" or actual.startswith(f"{kind}/")


def uploaded(attachment: Attachment, content: bytes) -> Attachment:
    return replace(attachment, is_uploaded=True, size=len(content))


def content_block(attachment: Attachment, content: bytes) -> dict[str, Any]:
    """How models see an attachment: a content block of LangChain."""
    if attachment.mime_type.startswith("text/"):
        text = {"text": content.decode(errors="replace"), "title": attachment.name}
        return {"type": "text-plain", **text, "mime_type": attachment.mime_type}
    encoded = {"base64": b64encode(content).decode(), "mime_type": attachment.mime_type}
    for kind in ("image", "audio"):
        if attachment.mime_type.startswith(f"{kind}/"):
            return {"type": kind, **encoded}
    return {"type": "file", **encoded, "extras": {"filename": attachment.name}}
