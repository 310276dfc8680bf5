"""The life cycle of a run is a closed transition table."""

from typing import get_args

import pytest

from threadwire.core.records import ACTIVE, Ending, RunStatus
from threadwire.core.run_state import (
    MAX_CRASHES,
    SUSPECT_CRASHES,
    TRANSITIONS,
    can_transition,
    is_suspect,
    user_interrupt_error,
)

STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)
FINAL = [status for status in STATUSES if status not in ACTIVE]


def test_every_status_has_a_row() -> None:
    assert set(TRANSITIONS) == set(STATUSES)


def test_every_transition_leads_to_a_known_status() -> None:
    assert set().union(*TRANSITIONS.values()) <= set(STATUSES)


@pytest.mark.parametrize("status", FINAL)
def test_a_final_status_has_no_transitions(status: RunStatus) -> None:
    """5.3"""
    assert TRANSITIONS[status] == frozenset()
    assert not any(can_transition(status, after) for after in STATUSES)


@pytest.mark.parametrize("status", sorted(ACTIVE))
def test_every_active_run_can_end(status: RunStatus) -> None:
    assert TRANSITIONS[status] & set(FINAL)


def test_every_status_is_reachable_from_pending() -> None:
    reached: set[RunStatus] = {"pending"}
    while new := {after for status in reached for after in TRANSITIONS[status]} - reached:
        reached |= new
    assert reached == set(STATUSES)


def test_no_status_follows_itself() -> None:
    assert not any(can_transition(status, status) for status in STATUSES)


def test_a_running_run_can_reach_every_final_status() -> None:
    endings = set(get_args(Ending.__annotations__["status"]))
    assert endings == set(FINAL)
    assert TRANSITIONS["running"] == endings | {"pending"}


def test_a_pending_run_can_only_start_or_be_cancelled() -> None:
    assert TRANSITIONS["pending"] == {"running", "interrupted"}


def test_a_run_is_a_suspect_before_its_last_allowed_crash() -> None:
    """5.6, 5.7"""
    assert [is_suspect(crashes) for crashes in range(MAX_CRASHES)] == [False, False, True]
    assert SUSPECT_CRASHES < MAX_CRASHES


@pytest.mark.parametrize(("action", "error"), [("interrupt", "UserInterrupt"), ("rollback", "UserRollback")])
def test_the_error_of_a_cancelled_run_names_the_action(action: str, error: str) -> None:
    assert user_interrupt_error(action)["error"] == error
    assert user_interrupt_error(action)["message"].startswith(f"{action} requested")
