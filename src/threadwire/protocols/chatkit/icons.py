"""Icons that ChatKit's clients can draw. Anything else would invalidate the whole event, so it is replaced."""

NAMES = frozenset(
    """
    agent analytics atom batch bolt book-open book-closed book-clock bug calendar chart check check-circle
    check-circle-filled chevron-left chevron-right circle-question clock compass confetti cube desktop document
    dots-horizontal dots-vertical empty-circle external-link globe keys lab images info lifesaver lightbulb mail map-pin
    maps mobile name notebook notebook-pencil page-blank phone play plus profile profile-card reload star star-filled
    search sparkle sparkle-double square-code square-image square-text suitcase settings-slider user wreath write
    write-alt write-alt2
    """.split()
)

TOOL = "bolt"
UNKNOWN = "empty-circle"
FAILED = "lucide:triangle-alert"


def known_icon(name: object, fallback: str | None = None) -> str | None:
    """The icon of that name. A name that looks like one of Lucide's icons becomes that icon; anything else, such as an
    emoji, becomes the fallback."""
    if not isinstance(name, str) or not name:
        return fallback
    if name in NAMES or name.startswith(("lucide:", "vendor:")):
        return name
    looks_like_name = name.isascii() and name.replace("-", "").isalnum() and name.islower()
    return f"lucide:{name}" if looks_like_name else fallback
