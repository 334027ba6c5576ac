"""Drives the unmodified k8s-agent-sandbox client by JSON lines: a step in, an answer out.

One Sandbox object lives from connect to quit, with the Pod's address that it caches.
"""

import json
import logging
import sys

from k8s_agent_sandbox import SandboxClient
from k8s_agent_sandbox.models import SandboxDirectConnectionConfig

logging.basicConfig(stream=sys.stderr)


class Client:
    sandbox = None

    def client(self, step):
        config = SandboxDirectConnectionConfig(api_url=step["server"], server_port=step["port"])
        return SandboxClient(connection_config=config)

    def connect(self, step):
        self.sandbox = self.client(step).get_sandbox(step["claim"], namespace=step["namespace"])

    def create(self, step):
        self.sandbox = self.client(step).create_sandbox("warm", step["namespace"], claim_name=step["claim"])

    def command(self, step):
        return self.sandbox.commands.run(step["command"]).stdout

    def upload(self, step):
        self.sandbox.files.write(step["path"], step["content"])

    def read(self, step):
        return self.sandbox.files.read(step["path"]).decode()


def answer(client, step):
    try:
        output = getattr(client, step["do"])(step)
        return {"ok": True, "output": output or ""}
    except Exception as e:  # what the client raises is the answer
        response = getattr(e, "response", None)
        return {
            "ok": False,
            "error": type(e).__name__,
            "status": getattr(e, "status_code", None) or 0,
            "message": str(e),
            "body": response.text if response is not None else "",
        }


client = Client()
while line := sys.stdin.readline():
    print(json.dumps(answer(client, json.loads(line))), flush=True)
