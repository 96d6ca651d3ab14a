// Sandboxes that stay open: commands in them cost about one fork.
//
//   const session = await Session.open({ policy: { workspace: "/home/me/project", limits: { timeout: "60s" } } });
//   const { code, stdout } = await session.exec(["make", "test"], { timeout: 60 });
//   await session.close();
//
// One child process, `nsrun session`, serves one Session; `nsrun help session` documents what is said. It is found by the environment
// variable NSRUN, or in PATH; open rejects with an Error of code ENOENT if it is not there. A command that ran is a result, whatever its
// exit code. While `unread` pieces of output of a command have not been taken, nothing more is read and the command has to wait, unless an
// answer or the output of another is being waited for. Node 18 or newer, nothing to install.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

const unread = 256;

/** What was asked for has not been done. It has the fields of the error: kind, text, field, fix, name, step. */
export class NsrunError extends Error {
  constructor(error) {
    super((error.field ? `${error.field}: ` : "") + error.text + (error.fix ? ` (${error.fix})` : ""));
    Object.assign(this, error);
  }
}
/** The policy does not allow it, or this host cannot enforce the policy. */
export class Refused extends NsrunError {}
/** There is no such program in the sandbox. */
export class NotFound extends NsrunError {}
/** A step on the way to the command failed. */
export class SetupError extends NsrunError {}
/** The session is closed, or the process has ended. */
export class Closed extends NsrunError {}

const kinds = { refused: Refused, "not-found": NotFound, setup: SetupError, closed: Closed };
const failure = (error) => new (kinds[error.kind] ?? NsrunError)(error);

// Bytes are text where they are UTF-8, and {base64} otherwise.
const pack = (data) => (data instanceof Uint8Array ? { base64: Buffer.from(data).toString("base64") } : data);
const unpack = (data) => (data?.base64 === undefined ? data : Buffer.from(data.base64, "base64"));
const result = (ok) => ({ ...ok, stdout: unpack(ok.stdout), stderr: unpack(ok.stderr) });

/** A sandbox. */
export class Session {
  #child = spawn(process.env.NSRUN || "nsrun", ["session"], { stdio: ["pipe", "pipe", "inherit"] });
  #exit = once(this.#child, "exit");
  #waiting = new Map(); // what to do with an answer
  #outputs = new Map(); // of commands and processes
  #demands = []; // somebody waits: read on, except for what would only fill that output
  #last = 0;
  #closed = false;
  #decide;

  /**
   * Opens a sandbox of a manifest, by its path, or of a policy like one. decide(question) is called about a connection that no rule of the
   * network's list allows, while it waits, for wait seconds: it has name or address, port and rule. What it returns, or resolves to, is
   * "once", "session" or "deny", or such a word and a reason in a list.
   */
  static async open({ manifest, policy = {}, decide, wait = 30 } = {}) {
    const session = new Session();
    session.#decide = decide;
    try {
      session.info = await session.ask("open", { ...(manifest ? { manifest } : { policy }), ask: decide && wait });
      return session;
    } catch (error) {
      await session.close().catch(() => {}); // what open says tells more
      throw error;
    }
  }

