"""Rates: tokens that come back with time."""

from hypothesis import given
from hypothesis import strategies as st

from pixconnect.domain.frame.rate import RatePolicy, TokenBucket

POLICY = RatePolicy(name="tries", tokens_max=10, refill_per_s=0.5)


def test_a_bucket_is_full_at_first_and_full_again_after_its_window() -> None:
    bucket = TokenBucket(POLICY, 100.0)
    assert (bucket.read(100.0), POLICY.window_s) == (10, 20)
    bucket.spend(10)
    assert (bucket.read(104.0), bucket.read(120.0), bucket.read(200.0)) == (2, 10, 10)


def test_it_may_be_overdrawn_and_says_when_something_is_there_again() -> None:
    bucket = TokenBucket(POLICY, 0.0)
    bucket.spend(15)
    assert bucket.read(0.0) == -5
    assert bucket.seconds_until(1) == 12
    assert bucket.read(12.0) == 1


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50), st.floats(0, 50))))
def test_it_never_holds_more_nor_owes_more_than_it_may(steps: list[tuple[float, float, float]]) -> None:
    bucket, now_s = TokenBucket(POLICY, 0.0), 0.0
    for passed_s, spent, added in steps:
        now_s += passed_s
        bucket.spend(spent)
        assert -10 <= bucket.read(now_s) <= 10
        bucket.add(added)
        assert -10 <= bucket.read(now_s) <= 10


def test_a_bucket_is_overdrawn_as_far_as_its_policy_says() -> None:
    for overdraft_max, expected in ((None, -10), (25, -25), (0, 0)):
        bucket = TokenBucket(
            RatePolicy(name="look-ups", tokens_max=10, refill_per_s=1, overdraft_max=overdraft_max), now_s=0.0
        )
        bucket.spend(100)
        assert bucket.read(0.0) == expected
