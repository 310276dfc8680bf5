"""Webhooks as LangGraph's clients name and receive them."""

from threadwire.core.json import dumps
from threadwire.core.records import Delivery
from threadwire.core.webhooks import WebhookRules
from threadwire.engine.clock import Clock, system_clock
from threadwire.http.webhooks import WebhookCalls
from threadwire.protocols.langgraph.wire import webhook_json


class LangGraphWebhooks:
    """With `muted`, runs may name any and none is told."""

    def __init__(self, calls: WebhookCalls, *, muted: bool = False, clock: Clock = system_clock) -> None:
        self._calls = calls
        self.muted = muted
        self._clock = clock

    def use(self, rules: WebhookRules, *, muted: bool) -> None:
        """From now on."""
        self._calls.rules = rules
        self.muted = muted

    async def check(self, url: str) -> None:
        if not self.muted:
            await self._calls.check(url)

    async def tell(self, delivery: Delivery) -> None:
        assert delivery.run.webhook is not None, "only runs with a webhook leave deliveries"
        if not self.muted:  # also what was left before they were
            await self._calls.post(delivery.run.webhook, dumps(webhook_json(delivery, self._clock())))
