"""What a client's request starts: a run with a message, with an answer to an interrupt, or from an earlier checkpoint.

Requests about one thread are decided one at a time, so that two clicks on a card are one answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from threadwire.core.entries import Json
from threadwire.core.ids import ThreadId, uuid7
from threadwire.core.json import dumps
from threadwire.core.records import Assistant, Run, Thread
from threadwire.core.timeline import Block
from threadwire.engine.clock import system_clock
from threadwire.engine.lifecycle import Engine
from threadwire.engine.runs import StartRun, run_kwargs
from threadwire.errors import Conflict, Invalid
from threadwire.graphs.chatkit_config import ChatKitConfig
from threadwire.graphs.langgraph_private.answers import is_answer_map
from threadwire.protocols.chatkit import answers, cards, folds, history, wire
from threadwire.protocols.chatkit.agents import Agents
from threadwire.protocols.chatkit.attachment_access import find_attachment
from threadwire.protocols.chatkit.attachments import AttachmentStore, content_block, not_found
from threadwire.protocols.chatkit.decode import (
    Action,
    ActionParams,
    InferenceOptions,
    RetryParams,
    StructuredInputParams,
    UserMessageInput,
)
from threadwire.protocols.chatkit.encode import PROTOCOL, ChatKitEncoder
from threadwire.protocols.chatkit.items import Item
from threadwire.protocols.chatkit.questions import question_of
from threadwire.protocols.chatkit.threads import item_not_found, status_of, user_item
from threadwire.protocols.chatkit.user_messages import hidden_message, message_of, tag_data, tags_of, text_of_input
from threadwire.protocols.chatkit.wire import TITLE, Object

MAX_TITLE = 60
ALREADY_ANSWERED = "This question was already answered."


@dataclass(frozen=True, slots=True)
class Turn:
    thread_id: ThreadId
    run: Run | None = None
    """The run that the client follows; None if there is nothing to follow."""
    first: list[bytes] = field(default_factory=list)
    """Events that the client receives immediately."""
    created: Object | None = None
    """The thread, if it is new."""


class IdempotentRequest(NamedTuple):
    """A request with an `Idempotency-Key`: it starts one run, however often the client repeats it."""

    key: str
    digest: str
    """Identifies the whole request made with the key."""


class Turns:
    """Starts runs for one agent."""

    def __init__(
        self,
        engine: Engine,
        agents: Agents,
        attachments: AttachmentStore,
        agent: Assistant,
        idempotent_request: IdempotentRequest | None = None,
    ) -> None:
        self._engine = engine
        self._agents = agents
        self._attachments = attachments
        self._agent = agent
        self._config: ChatKitConfig = agents.config(agent.graph_id)
        self._idempotent_request = idempotent_request

    # -- messages -----------------------------------------------------------------------------------------------------

    async def create(self, sent: UserMessageInput, address: str) -> Turn:
        """Start a thread with a message. `address` is the URL of this agent's attachments."""
        thread_id = ThreadId(uuid7())
        message = await self._message(sent, thread_id, address)
        title = self._first_title(sent)
        run = await self._start(
            thread_id,
            graph_input={"messages": [message]},
            configurable=self._chosen(sent.inference_options),
            create_thread=True,
            thread_metadata={TITLE: title} if title else {},
        )
        thread_id, message = run.thread_id, _message_of(run)  # those of the first request, if this one repeats it
        await self._claim_attachments(sent, thread_id)
        thread = await self._engine.threads.get(thread_id)
        created = wire.thread_json(thread)
        first = [wire.thread_created(created), *self._sent(thread_id, message), self._stream_options()]
        return Turn(thread_id, run, first, created)

    async def add_message(self, thread: Thread, sent: UserMessageInput, address: str) -> Turn:
        thread_id = thread.thread_id
        options = self._chosen(sent.inference_options)
        message = await self._message(sent, thread_id, address)
        async with self._engine.widgets.one_at_a_time(thread_id):
            active = await self._engine.runs.all_active(thread_id)
            thread = await self._engine.threads.get(thread_id)
            fold = await self._fold(thread_id)
            self._require_unlocked(thread, fold)
            run = await self._answer_with(message, text_of_input(sent), thread_id, fold, active)
            if run is None:
                run = await self._start_with(message, thread, fold, active, options)
                message = _message_of(run)
        await self._claim_attachments(sent, thread_id)
        return Turn(thread_id, run, [*self._sent(thread_id, message), self._stream_options()])

    def _first_title(self, sent: UserMessageInput) -> str | None:
        text = " ".join(text_of_input(sent).split())
        if self._config.title == "none" or not text:
            return None
        return text if len(text) <= MAX_TITLE else f"{text[:MAX_TITLE].rstrip()}…"

    async def _message(self, sent: UserMessageInput, thread_id: ThreadId, address: str) -> Object:
        shown, blocks = await self._attached(sent, thread_id, address)
        if not shown and not text_of_input(sent).strip():
            raise Invalid("input.content: must contain text, a tag or an attachment")
        return message_of(uuid7(), sent, await self._descriptions(sent), shown, blocks, system_clock())

    async def _descriptions(self, sent: UserMessageInput) -> list[str]:
        """The descriptions, for the model, of the tags of a message."""
        describe, tags = self._agents.describe_tag(self._agent.graph_id), tags_of(sent)
        if describe is None:
            return [data for tag in tags if (data := tag_data(tag))]
        described = [
            await self._engine.graph_access.call_function(describe, tag.model_dump(exclude_none=True)) for tag in tags
        ]
        return [str(each) for each in described if each]

    def _sent(self, thread_id: ThreadId, message: Object) -> list[bytes]:
        item = user_item(thread_id, message, 0)
        return [] if item is None else [wire.item_done(item)]

    def _stream_options(self) -> bytes:
        return wire.stream_options(allow_cancel=self._config.on_disconnect == "cancel")

    def _require_unlocked(self, thread: Thread, fold: ChatKitEncoder) -> None:
        status = status_of(thread, fold, self._config)
        if status["type"] != "active":
            raise Conflict(status.get("reason") or f"This thread is {status['type']}")

    async def _answer_with(
        self, message: Object, text: str, thread_id: ThreadId, fold: ChatKitEncoder, active: Sequence[Run]
    ) -> Run | None:
        """Start a run that answers the open interrupt with what was typed, if the policy and the question allow it."""
        blocks = fold.open_interrupts()
        if self._config.while_waiting != "answer" or len(blocks) != 1 or active:
            return None
        answer = answers.from_text(question_of(blocks[0]), text)
        if answer is None:
            return None
        # The graph receives only the answer: a message between a tool call and its result would be invalid.
        await self._engine.threads.note(thread_id, PROTOCOL, {"typed": message})
        return await self._resume(thread_id, blocks[0], answer[0], blocks)

    async def _start_with(
        self,
        message: Object,
        thread: Thread,
        fold: ChatKitEncoder,
        active: Sequence[Run],
        configurable: Object | None = None,
    ) -> Run:
        """Start a run with a message, preceded by what people have seen but the state does not have."""
        seen = [] if active else history.cut_off_messages(thread.values, fold.timeline.blocks())
        graph_input = {"messages": [*seen, message]}
        return await self._start(thread.thread_id, graph_input=graph_input, configurable=configurable)

    def _chosen(self, chosen: InferenceOptions) -> Object:
        """The model and the tool that a message chooses. Raises `Invalid` if the agent does not offer them."""
        configurable: Object = {}
        if chosen.model is not None:
            if chosen.model not in {each.id for each in self._config.models}:
                raise Invalid(f"input.inference_options.model: {chosen.model[:100]!r} is not offered")
            configurable["model"] = chosen.model
        if chosen.tool_choice is not None:
            if chosen.tool_choice.id not in {each.id for each in self._config.composer_tools}:
                raise Invalid(f"input.inference_options.tool_choice.id: {chosen.tool_choice.id[:100]!r} is not offered")
            configurable["tool_choice"] = chosen.tool_choice.id
        return configurable

    # -- attachments --------------------------------------------------------------------------------------------------

    async def _attached(
        self, sent: UserMessageInput, thread_id: ThreadId, address: str
    ) -> tuple[list[Object], list[Object]]:
        """How clients and models see the attachments of a message. Raises `NotFound` or `Invalid`."""
        limit = self._config.attachments.max_count
        if len(sent.attachments) > limit:
            raise Invalid(f"input.attachments: must have at most {limit} entries")
        shown: list[Object] = []
        blocks: list[Object] = []
        for attachment_id in dict.fromkeys(sent.attachments):
            found = await find_attachment(self._engine, self._attachments, self._agent, attachment_id)
            if found.thread_id not in (None, thread_id):
                raise not_found(attachment_id)
            content = await self._attachments.read(attachment_id) if found.is_uploaded else None
            if content is None:
                raise Invalid(f"input.attachments: {attachment_id} has not been uploaded yet")
            shown.append(found.as_json(f"{address}/{attachment_id}"))
            blocks.append(content_block(found, content))
        return shown, blocks

    async def _claim_attachments(self, sent: UserMessageInput, thread_id: ThreadId) -> None:
        for attachment_id in sent.attachments:
            found = await self._attachments.get(attachment_id)
            if found is not None and found.thread_id is None:
                await self._attachments.put(replace(found, thread_id=thread_id))

    # -- answers ------------------------------------------------------------------------------------------------------

    async def add_tool_output(self, thread: Thread, result: Json) -> Turn:
        async with self._engine.widgets.one_at_a_time(thread.thread_id):
            active = await self._engine.runs.all_active(thread.thread_id)
            fold = await self._fold(thread.thread_id)
            blocks = fold.open_interrupts()
            calls = [block for block in blocks if question_of(block).kind == "client_tool"]
            if not calls or _answered_by(calls[-1], blocks, active) is not None:
                raise Conflict("No client tool call is pending on this thread")
            run = await self._resume(thread.thread_id, calls[-1], result, blocks)
        return Turn(thread.thread_id, run, [self._stream_options()])

    async def add_structured_input(self, thread: Thread, params: StructuredInputParams) -> Turn:
        async with self._engine.widgets.one_at_a_time(thread.thread_id):
            active = await self._engine.runs.all_active(thread.thread_id)
            fold = await self._fold(thread.thread_id)
            item, block = self._interrupt_of(fold, params.item_id)
            if item is None:
                raise item_not_found(params.item_id)
            if block is None or item.json["type"] != "structured_input":
                raise Invalid("item_id: must be a structured input")
            blocks = fold.open_interrupts()
            if block["completed"] or _answered_by(block, blocks, active) is not None:
                raise Conflict(ALREADY_ANSWERED)
            answer = answers.from_submission(question_of(block), params.input, self._config.skip_value)
            run = await self._resume(thread.thread_id, block, answer, blocks)
        return Turn(thread.thread_id, run, [self._stream_options()])

    async def act(self, thread: Thread, params: ActionParams) -> Turn:
        """An action on a widget: an answer, if the widget is the card of an interrupt, otherwise a hidden message."""
        async with self._engine.widgets.one_at_a_time(thread.thread_id):
            active = await self._engine.runs.all_active(thread.thread_id)
            fold = await self._fold(thread.thread_id)
            item, block = self._interrupt_of(fold, params.item_id)
            if params.item_id is not None and item is None:
                raise item_not_found(params.item_id)
            if item is not None and item.json["type"] != "widget":
                return Turn(thread.thread_id, None, [self._stream_options(), wire.error(allow_retry=False)])
            if item is None or block is None:
                if params.action.type == cards.ANSWER:
                    raise Invalid("item_id: must be the card of a question")
                return await self._report_action(thread, fold, params, active)
            return await self._answer_card(thread, fold, item, block, params.action, active)

    async def _answer_card(
        self, thread: Thread, fold: ChatKitEncoder, item: Item, block: Block, action: Action, active: Sequence[Run]
    ) -> Turn:
        named = action.payload.get("interrupt_id") if isinstance(action.payload, dict) else None
        if action.type == cards.ANSWER and named not in (None, block["interruptId"]):
            raise Conflict("action.payload.interrupt_id: this item asks a different question")
        blocks = fold.open_interrupts()
        if (on_its_way := _answered_by(block, blocks, active)) is not None:
            return Turn(thread.thread_id, on_its_way, [self._stream_options()])
        if block["completed"]:
            answered = [wire.item_replaced(item.json), wire.notice("info", ALREADY_ANSWERED)]
            return Turn(thread.thread_id, None, [self._stream_options(), *answered])
        answer = answers.from_action(question_of(block), action)
        run = await self._resume(thread.thread_id, block, answer, blocks)
        return Turn(thread.thread_id, run, [self._stream_options()])

    async def _report_action(
        self, thread: Thread, fold: ChatKitEncoder, params: ActionParams, active: Sequence[Run]
    ) -> Turn:
        """Notify the agent of an action. It can respond to it, and its tools can read the action from the message."""
        self._require_unlocked(thread, fold)
        action = {"type": params.action.type, "payload": params.action.payload, "item_id": params.item_id}
        text = f"[The user chose the action {params.action.type} with {dumps(params.action.payload).decode()}]"
        message = hidden_message(uuid7(), text, {"action": action})
        run = await self._start_with(message, thread, fold, active)
        return Turn(thread.thread_id, run, [self._stream_options()])

    @staticmethod
    def _interrupt_of(fold: ChatKitEncoder, item_id: str | None) -> tuple[Item | None, Block | None]:
        """An item, and the interrupt that it is about."""
        item = None if item_id is None else fold.items.get(item_id)
        if item is None or item.is_hidden or item.owner is None or not item.owner.startswith("i:"):
            return (None if item is not None and item.is_hidden else item), None
        return item, fold.interrupt(item.owner)

    async def _resume(self, thread_id: ThreadId, block: Block, answer: Json, blocks: Sequence[Block]) -> Run:
        if block.get("breakpoint"):
            return await self._start(thread_id)
        interrupt_id = block["interruptId"]
        by_id = {interrupt_id: answer}
        if is_answer_map(by_id):
            return await self._start(thread_id, command={"resume": by_id})
        if len(blocks) > 1:
            raise Conflict("This question can be answered only while no other is open")
        return await self._start(thread_id, command={"resume": answer})

    # -- retry --------------------------------------------------------------------------------------------------------

    async def retry(self, thread: Thread, params: RetryParams) -> Turn:
        """Answer a user message again, from the state before it. What followed it is removed."""
        fold = await self._fold(thread.thread_id)
        self._require_unlocked(thread, fold)
        item = fold.items.get(params.item_id)
        if item is None or item.is_hidden:
            raise item_not_found(params.item_id)
        block = None if item.owner is None else fold.timeline.block(item.owner)
        if item.json["type"] != "user_message":
            raise Invalid("item_id: must be a user message")
        if block is None or f"msg_{_id(block)}" != params.item_id:
            raise Conflict("This message answered a question, so it cannot be retried")
        message = block["message"]
        blocks = fold.timeline.blocks()
        earlier = blocks[: blocks.index(block)]
        checkpoint_id = await self._engine.threads.checkpoint_before(thread.thread_id, message["id"])
        if checkpoint_id is None:
            raise Conflict("The state before this message no longer exists")
        state = await self._engine.threads.state(thread.thread_id, {"checkpoint_id": checkpoint_id})
        chosen = self._chosen(InferenceOptions.model_validate(item.json["inference_options"]))
        run = await self._start(
            thread.thread_id,
            graph_input={"messages": [*history.cut_off_messages(state["values"], earlier), message]},
            configurable={**chosen, "checkpoint_id": checkpoint_id},
            strategy="interrupt",
        )
        return Turn(thread.thread_id, run, [self._stream_options()])

    # -- runs ---------------------------------------------------------------------------------------------------------

    async def _fold(self, thread_id: ThreadId) -> ChatKitEncoder:
        return await folds.current(self._engine, self._agents, thread_id)

    async def _start(
        self,
        thread_id: ThreadId,
        *,
        graph_input: Json = None,
        command: Json = None,
        configurable: Object | None = None,
        strategy: Any = "enqueue",
        create_thread: bool = False,
        thread_metadata: Object | None = None,
    ) -> Run:
        config = {"configurable": configurable or {}}
        kwargs = run_kwargs(
            config=config,
            input=graph_input,
            command=command,
            subgraphs=True,
            resumable=True,
            complete_tool_calls=graph_input is not None and not create_thread,
        )
        return await self._engine.runs.start(
            StartRun(
                assistant=self._agent.assistant_id,
                thread_id=thread_id,
                kwargs=kwargs,
                multitask_strategy=strategy,
                create_thread=create_thread,
                thread_metadata=thread_metadata or {},
                idempotency_key=None if self._idempotent_request is None else self._idempotent_request.key,
                request_digest=None if self._idempotent_request is None else self._idempotent_request.digest,
                via=PROTOCOL,
            )
        )


def _message_of(run: Run) -> Object:
    """The user's message that a run was started with."""
    message: Object = run.kwargs["input"]["messages"][-1]
    return message


def _answered_by(block: Block, blocks: Sequence[Block], active: Sequence[Run]) -> Run | None:
    """The active run that carries an answer to the interrupt. The log records an answer when its run starts."""
    for run in active:
        resume = run.resume
        if is_answer_map(resume) and block["interruptId"] in resume:
            return run
        if resume is not None and not is_answer_map(resume) and len(blocks) <= 1:
            return run
        if block.get("breakpoint"):
            return run
    return None


def _id(block: Block) -> str:
    return str(block["message"]["id"]) if block["kind"] == "message" else ""
