// What a program can do with nsrun-session.mjs. Run it as node examples/node/demo.mjs.

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { NotFound, Refused, Session } from "./nsrun-session.mjs";

const workspace = await mkdtemp(join(tmpdir(), "nsrun-demo-"));
const policy = { workspace, workspace_at: "/workspace", limits: { timeout: "10s" } };
const session = await Session.open({ policy });

let result = await session.exec(["echo", "hello"]);
console.log("a warm command:", result.stdout.trim());

result = await session.exec(undefined, { shell: "tr a-z A-Z >loud.txt && wc -c <loud.txt", stdin: "a file in the workspace" });
const file = await readFile(await session.resolve("loud.txt"), "utf8"); // nothing runs in the sandbox now that could put a link there
console.log("it has read and written:", result.stdout.trim(), "bytes,", file);

try {
  await session.exec(["true"], { timeout: 60 });
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.log("refused:", error.field);
}

try {
  await session.exec(["no-such-program"]);
} catch (error) {
  if (!(error instanceof NotFound)) throw error;
  console.log("not installed:", error.name);
}

result = await session.exec(undefined, { shell: "echo the reason >&2; exit 3" });
console.log("it ran and failed:", result.code, result.stderr.trim());

result = await session.exec(["sleep", "30"], { timeout: 0.3 });
console.log("it took too long:", result.verdict, result.code);

const server = await session.start(undefined, { shell: "while read n; do echo $((n * n)); done" });
for (const number of [7, 8]) await server.write(`${number}\n`);
await server.write("", { eof: true });
let answers = "";
for await (const { stdout = "" } of server) answers += stdout;
console.log("a server has answered:", answers.trim().replace("\n", " "));
console.log("and has ended:", (await server.wait()).verdict);

await session.close();
await rm(workspace, { recursive: true });
console.log("all is closed");
