"""How a component is asked for."""

from threadwire.protocols.langgraph.decode.body import RequestBody


class ComponentBody(RequestBody):
    name: str
