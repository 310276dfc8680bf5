import pytest

from threadwire.errors import ConfigError
from threadwire.graphs.code_reference import CodeReference
from threadwire.graphs.http_config import HeaderChoice, HttpConfig, read_http

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


def test_everything_is_served_by_default():
    section = read_http(None)
    assert section == read_http({}) == HttpConfig()
    assert [path for path in PATHS if not section.serves(path)] == []


@pytest.mark.parametrize(
    ("flag", "disabled"),
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
def test_disabled_routes_are_not_served(flag, disabled):
    section = read_http({f"disable_{flag}": True})
    assert [path for path in PATHS if not section.serves(path)] == disabled


def test_app_prefix_and_cors_are_read():
    section = read_http({"app": "./routes.py:app", "mount_prefix": "/api/v1/", "cors": {"allow_origins": ["a"]}})
    assert section.app == CodeReference("./routes.py", "app")
    assert section.mount_prefix == "/api/v1"
    assert section.cors is not None
    assert (section.cors.allow_origins, section.cors.allow_methods) == (("a",), ("*",))


def test_null_means_the_default():
    assert read_http({"cors": None, "app": None, "mount_prefix": None, "disable_mcp": None}) == HttpConfig()


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ([], '"http" must be an object, not a list.'),
        ({"app": 3}, '"http"."app": the path must be a string like "./agent.py:graph", not a number.'),
        ({"app": "routes.py"}, '"http"."app": "routes.py" does not name an object.'),
        ({"disable_meta": "no"}, '"http"."disable_meta": Input should be a valid boolean.'),
        ({"mount_prefix": "api"}, '"http"."mount_prefix": must look like "/api".'),
        ({"mount_prefix": "/a b"}, '"http"."mount_prefix": must look like "/api".'),
        ({"mount_prefix": "/{x}"}, '"http"."mount_prefix": must look like "/api".'),
        ({"middleware_order": "last"}, '"http"."middleware_order": Input should be \'auth_first\' or'),
        ({"cors": []}, '"http"."cors": Input should be'),
        ({"cors": {"max_age": -1}}, '"http"."cors"."max_age": Input should be greater than or equal to 0.'),
        ({"cors": {"allow_origins": "*"}}, '"http"."cors"."allow_origins": Input should be a valid list.'),
        ({"cors": {"allow_origin_regex": "("}}, '"http"."cors"."allow_origin_regex": invalid regular expression: '),
        ({"configurable_headers": {"includes": [1]}}, '"http"."configurable_headers"."includes": Input should be'),
    ],
)
def test_error_is_one_line_that_names_the_key(section, message):
    with pytest.raises(ConfigError) as caught:
        read_http(section)
    assert caught.value.message.startswith(message)
    assert "\n" not in caught.value.message


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
def test_headers_are_selected_by_pattern_and_credentials_only_by_full_name(choice, header, chosen):
    assert HeaderChoice.model_validate(choice).chosen(header) is chosen
