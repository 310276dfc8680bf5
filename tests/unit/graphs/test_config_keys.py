from threadwire.graphs.config_keys import unknown_keys


def test_unknown_key_is_reported_with_a_suggestion():
    content = {
        "graphs": {"agent": {"path": "./a.py:g", "descripton": "x"}, "other": "./a.py:g"},
        "http": {"disable_mpc": True, "cors": {"alow_origins": []}, "configurable_headers": {"only": []}},
        "store": {"index": {"dims": 3, "embed": "x", "model": "y"}},
    }
    assert unknown_keys(content) == [
        '"http"."disable_mpc" is not a known key and is ignored. Did you mean "disable_mcp"?',
        '"http"."cors"."alow_origins" is not a known key and is ignored. Did you mean "allow_origins"?',
        '"http"."configurable_headers"."only" is not a known key and is ignored.',
        '"store"."index"."model" is not a known key and is ignored.',
        '"graphs"."agent"."descripton" is not a known key and is ignored. Did you mean "description"?',
    ]


def test_sections_of_other_tools_are_ignored_unless_they_look_misspelt():
    content = {"graphs": {}, "python_version": "3.12", "dockerfile_lines": [], "anything": {"x": 1}, "htttp": {}}
    assert unknown_keys(content) == ['"htttp" is not a known key and is ignored. Did you mean "http"?']


def test_known_keys_are_not_reported():
    content = {
        "graphs": {"agent": {"path": "x", "description": "y", "stream_models": False, "interrupt_outcome": False}},
        "env": {"ANYTHING": "x"},
        "dependencies": ["."],
        "checkpointer": {"path": "./savers.py:saver"},
        "store": {"path": "./stores.py:store"},
        "webhooks": {"headers": {"x-any": "y"}, "url": {"require_https": True}},
        "auth": {"path": "x", "openapi": {"securitySchemes": {"mine": {}}}},
        "ui": {"agent": "./ui.tsx"},
        "http": "not even an object",
    }
    assert unknown_keys(content) == []


def test_unsupported_section_is_reported():
    assert unknown_keys({"priority": {"path": "./p.py:key"}}) == [
        '"priority" is not supported and is ignored: runs start in the order in which they are due.'
    ]
