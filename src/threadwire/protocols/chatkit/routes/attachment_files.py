"""Attachments on disk, or in memory for a server that stores nothing.

Each attachment is two files: `<id>.json` describes it, and `<id>.bin` is its content. If it belongs to a thread, the
empty file `threads/<thread id>/<id>` says so. A name that a client sends is never part of a path.
"""

import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from uuid import UUID

from anyio import to_thread

from threadwire.core.json import dumps, loads
from threadwire.protocols.chatkit.attachments import Attachment, AttachmentStore, is_attachment_id


class AttachmentFiles:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, attachment: Attachment) -> None:
        content = dumps(asdict(attachment))
        if attachment.thread_id is not None:
            # Before the description, so that after a crash the folder names every attachment of the thread.
            await to_thread.run_sync(self._mark, attachment.thread_id, attachment.attachment_id)
        await to_thread.run_sync(self._replace, f"{attachment.attachment_id}.json", content)

    async def get(self, attachment_id: str) -> Attachment | None:
        content = await self._read(attachment_id, "json")
        return None if content is None else Attachment(**loads(content))

    async def write(self, attachment_id: str, content: bytes) -> None:
        await to_thread.run_sync(self._replace, f"{attachment_id}.bin", content)

    async def read(self, attachment_id: str) -> bytes | None:
        return await self._read(attachment_id, "bin")

    async def of_thread(self, thread_id: str) -> list[str]:
        return await to_thread.run_sync(self._marked, thread_id)

    async def delete(self, attachment_id: str) -> None:
        if is_attachment_id(attachment_id):
            found = await self.get(attachment_id)
            await to_thread.run_sync(self._delete, attachment_id, None if found is None else found.thread_id)

    def _delete(self, attachment_id: str, thread_id: str | None) -> None:
        for ending in ("bin", "json"):
            (self._folder / f"{attachment_id}.{ending}").unlink(missing_ok=True)
        if thread_id is not None:
            marks = self._marks(thread_id)
            (marks / attachment_id).unlink(missing_ok=True)
            with suppress(OSError):  # it has others, or was deleted
                marks.rmdir()

    def _marks(self, thread_id: str) -> Path:
        return self._folder / "threads" / str(UUID(thread_id))

    def _mark(self, thread_id: str, attachment_id: str) -> None:
        marks = self._marks(thread_id)
        marks.mkdir(parents=True, exist_ok=True)
        (marks / attachment_id).touch()

    def _marked(self, thread_id: str) -> list[str]:
        try:
            return sorted(each.name for each in self._marks(thread_id).iterdir())
        except FileNotFoundError:
            return []

    async def _read(self, attachment_id: str, ending: str) -> bytes | None:
        if not is_attachment_id(attachment_id):
            return None
        try:
            return await to_thread.run_sync((self._folder / f"{attachment_id}.{ending}").read_bytes)
        except FileNotFoundError:
            return None

    def _replace(self, name: str, content: bytes) -> None:
        """Write a file so that a crash leaves the old one or the new one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / name
        unfinished = self._folder / f"{name}.new"
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class AttachmentsInMemory:
    def __init__(self) -> None:
        self._known: dict[str, Attachment] = {}
        self._contents: dict[str, bytes] = {}

    async def put(self, attachment: Attachment) -> None:
        self._known[attachment.attachment_id] = attachment

    async def get(self, attachment_id: str) -> Attachment | None:
        return self._known.get(attachment_id)

    async def write(self, attachment_id: str, content: bytes) -> None:
        self._contents[attachment_id] = content

    async def read(self, attachment_id: str) -> bytes | None:
        return self._contents.get(attachment_id)

    async def of_thread(self, thread_id: str) -> list[str]:
        return [each.attachment_id for each in self._known.values() if each.thread_id == thread_id]

    async def delete(self, attachment_id: str) -> None:
        self._known.pop(attachment_id, None)
        self._contents.pop(attachment_id, None)


def open_attachments(data: Path | None) -> AttachmentStore:
    return AttachmentsInMemory() if data is None else AttachmentFiles(data / "attachments")
