"""`/openapi.json`, and `/docs`: the API on one page, rendered from its OpenAPI description. The page loads nothing from
other hosts, so it works offline."""

from html import escape
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin: 2rem 0 .5rem; text-transform: capitalize; }
details { border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent); padding: .4rem 0; }
summary { cursor: pointer; font-family: ui-monospace, monospace; }
summary b { display: inline-block; width: 4.5rem; }
td { padding: .1rem 1rem .1rem 0; vertical-align: top; } code { font-family: ui-monospace, monospace; }
"""


def api_description_routes(app: FastAPI) -> APIRouter:
    router = APIRouter()
    description = EncodedDescription(app)

    @router.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        return Response(description.encode(request.scope.get("root_path", "")), media_type="application/json")

    @router.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(render(app.openapi()))

    return router


class EncodedDescription:
    """The OpenAPI description of an application as JSON. Encoding it takes tens of milliseconds of the API loop, so it
    is encoded again only if `app.openapi()` returns another object."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._schema: dict[str, Any] = {}
        self._encoded: dict[str, bytes] = {}
        """By the path that the application is mounted at."""

    def encode(self, root_path: str) -> bytes:
        schema, root_path = self._app.openapi(), root_path.rstrip("/")
        if schema is not self._schema or len(self._encoded) > _MAX_ROOT_PATHS:
            self._schema, self._encoded = schema, {}
        if root_path not in self._encoded:
            servers = {"servers": [{"url": root_path}]} if root_path else {}
            self._encoded[root_path] = bytes(JSONResponse({**schema, **servers}).body)
        return self._encoded[root_path]


_MAX_ROOT_PATHS = 16


def render(schema: dict[str, Any]) -> str:
    title = escape(f"{schema['info']['title']} {schema['info']['version']}")
    described = {tag["name"]: f"<p>{escape(tag['description'])}</p>" for tag in schema.get("tags", ())}
    sections = "".join(
        f"<h2>{escape(tag)}</h2>{described.get(tag, '')}{''.join(rows)}" for tag, rows in _by_tag(schema).items()
    )
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style>"
        f"<h1>{title}</h1><p>Machine-readable version: <a href=openapi.json>openapi.json</a>.</p>{sections}</html>"
    )


def _by_tag(schema: dict[str, Any]) -> dict[str, list[str]]:
    tags: dict[str, list[str]] = {}
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            tags.setdefault(operation.get("tags", ["other"])[0], []).append(_row(schema, path, method, operation))
    return tags


def _row(schema: dict[str, Any], path: str, method: str, operation: dict[str, Any]) -> str:
    inputs = [(each["name"], each["in"], each.get("schema", {})) for each in operation.get("parameters", [])]
    inputs += [(name, "body", field) for name, field in _body_fields(schema, operation).items()]
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code><td>{location}<td>{escape(_type_of(field))}"
        for name, location, field in inputs
    )
    heading = f"<summary><b>{method.upper()}</b>{escape(path)}</summary>"
    return f"<details>{heading}<p>{escape(operation.get('summary', ''))}</p><table>{rows}</table></details>"


def _body_fields(schema: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    name = content.get("$ref", "").rpartition("/")[2]
    fields: dict[str, Any] = schema.get("components", {}).get("schemas", {}).get(name, {}).get("properties", {})
    return fields


def _type_of(field: dict[str, Any]) -> str:
    if "enum" in field:
        return " | ".join(map(str, field["enum"]))
    if "const" in field:
        return str(field["const"])
    if "anyOf" in field:
        return " | ".join(_type_of(each) for each in field["anyOf"])
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if field.get("type") == "array":
        return f"list of {_type_of(field.get('items', {}))}"
    return str(field.get("type", "anything"))
