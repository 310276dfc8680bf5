import json

from fastapi import FastAPI

from threadwire.server.api_page import EncodedDescription
from threadwire.server.composition import with_user_routes


def endpoint() -> None: ...


def paths(encoded: bytes) -> list[str]:
    return list(json.loads(encoded)["paths"])


def test_description_is_encoded_once_until_a_route_is_added():
    app = FastAPI()
    app.get("/first")(endpoint)
    description = EncodedDescription(app)
    encoded = description.encode("")
    assert description.encode("") is encoded
    app.get("/second")(endpoint)
    assert paths(encoded) == ["/first"]
    assert paths(description.encode("")) == ["/first", "/second"]


def test_description_names_the_path_that_the_application_is_mounted_at():
    description = EncodedDescription(FastAPI())
    assert "servers" not in json.loads(description.encode(""))
    assert json.loads(description.encode("/prefix/"))["servers"] == [{"url": "/prefix"}]
    assert description.encode("/prefix") is description.encode("/prefix/")


def test_description_with_user_routes_is_encoded_once_until_a_user_route_is_added():
    api, own = FastAPI(), FastAPI()
    own.get("/own")(endpoint)
    with_user_routes(own, api)
    description = EncodedDescription(api)
    encoded = description.encode("")
    assert paths(encoded) == ["/own"]
    assert description.encode("") is encoded
    own.get("/more")(endpoint)
    assert paths(description.encode("")) == ["/own", "/more"]
