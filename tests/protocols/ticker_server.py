"""`threadwire` with one more protocol, for `running_server`."""

from ticker.protocol import TICKER

from threadwire.cli import main
from threadwire.server.protocols import PROTOCOLS

PROTOCOLS.append(TICKER)

if __name__ == "__main__":
    main()
