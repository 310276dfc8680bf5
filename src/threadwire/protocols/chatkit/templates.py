"""`.widget` files: a widget as a Jinja template that renders JSON, as ChatKit's widget editor exports it."""

import json
from collections.abc import Mapping
from typing import Any

from threadwire.errors import ConfigError
from threadwire.protocols.chatkit.widgets import InvalidWidget

_MISSING = "Widget templates require the package jinja2. Install it with: pip install 'threadwire[chatkit]'"


class WidgetTemplate:
    """A template, compiled once. Call it with the data that it shows.

    Templates are sandboxed: the data comes from models and clients.
    """

    def __init__(self, source: str, name: str = "widget") -> None:
        """`source` is the content of a `.widget` file. Raises `ConfigError`."""
        try:
            from jinja2 import StrictUndefined, TemplateSyntaxError
            from jinja2.sandbox import SandboxedEnvironment
        except ImportError:
            raise ConfigError(_MISSING) from None
        self.template = _template_of(source, name)
        try:
            self._compiled = SandboxedEnvironment(undefined=StrictUndefined).from_string(self.template)
        except TemplateSyntaxError as error:
            raise ConfigError(f"{name}: invalid template at line {error.lineno}: {error.message}.") from None

    def __call__(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The widget. Raises `InvalidWidget` if the template does not render JSON."""
        rendered = self._compiled.render(**data)
        try:
            return dict(json.loads(rendered))
        except (ValueError, TypeError) as error:
            raise InvalidWidget(f"the template did not render a JSON object: {error}") from None


def _template_of(source: str, name: str) -> str:
    try:
        definition = json.loads(source)
    except ValueError as error:
        raise ConfigError(f"{name}: invalid JSON: {error}.") from None
    if not isinstance(definition, dict) or definition.get("version") != "1.0":
        raise ConfigError(f'{name}: must be an object with "version": "1.0".')
    if not isinstance(template := definition.get("template"), str):
        raise ConfigError(f'{name}: "template" must be a string.')
    return template
