"""Which pending interrupts a run's `resume` answers (spec/log.md, 6.12).

**For:** LangGraph decides this while it executes the run; the log needs it when the run starts. So this module applies
LangGraph's rules to the checkpoint that the run starts from: its pending writes contain, per task, the interrupts it
raised, the answers it has received, and its output once it has finished.

The id of an interrupt is a hash of its task's namespace and, since LangGraph 1.2.20, of the number of answers the task
had before. So the id shows which subgraph raised the interrupt. It also shows whether the interrupt was already
answered: a task that failed after an answer still shows the interrupt, but takes no other answer.

**Changed LangGraph:** the function that computes the ids is missing, as before 1.2.20. Then all interrupts of a task
are expected to have the same id. If ids do not match, an interrupt is assigned to the root graph, and one that was
answered before its node failed counts as pending. The run itself is not affected: LangGraph decides what is answered.
"""

import importlib
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, PendingWrite
from langgraph.pregel import Pregel
from langgraph.types import Interrupt

from threadwire.core.entries import Json, Namespace
from threadwire.core.interrupts import INTERRUPT
from threadwire.graphs.langgraph_private.fallbacks import report_fallback
from threadwire.graphs.langgraph_private.strict_resume import check_answers

Graph = Pregel[Any, Any, Any, Any]
Saver = BaseCheckpointSaver[str]

_NO_TASK = "00000000-0000-0000-0000-000000000000"
_RESUME = "__resume__"
_CONTROL = frozenset({INTERRUPT, _RESUME, "__error__", "__error_source_node__"})
"""The channels of a task's writes that are not its output."""
_SEPARATOR = "|"
_INTERRUPT_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class _Interrupt:
    interrupt_id: str
    ns: Namespace
    accepted_ids: tuple[str, ...]
    """The ids under which LangGraph accepts an answer, in order of precedence. Empty if it has been answered."""


@dataclass(slots=True)
class _Task:
    """What a step's writes say about a task."""

    task_id: str
    interrupts: list[Interrupt] = field(default_factory=list)
    answer_count: int = 0
    finished: bool = False

    @property
    def interrupt_ids(self) -> list[str]:
        return [each.id for each in self.interrupts]


async def find_answers(
    resume: Json,
    graph: Graph,
    saver: Saver,
    thread_id: str,
    checkpoint_id: str | None = None,
    *,
    strict: bool = False,
) -> list[Json]:
    """Return `{"id", "response", "ns"?}` for each interrupt that is answered by resuming from a checkpoint, the newest
    one if None. With `strict`, LangGraph rejects a map that names an interrupt that is not pending."""
    search = _Search(saver, thread_id)
    paused = await search.paused_tasks((), checkpoint_id)
    shown = {interrupt_id for task in paused for interrupt_id in task.interrupt_ids}
    by_id = is_answer_map(resume)
    if strict and by_id:
        check_answers(resume, shown)
    if (strict and not resume.keys() <= shown) if by_id else len(shown) != 1:
        return []  # nothing is pending, or LangGraph rejects the run
    answers: list[Json] = []
    for each in await search.locate(graph, (), paused):
        named = [known for known in each.accepted_ids if not by_id or known in resume]
        if named:
            answer = {"id": each.interrupt_id, "response": resume[named[0]] if by_id else resume}
            answers.append({**answer, "ns": list(each.ns)} if each.ns else answer)
    return answers


async def find_unanswered(
    interrupt_ids: Collection[str], graph: Graph, saver: Saver, thread_id: str
) -> dict[str, list[Interrupt]]:
    """Return those of the interrupts that still wait for an answer, by task. A task keeps an answer that it has
    accepted, even if it fails or is cancelled afterwards, but not one that the response schema rejected."""
    search = _Search(saver, thread_id)
    paused = await search.paused_tasks(())
    waiting = {each.interrupt_id for each in await search.locate(graph, (), paused) if each.accepted_ids}
    wanted = waiting.intersection(interrupt_ids)
    # If ids do not show which interrupt of a task was answered, those of a task with an answer count as answered.
    certain = [task for task in paused if _interrupt_id() is not _shared_id or task.answer_count == 0]
    found = {task.task_id: [each for each in task.interrupts if each.id in wanted] for task in certain}
    return {task_id: interrupts for task_id, interrupts in found.items() if interrupts}


def is_answer_map(resume: Json) -> bool:
    """Whether LangGraph takes the value as a map from interrupt ids to answers. An empty object is one, too."""
    return isinstance(resume, dict) and all(_INTERRUPT_ID.fullmatch(key) for key in resume)


