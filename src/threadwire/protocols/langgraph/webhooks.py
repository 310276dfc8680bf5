"""LangGraph's webhooks: which URLs are allowed, and what is delivered to them."""

from threadwire.core.json import dumps
from threadwire.core.records import Delivery
from threadwire.core.webhooks import WebhookRules
from threadwire.engine.clock import Clock, system_clock
from threadwire.http.webhooks import WebhookClient
from threadwire.protocols.langgraph.wire import webhook_json


class LangGraphWebhooks:
    """With `disabled`, every URL is accepted and nothing is delivered."""

    def __init__(self, calls: WebhookClient, *, disabled: bool = False, clock: Clock = system_clock) -> None:
        self._calls = calls
        self.disabled = disabled
        self._clock = clock

    def use(self, rules: WebhookRules, *, disabled: bool) -> None:
        """Replace the rules, after a reload."""
        self._calls.rules = rules
        self.disabled = disabled

    async def check(self, url: str) -> None:
        if not self.disabled:
            await self._calls.check(url)

    async def deliver(self, delivery: Delivery) -> None:
        assert delivery.run.webhook is not None, "only runs with a webhook leave deliveries"
        if not self.disabled:  # also drops deliveries from before webhooks were muted
            await self._calls.post(delivery.run.webhook, dumps(webhook_json(delivery, self._clock())))
