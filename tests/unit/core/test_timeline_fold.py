"""What holds for the timeline of any log (spec/timeline.md, sections 3, 8 and 12)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadwire.core.entries import Entry, Kind
from threadwire.core.ids import RunId, Seq
from threadwire.core.json import native
from threadwire.core.state_fold import JsonState
from threadwire.core.timeline import Copy, Timeline
from threadwire.core.timeline.changes import Insert, Remove
from timeline_logs import Log, logs, options


def fed(entries, timeline=None):
    timeline = timeline or Timeline()
    for entry in entries:
        timeline.feed(entry)
    return timeline


def shown(timeline):
    return timeline.blocks(), timeline.values, timeline.seq


@given(logs(), st.data())
def test_a_replay_from_any_earlier_position_changes_nothing(entries, data):
    end = data.draw(st.integers(0, len(entries)))
    start = data.draw(st.integers(0, end))
    assert shown(fed([*entries[:end], *entries[start:]])) == shown(fed(entries))


@given(logs(), options, st.data())
def test_a_restored_snapshot_continues_as_the_fold_would(entries, chosen, data):
    at = data.draw(st.integers(0, len(entries)))
    straight = fed(entries[:at], Timeline(chosen))
    restored = Timeline.restore(native(straight.snapshot()), chosen)
    for entry in entries[at:]:
        assert [each.as_json() for each in restored.feed(entry)] == [each.as_json() for each in straight.feed(entry)]
    assert shown(restored) == shown(straight)
    assert restored.open_interrupts() == straight.open_interrupts()
    assert native(restored.snapshot()) == native(straight.snapshot())


@given(logs())
def test_no_placed_block_moves(entries):
    timeline = Timeline()
    before = []
    for entry in entries:
        changes = timeline.feed(entry)
        after = [block["id"] for block in timeline.blocks()]
        touched = {change.block_id for change in changes if isinstance(change, Remove)}
        touched |= {change.block["id"] for change in changes if isinstance(change, Insert)}
        assert [each for each in before if each not in touched] == [each for each in after if each not in touched]
        assert len(set(after)) == len(after)
        before = after


@given(logs(), options, st.data())
def test_changes_bring_an_earlier_snapshot_up_to_date(entries, chosen, data):
    at = data.draw(st.integers(0, len(entries)))
    timeline = fed(entries[:at], Timeline(chosen))
    copy = Copy(native(timeline.blocks()), native(timeline.values))
    for entry in entries[at:]:
        for change in timeline.feed(entry):
            copy.apply(change)
        assert (copy.blocks, copy.values) == (timeline.blocks(), timeline.values)


@given(logs())
def test_revisions_count_changes(entries):
    timeline = Timeline()
    known = {}
    for entry in entries:
        timeline.feed(entry)
        for block in timeline.blocks():
            old = known.get(block["id"])
            if old is not None and old["seq"] == block["seq"]:
                assert (old == block) == (old["rev"] == block["rev"])
        known = {block["id"]: block for block in timeline.blocks()}


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=9))
def test_a_fork_from_the_branch_of_a_hidden_block_would_show_it(runs):
    """Each run adds a message to a checkpoint, counted from the newest one, and may be rolled back (10.1a, 10.6)."""
    log, timeline = Log(None), Timeline()
    checkpoints = {"c0": []}
    newest = "c0"
    log.write(Kind.STATE_RESET, {"cause": "update", "checkpoint_id": newest, "values": {"messages": []}})
    for number, (back, rolled_back) in enumerate(runs, 1):
        base = list(checkpoints)[-1 - back % len(checkpoints)]
        messages = [*checkpoints[base], {"type": "ai", "id": f"m{number}", "content": ""}]
        log._run, log._attempt = RunId(f"r{number}"), 1
        log.write(Kind.RUN_STARTED, {"attempt": 1, "checkpoint_id": newest})
        log.write(Kind.STATE_RESET, {"cause": "fork", "checkpoint_id": base})
        log.write(Kind.STATE, {"full": True, "set": {"messages": checkpoints[base]}, "keys": ["messages"]})
        log.write(Kind.STATE, {"full": True, "set": {"messages": messages}, "keys": ["messages"]})
        log.write(Kind.CHECKPOINT, {"id": f"c{number}", "source": "loop", "next": []})
        log.write(Kind.RUN_ENDED, {"status": "rolled_back" if rolled_back else "success"})
        if not rolled_back:
            newest = f"c{number}"
            checkpoints[newest] = messages
        blocks = fed(log.entries, timeline).blocks()
        assert [block["message"] for block in blocks if "branchId" not in block] == checkpoints[newest]
        assert all(block["message"] in checkpoints[block.get("branchId", newest)] for block in blocks)


@given(logs(exact=True))
def test_state_changes_and_whole_states_give_the_same_timeline(entries):
    folds = {}
    whole = []
    for entry in entries:
        if entry.kind == Kind.RUN_STARTED:
            folds = {}
        if entry.kind == Kind.STATE:
            fold = folds.setdefault(entry.ns, JsonState())
            fold.apply({**entry.data, **_keys(fold, entry.data)})
            state = fold.value()
            entry = entry._replace(data={"full": True, "set": state, "keys": list(state)})
        whole.append(entry)
    expected = fed(entries)
    found = fed(whole)
    assert [_timeless(block) for block in found.blocks()] == [_timeless(block) for block in expected.blocks()]
    assert found.values == expected.values


def _keys(fold, data):
    return {} if "keys" in data else {"keys": [*fold.value(), *data.get("set", {})]}


def _timeless(block):
    return {key: value for key, value in block.items() if key not in ("rev", "updatedAt")}


@given(logs(), st.integers(1, 3))
def test_pages_add_up_to_the_timeline(entries, limit):
    timeline = fed(entries)
    found = timeline.page(limit)
    while page := timeline.page(limit, before=found[0]["id"]) if found else []:
        found = page + found
    assert found == timeline.blocks()


def test_a_snapshot_of_another_version_is_rejected():
    with pytest.raises(ValueError, match="Unknown version"):
        Timeline.restore({**Timeline().snapshot(), "version": 0})


def test_large_props_are_carried_as_they_are():
    timeline = Timeline()
    ui = {"type": "ui", "id": "u", "name": "blob", "props": {"data": "x" * 5_000_000}, "metadata": {}}
    timeline.feed(Entry(Seq(1), RunId("r"), 1, 0, (), Kind.CUSTOM, {"value": ui}))
    assert timeline.blocks()[0]["ui"] == ui


def test_an_unknown_kind_of_entry_changes_nothing():
    assert Timeline().feed(Entry(Seq(1), RunId("r"), 1, 0, (), "from.the.future", {})) == []
