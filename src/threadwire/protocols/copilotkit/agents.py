"""The agents of a project as CopilotKit knows them: by name, one of them called `default`."""

from contextlib import suppress

from threadwire.core.ids import assistant_id_of, parse_uuid
from threadwire.core.records import Assistant, AssistantQuery
from threadwire.engine.lifecycle import Engine
from threadwire.errors import AgentNotFound, ConfigError
from threadwire.protocols.ag_ui.running import find_agent

DEFAULT = "default"
"""The agent that a chat without an agent's name asks for."""

MAX_OTHERS = 100
"""Assistants besides those of the graphs that pages are told of. They can be run by their ids all the same."""


def default_agent(named: str, graphs: list[str]) -> str:
    """The one that is named or, if none is, the usual one. Raises `ConfigError`."""
    if named and named not in graphs and parse_uuid(named) is None:
        raise ConfigError(f"default_agent is {named!r}, but the graphs are: {', '.join(graphs)}")
    return named or (DEFAULT if DEFAULT in graphs else graphs[0])


class Agents:
    def __init__(self, engine: Engine, default: str) -> None:
        """`default` is what `default` means: a graph's name or an assistant's id. If it is empty, the graph of that
        name, or the first one."""
        self._engine = engine
        self._default = default_agent(default, engine.registry.ids())

    async def find(self, name: str) -> Assistant:
        """Raises `AgentNotFound`."""
        return await find_agent(self._engine, self._default if name == DEFAULT else name)

    async def all(self) -> dict[str, Assistant]:
        """By the names under which they can be run: `default`, the graphs, and the newest other assistants."""
        found: dict[str, Assistant] = {}
        for name in (DEFAULT, *self._engine.registry.ids()):
            with suppress(AgentNotFound):  # the default may be an assistant that is gone
                found[name] = await self.find(name)
        own = {assistant.assistant_id for assistant in found.values()}
        others = await self._engine.assistants.search(AssistantQuery(limit=MAX_OTHERS + len(own)))
        return found | {each.assistant_id: each for each in others if each.assistant_id not in own}

    def name_of(self, assistant_id: str) -> str:
        """What pages call an assistant: by its graph, if it is that graph's own."""
        graphs = self._engine.registry.ids()
        return next((each for each in graphs if assistant_id_of(each) == assistant_id), assistant_id)
