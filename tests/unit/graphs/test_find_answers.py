"""The answers of a run are exactly those that LangGraph delivers (spec/log.md, 6.11 - 6.13)."""

import operator
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel, ValidationError

from threadwire.graphs.langgraph_private.answers import find_answers, find_unanswered, is_answer_map
from threadwire.graphs.langgraph_private.strict_resume import strict_resume_key

pytestmark = [pytest.mark.anyio, pytest.mark.every_version]

Node = Callable[..., Any]


class State(TypedDict, total=False):
    told: Annotated[list[Any], operator.add]


class Conversation:
    """A thread of a graph. Its nodes report every answer that LangGraph delivers to them."""

    def __init__(self) -> None:
        self.saver = InMemorySaver()
        self.config: dict[str, Any] = {"configurable": {"thread_id": "t"}}
        self.graph: Any = None
        self.delivered: list[tuple[str, Any]] = []
        self.pending: dict[str, str] = {}
        """The ids of the pending interrupts by their value."""
        self.namespaces: dict[str, tuple[str, ...]] = {}

    def ask(self, question: str, **options: Any) -> Any:
        answer = interrupt(question, **options)
        self.delivered.append((question, answer))
        return answer

    def asks(self, *questions: str) -> Node:
        def node(state: State) -> State:
            return {"told": [self.ask(question) for question in questions]}

        return node

    def of(self, *, compiled: bool = False, checkpointer: Any = None, **nodes: Any) -> Any:
        """A graph of parallel nodes."""
        builder = StateGraph(State)
        for name, node in nodes.items():
            builder.add_node(name, node).add_edge(START, name)
        graph = builder.compile(checkpointer=checkpointer)
        if not compiled:
            self.graph = graph.copy(update={"checkpointer": self.saver})
        return graph

    async def run(self, graph_input: Any, **options: Any) -> None:
        self.pending, self.delivered = {}, []
        async for ns, part in self.graph.astream(
            graph_input, self.config, stream_mode="updates", subgraphs=True, **options
        ):
            for each in part.get("__interrupt__", ()) if isinstance(part, dict) else ():
                self.namespaces.setdefault(each.value, ns)
                if not ns:
                    self.pending[each.value] = each.id

    async def found(self, resume: Any, checkpoint_id: str | None = None, **options: Any) -> list[Any]:
        return await find_answers(resume, self.graph, self.saver, "t", checkpoint_id, **options)

    async def unanswered(self, interrupt_id: str) -> list[str]:
        found = await find_unanswered([interrupt_id], self.graph, self.saver, "t")
        return [each.id for interrupts in found.values() for each in interrupts]

    async def answer(self, resume: Any) -> list[tuple[str, Any]]:
        """Resume, and check that what was found is what LangGraph delivers to the pending interrupts."""
        pending = {interrupt_id: question for question, interrupt_id in self.pending.items()}
        found = await self.found(resume)
        answers = [(pending[each["id"]], each["response"]) for each in found]
        for each, (question, _) in zip(found, answers, strict=True):
            assert tuple(each.get("ns", ())) == self.namespaces[question]
        await self.run(Command(resume=resume))
        assert sorted(answers, key=repr) == sorted(
            (each for each in self.delivered if each[0] in pending.values()), key=repr
        )
        return answers


@pytest.fixture
def talk() -> Conversation:
    return Conversation()


@pytest.mark.parametrize("answer", ["yes", 0, False, "", [], {"ok": True}, {"0" * 31: 1}, {"A" * 32: 1}], ids=repr)
async def test_a_value_answers_the_only_pending_interrupt(talk: Conversation, answer: Any) -> None:
    talk.of(node=talk.asks("ok?"))
    await talk.run({"told": []})
    assert await talk.answer(answer) == [("ok?", answer)]


