"""LangGraph's webhooks: which URLs are allowed, and what is delivered to them."""

from threadwire.core.json import dumps
from threadwire.core.records import Delivery
from threadwire.core.webhooks import WebhookRules
from threadwire.engine.clock import Clock, system_clock
from threadwire.http.webhooks import WebhookCalls
from threadwire.protocols.langgraph.wire import webhook_json


class LangGraphWebhooks:
    """With `muted`, every URL is accepted and nothing is delivered."""

    def __init__(self, calls: WebhookCalls, *, muted: bool = False, clock: Clock = system_clock) -> None:
        self._calls = calls
        self.muted = muted
        self._clock = clock

    def use(self, rules: WebhookRules, *, muted: bool) -> None:
        """Replace the rules, after a reload."""
        self._calls.rules = rules
        self.muted = muted

    async def check(self, url: str) -> None:
        if not self.muted:
            await self._calls.check(url)

    async def tell(self, delivery: Delivery) -> None:
        assert delivery.run.webhook is not None, "only runs with a webhook leave deliveries"
        if not self.muted:  # also drops deliveries from before webhooks were muted
            await self._calls.post(delivery.run.webhook, dumps(webhook_json(delivery, self._clock())))
