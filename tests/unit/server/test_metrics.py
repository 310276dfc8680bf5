from threadwire.server.metrics import family


def test_a_family_has_help_type_and_samples():
    text = family("runs", "gauge", "How many.", [({"status": "ok"}, 1), ({"status": 'a"b\\c\nd'}, 2), ({}, 3)])
    assert text == (
        "# HELP runs How many.\n"
        "# TYPE runs gauge\n"
        'runs{status="ok"} 1\n'
        'runs{status="a\\"b\\\\c\\nd"} 2\n'
        "runs 3\n"
    )  # fmt: skip
