"""The user loops that call graphs: the worker loop for runs, and the reads loop for graph calls outside runs."""

from contextlib import ExitStack

from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.user_loop import UserLoop


def open_loops(loops: ExitStack, persistence: ProjectPersistence) -> tuple[UserLoop, UserLoop]:
    """Open the worker loop and the reads loop. They are the same loop if the checkpointer or the store is custom."""
    work_loop = loops.enter_context(UserLoop("worker"))
    # A custom checkpointer or store belongs to one loop, so reads through it must use that loop too.
    read_loop = work_loop if persistence.is_custom else loops.enter_context(UserLoop("reads"))
    return work_loop, read_loop