@pytest.mark.parametrize("by_id", [False, True])
async def test_interrupts_of_one_node_are_answered_in_sequence(talk: Conversation, by_id: bool) -> None:
    talk.of(node=talk.asks("first?", "second?", "third?"))
    await talk.run({"told": []})
    for question in ("first?", "second?", "third?"):
        answer = question.upper()
        assert await talk.answer({talk.pending[question]: answer} if by_id else answer) == [(question, answer)]
    assert talk.pending == {}


async def test_the_id_of_the_first_interrupt_of_a_node_also_answers_the_pending_one(talk: Conversation) -> None:
    talk.of(node=talk.asks("first?", "second?"))
    await talk.run({"told": []})
    first = talk.pending["first?"]
    await talk.answer({first: 1})
    assert await talk.answer({first: "late"}) == [("second?", "late")]


async def test_the_own_id_of_an_interrupt_takes_precedence(talk: Conversation) -> None:
    talk.of(node=talk.asks("first?", "second?"))
    await talk.run({"told": []})
    first = talk.pending["first?"]
    await talk.answer(1)
    assert await talk.answer({first: "late", talk.pending["second?"]: 2}) == [("second?", 2)]


async def test_a_map_answers_the_interrupts_that_it_names(talk: Conversation) -> None:
    talk.of(left=talk.asks("left?"), right=talk.asks("right?"))
    await talk.run({"told": []})
    left, right = talk.pending["left?"], talk.pending["right?"]
    assert await talk.answer({left: None}) == [("left?", None)]
    assert await talk.answer({left: "ignored", right: "R"}) == [("right?", "R")]


async def test_a_value_that_names_none_of_several_interrupts_answers_none(talk: Conversation) -> None:
    talk.of(left=talk.asks("left?"), right=talk.asks("right?"))
    await talk.run({"told": []})
    assert await talk.found("yes") == []
    with pytest.raises(RuntimeError, match="multiple pending interrupts"):
        await talk.run(Command(resume="yes"))


@pytest.mark.parametrize("form", ["node", "called", "deep", "stateful"])
async def test_an_interrupt_of_a_subgraph_is_answered_with_its_namespace(talk: Conversation, form: str) -> None:
    inner = talk.of(
        compiled=True, checkpointer=True if form == "stateful" else None, ask=talk.asks(f"{form} 1?", f"{form} 2?")
    )

    async def call(state: State) -> State:
        result: State = await inner.ainvoke(state)
        return result

    outer = {"node": inner, "stateful": inner, "called": call, "deep": talk.of(compiled=True, inner=inner)}[form]
    talk.of(outer=outer, beside=talk.asks("beside?"))
    await talk.run({"told": []})
    assert talk.namespaces[f"{form} 1?"] != ()
    beside = {talk.pending["beside?"]: "B"}
    answers = await talk.answer({talk.pending[f"{form} 1?"]: 1, **beside})
    assert sorted(answers) == sorted([(f"{form} 1?", 1), ("beside?", "B")])
    assert await talk.answer(2) == [(f"{form} 2?", 2)]


async def test_an_interrupt_of_a_functional_task_is_answered(talk: Conversation) -> None:
    @task
    async def confirm(question: str) -> Any:
        return talk.ask(question)

    @entrypoint(checkpointer=talk.saver)
    async def workflow(questions: list[str]) -> list[Any]:
        return [await confirm(each) for each in questions]

    talk.graph = workflow
    await talk.run(["first?", "second?"])
    assert await talk.answer(1) == [("first?", 1)]
    assert await talk.answer({talk.pending["second?"]: 2}) == [("second?", 2)]


@pytest.mark.parametrize("resume", [{"0" * 32: "yes"}, {}], ids=["unknown", "empty"])
async def test_a_map_without_a_pending_id_answers_nothing(talk: Conversation, resume: Any) -> None:
    talk.of(node=talk.asks("ok?"))
    await talk.run({"told": []})
    assert await talk.answer(resume) == []
    assert list(talk.pending) == ["ok?"]


