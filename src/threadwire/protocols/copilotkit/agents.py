"""The agents of a project in CopilotKit's terms: each has a name, and one of them is named `default`."""

from contextlib import suppress

from threadwire.core.ids import assistant_id_of, parse_uuid
from threadwire.core.records import Assistant, AssistantQuery
from threadwire.engine.lifecycle import Engine
from threadwire.errors import AgentNotFound, ConfigError
from threadwire.protocols.ag_ui.agent_runs import find_agent

DEFAULT = "default"
"""The agent that a chat without an agent name requests."""

MAX_OTHERS = 100
"""How many assistants are listed in addition to those of the graphs. The others can still be run by their ids."""


def default_agent(configured: str, graphs: list[str]) -> str:
    """The configured agent. Without one, the graph named `default`, or the first graph. Raises `ConfigError`."""
    if configured and configured not in graphs and parse_uuid(configured) is None:
        raise ConfigError(
            f"Invalid value for default_agent: {configured!r} is not one of the graphs: {', '.join(graphs)}"
        )
    return configured or (DEFAULT if DEFAULT in graphs else graphs[0])


class Agents:
    def __init__(self, engine: Engine, default: str) -> None:
        """`default` is the graph name or assistant id of the agent that clients call `default`. If it is empty, that
        agent is the graph named `default`, or else the first graph."""
        self._engine = engine
        self._default = default

    async def find(self, name: str) -> Assistant:
        """Raises `AgentNotFound`."""
        if name == DEFAULT:  # found for each request, because a reload replaces the graphs
            name = default_agent(self._default, self._engine.registry.ids())
        return await find_agent(self._engine, name)

    async def all(self) -> dict[str, Assistant]:
        """All agents by the name that runs them: `default`, the graphs, and the newest other assistants."""
        found: dict[str, Assistant] = {}
        for name in (DEFAULT, *self._engine.registry.ids()):
            with suppress(AgentNotFound):  # the default may be an assistant that was deleted
                found[name] = await self.find(name)
        own = {assistant.assistant_id for assistant in found.values()}
        others = await self._engine.assistants.search(AssistantQuery(limit=MAX_OTHERS + len(own)))
        return found | {each.assistant_id: each for each in others if each.assistant_id not in own}

    def name_of(self, assistant_id: str) -> str:
        """The name of an assistant: its graph's name if it is the graph's default assistant, otherwise its id."""
        graphs = self._engine.registry.ids()
        return next((each for each in graphs if assistant_id_of(each) == assistant_id), assistant_id)
