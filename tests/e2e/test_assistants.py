import pytest
from clients import GRAPHS, fresh_id, rejected, wait_for_start

pytestmark = pytest.mark.anyio

ECHO_ID = "046b5dc7-2108-582c-9c6c-31d556d138f0"  # the id that the stock server gives this graph
BOTH = (
    "Cannot specify both configurable and context. Prefer setting context alone. Context was introduced in LangGraph"
    " 0.6.0 and is the long term planned replacement for configurable."
)
EXPECTED = f"Expected one of: {sorted(GRAPHS)}"


def fields(assistant, *names):
    return {name: assistant[name] for name in names}


async def configuration_of(sdk, assistant, **given):
    """Return the configuration that a run of this assistant reports."""
    return await sdk.runs.wait(await sdk.thread(), assistant, input={}, **given)


# -- the assistants of graphs ----------------------------------------------------------------------------------------


async def test_each_graph_has_an_assistant_with_the_same_id_as_on_the_stock_server(sdk):
    assistant = await sdk.assistants.get(ECHO_ID)
    created_at, updated_at = assistant.pop("created_at"), assistant.pop("updated_at")
    assert created_at.endswith("+00:00")
    assert updated_at == created_at
    assert assistant == {
        "assistant_id": ECHO_ID,
        "graph_id": "echo",
        "name": "echo",
        "description": "Echoes its input.",
        "config": {},
        "context": {},
        "metadata": {"created_by": "system"},
        "version": 1,
    }


async def test_updates_of_the_assistant_of_a_graph_apply_immediately_to_runs_by_graph_name(sdk, mark):
    [own] = await sdk.assistants.search(graph_id="loose", metadata={"created_by": "system"})
    changed = await sdk.assistants.update(own["assistant_id"], context={"model": mark}, metadata={"mark": mark})
    assert changed["metadata"] == {"created_by": "system", "mark": mark}
    by_name = await configuration_of(sdk, "loose")
    assert (by_name["context"], by_name["metadata"]["mark"]) == ({"model": mark}, mark)
    assert (await configuration_of(sdk, own["assistant_id"]))["context"] == {"model": mark}
    await sdk.assistants.set_latest(own["assistant_id"], 1)
    assert (await configuration_of(sdk, "loose"))["context"] is None


async def test_the_assistant_of_a_graph_cannot_be_deleted_or_moved(sdk):
    with rejected(409, f"Assistant {ECHO_ID} is the default of graph 'echo' and cannot be deleted"):
        await sdk.assistants.delete(ECHO_ID)
    with rejected(409, f"Assistant {ECHO_ID} is the default of graph 'echo' and cannot use another graph"):
        await sdk.assistants.update(ECHO_ID, graph_id="chat")
    assert (await sdk.runs.wait(await sdk.thread(), "echo", input={"text": 1}))["echoed"] == 1


# -- creating and finding them ---------------------------------------------------------------------------------------


async def test_an_assistant_is_created_with_all_fields(sdk):
    assistant_id = fresh_id()
    created = await sdk.assistants.create(
        "configured",
        {"tags": ["t"], "recursion_limit": 7, "configurable": {"model": "x"}},
        assistant_id=assistant_id,
        metadata={"team": "a"},
        name="Mine",
        description="What it is for",
    )
    assert created["created_at"] == created["updated_at"]
    assert created == {
        "assistant_id": assistant_id,
        "graph_id": "configured",
        "config": {"tags": ["t"], "recursion_limit": 7, "configurable": {"model": "x"}},
        "context": {"model": "x"},
        "metadata": {"team": "a"},
        "name": "Mine",
        "description": "What it is for",
        "version": 1,
        "created_at": created["created_at"],
        "updated_at": created["updated_at"],
    }
    assert await sdk.assistants.get(assistant_id) == created


async def test_an_assistant_needs_only_a_graph(sdk):
    created = await sdk.assistants.create("echo")
    assert created["assistant_id"] != ECHO_ID
    plain = {"name": "Untitled", "description": None, "config": {}, "context": {}, "metadata": {}, "version": 1}
    assert fields(created, *plain) == plain


async def test_context_and_configurable_are_equivalent(sdk):
    created = await sdk.assistants.create("configured", {"tags": ["t"]}, context={"model": "x"})
    assert created["context"] == {"model": "x"}
    assert created["config"] == {"tags": ["t"], "configurable": {"model": "x"}}
    both = {"context": {"model": "x"}, "config": {"configurable": {"model": "y"}}}
    with rejected(400, BOTH):
        await sdk.assistants.create("configured", **both)
    with rejected(400, BOTH):
        await sdk.assistants.update(created["assistant_id"], **both)
    assert (await sdk.assistants.get(created["assistant_id"]))["version"] == 1


