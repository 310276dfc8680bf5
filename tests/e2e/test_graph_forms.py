"""A graph in every supported form is run, read and described through the server."""

import pytest
from clients import rejected

from threadwire.core.ids import assistant_id_of

pytestmark = pytest.mark.anyio

KINDS = ("as_function", "as_async_function", "as_context_manager", "as_async_context_manager")
SIGNATURES = ("without", "with_config", "with_runtime", "with_both")


async def ledger(sdk, form):
    return await sdk.runs.wait(await sdk.thread(), "ledger", input=form)


@pytest.mark.parametrize("signature", SIGNATURES)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_factory_of_every_form_is_called_for_each_run_and_each_read(sdk, kind, signature):
    form = f"{kind}_{signature}"
    before = await ledger(sdk, form)
    assistant_id = assistant_id_of(form)
    thread_id = await sdk.thread()

    values = await sdk.runs.wait(thread_id, form, input={"text": "hi"}, context={"greeting": "hello"})
    [seen] = values["told"]
    assert (
        seen
        == {
            "without": {},
            "with_config": {"greeting": "hello"},
            "with_runtime": {"access": "threads.create_run", "context": {"greeting": "hello"}},
            "with_both": {"access": "threads.create_run", "greeting": "hello"},
        }[signature]
    )
    state = await sdk.threads.get_state(thread_id)
    assert (state["values"], state["next"]) == (values, [])
    assert len(await sdk.threads.get_history(thread_id)) == 3
    await sdk.threads.update_state(thread_id, {"text": "changed"})
    assert list((await sdk.assistants.get_schemas(assistant_id))["state_schema"]["properties"]) == ["text", "told"]
    assert [node["id"] for node in (await sdk.assistants.get_graph(assistant_id))["nodes"]][1] == "tell"
    assert await sdk.assistants.get_subgraphs(assistant_id) == {}

    after = await ledger(sdk, form)
    calls = after["opened"][len(before["opened"]) :]
    has_runtime = signature in ("with_runtime", "with_both")
    reads = ["threads.read", "threads.read", "threads.update", *["assistants.read"] * 3]
    assert calls == (["threads.create_run", *reads] if has_runtime else ["unknown"] * 7)
    if "context_manager" in kind:
        assert after["closed"] == len(after["opened"])


async def test_a_read_builds_the_graph_with_the_configuration_of_the_last_run(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "shaped", input={}, config={"configurable": {"node": "ada"}})
    state = await sdk.threads.get_state(thread_id)
    assert state["next"] == ["ada"]
    assert [(task["name"], task["interrupts"][0]["value"]) for task in state["tasks"]] == [("ada", "well?")]
    assert (await sdk.threads.get_history(thread_id))[0]["next"] == ["ada"]
    moved = await sdk.threads.update_state(thread_id, {"text": "hi"}, as_node="ada")
    assert moved["checkpoint_id"]


async def test_a_factory_is_described_with_the_configuration_of_the_assistant(sdk):
    assistant = await sdk.assistants.create("shaped", context={"node": "grace"})
    assistant_id = assistant["assistant_id"]
    assert "grace" in [node["id"] for node in (await sdk.assistants.get_graph(assistant_id))["nodes"]]
    assert "nobody" in [node["id"] for node in (await sdk.assistants.get_graph("shaped"))["nodes"]]


async def test_a_failing_factory_is_reported_where_it_is_needed(sdk):
    assistant_id = assistant_id_of("broken")
    failed = await sdk.runs.wait(await sdk.thread(), "broken", input={}, raise_error=False)
    assert failed == {"__error__": {"error": "ValueError", "message": "no such model"}}
    for read in (sdk.assistants.get_schemas, sdk.assistants.get_graph, sdk.assistants.get_subgraphs):
        with rejected(502, "ValueError: no such model"):
            await read(assistant_id)


async def test_a_functional_graph_runs_keeps_its_state_and_is_described(sdk):
    thread_id, assistant_id = await sdk.thread(), assistant_id_of("functional")
    first = await sdk.runs.wait(thread_id, "functional", input={"number": 21})
    assert first == {"doubled": 42, "previous": None}
    assert (await sdk.runs.wait(thread_id, "functional", input={"number": 1}))["previous"] == first
    state = await sdk.threads.get_state(thread_id)
    assert (state["values"], state["next"]) == ({"doubled": 2, "previous": first}, [])
    schemas = await sdk.assistants.get_schemas(assistant_id)
    assert schemas["input_schema"] == {"additionalProperties": True, "title": "functional_input", "type": "object"}
    assert list(schemas["state_schema"]["properties"]) == ["__end__"]
    structure = await sdk.assistants.get_graph(assistant_id)
    assert [node["id"] for node in structure["nodes"]] == ["functional", "__start__", "__end__"]
