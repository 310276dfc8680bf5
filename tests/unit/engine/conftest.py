from collections.abc import AsyncIterator

import pytest

from threadwire.engine.follow import Followers
from threadwire.storage.abc import Storage
from threadwire.storage.memory import open_memory_storage


@pytest.fixture
async def storage() -> AsyncIterator[Storage]:
    async with open_memory_storage() as storage:
        yield storage


@pytest.fixture
def followers(storage: Storage) -> Followers:
    return Followers(storage)
