"""Compress large rows: writing a page takes longer than compressing it away."""

import threading

import zstandard

COMPRESS_FROM = 900
"""In a table without rowids, a row of up to about 1000 bytes fits into its b-tree page; a longer one needs a 4 kB
overflow page. So compression pays from that limit on, not only for much larger rows."""


class _Contexts(threading.local):
    """Not thread-safe, and more expensive to create than to use; so every thread has its own."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=1)
        self.decompressor = zstandard.ZstdDecompressor()


_contexts = _Contexts()


def compress(data: bytes) -> bytes | None:
    """Return the compressed data, or None if that would save nothing."""
    if len(data) <= COMPRESS_FROM:
        return None
    compressed = _contexts.compressor.compress(data)
    return compressed if len(compressed) < len(data) else None


def decompress(compressed: bytes) -> bytes:
    return _contexts.decompressor.decompress(compressed)
