// Drives the unmodified @alibaba-group/opensandbox SDK by JSON lines: a step in, an
// answer out. One Sandbox object lives from connect to quit, with whatever it caches.
// The argument is the directory whose node_modules has the SDK.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const require = createRequire(process.argv[2] + "/");
const { ConnectionConfig, Sandbox } = await import(pathToFileURL(require.resolve("@alibaba-group/opensandbox")));

let sandbox;

const steps = {
  async connect(step) {
    const connectionConfig = new ConnectionConfig({
      domain: step.server,
      protocol: "http",
      apiKey: "lab",
      useServerProxy: step.serverProxy ?? false,
      disableMetrics: true,
    });
    sandbox = await Sandbox.connect({
      sandboxId: step.sandbox,
      connectionConfig,
      readyTimeoutSeconds: step.seconds ?? 10,
      skipHealthCheck: step.skipHealth ?? false,
    });
  },
  async command(step) {
    const execution = await sandbox.commands.run(step.command);
    return execution.logs.stdout.map((message) => message.text).join("");
  },
  async upload(step) {
    await sandbox.files.writeFiles([{ path: step.path, data: step.content }]);
  },
  async read(step) {
    return await sandbox.files.readFile(step.path);
  },
};

async function answer(step) {
  try {
    return { ok: true, output: (await steps[step.do](step)) ?? "" };
  } catch (e) { // what the SDK throws is the answer
    return { ok: false, error: e.name, status: e.statusCode ?? 0, message: e.message, body: typeof e.rawBody === "string" ? e.rawBody : JSON.stringify(e.rawBody ?? "") };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await answer(JSON.parse(line))));
}
process.exit(0);
