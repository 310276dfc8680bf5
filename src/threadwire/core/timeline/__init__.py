"""The timeline: a thread as one ordered list of messages, widgets and interrupts (spec/timeline.md).

`Timeline` is fed log entries and returns block changes. Internally, `entries` converts entries to operations,
`reducer` applies operations to a `state` by the rules in `messages`, `widgets` and `interrupts`, and `chunks` merges
streamed messages.
"""

from threadwire.core.timeline.changes import Block, Change, Copy
from threadwire.core.timeline.fold import Timeline
from threadwire.core.timeline.state import TimelineOptions

__all__ = ["Block", "Change", "Copy", "Timeline", "TimelineOptions"]
