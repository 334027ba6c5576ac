"""Drives the unmodified opensandbox SDK by JSON lines: a step in, an answer out.

One Sandbox object lives from connect to quit, with whatever it caches.
"""

import asyncio
import json
import logging
import sys
from datetime import timedelta

from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig

logging.basicConfig(stream=sys.stderr)


class Client:
    sandbox = None

    def config(self, step):
        return ConnectionConfig(
            domain=step["server"],
            protocol="http",
            api_key="lab",
            use_server_proxy=step.get("serverProxy", False),
            disable_metrics=True,
        )

    async def connect(self, step):
        self.sandbox = await Sandbox.connect(
            step["sandbox"],
            connection_config=self.config(step),
            connect_timeout=timedelta(seconds=step.get("seconds", 10)),
            skip_health_check=step.get("skipHealth", False),
        )

    async def create(self, step):
        self.sandbox = await Sandbox.create("image", connection_config=self.config(step), secure_access=step.get("secureAccess", False))
        return self.sandbox.id

    async def pause(self, step):
        await self.sandbox.pause()

    async def resume(self, step):
        self.sandbox = await Sandbox.resume(step["sandbox"], connection_config=self.config(step))

    async def renew(self, step):
        await self.sandbox.renew(timedelta(seconds=step["seconds"]))

    async def command(self, step):
        execution = await self.sandbox.commands.run(step["command"])
        return "".join(message.text for message in execution.logs.stdout)

    async def upload(self, step):
        await self.sandbox.files.write_file(step["path"], step["content"])

    async def read(self, step):
        return await self.sandbox.files.read_file(step["path"])


async def answer(client, step):
    try:
        output = await getattr(client, step["do"])(step)
        return {"ok": True, "output": output or ""}
    except Exception as e:  # what the SDK raises is the answer
        return {
            "ok": False,
            "error": type(e).__name__,
            "status": getattr(e, "status_code", None) or 0,
            "retryable": getattr(e, "is_retryable", False),
            "message": str(e),
        }


async def main():
    client = Client()
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await answer(client, json.loads(line))), flush=True)


asyncio.run(main())
