from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from threadwire.server.composition import html_pages, with_user_routes

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
    assert html_pages(app) == ["/site/", "/more/inner/", "/"]


def test_pages_are_found_after_the_api_was_added():
    app = FastAPI()
    app.mount("/site", HTML)
    with_user_routes(app, FastAPI())
    assert html_pages(app) == ["/site/"]