  constructor() {
    this.#exit.catch(() => {}); // told to whoever waits
    this.#child.on("error", (error) => this.#end(error));
    this.#child.stdin.on("error", () => {}); // the end of its output tells more
    createInterface({ input: this.#child.stdout })
      .on("line", (line) => this.#take(JSON.parse(line)))
      .on("close", () => this.#end(failure({ kind: "closed", text: "the session is closed" })));
  }

  /** Runs a command. Options: stdin, env, labels, cwd, timeout, max_output, fresh, terminal, receipt, explain; shell, with no args. */
  async exec(args, { stdin, ...options } = {}) {
    if (options.stream) throw new TypeError("exec collects the output: use stream");
    return result(await this.ask("exec", { args, stdin: pack(stdin), ...options }));
  }

  /** Runs a command and yields {stdout} and {stderr} as they come, at last {result}. Leaving early ends the command. */
  async *stream(args, { stdin, ...options } = {}) {
    const id = ++this.#last;
    const output = this.#listen(id);
    const ended = this.ask("exec", { args, stdin: pack(stdin), ...options, stream: true }, id, output).finally(() => output.end());
    ended.catch(() => {}); // told below
    try {
      yield* output;
      yield { result: result(await ended) };
    } finally {
      if (this.#waiting.has(id)) await this.demand(Promise.allSettled([this.ask("cancel", { of: id }), ended]));
    }
  }

  /** Starts a process to talk with. Options: env, labels, cwd, terminal; shell, with no args. */
  async start(args, options = {}) {
    const id = ++this.#last;
    const output = this.#listen(id, options.terminal ? 1 : 2);
    await this.ask("start", { args, ...options }, id).catch((error) => {
      output.end();
      throw error;
    });
    return new Process(this, id, output);
  }

  /**
   * Gives a path inside as the host has it. A command that runs can make it lead elsewhere before it is opened: resolve and open it while
   * nothing untrusted runs.
   */
  async resolve(path, access = "read") {
    return (await this.ask("resolve", { path, access })).path;
  }

  /** Exchanges the rules of the network's list, and gives them back. Connections that they do not allow are reset. */
  async allow(rules) {
    return (await this.ask("allow", { rules })).rules;
  }

  /** Returns when nothing of the sandbox is alive. */
  async close() {
    this.#child.stdin.end('{"id": "close", "op": "close", "now": true}\n');
    await this.demand(this.#exit);
  }

  /** Sends a request; for the options of the protocol that have no method. */
  async ask(op, fields, id = ++this.#last, output = undefined) {
    if (this.#closed) throw failure({ kind: "closed", text: "the session is closed" });
    this.#child.stdin.write(JSON.stringify({ id, op, ...fields }) + "\n");
    return this.demand(new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject })), output);
  }

  /** Reads on until the promise is settled; if an output is given, not when that is full. */
  demand(promise, output) {
    this.#demands.push(output);
    this.#flow();
    return promise.finally(() => {
      this.#demands.splice(this.#demands.indexOf(output), 1);
      this.#flow();
    });
  }

  #flow() {
    const stuck = (output) => output.full && this.#demands.every((demand) => demand === output);
    this.#child.stdout[[...this.#outputs.values()].some(stuck) ? "pause" : "resume"]();
  }

  #listen(id, streams = 0) {
    const done = () => this.#outputs.delete(id);
    const output = new Output(streams, { flow: () => this.#flow(), demand: (promise) => this.demand(promise), done });
    this.#outputs.set(id, output);
    return output;
  }

  #take({ id, ok, error, ...event }) {
    if (event.question) return void this.#answer(event.question);
    if (!ok && !error) return this.#outputs.get(id)?.put(event);
    const asked = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (ok) asked?.resolve(ok);
    else if (asked) asked.reject(failure(error));
    else this.#fail(failure(error)); // it may be about any of them
  }

  async #answer(question) {
    const [allow, reason] = await (async () => [await this.#decide(question)].flat())().catch((error) => ["deny", String(error)]);
    await this.ask("answer", { question: question.id, allow, reason }).catch(() => {}); // it waits no more
  }

  #fail(error) {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  #end(error) {
    this.#closed = true;
    this.#fail(error);
    for (const output of this.#outputs.values()) output.end();
  }
}

/** A long-lived command. Iterating it yields {stdout} and {stderr} as they come. */
class Process {
  constructor(session, id, output) {
    let ended; // what wait gives
    let over = false;
    const ask = async (op, fields) => {
      if (over) throw failure({ kind: "closed", text: "the process has ended" });
      await session.ask(op, { of: id, ...fields });
    };
    this.write = (data, { eof } = {}) => ask("write", { data: pack(data), eof });
    this.signal = (name) => ask("signal", { signal: name });
    /** Ends it and all that it has started, if it has not ended. */
    this.kill = () => {
      output.bounded = false; // there will be little more
      return ask("cancel").catch((error) => (error instanceof Closed ? undefined : Promise.reject(error)));
    };
    /** Gives its result when it has ended. If it writes much, iterate as well: it cannot end while it has to wait. */
    this.wait = () => (ended ??= session.ask("wait", { of: id }, undefined, output).then(result).finally(() => (over = true)));
    this[Symbol.asyncIterator] = () => output[Symbol.asyncIterator]();
  }
}

/** What has come of a command and has not been taken. */
class Output {
  #events = [];
  #wake = [];
  #ended = false;
  bounded = true;

  constructor(streams, session) {
    this.streams = streams; // that are open; 0 ends with the command
    this.session = session;
  }

  get full() {
    return this.bounded && this.#events.length >= unread;
  }

  put(event) {
    if (event.closed) return --this.streams || this.end();
    for (const name in event) this.#events.push({ [name]: unpack(event[name]) });
    this.#awake();
  }

  end() {
    this.#ended = true;
    this.session.done();
    this.#awake();
  }

  #awake() {
    for (const wake of this.#wake.splice(0)) wake();
    this.session.flow();
  }

  async *[Symbol.asyncIterator]() {
    for (;;) {
      const event = this.#events.shift();
      this.session.flow();
      if (event) yield event;
      else if (this.#ended) return;
      else await this.session.demand(new Promise((wake) => this.#wake.push(wake)));
    }
  }
}
