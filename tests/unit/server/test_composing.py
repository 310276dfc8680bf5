from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from threadwire.server.composing import pages_of, with_own_routes

HTML, FILES = StaticFiles(directory=".", html=True), StaticFiles(directory=".")


def test_pages_are_the_mounted_folders_of_html():
    app = Starlette(
        routes=[
            Route("/", lambda request: PlainTextResponse("a page, perhaps")),
            Mount("/site", HTML),
            Mount("/images", FILES),
            Mount("/more", routes=[Mount("/inner", HTML)]),
            Mount("/{tenant}", HTML),
            Mount("/", HTML),
        ]
    )
    assert pages_of(app) == ["/site/", "/more/inner/", "/"]


def test_pages_are_found_after_the_api_was_added():
    app = FastAPI()
    app.mount("/site", HTML)
    with_own_routes(app, FastAPI())
    assert pages_of(app) == ["/site/"]
