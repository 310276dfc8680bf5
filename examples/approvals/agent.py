"""An office assistant that never acts alone: it pays, buys and publishes only what people approve.

The desk, a model, reads the request and passes each part of it to a department. Every department asks people for
approval, each with a different mechanism of LangGraph:

- `expenses` interrupts in a separate task for each claim, so several interrupts are pending at the same time;
- `purchasing` is a subgraph that interrupts several times in sequence, in one node and then in the next;
- `publishing` runs an agent whose tool calls are reviewed with LangChain's human-in-the-loop middleware.
"""

import json
import operator
import re
from typing import Annotated, Any, Literal, NotRequired

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send, interrupt
from pydantic import BaseModel, Field, ValidationError
from typing_extensions import TypedDict  # required by pydantic before Python 3.12

from chat_model import call_tools, choose_model, last_question, results_of_this_turn

CLAIMS: dict[str, dict[str, Any]] = {
    "c_taxi": {"who": "Ana", "what": "Taxi to the airport", "amount": 48.20},
    "c_hotel": {"who": "Ben", "what": "Two nights in Oslo", "amount": 612.00},
    "c_lunch": {"who": "Chloe", "what": "Lunch with a client", "amount": 86.50},
}

PRICES = {"laptop": 1200.0, "monitor": 320.0, "chair": 180.0}
FINANCE_SIGNS_ABOVE = 5000.0

CostCentre = Literal["Research", "Sales", "Office"]


class Office(MessagesState):
    settled: Annotated[NotRequired[dict[str, float]], operator.or_]
    """The amount paid for each claim that has been decided; 0 for a rejected claim."""


# --- The requests that the desk can send to a department ----------------------------------------------------


class Reimburse(BaseModel):
    """Pay an expense claim."""

    claim_id: str


class Purchase(BaseModel):
    """Buy something for the office."""

    item: Literal["laptop", "monitor", "chair"]
    quantity: int = Field(ge=1)


class Announce(BaseModel):
    """Have the editor publish an announcement."""

    text: str


FORMS: dict[str, type[BaseModel]] = {form.__name__: form for form in (Reimburse, Purchase, Announce)}
DEPARTMENTS = {"Reimburse": "expenses", "Purchase": "purchasing", "Announce": "publishing"}


def result(call_id: str, message: str, **facts: Any) -> dict[str, Any]:
    """The update that a department writes when it is done: the result of the desk's tool call."""
    return {"messages": [ToolMessage(json.dumps({"message": message, **facts}), tool_call_id=call_id)]}


# --- Expenses: interrupts in parallel, each with a schema for the answer ------------------------------------


class Verdict(BaseModel):
    """What a reviewer says about a claim."""

    approved: bool
    amount: float | None = Field(None, ge=0, description="Pay this much instead of what was claimed.")
    reason: str = ""


def expenses(request: dict[str, Any]) -> dict[str, Any]:
    call_id, claim_id = request["call_id"], request["claim_id"]
    claim = CLAIMS.get(claim_id)
    if claim is None:
        return result(call_id, f"There is no claim {claim_id}")
    question = f"Pay {claim['who']} {claim['amount']:.2f} for “{claim['what']}”?"
    # An answer that does not match the schema fails the run, and the interrupt stays pending.
    verdict = interrupt(
        {"type": "expense", "question": question, "claim_id": claim_id, **claim}, response_schema=Verdict
    )
    if not verdict.approved:
        refusal = f"{claim['what']}: refused" + (f", because {verdict.reason}" if verdict.reason else "")
        return {**result(call_id, refusal, claim_id=claim_id, paid=0.0), "settled": {claim_id: 0.0}}
    paid = claim["amount"] if verdict.amount is None else verdict.amount
    message = f"{claim['what']}: {paid:.2f} paid to {claim['who']}"
    return {**result(call_id, message, claim_id=claim_id, paid=paid), "settled": {claim_id: paid}}


# --- Purchasing: interrupts in sequence, inside a subgraph --------------------------------------------------


class SignOff(BaseModel):
    """What someone says who has to sign an order."""

    approved: bool
    note: str = ""