async def test_an_existing_id_is_a_conflict_or_a_no_op(sdk):
    created = await sdk.assistants.create("echo", name="First")
    with rejected(409, f"Assistant {created['assistant_id']} already exists"):
        await sdk.assistants.create("echo", assistant_id=created["assistant_id"])
    again = await sdk.assistants.create(
        "chat", assistant_id=created["assistant_id"], name="Second", if_exists="do_nothing"
    )
    assert again == created


async def test_an_assistant_of_an_unknown_graph_is_rejected(sdk):
    with rejected(404, f"Graph 'zzz' not found. {EXPECTED}"):
        await sdk.assistants.create("zzz")
    created = await sdk.assistants.create("echo")
    with rejected(404, f"Graph 'zzz' not found. {EXPECTED}"):
        await sdk.assistants.update(created["assistant_id"], graph_id="zzz")
    with rejected(422, "Invalid assistant ID: must be a UUID"):
        await sdk.assistants.create("echo", assistant_id="abc")


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({}, '"graph_id" is a required property'),
        ({"graph_id": None}, "graph_id: Input should be a valid string"),
        ({"graph_id": "echo", "config": {"configurable": 3}}, "config: configurable must be an object"),
        (
            {"graph_id": "echo", "config": {"recursion_limit": "x"}},
            "config: recursion_limit must be a whole number of at least 1",
        ),
        ({"graph_id": "echo", "if_exists": "replace"}, "if_exists: Input should be 'raise' or 'do_nothing'"),
    ],
)
async def test_an_invalid_body_is_rejected_with_a_reason(http, body, detail):
    response = await http.post("/assistants", json=body)
    assert (response.status_code, response.json()) == (422, {"detail": detail})


async def test_assistants_are_found_and_counted_by_graph_name_and_metadata(sdk, mark):
    one = await sdk.assistants.create("chat", name=f"One {mark}", metadata={"mark": mark, "n": 1})
    two = await sdk.assistants.create("echo", name=f"TWO {mark}", metadata={"mark": mark, "n": 2})

    async def found(**query):
        rows = await sdk.assistants.search(**query)
        assert await sdk.assistants.count(**query) == len(rows)
        return [row["assistant_id"] for row in rows]

    both = sorted([one["assistant_id"], two["assistant_id"]])
    assert sorted(await found(metadata={"mark": mark})) == both
    assert await found(metadata={"mark": mark, "n": 1}) == [one["assistant_id"]]
    assert await found(metadata={"mark": mark}, graph_id="chat") == [one["assistant_id"]]
    assert await found(name=f"two {mark}"[1:20].upper()) == [two["assistant_id"]]
    assert await found(name=f"%{mark}") == []
    assert await found(graph_id="no such graph") == []
    assert await sdk.assistants.count(metadata={"created_by": "system"}) == len(GRAPHS)


async def test_assistants_are_returned_in_pages(sdk):
    order = {"metadata": {"created_by": "system"}, "sort_by": "name", "sort_order": "asc"}
    everything = await sdk.assistants.search(limit=1000, **order)
    assert [each["name"] for each in everything] == sorted(GRAPHS)
    first = await sdk.assistants.search(limit=10, **order, response_format="object")
    assert first == {"assistants": everything[:10], "next": "10"}
    rest = await sdk.assistants.search(limit=1000, offset=10, **order, response_format="object")
    assert rest == {"assistants": everything[10:], "next": None}


async def test_a_search_returns_the_total(http):
    query = {"metadata": {"created_by": "system"}, "limit": 3}
    response = await http.post("/assistants/search", json=query)
    assert response.headers["x-pagination-total"] == str(len(GRAPHS))
    assert response.headers["x-pagination-next"] == "3"
    beyond = await http.post("/assistants/search", json={**query, "offset": 1000})
    assert (beyond.json(), "x-pagination-next" in beyond.headers) == ([], False)


async def test_a_search_returns_only_the_selected_fields(sdk, http):
    assert await sdk.assistants.search(graph_id="chat", name="chat", select=["name", "version"], limit=1) == [
        {"name": "chat", "version": 1}
    ]
    response = await http.post("/assistants/search", json={"select": ["name", "nope"]})
    assert response.status_code == 422
    assert response.json()["detail"].startswith("select.1: Input should be 'assistant_id', 'graph_id'")
    everything = await http.post("/assistants/search", json={"select": [], "limit": 1})
    assert len(everything.json()[0]) == 10


