"""`ChatKitOptions` for a page, from the project file."""

from typing import Any

from threadwire.graphs.chatkit_config import ChatKitConfig, PromptSection
from threadwire.protocols.chatkit.icons import known_icon
from threadwire.protocols.chatkit.wire import Object, without_none


def options_json(config: ChatKitConfig, url: str) -> Object:
    """What a page passes to ChatKit. `url` is the address of the agent's endpoint."""
    return without_none(
        {
            "api": {"url": url, "domainKey": config.domain_key, **_upload_strategy(config, url)},
            "startScreen": without_none({"greeting": config.greeting, "prompts": _prompts(config)}),
            "composer": _composer(config),
            "theme": config.theme,
            "history": {"enabled": True, "showDelete": True, "showRename": True},
            "threadItemActions": {"feedback": True, "retry": True},
            "disclaimer": None if config.disclaimer is None else {"text": config.disclaimer},
        }
    )


def _upload_strategy(config: ChatKitConfig, url: str) -> Object:
    if not config.attachments.enabled:
        return {}
    if config.attachments.strategy == "direct":
        return {"uploadStrategy": {"type": "direct", "uploadUrl": f"{url}/attachments"}}
    return {"uploadStrategy": {"type": "two_phase"}}


def _prompts(config: ChatKitConfig) -> list[Object]:
    sections = [PromptSection(label=each, prompt=each) if isinstance(each, str) else each for each in config.prompts]
    return [
        without_none({"label": each.label, "prompt": each.prompt, "icon": known_icon(each.icon)}) for each in sections
    ]


def _composer(config: ChatKitConfig) -> Object:
    limits = config.attachments
    attachments: dict[str, Any] = {"enabled": limits.enabled}
    if limits.enabled:
        attachments |= {"maxSize": limits.max_bytes, "maxCount": limits.max_count, "accept": limits.accept}
    models = [each.model_dump(exclude_none=True) for each in config.models]
    tools = [
        without_none(
            {
                "id": each.id,
                "label": each.label,
                "icon": known_icon(each.icon, "bolt"),
                "shortLabel": each.short_label,
                "placeholderOverride": each.placeholder,
                "pinned": each.pinned,
            }
        )
        for each in config.composer_tools
    ]
    composer = {"placeholder": config.placeholder, "attachments": attachments}
    return without_none({**composer, "models": models or None, "tools": tools or None})
