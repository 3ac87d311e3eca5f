"""Parity on a real Elasticsearch."""

import uuid

import pytest
from fastapi import FastAPI

from services.lexical.app import build_app
from services.lexical.settings import LexicalSettings
from tests.contract.parity_suite import ParitySuite

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


class TestParityOnElasticsearch(ParitySuite):
    @pytest.fixture
    def lexical(self, elasticsearch_url: str) -> FastAPI:
        prefix = f"test-{uuid.uuid4().hex[:12]}-"
        return build_app(
            LexicalSettings(engine="elasticsearch", elasticsearch_url=elasticsearch_url, index_prefix=prefix)
        )
