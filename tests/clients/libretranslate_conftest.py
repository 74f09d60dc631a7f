"""conftest.py for LibreTranslate's tests: Flask's test client, as far as they use it, but over HTTP to our server."""

from __future__ import annotations

import os
from typing import Any

import httpx
import pytest


class Response:
    def __init__(self, response: httpx.Response) -> None:
        self.status_code, self.data = response.status_code, response.content
        self._response = response

    @property
    def json(self) -> Any:
        return self._response.json()


class Client:
    def get(self, path: str) -> Response:
        return Response(httpx.get(os.environ["LIBRETRANSLATE_URL"] + path, timeout=60))

    def post(self, path: str, **content: Any) -> Response:
        return Response(httpx.post(os.environ["LIBRETRANSLATE_URL"] + path, timeout=60, **content))


@pytest.fixture
def client() -> Client:
    return Client()