# -- updating them ---------------------------------------------------------------------------------------------------


async def test_an_update_creates_a_version_and_replaces_everything_except_metadata(sdk):
    created = await sdk.assistants.create(
        "echo", {"tags": ["t"], "configurable": {"model": "x"}}, metadata={"a": 1, "b": 1}, description="old"
    )
    assistant_id = created["assistant_id"]
    named = await sdk.assistants.update(assistant_id, name="Second", metadata={"b": 2, "c": None})
    assert named == {
        **created,
        "name": "Second",
        "metadata": {"a": 1, "b": 2, "c": None},
        "version": 2,
        "updated_at": named["updated_at"],
    }
    assert named["updated_at"] >= created["updated_at"]
    moved = await sdk.assistants.update(assistant_id, graph_id="configured", description="new")
    assert fields(moved, "graph_id", "description", "name", "version") == {
        "graph_id": "configured",
        "description": "new",
        "name": "Second",
        "version": 3,
    }
    assert await sdk.assistants.get(assistant_id) == moved


async def test_config_and_context_stay_in_sync_when_one_is_updated(sdk):
    created = await sdk.assistants.create("configured", {"tags": ["t"], "configurable": {"model": "x", "size": 1}})

    async def changed(**change):
        assistant = await sdk.assistants.update(created["assistant_id"], **change)
        return assistant["config"], assistant["context"]

    new = {"model": "y"}
    assert await changed(context=new) == ({"tags": ["t"], "configurable": new}, new)
    assert await changed(config={"tags": ["u"]}) == ({"tags": ["u"], "configurable": new}, new)
    assert await changed(config={"configurable": {"size": 2}}) == ({"configurable": {"size": 2}}, {"size": 2})
    assert await changed(config={}) == ({"configurable": {"size": 2}}, {"size": 2})
    assert await changed(context={}) == ({}, {})


async def test_versions_are_listed_newest_first(sdk):
    created = await sdk.assistants.create("echo", name="v1", metadata={"n": 1})
    for number in (2, 3):
        await sdk.assistants.update(created["assistant_id"], name=f"v{number}", metadata={"n": number})
    versions = await sdk.assistants.get_versions(created["assistant_id"])
    assert [version["name"] for version in versions] == ["v3", "v2", "v1"]
    without = {key: value for key, value in created.items() if key != "updated_at"}
    assert versions[-1] == without
    assert await sdk.assistants.get_versions(created["assistant_id"], limit=1, offset=1) == versions[1:2]
    assert await sdk.assistants.get_versions(created["assistant_id"], metadata={"n": 2}) == versions[1:2]


async def test_an_earlier_version_can_become_the_latest_again(sdk):
    created = await sdk.assistants.create("configured", context={"model": "x"}, name="v1", description="one")
    assistant_id = created["assistant_id"]
    await sdk.assistants.update(
        assistant_id, graph_id="loose", context={"model": "y"}, name="v2", description="two", metadata={"n": 2}
    )
    back = await sdk.assistants.set_latest(assistant_id, 1)
    assert back == {**created, "updated_at": back["updated_at"]}
    assert (await configuration_of(sdk, assistant_id))["context"] == {"model": "x"}
    third = await sdk.assistants.update(assistant_id, name="v3")
    assert fields(third, "version", "graph_id", "name") == {"version": 3, "graph_id": "configured", "name": "v3"}


async def test_an_unknown_version_is_not_found(sdk, http):
    assistant_id = (await sdk.assistants.create("echo"))["assistant_id"]
    with rejected(404, f"Version 9 not found for assistant {assistant_id}"):
        await sdk.assistants.set_latest(assistant_id, 9)
    response = await http.post(f"/assistants/{assistant_id}/latest", json={})
    assert (response.status_code, response.json()) == (422, {"detail": '"version" is a required property'})
    for invalid in ("1", 0, 1.5, True, 10**30):
        assert (await http.post(f"/assistants/{assistant_id}/latest", json={"version": invalid})).status_code == 422


async def test_an_unknown_assistant_is_not_found(sdk):
    unknown = fresh_id()
    for request in (
        sdk.assistants.get,
        sdk.assistants.get_graph,
        sdk.assistants.get_schemas,
        sdk.assistants.get_subgraphs,
    ):
        with rejected(404, "Not Found"):
            await request(unknown)
    missing = f"Assistant {unknown} not found"
    with rejected(404, missing):
        await sdk.assistants.update(unknown, name="x")
    for delete_threads in (False, True):
        with rejected(404, missing):
            await sdk.assistants.delete(unknown, delete_threads=delete_threads)
    with rejected(404, missing):
        await sdk.assistants.get_versions(unknown)
    with rejected(404, missing):
        await sdk.assistants.set_latest(unknown, 1)
    with rejected(422, "Invalid assistant ID: must be a UUID"):
        await sdk.assistants.get("echo")
    with rejected(404, "Thread or assistant not found."):
        await sdk.runs.wait(await sdk.thread(), unknown, input={})


