from typing import Any

from exchanges import Wire
from normalization import NOWHERE, system_assistant

from scenarios import scenario
from scenarios.inputs import TEXT, run


async def create(wire: Wire, **body: Any) -> str:
    """Create an assistant that only this scenario uses, and return its id."""
    body = {"graph_id": "echo", "metadata": {"mark": wire.mark}, **body}
    return str((await wire.unrecorded("POST", "/assistants", body)).get("assistant_id"))


@scenario
async def the_assistant_of_a_graph(wire: Wire) -> None:
    await wire.get(f"/assistants/{system_assistant('echo')}")


@scenario
async def the_assistant_of_a_graph_is_found_by_graph_id(wire: Wire) -> None:
    await wire.post("/assistants/search", {"graph_id": "chat", "metadata": {"created_by": "system"}})


@scenario
async def assistants_are_searched_page_by_page(wire: Wire) -> None:
    query = {"metadata": {"created_by": "system"}, "sort_by": "name", "sort_order": "asc", "limit": 2}
    await wire.post("/assistants/search", {**query, "select": ["name"]})
    await wire.post("/assistants/search", {**query, "select": ["name"], "offset": 2})
    await wire.post("/assistants/search", {**query, "select": ["name"], "offset": 1000})


@scenario
async def assistants_with_selected_fields(wire: Wire) -> None:
    await wire.post("/assistants/search", {"graph_id": "tools", "select": ["graph_id", "version"]})
    await wire.post("/assistants/search", {"graph_id": "tools", "select": ["nothing_like_it"]})


@scenario
async def assistants_are_sorted_by_an_unknown_field(wire: Wire) -> None:
    await wire.post("/assistants/search", {"sort_by": "colour"})


@scenario
async def assistants_are_counted(wire: Wire) -> None:
    await create(wire, name="one")
    await create(wire, name="two")
    await wire.post("/assistants/count", {"metadata": {"mark": wire.mark}})
    await wire.post("/assistants/count", {"metadata": {"mark": wire.mark}, "name": "two"})
    await wire.post("/assistants/count", {"graph_id": "nowhere"})


@scenario
async def an_assistant_is_created(wire: Wire) -> None:
    body = {
        "graph_id": "factory",
        "name": "greeter",
        "description": "greets",
        "config": {"tags": ["a"], "configurable": {"greeting": "moin"}},
        "metadata": {"mark": wire.mark},
    }
    assistant = await wire.post("/assistants", body)
    await wire.get(f"/assistants/{assistant['assistant_id']}")


@scenario
async def an_assistant_is_created_with_a_context(wire: Wire) -> None:
    await wire.post("/assistants", {"graph_id": "echo", "context": {"mark": wire.mark}})


@scenario
async def an_assistant_is_created_with_only_a_graph(wire: Wire) -> None:
    await wire.post("/assistants", {"graph_id": "echo"})


@scenario
async def an_assistant_is_created_with_an_existing_id(wire: Wire) -> None:
    assistant = await create(wire)
    await wire.post("/assistants", {"graph_id": "echo", "assistant_id": assistant})
    await wire.post("/assistants", {"graph_id": "echo", "assistant_id": assistant, "if_exists": "do_nothing"})


@scenario
async def an_assistant_is_created_for_an_unknown_graph(wire: Wire) -> None:
    await wire.post("/assistants", {"graph_id": "nowhere"})


@scenario
async def an_assistant_is_created_without_a_graph(wire: Wire) -> None:
    await wire.post("/assistants", {"name": "nobody"})


@scenario
async def an_assistant_is_created_with_a_malformed_id(wire: Wire) -> None:
    await wire.post("/assistants", {"graph_id": "echo", "assistant_id": "nobody"})


@scenario
async def an_assistant_is_updated(wire: Wire) -> None:
    assistant = await create(wire, name="before", description="old")
    await wire.patch(f"/assistants/{assistant}", {"name": "after", "metadata": {"added": 1}})
    await wire.get(f"/assistants/{assistant}")
    await wire.post(f"/assistants/{assistant}/versions", {})


@scenario
async def an_earlier_version_becomes_the_latest(wire: Wire) -> None:
    assistant = await create(wire, name="first")
    await wire.unrecorded("PATCH", f"/assistants/{assistant}", {"name": "second"})
    await wire.post(f"/assistants/{assistant}/latest", {"version": 1})
    await wire.get(f"/assistants/{assistant}")
    await wire.post(f"/assistants/{assistant}/latest", {"version": 77})


@scenario
async def the_configuration_of_an_assistant_is_updated(wire: Wire) -> None:
    config = {"tags": ["a"], "recursion_limit": 7, "configurable": {"x": 1}}
    assistant = await create(wire, config=config)
    await wire.patch(f"/assistants/{assistant}", {"context": {"y": 2}})
    await wire.patch(f"/assistants/{assistant}", {"config": {"configurable": {"z": 3}}})
    await wire.patch(f"/assistants/{assistant}", {"config": {}})