class _Search:
    """Reads the checkpoints of one thread."""

    def __init__(self, saver: Saver, thread_id: str) -> None:
        self._saver = saver
        self._thread_id = thread_id

    async def paused_tasks(self, ns: Namespace, checkpoint_id: str | None = None) -> list[_Task]:
        configurable = {"thread_id": self._thread_id, "checkpoint_ns": _SEPARATOR.join(ns)}
        if checkpoint_id is not None:
            configurable["checkpoint_id"] = checkpoint_id
        saved = await self._saver.aget_tuple({"configurable": configurable})
        tasks = _tasks(saved.pending_writes or ()) if saved is not None else ()
        return [task for task in tasks if task.interrupts and not task.finished]

    async def locate(self, graph: Graph, ns: Namespace, paused: Iterable[_Task]) -> list[_Interrupt]:
        """The interrupts of these tasks: those of the graph's own nodes, else those of its subgraphs. An interrupt that
        comes from neither, such as that of a functional task, is assigned to the graph itself."""
        located: dict[str, _Interrupt] = {}
        for task in paused:
            unexplained = [_Interrupt(each, ns, (each,)) for each in task.interrupt_ids]
            explained = _own_interrupts(graph, ns, task) or await self._nested_interrupts(graph, ns, task)
            for each in (*explained, *unexplained):
                if each.interrupt_id in task.interrupt_ids:
                    located.setdefault(each.interrupt_id, each)
        return list(located.values())

    async def _nested_interrupts(self, graph: Graph, ns: Namespace, task: _Task) -> list[_Interrupt]:
        found: list[_Interrupt] = []
        for name, subgraph in graph.get_subgraphs():
            if isinstance(subgraph, Pregel):  # not a remote one
                inside = _namespace_of(subgraph, (*ns, f"{name}:{task.task_id}"))
                found += await self.locate(subgraph, inside, await self.paused_tasks(inside))
        return found


def _tasks(writes: Sequence[PendingWrite]) -> Iterable[_Task]:
    tasks: dict[str, _Task] = {}
    for task_id, channel, value in writes:
        if task_id == _NO_TASK:
            continue
        task = tasks.setdefault(task_id, _Task(task_id))
        if channel == INTERRUPT:
            task.interrupts += value if isinstance(value, Sequence) else (value,)
        elif channel == _RESUME:
            task.answer_count = len(value) if isinstance(value, list) else 1
        elif channel not in _CONTROL:
            task.finished = True
    return tasks.values()


def _own_interrupts(graph: Graph, ns: Namespace, task: _Task) -> list[_Interrupt]:
    """The interrupts that a node of this graph raised itself."""
    for name in graph.nodes:
        ids = _ids_in_sequence((*ns, f"{name}:{task.task_id}"), task.answer_count)
        if own := [each for each in task.interrupt_ids if each in ids]:
            # One that has been answered is still shown if the node failed afterwards, and takes no other answer.
            return [_Interrupt(each, ns, (each, ids[0]) if each == ids[-1] else ()) for each in own]
    return []


def _ids_in_sequence(task_ns: Namespace, answer_count: int) -> list[str]:
    """The ids of a task's interrupts: those that have been answered, and the next one."""
    ns = _SEPARATOR.join(task_ns)
    return [_interrupt_id()(ns, number) for number in range(answer_count + 1)]


@cache
def _interrupt_id() -> Callable[[str, int], str]:
    """LangGraph's function that computes the id of a task's next interrupt from the task's namespace and the number of
    answers it has."""
    try:
        known: Callable[[str, int], str] = importlib.import_module("langgraph.types")._interrupt_id
        known("node:task", 1)
    except Exception as error:  # a private name may fail in any way once it has changed
        effect = "All interrupts of a task are expected to have the same id."
        report_fallback("interrupt ids", reason=str(error) or repr(error), effect=effect)
        return _shared_id
    return known


def _shared_id(ns: str, answers: int) -> str:
    """The id of every interrupt of a task before LangGraph 1.2.20."""
    try:
        return Interrupt.from_ns(None, ns).id
    except Exception:  # not a documented method
        return ""


def _namespace_of(subgraph: Graph, ns: Namespace) -> Namespace:
    """A subgraph that keeps its state between calls has a namespace without task ids."""
    return tuple(part.split(":")[0] for part in ns) if subgraph.checkpointer is True else ns
