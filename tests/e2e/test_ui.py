"""What a graph shows in its clients. The JavaScript SDK, which loads it, is in tests/js."""

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
        answer = await http.post(f"/ui/{graph_id}", json={"name": "weather"})
        assert answer.headers["content-type"].startswith("text/html")
        assert answer.text == HTML.format(base=server.url, name="&quot;weather&quot;")


async def test_a_components_name_stays_a_text(http, server):
    answer = await http.post("/ui/echo", json={"name": "'\"></script><script>alert(1)//\\"})
    name = "&quot;&#x27;\\&quot;&gt;&lt;/script&gt;&lt;script&gt;alert(1)//\\\\&quot;"
    assert answer.text == HTML.format(base=server.url, name=name)


async def test_only_the_files_of_a_bundle_are_served(http):
    answer = await http.get("/ui/echo/entrypoint.js")
    assert answer.text == "var __LGUI_echo = { render() {} };\n"
    assert answer.headers["content-type"].startswith("text/javascript")
    for other in ("nothing.js", "..%2fagents.py", "..%2f..%2fconftest.py", "%2e%2e%2fagents.py", "%00"):
        assert (await http.get(f"/ui/echo/{other}")).status_code == 404


@pytest.mark.parametrize(
    ("graph_id", "says"),
    [
        ("tools", "There is no UI for 'tools'"),
        ("nobody", "There is no UI for 'nobody'"),
        (fresh_id(), "Not Found"),
        ("chat", "The UI of 'chat' cannot be bundled: nothing.tsx does not exist"),
    ],
)
async def test_what_is_not_there_is_not_found(http, graph_id, says):
    answer = await http.post(f"/ui/{graph_id}", json={"name": "weather"})
    assert (answer.status_code, answer.json()) == (404, {"detail": says})
    assert (await http.get(f"/ui/{graph_id}/entrypoint.js")).json() == {"detail": says}
