"""Runs the consumer of opensandbox-server on a Redis, with sandboxes in memory.

The consumer, its parser and its rules are the server's own; only what it would write to
Kubernetes is printed, one JSON object a line, after a line "ready".
usage: consumer.py <redis URL> <extend seconds>
"""

import asyncio
import json
import sys
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

from opensandbox_server.config import AppConfig
from opensandbox_server.integrations.renew_intent.consumer import start_renew_intent_consumer
from opensandbox_server.tenants.context import get_observed_namespace


class Sandboxes:
    """Every id is a running sandbox that expires in a minute."""

    def __init__(self, extend):
        self.extend = extend

    def get_sandbox(self, sandbox_id):
        expires = datetime.now(timezone.utc) + timedelta(minutes=1)
        return SimpleNamespace(status=SimpleNamespace(state="Running"), expires_at=expires)

    def get_access_renew_extend_seconds(self, sandbox_id):
        return self.extend

    def renew_expiration(self, sandbox_id, request):
        left = (request.expires_at - datetime.now(timezone.utc)).total_seconds()
        line = {"id": sandbox_id, "namespace": get_observed_namespace(), "seconds": round(left)}
        print(json.dumps(line), flush=True)


async def main(url, extend):
    config = AppConfig.model_validate({
        "runtime": {"type": "docker", "execd_image": "unused"},
        "renew_intent": {"enabled": True, "redis": {"enabled": True, "dsn": url}},
    })
    sandboxes = Sandboxes(extend)
    await start_renew_intent_consumer(config, sandboxes, sandboxes)
    print("ready", flush=True)
    await asyncio.Event().wait()


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
