"""Which entries a full cache removes, and which stay."""

from pixconnect.platform.bounded_cache import BoundedCache


def test_the_least_recently_used_makes_room() -> None:
    cache = BoundedCache[str, int](3)
    for key in "abc":
        cache.keep(key, ord(key))
    assert cache.recall("a") == ord("a")
    cache.keep("d", 4)
    assert list(cache) == ["c", "a", "d"]
    assert cache.recall("b") is None


def test_what_is_kept_again_is_new_and_takes_no_more_room() -> None:
    cache = BoundedCache[str, int](2)
    cache.keep("a", 1)
    cache.keep("b", 2)
    cache.keep("a", 3)
    cache.keep("c", 4)
    assert dict(cache) == {"a": 3, "c": 4}


def test_a_walk_over_what_is_kept_changes_nothing() -> None:
    cache = BoundedCache[str, int](2)
    cache.keep("a", 1)
    cache.keep("b", 2)
    assert sum(cache.values()) + len(list(cache.items())) == 5
    assert cache.get("a") == 1
    cache.keep("c", 3)
    assert list(cache) == ["b", "c"]