@pytest.mark.needs("langgraph", "1.2.20")
async def test_a_strict_map_with_an_unknown_id_answers_nothing(talk: Conversation) -> None:
    talk.of(node=talk.asks("ok?"))
    await talk.run({"told": []})
    resume = {talk.pending["ok?"]: "yes", "0" * 32: "no"}
    assert await talk.found(resume, strict=True) == []
    talk.config["configurable"][strict_resume_key()] = True
    with pytest.raises(Exception, match="Unknown or already-consumed interrupt"):
        await talk.run(Command(resume=resume))


async def test_a_thread_without_checkpoints_has_nothing_to_answer(talk: Conversation) -> None:
    talk.of(node=talk.asks("ok?"))
    assert await talk.found("yes") == []


async def test_a_value_after_a_breakpoint_answers_no_interrupt_that_was_asked(talk: Conversation) -> None:
    talk.of(node=talk.asks("ok?"))
    await talk.run({"told": []}, interrupt_before=["node"])
    assert await talk.answer("yes") == []


@pytest.mark.needs("langgraph", "1.2.20")
async def test_an_interrupt_whose_node_failed_after_its_answer_cannot_be_answered_again(talk: Conversation) -> None:
    def node(state: State) -> State:
        if talk.ask("ok?") != "fine":
            raise LookupError
        return {}

    talk.of(node=node)
    await talk.run({"told": []})
    interrupt_id = talk.pending["ok?"]
    with suppress(LookupError):
        await talk.answer("bad")
    assert await talk.unanswered(interrupt_id) == []

    for resume in ("fine", {interrupt_id: "fine"}):
        assert await talk.found(resume) == []
        with pytest.raises(LookupError):
            await talk.run(Command(resume=resume))
        assert ("ok?", "bad") in talk.delivered


@pytest.mark.needs("langgraph", "1.2.12")
async def test_an_answer_that_the_schema_rejects_can_be_given_again(talk: Conversation) -> None:
    """6.16"""

    class Decision(BaseModel):
        ok: bool

    talk.of(node=lambda state: {"told": [talk.ask("ok?", response_schema=Decision)]})
    await talk.run({"told": []})
    interrupt_id = talk.pending["ok?"]
    with pytest.raises(ValidationError):
        await talk.answer({"ok": "perhaps"})
    assert await talk.unanswered(interrupt_id) == [interrupt_id]
    assert await talk.found({"ok": True}) == [{"id": interrupt_id, "response": {"ok": True}}]


async def test_an_earlier_checkpoint_keeps_the_answer_it_has(talk: Conversation) -> None:
    talk.of(node=talk.asks("ok?"))
    await talk.run({"told": []})
    interrupt_id = talk.pending["ok?"]
    paused = (await talk.graph.aget_state(talk.config)).config
    await talk.answer("yes")

    checkpoint_id = paused["configurable"]["checkpoint_id"]
    for resume in ("no", {interrupt_id: "no"}):
        assert await talk.found(resume, checkpoint_id) == []
        assert (await talk.graph.ainvoke(Command(resume=resume), paused))["told"] == ["yes"]


async def test_an_earlier_checkpoint_is_resumed_with_its_own_interrupts(talk: Conversation) -> None:
    talk.of(node=talk.asks("ok?"))
    await talk.run({"told": []})
    interrupt_id = talk.pending["ok?"]
    paused = (await talk.graph.aget_state(talk.config)).config
    await talk.run({"told": ["something new"]})
    assert talk.pending["ok?"] != interrupt_id

    checkpoint_id = paused["configurable"]["checkpoint_id"]
    assert await talk.found("yes", checkpoint_id) == [{"id": interrupt_id, "response": "yes"}]
    assert (await talk.graph.ainvoke(Command(resume="yes"), paused))["told"] == ["yes"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [({"0" * 32: 1}, True), ({}, True), ({"0" * 32: 1, "x": 2}, False), ([], False), ("x", False)],
)
def test_a_map_is_an_object_whose_keys_all_look_like_ids(value: Any, expected: bool) -> None:
    assert is_answer_map(value) is expected
