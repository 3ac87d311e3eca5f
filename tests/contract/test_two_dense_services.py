"""Two dense services on one Qdrant: of two writes of a document the newer one stays, whichever came first."""

import pytest

from services.dense.app import build_app
from services.dense.settings import DenseSettings
from tests.contract.test_dense_on_qdrant import serving
from tests.support.processes import free_port
from tests.support.two_writers import assert_the_newest_write_of_each_id_stays

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore:Payload indexes have no effect")]


async def test_the_newest_write_of_each_id_stays() -> None:
    port = free_port()
    settings = DenseSettings(store="qdrant", encoder="hashing", qdrant_url=f"http://127.0.0.1:{port}")
    async with serving(port):
        # A deleted point leaves no version on a Qdrant server.
        await assert_the_newest_write_of_each_id_stays([build_app(settings), build_app(settings)], 2_000, deletions=0.0)
