"""An open server for LangGraph agents."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadwire.server.mountable_app import create_app

__all__ = ["__version__", "create_app"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import `create_app` on first use, because it imports the whole server."""
    if name != "create_app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from threadwire.server.mountable_app import create_app

    return create_app
