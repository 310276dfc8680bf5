"""ChatKit for projects: how tools and widgets look, what graphs can send to a page, and an adapter for projects that
have their own `ChatKitServer`.

Importing this module does not import `openai-chatkit`; only `LangGraphAdapter` needs it.
"""

from threadwire.chatkit.adapter import LangGraphAdapter
from threadwire.chatkit.sending import (
    call_client_tool,
    remove_widget,
    send_annotation,
    send_effect,
    send_image,
    send_notice,
    send_progress,
    send_task,
    send_title,
    send_widget,
)
from threadwire.errors import RetryableUserError, UserError
from threadwire.protocols.chatkit.formats import Formats, Sources, Text
from threadwire.protocols.chatkit.templates import WidgetTemplate

__all__ = [
    "Formats",
    "LangGraphAdapter",
    "RetryableUserError",
    "Sources",
    "Text",
    "UserError",
    "WidgetTemplate",
    "call_client_tool",
    "remove_widget",
    "send_annotation",
    "send_effect",
    "send_image",
    "send_notice",
    "send_progress",
    "send_task",
    "send_title",
    "send_widget",
]
