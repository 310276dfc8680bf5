"""The single-route transport: all requests go to one path, and the body names the operation."""

from urllib.parse import quote, unquote, urlsplit

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from threadwire.errors import BadRequest, Invalid
from threadwire.http.json_body import parse_json
from threadwire.protocols.copilotkit.decode import METHODS, Envelope
from threadwire.protocols.copilotkit.internal_redirect import InternalRedirect
from threadwire.protocols.copilotkit.problems import invalid_envelope, not_found


async def dispatch_envelope(request: Request) -> Response:
    if "application/json" not in request.headers.get("content-type", "").lower():
        return invalid_envelope("Single-route endpoint expects JSON payloads", 415)
    try:
        return _forward(request.scope["path"].rstrip("/"), _envelope(parse_json(await request.body())))
    except Invalid as error:
        return invalid_envelope(error.message)


def _envelope(parsed: object) -> Envelope:
    method = parsed.get("method") if isinstance(parsed, dict) else None
    if not isinstance(method, str) or not method:
        raise BadRequest("Missing method field")
    if method not in METHODS:
        raise BadRequest(f"Unsupported method '{method[:100]}'")
    try:
        return Envelope.model_validate(parsed)
    except ValidationError:
        raise BadRequest("params: must be an object") from None


def _forward(base: str, envelope: Envelope) -> Response:
    match envelope.method:
        case "info":
            return InternalRedirect(f"{base}/info", method="GET")
        case "agent/run" | "agent/connect" | "agent/suggest":
            if envelope.body is None:
                raise BadRequest("Missing request body for JSON handler")
            operation = envelope.method.removeprefix("agent/")
            return InternalRedirect(f"{base}/agent/{_agent(envelope)}/{operation}", body=envelope.body)
        case "agent/stop":
            path = f"{base}/agent/{_agent(envelope)}/stop/{envelope.text('threadId')}"
            return InternalRedirect(path, body=envelope.body)
        case "transcribe":
            return InternalRedirect(f"{base}/transcribe", body=envelope.body)
        case "resource/request":
            return _resource(base, envelope)
        case _:
            return not_found()


def _agent(envelope: Envelope) -> str:
    return envelope.text("agentId").replace("/", "%2F")  # always a single path segment


def _resource(base: str, envelope: Envelope) -> Response:
    """A request for a resource below the runtime's path. Nothing else can be reached."""
    target, method = envelope.text("path"), envelope.text("httpMethod").upper()
    if not target.startswith("/") or target.startswith("//"):
        raise BadRequest("Resource path must be Runtime-relative")
    resource = urlsplit(target)
    path = unquote(resource.path)
    if path != "/threads" and not path.startswith("/threads/"):
        return not_found()
    return InternalRedirect(
        f"{base}{path}", method=method, query=quote(resource.query, safe="=&%+"), body=envelope.body
    )
