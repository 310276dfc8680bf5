"""`threadwire` in a process that may open only DESCRIPTORS files."""

import os
import resource

from threadwire.cli import main

if __name__ == "__main__":
    descriptors = int(os.environ["DESCRIPTORS"])
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors // 2, descriptors))  # the server raises the soft limit
    main()
