"""The bounds of the cache, and what it evicts to keep them."""

from tieline.model.bounded_cache import BoundedCache


def test_the_least_recently_used_entry_is_evicted() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert cache.get("b") is None
    assert list(cache) == ["a", "c"]
    assert (cache.hits, cache.misses) == (1, 1)


def test_the_total_weight_has_a_bound() -> None:
    cache: BoundedCache[str, str] = BoundedCache(100, max_weight=10)
    for key in "abc":
        cache.put(key, key, weight=4)
    assert list(cache) == ["b", "c"]
    assert cache.weight == 8


def test_a_value_that_is_too_heavy_is_not_kept_and_replaces_nothing_else() -> None:
    cache: BoundedCache[str, str] = BoundedCache(100, max_weight=10, max_each=5)
    cache.put("a", "kept", weight=5)
    cache.put("b", "too heavy", weight=6)
    assert "b" not in cache
    cache.put("a", "too heavy as well", weight=6)
    assert cache.get("a") is None, "an outdated value must not survive its replacement"
    assert cache.weight == 0


def test_replacing_and_removing_entries_keeps_the_weight_exact() -> None:
    cache: BoundedCache[str, str] = BoundedCache(100, max_weight=10)
    cache.put("a", "first", weight=4)
    cache.put("a", "second", weight=3)
    cache.put("b", "other", weight=2)
    assert cache.weight == 5
    assert cache.pop("a") == "second"
    assert cache.pop("a") is None
    assert cache.weight == 2
    cache.clear()
    assert (len(cache), cache.weight) == (0, 0)
