import pytest
from clients import fresh_id, refused

pytestmark = pytest.mark.anyio

ECHO_ID = "046b5dc7-2108-582c-9c6c-31d556d138f0"  # what the official server gives a graph of this name


async def test_each_graph_has_an_assistant_with_the_id_the_official_server_gives_it(sdk):
    assistant = await sdk.assistants.get(ECHO_ID)
    created_at, updated_at = assistant.pop("created_at"), assistant.pop("updated_at")
    assert created_at.endswith("+00:00")
    assert updated_at == created_at
    assert assistant == {
        "assistant_id": ECHO_ID,
        "graph_id": "echo",
        "name": "echo",
        "description": "Says what it was told.",
        "config": {},
        "context": {},
        "metadata": {"created_by": "system"},
        "version": 1,
    }


async def test_assistants_are_found_by_graph_name_and_metadata(sdk):
    assert [each["name"] for each in await sdk.assistants.search(graph_id="chat")] == ["chat"]
    assert [each["name"] for each in await sdk.assistants.search(name="tools")] == ["tools"]
    assert len(await sdk.assistants.search(metadata={"created_by": "system"}, limit=100)) == 15
    assert await sdk.assistants.search(metadata={"created_by": "somebody else"}) == []
    assert await sdk.assistants.search(graph_id="no such graph") == []


async def test_assistants_come_in_pages(sdk):
    everything = await sdk.assistants.search(limit=100, sort_by="name", sort_order="asc")
    assert [each["name"] for each in everything] == sorted(each["name"] for each in everything)
    first = await sdk.assistants.search(limit=10, sort_by="name", sort_order="asc", response_format="object")
    assert first["assistants"] == everything[:10]
    rest = await sdk.assistants.search(
        limit=10, offset=int(first["next"]), sort_by="name", sort_order="asc", response_format="object"
    )
    assert rest == {"assistants": everything[10:], "next": None}


async def test_an_assistant_that_is_not_there_is_not_found(sdk):
    with refused(404, "Not Found"):
        await sdk.assistants.get(fresh_id())
    with refused(422, "Invalid assistant ID: must be a UUID"):
        await sdk.assistants.get("echo")
