"""What an assistant's message contains: text with annotations, and images."""

from typing import NamedTuple

from threadwire.core.entries import Json
from threadwire.core.message_content import text_of, text_of_block
from threadwire.protocols.chatkit.icons import UNKNOWN, known_icon
from threadwire.protocols.chatkit.wire import Object, without_none


class Image(NamedTuple):
    position: int
    url: str


def output_text(text: str, annotations: list[Object]) -> Object:
    return {"type": "output_text", "text": text, "annotations": annotations}


def text_and_citations(content: Json) -> tuple[str, list[Object]]:
    """The text of a message, and its citations. The index of a citation is the position in the text where it ends."""
    if not isinstance(content, list):
        return text_of(content), []
    text = ""
    citations: list[Object] = []
    for block in content:
        part = text_of_block(block)
        if part is None:
            continue
        listed = (block.get("annotations") or ()) if isinstance(block, dict) else ()
        found = [_citation(citation, len(text)) for citation in listed]
        citations += [each for each in found if each is not None]
        text += part
    return text, citations


def _citation(citation: Json, offset: int) -> Object | None:
    if not isinstance(citation, dict) or not isinstance(citation.get("url"), str):
        return None
    end = citation.get("end_index")
    source = without_none(
        {
            "type": "url",
            "title": _text(citation.get("title")) or citation["url"],
            "url": citation["url"],
            "description": _text(citation.get("cited_text")),
        }
    )
    index = offset + end if isinstance(end, int) and not isinstance(end, bool) else None
    return without_none({"type": "annotation", "source": source, "index": index})


def annotation(value: Json) -> Object | None:
    """An annotation that a graph or a format provides: `{"source": {"type": "entity", …}, "index"?}`."""
    source = value.get("source") if isinstance(value, dict) else None
    if not isinstance(source, dict) or not isinstance(source.get("title"), str):
        return None
    required = {"url": "url", "file": "filename", "entity": "id"}.get(str(source.get("type")))
    if required is None or not isinstance(source.get(required), str):
        return None
    defaults: Object = {"interactive": False, "data": {}} if source["type"] == "entity" else {}
    shown = {**defaults, **{name: field for name, field in source.items() if field is not None}}
    if "icon" in shown:
        shown["icon"] = known_icon(shown["icon"], UNKNOWN)
    index = value.get("index")
    return without_none({"type": "annotation", "source": shown, "index": index if type(index) is int else None})


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None


def images_of(content: Json) -> list[Image]:
    """The images in a message, with their positions in its content. An image without an address becomes a data URL."""
    blocks = content if isinstance(content, list) else []
    found = ((at, _image_url(block)) for at, block in enumerate(blocks) if isinstance(block, dict))
    return [Image(at, url) for at, url in found if url is not None]


def _image_url(block: Object) -> str | None:
    if block.get("type") == "image_url":
        value = block.get("image_url")
        return _text(value.get("url") if isinstance(value, dict) else value)
    if block.get("type") != "image":
        return None
    if isinstance(block.get("base64"), str) and block["base64"]:
        return f"data:{block.get('mime_type') or 'image/png'};base64,{block['base64']}"
    return _text(block.get("url"))
