"""What clients of the thread wire subscribe to: channels, namespaces and a depth below them."""

from dataclasses import dataclass

from threadwire.core.entries import Json, Namespace

CHANNELS = ("values", "updates", "messages", "tools", "custom", "lifecycle", "input", "checkpoints", "tasks")
NAMED_CUSTOM = "custom:"
"""The start of a channel that contains only the custom events with one name."""

INPUT_REQUESTED = "input.requested"


@dataclass(frozen=True, slots=True)
class Subscription:
    channels: frozenset[str]
    namespaces: tuple[Namespace, ...] = ()
    """Prefixes, any of which may match. Without any, every namespace matches."""
    depth: int | None = None
    """How many levels below a prefix are included; None for all."""

    def includes(self, method: str, ns: Namespace) -> bool:
        """Whether some events with this method are included."""
        return self._includes_channel(method) and self._includes_namespace(ns)

    def includes_custom(self, name: Json, ns: Namespace) -> bool:
        is_named = "custom" in self.channels or f"{NAMED_CUSTOM}{name}" in self.channels
        return is_named and self._includes_namespace(ns)

    def _includes_channel(self, method: str) -> bool:
        channel = "input" if method == INPUT_REQUESTED else method
        if channel == "custom" and any(each.startswith(NAMED_CUSTOM) for each in self.channels):
            return True
        return channel in self.channels

    def _includes_namespace(self, ns: Namespace) -> bool:
        if not self.namespaces:
            return True
        return any(
            _starts_with(ns, prefix) and (self.depth is None or len(ns) - len(prefix) <= self.depth)
            for prefix in self.namespaces
        )


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """The events of any of several subscriptions."""

    each: frozenset[Subscription]

    def includes(self, method: str, ns: Namespace) -> bool:
        return any(subscription.includes(method, ns) for subscription in self.each)

    def includes_custom(self, name: Json, ns: Namespace) -> bool:
        return any(subscription.includes_custom(name, ns) for subscription in self.each)


def _starts_with(ns: Namespace, prefix: Namespace) -> bool:
    return len(prefix) <= len(ns) and all(map(_matches, ns, prefix))


def _matches(segment: str, wanted: str) -> bool:
    """A segment without a task id matches every task of that name."""
    return segment == wanted or (":" not in wanted and segment.partition(":")[0] == wanted)