# -- deleting them ---------------------------------------------------------------------------------------------------


async def test_a_deleted_assistant_leaves_its_threads(sdk):
    assistant_id = (await sdk.assistants.create("echo"))["assistant_id"]
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, assistant_id, input={"text": "hi"})
    await sdk.assistants.delete(assistant_id)
    with rejected(404, "Not Found"):
        await sdk.assistants.get(assistant_id)
    with rejected(404, f"Assistant {assistant_id} not found"):
        await sdk.assistants.delete(assistant_id)
    assert (await sdk.threads.get_state(thread_id))["values"]["echoed"] == "hi"
    assert (await sdk.assistants.create("echo", assistant_id=assistant_id))["version"] == 1


async def test_an_assistant_can_be_deleted_with_its_threads(sdk, gate):
    assistant_id = (await sdk.assistants.create("slow"))["assistant_id"]
    finished, busy, foreign = await sdk.thread(), await sdk.thread(), await sdk.thread()
    await sdk.runs.wait(finished, assistant_id, input={})
    await sdk.runs.wait(foreign, "slow", input={})
    run = await sdk.runs.create(busy, assistant_id, input={"until": str(gate)})
    await wait_for_start(sdk, run)
    await sdk.assistants.delete(assistant_id, delete_threads=True)
    for deleted in (finished, busy):
        with rejected(404, f"Thread with ID {deleted} not found"):
            await sdk.threads.get(deleted)
    assert (await sdk.threads.get(foreign))["status"] == "idle"


# -- running them ----------------------------------------------------------------------------------------------------


async def test_a_run_has_the_configuration_of_its_assistant(sdk):
    assistant = await sdk.assistants.create(
        "configured", {"tags": ["t"], "configurable": {"model": "x", "size": 1}}, metadata={"team": "a"}
    )
    assistant_id = assistant["assistant_id"]
    reported = await configuration_of(sdk, assistant_id)
    configured = {"model": "x", "size": 1}
    assert reported["configured"] == {**configured, "assistant_id": assistant_id}
    assert reported["context"] == configured
    assert reported["tags"] == ["t"]
    assert reported["metadata"]["team"] == "a"
    assert "created_by" not in reported["metadata"]


async def test_the_configuration_of_a_run_overrides_that_of_its_assistant(sdk):
    assistant = await sdk.assistants.create("configured", context={"model": "x", "size": 1})
    for given in ({"context": {"size": 2}}, {"config": {"configurable": {"size": 2}}}):
        reported = await configuration_of(sdk, assistant["assistant_id"], **given)
        assert reported["context"] == {"model": "x", "size": 2}
        assert (reported["configured"]["model"], reported["configured"]["size"]) == ("x", 2)
    with rejected(400, BOTH):
        await configuration_of(sdk, "configured", context={"a": 1}, config={"configurable": {"b": 1}})


async def test_a_run_uses_the_assistant_as_of_its_acceptance(sdk, gate):
    assistant_id = (await sdk.assistants.create("configured", context={"model": "old"}))["assistant_id"]
    thread_id = await sdk.thread()
    await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
    queued = await sdk.runs.create(thread_id, assistant_id, input={})
    await sdk.assistants.update(assistant_id, context={"model": "new"})
    gate.touch()
    assert (await sdk.runs.join(thread_id, queued["run_id"]))["context"] == {"model": "old"}
    assert (await configuration_of(sdk, assistant_id))["context"] == {"model": "new"}


async def test_a_context_class_receives_only_its_own_fields(sdk):
    assert (await configuration_of(sdk, "strict"))["context"] == {"model": "small", "size": 1}
    given = {"model": "large", "unknown": 1}
    for how in ({"context": given}, {"config": {"configurable": given}}):
        assert (await configuration_of(sdk, "strict", **how))["context"] == {"model": "large", "size": 1}
    assert (await configuration_of(sdk, "demanding"))["context"] is None
    assert (await configuration_of(sdk, "demanding", context={"model": "m"}))["context"] == {"model": "m", "size": 1}
    invalid = await configuration_of(sdk, "demanding", context={"model": "m", "size": "huge"}, raise_error=False)
    assert invalid["__error__"]["error"] == "ValidationError"


