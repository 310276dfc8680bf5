"""The life of a run is a table, and the table is closed."""

from typing import get_args

import pytest

from threadwire.core.records import ACTIVE, Ending, RunStatus
from threadwire.core.run_state import MAX_CRASHES, MOVES, SUSPECT_CRASHES, is_suspect, may_move, user_interrupt

STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)
OVER = [status for status in STATUSES if status not in ACTIVE]


def test_every_status_has_its_row() -> None:
    assert set(MOVES) == set(STATUSES)


def test_no_move_leads_out_of_the_table() -> None:
    assert set().union(*MOVES.values()) <= set(STATUSES)


@pytest.mark.parametrize("status", OVER)
def test_nothing_follows_an_ending(status: RunStatus) -> None:
    """5.3"""
    assert MOVES[status] == frozenset()
    assert not any(may_move(status, after) for after in STATUSES)


@pytest.mark.parametrize("status", sorted(ACTIVE))
def test_every_active_run_can_end(status: RunStatus) -> None:
    assert MOVES[status] & set(OVER)


def test_every_status_can_be_reached_from_the_queue() -> None:
    reached: set[RunStatus] = {"pending"}
    while further := {after for status in reached for after in MOVES[status]} - reached:
        reached |= further
    assert reached == set(STATUSES)


def test_no_status_follows_itself() -> None:
    assert not any(may_move(status, status) for status in STATUSES)


def test_a_running_run_may_end_in_every_way_there_is() -> None:
    endings = set(get_args(Ending.__annotations__["status"]))
    assert endings == set(OVER)
    assert MOVES["running"] == endings | {"pending"}


def test_a_run_that_has_not_started_can_only_start_or_be_stopped() -> None:
    assert MOVES["pending"] == {"running", "interrupted"}


def test_a_run_is_a_suspect_before_its_last_charge() -> None:
    """5.6, 5.7"""
    assert [is_suspect(crashes) for crashes in range(MAX_CRASHES)] == [False, False, True]
    assert SUSPECT_CRASHES < MAX_CRASHES


@pytest.mark.parametrize(("action", "error"), [("interrupt", "UserInterrupt"), ("rollback", "UserRollback")])
def test_a_stopped_run_says_how_it_was_stopped(action: str, error: str) -> None:
    assert user_interrupt(action)["error"] == error
    assert user_interrupt(action)["message"].startswith(f"{action} requested")
