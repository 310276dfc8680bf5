"""The interrupts of a thread, folded from its log (spec/log.md, 6.10 - 6.18).

A run asks and ends, and a later run answers, or the thread continues without an answer. One id can be asked again after
it was answered, so an id may have several interrupts; the last one is current.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

from threadwire.core.entries import Entry, Json, Kind, Namespace
from threadwire.core.ids import RunId, Seq

INTERRUPT = "__interrupt__"
"""The key of interrupts in LangGraph's streams and writes."""


@dataclass(frozen=True, slots=True)
class Interrupt:
    interrupt_id: str
    value: Json = None
    response_schema: Json = None
    ns: Namespace = ()
    """The subgraph that asked."""
    asked: Seq | None = None
    """None if the log does not contain it, for example because the interrupt was copied from another thread."""
    status: Literal["pending", "answered", "abandoned"] = "pending"
    """`abandoned` means that the thread continued without an answer."""
    answered: Seq | None = None
    response: Json = None
    """None, too, for an answer in an older log that does not tell which value answered which interrupt."""
    by: str | None = None
    via: str | None = None


class InterruptFold:
    """Must be fed the thread's entries in order. Pure, like an encoder (4.7)."""

    def __init__(self) -> None:
        self.interrupts: list[Interrupt] = []
        """All interrupts, in the order in which they were asked."""
        self._namespaces: dict[str, Namespace] = {}
        self._before_run: tuple[RunId | None, list[Interrupt]] = (None, [])
        self._unnamed_answer: Entry | None = None

    @property
    def pending(self) -> list[Interrupt]:
        return [each for each in self.interrupts if each.status == "pending"]

    @property
    def answered(self) -> list[Interrupt]:
        return [each for each in self.interrupts if each.status == "answered"]

    def feed(self, entry: Entry) -> None:
        data = entry.data
        match entry.kind:
            case Kind.RUN_STARTED if entry.run_id != self._before_run[0]:
                self._before_run = (entry.run_id, list(self.interrupts))
                self._unnamed_answer = None
            case Kind.UPDATES if entry.ns:
                self._note_namespaces(entry)
            case Kind.INPUT_REQUESTED:
                self._ask(data["interrupts"], entry)
            case Kind.INPUT_ANSWERED:
                self._answer(entry)
            case Kind.CHECKPOINT if not entry.ns and data["source"] == "input":
                self._abandon(frozenset())
            case Kind.STATE_RESET if "interrupts" in data:
                self._replace_pending(data["interrupts"], entry)
            case Kind.RUN_ENDED:
                self._end(entry)

    def _note_namespaces(self, entry: Entry) -> None:
        """A subgraph's interrupt passes through the namespaces of its parents, innermost first."""
        updates = entry.data.get("value")
        for each in updates.get(INTERRUPT) or () if isinstance(updates, dict) else ():
            self._namespaces.setdefault(each["id"], entry.ns)

    def _ask(self, asked: list[dict[str, Any]], entry: Entry) -> None:
        for each in asked:
            interrupt_id, value, schema = each["id"], each.get("value"), each.get("response_schema")
            at = self._position(interrupt_id)
            if at is not None and self.interrupts[at].status == "pending":
                self.interrupts[at] = replace(self.interrupts[at], value=value, response_schema=schema)
            else:
                ns = self._namespaces.get(interrupt_id, ())
                self.interrupts.append(Interrupt(interrupt_id, value, schema, ns, entry.seq))

    def _answer(self, entry: Entry) -> None:
        answers = entry.data.get("answers")
        if answers is None:
            answers = _named(entry.data["value"], [each.interrupt_id for each in self.pending])
            self._unnamed_answer = entry
        for each in answers:
            at = self._position(each["id"])
            if at is None:
                at = len(self.interrupts)
                self.interrupts.append(Interrupt(each["id"], ns=tuple(each.get("ns") or ())))
            self.interrupts[at] = _answered(self.interrupts[at], entry, each["response"])

    def _end(self, entry: Entry) -> None:
        status, (run_id, before) = entry.data["status"], self._before_run
        if status == "success":
            self._replace_pending(entry.data.get("interrupts") or [], entry)
        elif status == "rolled_back" and run_id == entry.run_id:
            self.interrupts = list(before)

    def _replace_pending(self, pending: list[dict[str, Any]], entry: Entry) -> None:
        """Apply the exact list of what is pending now."""
        self._ask(pending, entry)
        self._abandon(frozenset(each["id"] for each in pending))

    def _abandon(self, still_pending: frozenset[str]) -> None:
        for at, each in enumerate(self.interrupts):
            if each.status == "pending" and each.interrupt_id not in still_pending:
                answer = self._unnamed_answer
                self.interrupts[at] = replace(each, status="abandoned") if answer is None else _answered(each, answer)

    def _position(self, interrupt_id: str) -> int | None:
        positions = range(len(self.interrupts) - 1, -1, -1)
        return next((at for at in positions if self.interrupts[at].interrupt_id == interrupt_id), None)


def _named(value: Json, pending: list[str]) -> list[dict[str, Json]]:
    """The answers of an entry that does not name them, as far as they are certain."""
    if isinstance(value, dict) and value and value.keys() <= set(pending):
        return [{"id": interrupt_id, "response": response} for interrupt_id, response in value.items()]
    return [{"id": pending[0], "response": value}] if len(pending) == 1 else []


def _answered(interrupt: Interrupt, entry: Entry, response: Json = None) -> Interrupt:
    by, via = entry.data.get("by"), entry.data.get("via")
    return replace(interrupt, status="answered", answered=entry.seq, response=response, by=by, via=via)
