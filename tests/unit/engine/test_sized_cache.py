from threadwire.engine.sized_cache import SizedCache


def cache_of(*keys: str) -> SizedCache[str, str]:
    cache: SizedCache[str, str] = SizedCache(lambda: 100)
    for key in keys:
        cache.put(key, key.upper(), 10)
    return cache


def test_what_was_not_used_since_the_last_call_is_dropped() -> None:
    cache = cache_of("a", "b", "c")
    cache.drop_unused(lambda value: False)
    assert cache.keys() == ["a", "b", "c"]
    cache.get("b")
    cache.put("c", "C", 20)
    cache.drop_unused(lambda value: False)
    assert cache.keys() == ["b", "c"]
    cache.drop_unused(lambda value: value == "C")
    assert cache.keys() == ["c"]


def test_what_was_dropped_makes_room() -> None:
    cache = cache_of("a", "b", "c")
    cache.drop_unused(lambda value: False)
    cache.drop_unused(lambda value: False)
    cache.put("large", "LARGE", 95)
    cache.put("d", "D", 5)
    assert cache.keys() == ["large", "d"]
