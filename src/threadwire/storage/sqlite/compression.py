"""Rows that are large are kept compressed: to write a page takes longer than to make it unnecessary."""

import threading

import zstandard

COMPRESS_FROM = 900
"""In a table without rowids a row of up to about 1000 bytes stays inside its b-tree page; a longer one takes a 4 kB
overflow page. So compressing starts to pay where that cliff is, not only for what is really large."""


class _Contexts(threading.local):
    """Neither may be used by two threads at once, and to make one takes longer than to use it."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=1)
        self.decompressor = zstandard.ZstdDecompressor()


_contexts = _Contexts()


def compress(data: bytes) -> bytes | None:
    """The data in a shorter form, if that is worth while."""
    if len(data) <= COMPRESS_FROM:
        return None
    compressed = _contexts.compressor.compress(data)
    return compressed if len(compressed) < len(data) else None


def decompress(compressed: bytes) -> bytes:
    return _contexts.decompressor.decompress(compressed)
