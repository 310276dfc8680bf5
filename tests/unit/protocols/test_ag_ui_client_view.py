from threadwire.protocols.ag_ui.client_view import ClientView


def test_text_streamed_after_a_snapshot_is_added_to_the_message_of_the_snapshot() -> None:
    view = ClientView()
    streamed = view.get_or_add({"id": "m", "role": "assistant", "content": ""})
    streamed.append_text("Hel")
    view.replace([{"id": "u", "role": "user", "content": "hi"}, {"id": "m", "role": "assistant", "content": "Hel"}])
    streamed.append_text("lo")
    assert {"id": "m", "role": "assistant", "content": "Hello"} in view.messages()
