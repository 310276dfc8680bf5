"""What the application loads when it starts, for its routes and for the graph."""

GREETINGS: dict[str, str] = {}
