"""Request body for loading a UI component."""

from threadwire.protocols.langgraph.decode.body import RequestBody


class ComponentBody(RequestBody):
    name: str
