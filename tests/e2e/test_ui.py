"""UI components of graphs. The tests with the JavaScript SDK, which loads them, are in tests/js."""

import pytest
from clients import fresh_id

pytestmark = pytest.mark.anyio

HTML = (
    '<script src="{base}/ui/echo/entrypoint.js"'
    ' onload="__LGUI_echo.render({name}, &quot;{{{{shadowRootId}}}}&quot;)"></script>'
)


async def test_a_component_is_loaded_by_graph_or_assistant(http, sdk, server):
    assistant = await sdk.assistants.create("echo")
    for graph_id in ("echo", assistant["assistant_id"]):
        response = await http.post(f"/ui/{graph_id}", json={"name": "weather"})
        assert response.headers["content-type"].startswith("text/html")
        assert response.text == HTML.format(base=server.url, name="&quot;weather&quot;")


async def test_the_name_of_a_component_is_escaped(http, server):
    response = await http.post("/ui/echo", json={"name": "'\"></script><script>alert(1)//\\"})
    name = "&quot;&#x27;\\&quot;&gt;&lt;/script&gt;&lt;script&gt;alert(1)//\\\\&quot;"
    assert response.text == HTML.format(base=server.url, name=name)


async def test_only_the_files_of_a_bundle_are_served(http):
    response = await http.get("/ui/echo/entrypoint.js")
    assert response.text == "var __LGUI_echo = { render() {} };\n"
    assert response.headers["content-type"].startswith("text/javascript")
    for other in ("nothing.js", "..%2fagents.py", "..%2f..%2fconftest.py", "%2e%2e%2fagents.py", "%00"):
        assert (await http.get(f"/ui/echo/{other}")).status_code == 404


@pytest.mark.parametrize(
    ("graph_id", "detail"),
    [
        ("tools", "There is no UI for 'tools'"),
        ("nobody", "There is no UI for 'nobody'"),
        pytest.param(fresh_id(), "Not Found", id="unknown id"),  # xdist needs the same ids in every process
        ("chat", "The UI of 'chat' cannot be bundled: nothing.tsx does not exist"),
    ],
)
async def test_an_unknown_component_is_not_found(http, graph_id, detail):
    response = await http.post(f"/ui/{graph_id}", json={"name": "weather"})
    assert (response.status_code, response.json()) == (404, {"detail": detail})
    assert (await http.get(f"/ui/{graph_id}/entrypoint.js")).json() == {"detail": detail}
