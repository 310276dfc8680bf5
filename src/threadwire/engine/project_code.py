"""Feeding an encoder that calls functions of the project.

The event loop serves every client, and the functions may be slow. So an entry that may call one is fed in a thread.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from threadwire.core.encoder import Encoder, Message
from threadwire.core.entries import Entry

MAX_THREADS = 8

# Separate threads: functions of the project must not delay reads of the database or of files.
_threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="threadwire-project-code")


async def feed_in_thread(encoder: Encoder, entry: Entry) -> Sequence[Message]:
    """Feed an entry. Nothing else may use the encoder until this returns, so the caller must not be cancelled."""
    return await asyncio.get_running_loop().run_in_executor(_threads, encoder.feed, entry)