class Order(TypedDict, total=False):
    call_id: str
    item: str
    quantity: int
    cost_centre: CostCentre
    needed_by: str
    total: float
    signatures: Annotated[list[dict[str, Any]], operator.add]
    messages: Annotated[list[AnyMessage], add_messages]


def specify(order: Order) -> Order:
    """Interrupt twice. The node runs again from its start after each answer, so it must have no side effects."""
    goods = _goods(order)
    cost_centre = interrupt(
        {"type": "choice", "question": f"Which cost centre pays for {goods}?"}, response_schema=CostCentre
    )
    needed_by = interrupt(
        {"type": "text", "question": f"By when does {cost_centre} need {goods}?"}, response_schema=str
    )
    return {"cost_centre": cost_centre, "needed_by": needed_by, "total": PRICES[order["item"]] * order["quantity"]}


def _goods(order: Order) -> str:
    return f"{order['quantity']} {order['item']}" + ("" if order["quantity"] == 1 else "s")


def manager(order: Order) -> Order:
    return {"signatures": [_signature("manager", order)]}


def finance(order: Order) -> Order:
    return {"signatures": [_signature("finance", order)]}


def _signature(role: str, order: Order) -> dict[str, Any]:
    question = f"Buy {_goods(order)} for {order['total']:.2f}, paid by {order['cost_centre']}?"
    details = {key: order[key] for key in ("item", "quantity", "total", "cost_centre", "needed_by")}
    sign_off = interrupt({"type": "sign_off", "role": role, "question": question, **details}, response_schema=SignOff)
    return {"role": role, **sign_off.model_dump()}


def who_signs_next(order: Order) -> Literal["finance", "place"]:
    (signed_by_manager,) = order["signatures"]
    needs_finance = signed_by_manager["approved"] and order["total"] > FINANCE_SIGNS_ABOVE
    return "finance" if needs_finance else "place"


def place(order: Order) -> Order:
    goods, last = _goods(order), order["signatures"][-1]
    if last["approved"]:
        message = f"{goods} ordered for {order['total']:.2f}, needed by {order['needed_by']}"
    else:
        message = f"{goods} not ordered: refused by {last['role']}" + (f", “{last['note']}”" if last["note"] else "")
    return result(order["call_id"], message, ordered=last["approved"], signatures=order["signatures"])


purchasing = (
    StateGraph(Order)
    .add_node("specify", specify)
    .add_node("manager", manager)
    .add_node("finance", finance)
    .add_node("place", place)
    .add_edge(START, "specify")
    .add_edge("specify", "manager")
    .add_conditional_edges("manager", who_signs_next)
    .add_edge("finance", "place")
    .compile(name="purchasing")
)


# --- Publishing: an agent whose tool calls are reviewed -----------------------------------------------------


@tool
def post_to_website(title: str, text: str) -> str:
    """Put a post on the website, where everybody can read it."""
    return f"“{title}” is on the website"


@tool
def email_subscribers(subject: str) -> str:
    """Tell all subscribers about the newest post."""
    return f"“{subject}” was sent to 1240 subscribers"


def edit(conversation: list[BaseMessage]) -> AIMessage:
    """The script of the editor: post the text, e-mail the subscribers, report the results."""
    if results := results_of_this_turn(conversation):
        # If a reviewer edited a call, its result starts with a note for the model; the last line is the tool's result.
        return AIMessage("; ".join(each.text.splitlines()[-1] for each in results))
    text = last_question(conversation)
    title = text.partition(".")[0]
    calls = [("post_to_website", {"title": title, "text": text}), ("email_subscribers", {"subject": title})]
    return call_tools("I would post this, and tell the subscribers.", calls, conversation)


editor = create_agent(
    choose_model(edit),
    tools=[post_to_website, email_subscribers],
    system_prompt="You are the editor. Post the text you are given, e-mail the subscribers, then say briefly what "
    "was done. Make both calls at once. Do not retry what was rejected.",
    middleware=[
        HumanInTheLoopMiddleware(
            interrupt_on={
                "post_to_website": {"allowed_decisions": ["approve", "edit", "reject"]},
                "email_subscribers": {"allowed_decisions": ["approve", "reject"]},
            },
            description_prefix="The editor wants to publish",
        )
    ],
    name="editor",
)


