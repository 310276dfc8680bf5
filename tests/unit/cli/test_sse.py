from threadwire.cli.sse import Frame, FrameReader


def read(text):
    reader = FrameReader()
    return [frame for line in text.split("\n") for frame in reader.feed(line)]


def test_frames_are_assembled_from_lines():
    text = 'event: values\ndata: {"a": 1}\nid: 7\n\nevent: custom\ndata: "b"\n\n'
    assert read(text) == [Frame("values", {"a": 1}, "7"), Frame("custom", "b", None)]


def test_heartbeats_and_unknown_fields_produce_no_frame():
    assert read(": heartbeat\n\nretry: 5\n\nid: 3\n\n") == []


def test_data_may_span_several_lines():
    assert read("data: [1,\ndata: 2]\n\n") == [Frame("message", [1, 2], None)]
