"""ChatKit over HTTP."""

from threadwire.protocols.chatkit.routes.router import chatkit_routes

__all__ = ["chatkit_routes"]
