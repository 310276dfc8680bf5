import pytest

from threadwire.core.webhooks import RETRY_AFTER, WebhookRules, check_address, parse_target, retry_at
from threadwire.errors import Invalid

STRICT = WebhookRules()
OPEN = WebhookRules(require_https=False, disable_loopback=False)


@pytest.mark.parametrize(
    ("url", "host", "port", "path", "authority"),
    [
        ("https://example.com", "example.com", 443, "/", "example.com"),
        ("https://Example.COM./a?b=c", "example.com", 443, "/a?b=c", "example.com"),
        ("https://example.com:8443/a", "example.com", 8443, "/a", "example.com:8443"),
        ("https://bücher.example/", "xn--bcher-kva.example", 443, "/", "xn--bcher-kva.example"),
        ("https://[2606:4700::1111]/x", "2606:4700::1111", 443, "/x", "[2606:4700::1111]"),
    ],
)
def test_a_url_is_parsed_into_a_target(url: str, host: str, port: int, path: str, authority: str) -> None:
    target = parse_target(url, STRICT)
    assert (target.host, target.port, target.path, target.authority) == (host, port, path, authority)
    assert target.credentials is None


def test_credentials_are_extracted_from_the_url() -> None:
    assert parse_target("https://us%40er:p%3Aw@example.com/", STRICT).credentials == ("us@er", "p:w")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://example.com/x", "Webhook host blocked: only https is allowed"),
        ("ftp://example.com", "Webhook host blocked: scheme 'ftp' not allowed"),
        ("file:///etc/passwd", "Webhook host blocked: scheme 'file' not allowed"),
        ("/relative", "Webhook URL is relative; only absolute URLs are supported"),
        ("//example.com/x", "Webhook URL is relative; only absolute URLs are supported"),
        ("relative", "Invalid webhook hostname ''"),
        ("https://", "Invalid webhook hostname ''"),
        ("https:///x", "Invalid webhook hostname ''"),
        ("https://localhost/x", "Webhook host blocked: localhost address"),
        ("https://a.LOCALHOST./x", "Webhook host blocked: localhost address"),
        ("https://example.com:99999/x", "Invalid webhook URL: Port out of range 0-65535"),
        ("https://example.com:abc/x", "Invalid webhook URL: Port could not be cast"),
        ("https://[::1/x", "Invalid webhook URL: Invalid IPv6 URL"),
        ("https://example.com/a b", "Invalid webhook URL"),
        ("https://example.com/a\r\nX: y", "Invalid webhook URL"),
        ("https://example.com/\0", "Invalid webhook URL"),
        (f"https://{'a' * 70}.com/", "Invalid webhook hostname"),
        ("https://example.com/" + "a" * 5000, "Webhook URL is longer than 4096 characters"),
    ],
)
def test_a_url_that_violates_the_rules_is_rejected(url: str, reason: str) -> None:
    with pytest.raises(Invalid) as error:
        parse_target(url, STRICT)
    assert error.value.message.startswith(reason)


def test_the_rules_can_be_relaxed() -> None:
    assert parse_target("http://localhost:8000/x", OPEN).authority == "localhost:8000"


def test_the_rules_can_restrict_domains_and_ports() -> None:
    rules = WebhookRules(allowed_domains=("hooks.example", "*.corp.example"), allowed_ports=(443, 8443))
    for url in ("https://hooks.example/", "https://a.corp.example/", "https://a.b.corp.example:8443/"):
        parse_target(url, rules)
    for url in ("https://corp.example/", "https://evil-hooks.example/", "https://hooks.example.evil/"):
        with pytest.raises(Invalid, match="domain not allowed"):
            parse_target(url, rules)
    with pytest.raises(Invalid, match="port 444 not allowed"):
        parse_target("https://hooks.example:444/", rules)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1", "loopback IP range"),
        ("127.8.8.8", "loopback IP range"),
        ("::1", "loopback IP range"),
        ("::ffff:127.0.0.1", "loopback IP range"),
        ("0.0.0.0", "blocked IP range"),
        ("::", "blocked IP range"),
        ("169.254.169.254", "blocked IP range"),
        ("::ffff:169.254.169.254", "blocked IP range"),
        ("fe80::1%eth0", "blocked IP range"),
        ("224.0.0.1", "blocked IP range"),
        ("255.255.255.255", "blocked IP range"),
        ("64:ff9b::7f00:1", "blocked IP range"),
        ("2002:7f00:1::", "blocked IP range"),
        ("2001:0:7f00:1::", "blocked IP range"),
        ("192.88.99.1", "blocked IP range"),
        ("192.0.0.1", "blocked IP range"),
        ("192.0.0.9", "blocked IP range"),
        ("192.0.0.192", "blocked IP range"),
        ("::ffff:192.0.0.192", "blocked IP range"),
        ("fec0::1", "blocked IP range"),
        ("feff:ffff::1", "blocked IP range"),
        ("3fff::1", "blocked IP range"),
        ("3fff:fff:ffff::1", "blocked IP range"),
        ("10.0.0.1", "private IP range"),
        ("172.16.0.1", "private IP range"),
        ("192.168.1.1", "private IP range"),
        ("100.64.0.1", "private IP range"),
        ("fd00::1", "private IP range"),
    ],
)
def test_internal_addresses_are_rejected(address: str, reason: str) -> None:
    with pytest.raises(Invalid, match=f"Webhook host blocked: {reason}"):
        check_address(address, parse_target("https://example.com/", STRICT), STRICT)


@pytest.mark.parametrize("address", ["8.8.8.8", "192.0.1.1", "192.88.98.1", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses_are_allowed(address: str) -> None:
    check_address(address, parse_target("https://example.com/", STRICT), STRICT)


def test_a_listed_host_may_be_in_a_private_network_but_not_on_loopback_or_link_local() -> None:
    rules = WebhookRules(allowed_domains=("hooks.corp.example", "*.corp.example"))
    named, covered = (parse_target(f"https://{host}.corp.example/", rules) for host in ("hooks", "other"))
    check_address("10.0.0.1", named, rules)
    with pytest.raises(Invalid, match="private IP range"):
        check_address("10.0.0.1", covered, rules)
    for address in ("127.0.0.1", "169.254.169.254"):
        with pytest.raises(Invalid):
            check_address(address, named, rules)


def test_allowing_loopback_allows_no_other_internal_address() -> None:
    target = parse_target("http://localhost/", OPEN)
    check_address("127.0.0.1", target, OPEN)
    for address in ("10.0.0.1", "169.254.169.254"):
        with pytest.raises(Invalid):
            check_address(address, target, OPEN)


def test_a_failed_delivery_is_retried_with_growing_delays_and_finally_abandoned() -> None:
    retries = [retry_at(tries, now=0) for tries in range(1, len(RETRY_AFTER) + 2)]
    assert retries[-1] is None
    delays = [delay for delay in retries if delay is not None]
    assert delays == sorted(delays)
    assert delays[0] == 1000
    assert 20 * 3600 < sum(delays) / 1000 < 30 * 3600
