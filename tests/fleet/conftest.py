"""An S3-compatible store on this machine, and fleets of simulated arms to put into it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

KEYS = {
    "AWS_ACCESS_KEY_ID": "no-real-key",
    "AWS_SECRET_ACCESS_KEY": "no-real-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
}


@pytest.fixture(scope="session")
def store() -> Iterator[object]:
    """A client of a store with one empty bucket, `logs`; the environment names the store."""
    moto = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    import boto3

    server = moto.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    before = {name: os.environ.get(name) for name in (*KEYS, "AWS_ENDPOINT_URL")}
    os.environ.update(KEYS, AWS_ENDPOINT_URL=f"http://127.0.0.1:{server.get_host_and_port()[1]}")
    try:
        client = boto3.client("s3")
        client.create_bucket(Bucket="logs")
        yield client
    finally:
        server.stop()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
