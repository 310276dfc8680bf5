"""Patches of LangGraph and its SDK, for a process that only serves Threadwire.

They are never applied in an embedded server, whose process belongs to the host application: see
docs/how-to/mount-in-your-application.md.
"""

from threadwire.graphs.langgraph_private.checkpoint_clock import checkpoint_clock
from threadwire.graphs.langgraph_private.process import LANGGRAPH_PATCHES
from threadwire.server.sdk_clients import SDK_CLIENTS
from threadwire.storage.checkpoint_ids import ID_CLOCK

PROCESS_PATCHES = (*LANGGRAPH_PATCHES, checkpoint_clock(ID_CLOCK), SDK_CLIENTS)


def patch_process() -> None:
    """Apply all patches, before the project is imported. Idempotent."""
    for patch in PROCESS_PATCHES:
        patch.apply()
