"""PostgreSQL and Redis for the tests: real servers on loopback, in temporary folders, as long as a test needs them."""
