"""The settings of AG-UI."""

from typing import Literal

from threadwire.environment import EnvironmentSettings
from threadwire.protocols.ag_ui.agent_runs import ClientPolicy, UnknownThread, WhenBusy


class AgUiSettings(EnvironmentSettings):
    when_busy: WhenBusy = "reject"
    """What happens to a run that an AG-UI or CopilotKit client starts on a busy thread: `reject` (409), `enqueue`,
    `interrupt` or `rollback`."""
    unknown_thread: Literal["usual", "error", "empty"] = "usual"
    """What a client receives when it connects to an unknown thread: an `error`, an `empty` thread, or the `usual`
    response of the protocol. On AG-UI that is an error; on CopilotKit, whose clients connect to ids that they have just
    generated, an empty thread."""

    def client_policy(self, protocol: str, *, usual: UnknownThread) -> ClientPolicy:
        """Return the policy of a protocol that treats unknown threads in its `usual` way, unless the setting overrides
        it."""
        unknown_thread = usual if self.unknown_thread == "usual" else self.unknown_thread
        return ClientPolicy(protocol, self.when_busy, unknown_thread)
