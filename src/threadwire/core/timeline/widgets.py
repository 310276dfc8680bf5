"""UI blocks (spec/timeline.md, section 5)."""

from collections.abc import Sequence
from typing import Any

from threadwire.core.entries import Json
from threadwire.core.timeline.changes import Block
from threadwire.core.timeline.messages import id_of
from threadwire.core.timeline.state import TimelineState

UiMessage = dict[str, Json]


def show(state: TimelineState, ui: UiMessage) -> None:
    """Apply a UI message that a node wrote."""
    ui_id = id_of(ui)
    if ui_id is None:
        return
    block = state.widget(ui_id)
    merge = bool(_metadata(ui).get("merge"))
    if block is None:
        _create(state, ui_id, ui, incomplete=merge)
    else:
        state.update(block, {"ui": _merged(block["ui"], ui) if merge else ui})


def remove(state: TimelineState, ui_id: str) -> None:
    state.remove_shown(f"u:{ui_id}")


def upsert(state: TimelineState, ids: Sequence[str | None], start: int, items: Sequence[Any]) -> None:
    """Upsert UI messages of a state."""
    for at, ui in enumerate(items, start):
        ui_id = ids[at]
        if ui_id is None or (state.stamp.ns and ui_id in state.root_ui):
            continue
        block = state.widget(ui_id)
        if block is None:
            _create(state, ui_id, ui, incomplete=False)
        else:
            fields: dict[str, Json] = {"ui": ui} if state.stamp.ns else {"ui": ui, "ns": []}
            state.update(block, fields, unset=("incomplete",))


def _create(state: TimelineState, ui_id: str, ui: UiMessage, incomplete: bool) -> Block:
    state.remove_hidden(f"u:{ui_id}")
    fields: dict[str, Json] = {"ui": ui}
    if incomplete:
        fields["incomplete"] = True
    owner = _metadata(ui).get("message_id")
    message = state.message(owner) if isinstance(owner, str) else None
    if message is not None:
        fields["anchorId"] = message["id"]
        return state.insert(f"u:{ui_id}", "ui", fields, state.group_end(message["id"]))
    if (last := state.last_message()) is not None:
        fields["anchorId"] = last["id"]
    if isinstance(owner, str) and owner:
        fields["pendingAnchor"] = owner
    return state.insert(f"u:{ui_id}", "ui", fields, state.order.last)


def _merged(before: UiMessage, after: UiMessage) -> UiMessage:
    return {**after, "props": {**_object(before.get("props")), **_object(after.get("props"))}}


def _metadata(ui: UiMessage) -> dict[str, Json]:
    return _object(ui.get("metadata"))


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}
