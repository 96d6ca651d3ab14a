// What the demo does not show; TestSessionClients runs it.

import { setTimeout as sleep } from "node:timers/promises";
import { Session } from "../../../examples/node/nsrun-session.mjs";

const session = await Session.open({ policy: { workspace: process.argv[2], limits: { timeout: "60s" } } });
const all = async (items) => {
  const list = [];
  for await (const item of items) list.push(item);
  return list;
};
const tell = (what, promise) =>
  promise.then(
    () => console.log(what, "was done"),
    (error) => console.log(what, error.constructor.name, error.message),
  );

const items = await all(session.stream(undefined, { shell: "echo out; exit 3", timeout: 60 }));
console.log("stream", JSON.stringify(items[0]), items.at(-1).result.verdict, items.at(-1).result.code);
console.log("stream", (await all(session.stream(["sleep", "30"], { timeout: 0.3 }))).at(-1).result.verdict);
await tell("exec", session.exec(["true"], { stream: true }));
await tell("timeout", session.exec(["true"], { timeout: 99 }));
await tell("start", session.start(["no-such-program"]));
await tell("stream", all(session.stream(["no-such-program"])));

for await (const _ of session.stream(undefined, { shell: "while :; do echo more; done" })) break;
const left = await session.exec(undefined, { shell: "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'echo [m]ore'" });
console.log("left", left.stdout.trim());

const before = process.memoryUsage().rss;
let noisy = await session.start(undefined, { shell: "yes 0123456789012345678901234567890123456789" });
await sleep(1000);
console.log("bounded", process.memoryUsage().rss - before < 100 << 20);
console.log("others", (await session.exec(["echo", "answered"])).stdout.trim());
console.log("others", (await all(session.stream(["echo", "streamed"])))[0].stdout.trim());
console.log("others", (await (await session.start(["true"])).wait()).verdict);
await noisy.kill();
console.log("killed", (await noisy.wait()).verdict);
await noisy.kill();

const long = await session.start(undefined, { shell: "head -c 30000000 /dev/zero | tr '\\0' x; echo" });
const ended = long.wait();
await sleep(500);
let length = 0;
for await (const { stdout = "" } of long) length += stdout.length;
console.log("all of it", length);
console.log("again", (await all(long)).length);
console.log("same", (await ended) === (await long.wait()));
await tell("write", long.write("x"));
await tell("signal", long.signal("TERM"));
noisy = await session.start(["yes"]);
await sleep(200);
await session.close();
console.log("closed", (await all(noisy)).length > 0);
await tell("wait", noisy.wait());

process.env.NSRUN = "/nowhere/nsrun";
await Session.open().catch((error) => console.log("no nsrun", error.code));
