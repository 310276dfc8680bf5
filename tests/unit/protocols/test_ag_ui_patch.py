"""Differences between states, and how a client applies them."""

from copy import deepcopy
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from threadwire.protocols.ag_ui.patch import apply, difference

KEYS = st.sampled_from(["a", "b", "~", "/", "~1", "0", ""])
PLAIN = st.sampled_from([None, True, 0, 1, "", "text"])
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
STATES = st.dictionaries(KEYS, VALUES, max_size=4)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STATES, STATES)
def test_applying_a_difference_results_in_the_other_state(before: dict[str, Any], after: dict[str, Any]) -> None:
    operations = difference(before, after, ())
    assert apply(deepcopy(before), operations) == after
    assert {each["op"] for each in operations} <= {"add", "remove", "replace"}