# -- their graphs ----------------------------------------------------------------------------------------------------


async def test_the_structure_of_a_graph_is_read_by_id_or_by_name(sdk):
    [own] = await sdk.assistants.search(graph_id="nested", limit=1)
    structure = await sdk.assistants.get_graph(own["assistant_id"])
    node = {"type": "runnable", "data": {}}
    named = [{**node, "id": name, "data": {"name": name}} for name in ("__start__", "before", "inner", "after")]
    assert structure["nodes"] == [*named, {"id": "__end__"}]
    assert structure["edges"] == [
        {"source": "__start__", "target": "before"},
        {"source": "before", "target": "inner"},
        {"source": "inner", "target": "after"},
        {"source": "after", "target": "__end__"},
    ]
    assert await sdk.assistants.get_graph("nested") == structure
    with rejected(422, "Invalid assistant ID: must be a UUID"):
        await sdk.assistants.get_graph("nobody")


async def test_an_xray_includes_subgraphs(sdk, http):
    ids = {node["id"] for node in (await sdk.assistants.get_graph("nested", xray=True))["nodes"]}
    assert ids == {"__start__", "before", "inner:feel", "inner:speak", "after", "__end__"}
    assert await sdk.assistants.get_graph("nested", xray=1) == await sdk.assistants.get_graph("nested", xray=True)
    for invalid in ("0", "-1", "abc", "1.5", "²"):
        response = await http.get("/assistants/nested/graph", params={"xray": invalid})
        assert (response.status_code, response.json()) == (422, {"detail": "Invalid xray value"})
    assert (await http.get("/assistants/nested/graph", params={"xray": "9" * 5000})).status_code == 200


async def schemas_of(sdk, graph_id):
    [own] = await sdk.assistants.search(graph_id=graph_id, metadata={"created_by": "system"})
    return await sdk.assistants.get_schemas(own["assistant_id"])


async def test_schemas_describe_input_state_and_output(sdk):
    schemas = await schemas_of(sdk, "private")
    parts = ("input_schema", "output_schema", "state_schema")
    assert [list(schemas[part]["properties"]) for part in parts] == [
        ["question"],
        ["answer"],
        ["question", "answer", "secret"],
    ]
    assert (schemas["graph_id"], schemas["config_schema"], schemas["context_schema"]) == ("private", {}, None)


@pytest.mark.parametrize("graph_id", ["loose", "strict", "demanding"])
async def test_schemas_describe_the_configuration(sdk, graph_id):
    schemas = await schemas_of(sdk, graph_id)
    assert schemas["config_schema"] == schemas["context_schema"]
    kinds = {name: field["type"] for name, field in schemas["context_schema"]["properties"].items()}
    assert kinds == {"model": "string", "size": "integer"}


async def test_a_type_without_a_schema_may_be_anything(sdk):
    properties = (await schemas_of(sdk, "odd"))["state_schema"]["properties"]
    assert list(properties) == ["opaque", "schema", "copy"]
    assert properties["schema"]["type"] == "integer"
    assert "type" not in properties["opaque"]


async def test_every_graph_has_schemas_and_a_structure(sdk):
    for graph_id in GRAPHS:
        if graph_id == "broken":
            continue
        schemas = await schemas_of(sdk, graph_id)
        assert all(schemas[part] for part in ("input_schema", "output_schema", "state_schema")), graph_id
        assert (await sdk.assistants.get_graph(graph_id, xray=True))["nodes"]


async def test_subgraphs_are_found_by_namespace(sdk):
    [own] = await sdk.assistants.search(graph_id="nested", limit=1)
    everything = await sdk.assistants.get_subgraphs(own["assistant_id"])
    assert list(everything) == ["inner"]
    assert list(everything["inner"]["state_schema"]["properties"]) == ["messages", "mood", "delay"]
    assert await sdk.assistants.get_subgraphs(own["assistant_id"], "inner", recurse=True) == everything
    assert await sdk.assistants.get_subgraphs(own["assistant_id"], "nobody") == {}
    [deep] = await sdk.assistants.search(graph_id="deeper", limit=1)
    assert list(await sdk.assistants.get_subgraphs(deep["assistant_id"])) == ["middle"]
    assert list(await sdk.assistants.get_subgraphs(deep["assistant_id"], recurse=True)) == ["middle", "middle|inner"]
    assert list(await sdk.assistants.get_subgraphs(deep["assistant_id"], "middle|inner")) == ["middle|inner"]
