from threadwire.core.ids import ThreadId
from threadwire.storage.segments import Segment
from threadwire.storage.sqlite.tail_cache import TailCache

ONE, OTHER = ThreadId("one"), ThreadId("other")


def filled() -> TailCache:
    cache = TailCache(1_000_000)
    for thread_id in (ONE, OTHER):
        segment = Segment(thread_id, 1, None, 0)
        segment.entries = [(0, b"{}", (), "custom")] * 3
        cache.add([segment])
    return cache


def test_a_tail_that_was_not_read_since_the_last_call_is_dropped() -> None:
    cache = filled()
    cache.drop_unused()
    assert (cache.last(ONE), cache.last(OTHER)) == (3, 3)
    assert cache.read(ONE, 1, 10, None) is not None
    cache.drop_unused()
    assert (cache.last(ONE), cache.last(OTHER)) == (3, None)
    cache.drop_unused()
    assert cache.last(ONE) is None
