"""The responses to commands."""

from threadwire.core.entries import Json
from threadwire.protocols.langgraph.thread_wire.decode import CommandError


def success(command_id: int, result: Json, applied_through: int) -> Json:
    """`applied_through` is the last event that the same connection received before the response, or 0 if it receives
    none. Clients resume after it."""
    return {"type": "success", "id": command_id, "result": result, "meta": {"applied_through_seq": applied_through}}


def error(command_id: int | None, found: CommandError) -> Json:
    return {"type": "error", "id": command_id, "error": found.code, "message": found.message}
