from threadwire.core.temporary_caches import clear_temporary_caches, temporary_cache

calls: list[str] = []


@temporary_cache(maxsize=2)
def shout(word: str) -> str:
    calls.append(word)
    return word.upper()


def test_a_result_is_kept_until_the_caches_are_cleared() -> None:
    calls.clear()
    assert [shout("a"), shout("a")] == ["A", "A"]
    assert calls == ["a"]
    clear_temporary_caches()
    assert shout("a") == "A"
    assert calls == ["a", "a"]
