"""User messages: from a client's input to the message that the graph receives, and from there to an item.

What only ChatKit knows about a message (tags, quoted text, attachments, options) is stored in the message itself, under
`additional_kwargs.chatkit`. So it is in the log and in checkpoints, and is copied, forked and removed with the message.
Models do not receive it.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from threadwire.core.entries import Json
from threadwire.core.json import dumps
from threadwire.core.message_content import text_of_block
from threadwire.protocols.chatkit.decode import InferenceOptions, TagContent, UserContent, UserMessageInput
from threadwire.protocols.chatkit.items import HIDDEN
from threadwire.protocols.chatkit.wire import Object, without_none

KEY = "chatkit"
"""The key of a message's `additional_kwargs` for what only ChatKit knows about it."""

_CONTENT: TypeAdapter[list[UserContent]] = TypeAdapter(list[UserContent])
_ATTACHMENT = ("id", "type", "name", "mime_type", "preview_url")


def text_of_input(message: UserMessageInput) -> str:
    """The text that a person typed, with tags as they appear in it."""
    return "".join(f"@{each.text}" if isinstance(each, TagContent) else each.text for each in message.content)


def tags_of(message: UserMessageInput) -> list[TagContent]:
    return [each for each in message.content if isinstance(each, TagContent)]


def tag_data(tag: TagContent) -> str | None:
    """The description, for the model, of a tag that the project does not describe."""
    return f"@{tag.text} (id {tag.id}): {dumps(tag.data).decode()}" if tag.data else None


def message_of(
    message_id: str,
    sent: UserMessageInput,
    descriptions: Sequence[str],
    attachments: Sequence[Object],
    blocks: Sequence[Object],
    at: int,
) -> Object:
    """The message for the graph. `descriptions` are those of its tags. `attachments` are in the form for clients,
    `blocks` are the same attachments in the form for models."""
    typed = [each.model_dump(exclude_none=True) for each in sent.content]
    known = without_none(
        {
            "content": typed,
            "attachments": list(attachments),
            "quoted_text": sent.quoted_text,
            "inference_options": sent.inference_options.model_dump(exclude_none=True),
            "created_at": at,
        }
    )
    return {
        "type": "human",
        "id": message_id,
        "content": _model_content(sent, descriptions, blocks),
        "additional_kwargs": {KEY: known},
    }


def _model_content(sent: UserMessageInput, descriptions: Sequence[str], blocks: Sequence[Object]) -> Json:
    """Plain text if there is nothing else, because some models accept only that."""
    quoted = [f"> {sent.quoted_text}\n\n"] if sent.quoted_text else []
    texts = [*quoted, text_of_input(sent), *(f"\n\n{each}" for each in descriptions)]
    if not blocks:
        return "".join(texts)
    return [*({"type": "text", "text": text} for text in texts if text), *blocks]


def hidden_message(message_id: str, text: str, facts: Object) -> Object:
    """A message that the model receives and no client shows, such as the report of a click."""
    return {"type": "human", "id": message_id, "content": text, "additional_kwargs": {KEY: {"hidden": True, **facts}}}


# -- items ------------------------------------------------------------------------------------------------------------


def item_of(message: Object) -> tuple[str, Object, int | None]:
    """The type, the fields and the timestamp of a human message's item. Any client can write messages, so what is
    stored in them is checked."""
    stored = (message.get("additional_kwargs") or {}).get(KEY)
    known = stored if isinstance(stored, dict) else {}
    if known.get("hidden") is True:
        return HIDDEN, {"content": message.get("content")}, None
    quoted, at = known.get("quoted_text"), known.get("created_at")
    fields = {
        "content": _content(known.get("content"), message.get("content")),
        "attachments": list(_attachments(known.get("attachments"))),
        "quoted_text": quoted if isinstance(quoted, str) else None,
        "inference_options": _options(known.get("inference_options")),
    }
    return "user_message", without_none(fields), at if type(at) is int and 0 <= at < 2**42 else None


def _content(stored: Json, content: Json) -> list[Object]:
    if stored is not None:
        try:
            return [each.model_dump(exclude_none=True) for each in _CONTENT.validate_python(stored)]
        except ValidationError:
            pass
    blocks = content if isinstance(content, list) else [content]
    texts = (text_of_block(block) for block in blocks)
    return [{"type": "input_text", "text": text} for text in texts if text is not None]


def _attachments(stored: Json) -> Iterable[Object]:
    for each in stored if isinstance(stored, list) else ():
        if not isinstance(each, dict) or each.get("type") not in ("file", "image"):
            continue
        shown: dict[str, Any] = {name: each[name] for name in _ATTACHMENT if isinstance(each.get(name), str)}
        if len(shown) == len(_ATTACHMENT) - (each["type"] == "file" and "preview_url" not in shown):
            yield shown


def _options(stored: Json) -> Object:
    try:
        return InferenceOptions.model_validate(stored or {}).model_dump(exclude_none=True)
    except ValidationError:
        return {}