async def publishing(request: dict[str, Any]) -> dict[str, Any]:
    """Call the editor, a separate graph: its messages do not become part of this conversation."""
    edited = await editor.ainvoke({"messages": [HumanMessage(request["text"])]})
    return result(request["call_id"], edited["messages"][-1].text)


# --- The desk -----------------------------------------------------------------------------------------------

HELP = (
    "I get things done that need somebody's consent. You can ask me to:\n\n"
    "- **review the expenses**, or **reimburse c_taxi**\n"
    "- **buy 12 laptops** (or monitors, or chairs)\n"
    "- **publish: We moved. Visit us in Harbour Street.**"
)


def reply(conversation: list[BaseMessage]) -> AIMessage:
    """The script of the desk."""
    if results := results_of_this_turn(conversation):
        return AIMessage("\n".join(f"- {json.loads(each.text)['message']}." for each in results))
    calls = _wanted_calls(last_question(conversation), instructions=conversation[0].text)
    return call_tools("I will ask.", calls, conversation) if calls else AIMessage(HELP)


def _wanted_calls(asked: str, instructions: str) -> list[tuple[str, dict[str, Any]]]:
    if announced := re.search(r"(?:publish|announce)\W+(.+)", asked, re.IGNORECASE | re.DOTALL):
        return [("Announce", {"text": announced[1]})]
    text = asked.lower()
    claims = re.findall(r"c_\w+", text) or (re.findall(r"c_\w+", instructions) if "expense" in text else [])
    orders = re.findall(r"(?:buy|order) (\d+) (\w+)", text)
    return [
        *(("Reimburse", {"claim_id": claim_id}) for claim_id in claims),
        *(("Purchase", {"item": item.removesuffix("s"), "quantity": int(quantity)}) for quantity, item in orders),
    ]


model = choose_model(reply).bind_tools(list(FORMS.values()))


async def desk(office: Office) -> dict[str, Any]:
    settled = office.get("settled", {})
    waiting = ", ".join(claim_id for claim_id in CLAIMS if claim_id not in settled) or "none"
    instructions = SystemMessage(
        "You are the desk of a small office. Hand over what is asked for, all of it at once, and report briefly what "
        f"came of it. Expense claims that wait for a review: {waiting}."
    )
    return {"messages": [await model.ainvoke([instructions, *office["messages"]])]}


def hand_over(office: Office) -> list[Send] | Literal["__end__"]:
    """Run each call in a separate task, so that one that waits for people does not delay the others."""
    return [_handed_over(call) for call in office["messages"][-1].tool_calls] or END


def _handed_over(call: ToolCall) -> Send:
    if call["name"] not in FORMS:
        return Send("refuse", {"call_id": call["id"], "reason": f"Nobody here can {call['name']}"})
    try:
        form = FORMS[call["name"]].model_validate(call["args"])
    except ValidationError as error:
        reason = "; ".join(f"{each['loc'][0]}: {each['msg']}" for each in error.errors())
        return Send("refuse", {"call_id": call["id"], "reason": reason})
    return Send(DEPARTMENTS[call["name"]], {"call_id": call["id"], **form.model_dump()})


def refuse(request: dict[str, Any]) -> dict[str, Any]:
    """Return the reason to the model, for a call that no department can handle."""
    return result(request["call_id"], request["reason"], error=True)


graph = (
    StateGraph(Office)
    .add_node("desk", desk)
    .add_node("expenses", expenses)
    .add_node("purchasing", purchasing)
    .add_node("publishing", publishing)
    .add_node("refuse", refuse)
    .add_edge(START, "desk")
    .add_conditional_edges("desk", hand_over, [*DEPARTMENTS.values(), "refuse", END])
    .add_edge("expenses", "desk")
    .add_edge("purchasing", "desk")
    .add_edge("publishing", "desk")
    .add_edge("refuse", "desk")
    .compile(name="approvals")
)