@scenario
async def a_version_is_restored_as_a_whole(wire: Wire) -> None:
    assistant = await create(wire, name="first", context={"x": 1}, description="old")
    await wire.unrecorded("PATCH", f"/assistants/{assistant}", {"name": "second", "context": {"x": 2}})
    await wire.post(f"/assistants/{assistant}/latest", {"version": 1})
    await wire.post(f"/assistants/{assistant}/latest", {})


@scenario
async def an_assistant_is_created_with_context_and_configurable(wire: Wire) -> None:
    both = {"context": {"x": 1}, "config": {"configurable": {"x": 2}}}
    await wire.post("/assistants", {"graph_id": "echo", **both})


@scenario
async def versions_are_listed_page_by_page(wire: Wire) -> None:
    assistant = await create(wire, name="v1")
    for name in ("v2", "v3"):
        await wire.unrecorded("PATCH", f"/assistants/{assistant}", {"name": name})
    await wire.post(f"/assistants/{assistant}/versions", {"limit": 1, "offset": 1})


@scenario
async def an_assistant_is_deleted(wire: Wire) -> None:
    assistant = await create(wire)
    await wire.delete(f"/assistants/{assistant}")
    await wire.get(f"/assistants/{assistant}")
    await wire.delete(f"/assistants/{assistant}")


@scenario
async def the_assistant_of_a_graph_is_deleted(wire: Wire) -> None:
    await wire.delete(f"/assistants/{system_assistant('doomed')}")
    await wire.post("/runs/wait", run("doomed", TEXT))


@scenario
async def an_assistant_is_deleted_with_its_threads(wire: Wire) -> None:
    assistant = await create(wire)
    thread = await wire.thread_after_run(assistant, TEXT)
    await wire.delete(f"/assistants/{assistant}?delete_threads=true")
    await wire.get(f"/threads/{thread}")


@scenario
async def an_assistant_that_does_not_exist(wire: Wire) -> None:
    await wire.get(f"/assistants/{NOWHERE}")
    await wire.patch(f"/assistants/{NOWHERE}", {"name": "x"})
    await wire.post(f"/assistants/{NOWHERE}/versions", {})
    await wire.post(f"/assistants/{NOWHERE}/latest", {"version": 1})
    await wire.get(f"/assistants/{NOWHERE}/graph")
    await wire.get(f"/assistants/{NOWHERE}/schemas")
    await wire.get(f"/assistants/{NOWHERE}/subgraphs")


@scenario
async def a_malformed_assistant_id(wire: Wire) -> None:
    await wire.patch("/assistants/nobody", {"name": "x"})
    await wire.delete("/assistants/nobody")
    await wire.post("/assistants/nobody/versions", {})
    for ending in ("graph", "schemas", "subgraphs", "subgraphs/deep"):
        await wire.get(f"/assistants/nobody/{ending}")


@scenario
async def the_subgraphs_of_an_assistant_that_does_not_exist(wire: Wire) -> None:
    await wire.get(f"/assistants/{NOWHERE}/subgraphs/deep")


@scenario
async def assistants_are_counted_with_an_invalid_filter(wire: Wire) -> None:
    await wire.post("/assistants/count", {"metadata": 5})


@scenario
async def an_assistant_by_the_name_of_its_graph(wire: Wire) -> None:
    await wire.get("/assistants/echo")
    await wire.get("/assistants/echo/graph")


@scenario
async def the_structure_of_a_graph(wire: Wire) -> None:
    await wire.get(f"/assistants/{system_assistant('tools')}/graph")


@scenario
async def the_structure_of_a_graph_with_its_subgraphs(wire: Wire) -> None:
    await wire.get(f"/assistants/{system_assistant('nested')}/graph?xray=true")
    await wire.get(f"/assistants/{system_assistant('nested')}/graph?xray=1")


@scenario
async def the_schemas_of_a_graph(wire: Wire) -> None:
    await wire.get(f"/assistants/{system_assistant('echo')}/schemas")
    await wire.get(f"/assistants/{system_assistant('private')}/schemas")


@scenario
async def the_subgraphs_of_a_graph(wire: Wire) -> None:
    assistant = system_assistant("approve_many")
    await wire.get(f"/assistants/{assistant}/subgraphs")
    await wire.get(f"/assistants/{assistant}/subgraphs?recurse=true")
    await wire.get(f"/assistants/{assistant}/subgraphs/deep")
    await wire.get(f"/assistants/{system_assistant('echo')}/subgraphs")


@scenario
async def a_run_of_an_assistant_with_a_configuration(wire: Wire) -> None:
    config = {"configurable": {"greeting": "moin"}}
    assistant = await create(wire, graph_id="factory", config=config)
    thread = await wire.thread()
    await wire.post(f"/threads/{thread}/runs/wait", run(assistant, TEXT))
    await wire.get(f"/threads/{thread}")
