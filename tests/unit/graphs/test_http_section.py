import pytest

from threadwire.errors import ConfigError
from threadwire.graphs.http_section import HeaderChoice, HttpSection, read_http
from threadwire.graphs.source import CodeSource

PATHS = [
    "/assistants/search",
    "/threads",
    "/threads/search",
    "/threads/{thread_id}",
    "/threads/{thread_id}/state",
    "/threads/{thread_id}/stream",
    "/threads/{thread_id}/runs",
    "/threads/{thread_id}/runs/{run_id}/stream",
    "/runs",
    "/runs/wait",
    "/runs/crons",
    "/store/items",
    "/mcp",
    "/a2a/{assistant_id}",
    "/.well-known/agent-card.json",
    "/ui/{graph_id}",
    "/info",
    "/metrics",
    "/docs",
    "/openapi.json",
    "/ok",
]


def test_without_a_section_everything_is_as_ever():
    section = read_http(None)
    assert section == read_http({}) == HttpSection()
    assert [path for path in PATHS if not section.offers(path)] == []


@pytest.mark.parametrize(
    ("flag", "gone"),
    [
        ("assistants", ["/assistants/search"]),
        (
            "threads",
            [
                "/threads",
                "/threads/search",
                "/threads/{thread_id}",
                "/threads/{thread_id}/state",
                "/threads/{thread_id}/stream",
            ],
        ),
        (
            "runs",
            [
                "/threads/{thread_id}/runs",
                "/threads/{thread_id}/runs/{run_id}/stream",
                "/runs",
                "/runs/wait",
                "/runs/crons",
            ],
        ),
        ("store", ["/store/items"]),
        ("mcp", ["/mcp"]),
        ("a2a", ["/a2a/{assistant_id}", "/.well-known/agent-card.json"]),
        ("ui", ["/ui/{graph_id}"]),
        ("meta", ["/info", "/metrics", "/docs", "/openapi.json"]),
        ("webhooks", []),
    ],
)
def test_what_is_switched_off_is_not_offered(flag, gone):
    section = read_http({f"disable_{flag}": True})
    assert [path for path in PATHS if not section.offers(path)] == gone


def test_the_application_and_the_prefix_are_read():
    section = read_http({"app": "./routes.py:app", "mount_prefix": "/api/v1/", "cors": {"allow_origins": ["a"]}})
    assert section.app == CodeSource("./routes.py", "app")
    assert section.mount_prefix == "/api/v1"
    assert section.cors is not None
    assert (section.cors.allow_origins, section.cors.allow_methods) == (("a",), ("*",))


def test_null_is_as_if_it_were_not_there():
    assert read_http({"cors": None, "app": None, "mount_prefix": None, "disable_mcp": None}) == HttpSection()


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ([], '"http" must be an object, not a list.'),
        ({"app": 3}, '"http"."app": the path must be a text like "./agent.py:graph", not a number.'),
        ({"app": "routes.py"}, '"http"."app": "routes.py" does not say which object to serve.'),
        ({"disable_meta": "no"}, '"http"."disable_meta": Input should be a valid boolean.'),
        ({"mount_prefix": "api"}, '"http"."mount_prefix": write it like "/api".'),
        ({"mount_prefix": "/a b"}, '"http"."mount_prefix": write it like "/api".'),
        ({"mount_prefix": "/{x}"}, '"http"."mount_prefix": write it like "/api".'),
        ({"middleware_order": "last"}, '"http"."middleware_order": Input should be \'auth_first\' or'),
        ({"cors": []}, '"http"."cors": Input should be'),
        ({"cors": {"max_age": -1}}, '"http"."cors"."max_age": Input should be greater than or equal to 0.'),
        ({"cors": {"allow_origins": "*"}}, '"http"."cors"."allow_origins": Input should be a valid list.'),
        ({"cors": {"allow_origin_regex": "("}}, '"http"."cors"."allow_origin_regex": not a regular expression: '),
        ({"configurable_headers": {"includes": [1]}}, '"http"."configurable_headers"."includes": Input should be'),
    ],
)
def test_a_mistake_is_one_line_that_says_where(section, complaint):
    with pytest.raises(ConfigError) as refused:
        read_http(section)
    assert refused.value.message.startswith(complaint)
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    ("choice", "header", "chosen"),
    [
        ({}, "x-a", False),
        ({"includes": ["x-*"]}, "x-a", True),
        ({"includes": ["X-A"]}, "x-a", True),
        ({"includes": ["x-*"], "excludes": ["*-A"]}, "x-a", False),
        ({"includes": ["*"]}, "authorization", False),
        ({"includes": ["*"]}, "x-api-key", False),
        ({"includes": ["auth*", "cookie"]}, "authorization", False),
        ({"includes": ["Authorization"]}, "authorization", True),
        ({"excludes": ["x-b"]}, "x-a", False),
    ],
)
def test_headers_are_chosen_by_pattern_and_credentials_only_by_name(choice, header, chosen):
    assert HeaderChoice.model_validate(choice).chosen(header) is chosen
