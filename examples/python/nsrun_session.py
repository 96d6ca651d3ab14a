"""Sandboxes that stay open: commands in them cost about one fork.

    with Session(policy={"workspace": "/home/me/project", "limits": {"timeout": "60s"}}) as session:
        result = session.exec("make", "test", timeout=60)
        print(result.code, result.stdout)

One child process, `nsrun session`, serves one Session; `nsrun help session` documents what is said. It is found by the environment
variable NSRUN, or in PATH; Session raises FileNotFoundError if it is not there. A command that ran is a Result, whatever its exit code.
While UNREAD pieces of output of a command have not been taken, nothing more is read and the command has to wait, unless an answer or
the output of another is being waited for. Python 3.9 or newer, nothing to install.
"""

import base64
import collections
import contextlib
import itertools
import json
import os
import subprocess
import threading
from concurrent.futures import Future
from types import SimpleNamespace


UNREAD = 256
FIELDS = "kind", "text", "field", "fix", "name", "step"


class Error(Exception):
    """What was asked for has not been done. It has the fields of the error: kind, text, field, fix, name, step."""

    def __init__(self, error):
        self.kind, self.text, self.field, self.fix, self.name, self.step = map(error.get, FIELDS)
        super().__init__((f"{self.field}: " if self.field else "") + self.text + (f" ({self.fix})" if self.fix else ""))


class Refused(Error):
    """The policy does not allow it, or this host cannot enforce the policy."""


class NotFound(Error):
    """There is no such program in the sandbox."""


class SetupError(Error):
    """A step on the way to the command failed."""


class Closed(Error):
    """The session is closed, or the process has ended."""


KINDS = {"refused": Refused, "not-found": NotFound, "setup": SetupError, "closed": Closed}
CLOSED = {"kind": "closed", "text": "the session is closed"}


class Result(SimpleNamespace):
    """How a command ended: verdict, code, exit_status or signal, wall_ms, ...; stdout and stderr, str if they are UTF-8, else bytes."""

    def __init__(self, ok):
        super().__init__(**{k: _unpack(v) if k in ("stdout", "stderr") else v for k, v in ok.items()})


class Session(contextlib.AbstractContextManager):
    """A sandbox. Its methods may be called from several threads at the same time."""

    def __init__(self, manifest=None, policy=None, ask=None, ask_wait=30):
        """ask(question) decides about a connection that no rule of the network's list allows, while it waits, for ask_wait seconds: it has name or
        address, port and rule, and what it returns is "once", "session" or "deny", or such a word and a reason. It is called in threads."""
        self._decide = ask
        self._ids, self._lock, self._change = itertools.count(1), threading.Lock(), threading.Condition()
        self._answers, self._outputs, self._demands, self._closed = {}, {}, [], False
        command = [os.environ.get("NSRUN") or "nsrun", "session"]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.info = self._ask("open", **({"manifest": manifest} if manifest else {"policy": policy or {}}), ask=ask and ask_wait)
        except Error:
            self.close()
            raise

    def exec(self, *args, stdin=None, **options):
        """Runs a command and returns its Result. Options: shell, env, labels, cwd, timeout, max_output, fresh, terminal, receipt, explain."""
        if options.get("stream"):
            raise TypeError("exec() collects the output: use stream()")
        return Result(self._ask("exec", args=args or None, stdin=_pack(stdin), **options))

    def stream(self, *args, stdin=None, **options):
        """Runs a command and yields its output as it comes, as pairs of "stdout" or "stderr" and the text; at last "result" and the
        Result. Leaving early, or closing the generator, ends the command. Options as of exec."""
        output = Output(self)
        try:
            ended = self._send(output._id, "exec", {"args": args or None, "stdin": _pack(stdin), **options, "stream": True})
            ended.add_done_callback(lambda _: output._end())
            yield from output
            yield "result", Result(ended.result())
        finally:
            output._end()
            running = self._answers.get(output._id)
            if running:
                with contextlib.suppress(Error), self._demand():
                    self._ask("cancel", of=output._id)
                    running.result()  # when nothing of it is alive

    def start(self, *args, **options):
        """Starts a Process to talk with. Options: shell, env, labels, cwd, terminal."""
        return Process(self, args, options)

    def resolve(self, path, access="read"):
        """Returns a path inside as the host has it. A command that runs can make it lead elsewhere before it is opened: resolve and open it
        while nothing untrusted runs."""
        return self._ask("resolve", path=path, access=access)["path"]

    def allow(self, *rules):
        """Exchanges the rules of the network's list, and returns them. Connections that they do not allow are reset."""
        return self._ask("allow", rules=rules)["rules"]

    def close(self):
        """Returns when nothing of the sandbox is alive."""
        with self._demand():
            with self._lock, contextlib.suppress(BrokenPipeError, ValueError):  # it has ended, or was closed
                self._child.stdin.write(b'{"id": "close", "op": "close", "now": true}\n')
                self._child.stdin.close()
            self._child.wait()
            self._reader.join()
        self._child.stdout.close()

    def __exit__(self, *_):
        self.close()

    def _ask(self, op, **fields):
        with self._demand():
            return self._send(next(self._ids), op, fields).result()

    @contextlib.contextmanager
    def _demand(self, output=None):  # somebody waits: read on, except for what would only fill that output
        with self._change:
            self._demands.append(output)
            self._change.notify_all()
        try:
            yield
        finally:
            with self._change:
                self._demands.remove(output)

    def _send(self, id, op, fields):
        request = {"id": id, "op": op, **{k: v for k, v in fields.items() if v is not None}}
        line, answer = json.dumps(request, ensure_ascii=False).encode() + b"\n", Future()
        self._answers[id] = answer
        try:
            with self._lock:
                self._child.stdin.write(line)
                self._child.stdin.flush()
        except (BrokenPipeError, ValueError):  # it has ended, or was closed
            self._closed = True
        if self._closed:
            self._fail(CLOSED)
        return answer

    def _read(self):
        for line in self._child.stdout:
            message = json.loads(line)
            if "question" in message:
                threading.Thread(target=self._answer, args=[message["question"]], daemon=True).start()
                continue
            id = message["id"]
            if "ok" in message:
                self._answers.pop(id, Future()).set_result(message["ok"])
            elif "error" in message:
                self._fail(message["error"], id)
            elif output := self._outputs.get(id):
                output._put(message)
        self._closed = True
        self._fail(CLOSED)
        for output in list(self._outputs.values()):
            output._end()

    def _answer(self, question):
        try:
            word = self._decide(SimpleNamespace(**{"name": None, "address": None, **question}))
            allow, reason = (word, None) if isinstance(word, str) else word
        except Exception as error:
            allow, reason = "deny", repr(error)
        with contextlib.suppress(Error):  # it waits no more
            self._ask("answer", question=question["id"], allow=allow, reason=reason)

    def _fail(self, error, id=None):
        for i in [id] if id else list(self._answers):  # without an id it may be about any of them
            self._answers.pop(i, Future()).set_exception(KINDS.get(error["kind"], Error)(error))


class Output:
    """What has come of a command and has not been taken."""

    def __init__(self, session, streams=()):
        self._session, self._id, self._streams = session, next(session._ids), set(streams)
        self._pieces, self._bounded, self._over = collections.deque(), True, False
        session._outputs[self._id] = self

    def __iter__(self):
        return iter(self._take, None)

    def _take(self):
        with self._session._change:
            if not self._pieces and not self._over:
                with self._session._demand():
                    self._session._change.wait_for(lambda: self._pieces or self._over)
            self._session._change.notify_all()
            return self._pieces.popleft() if self._pieces else None

    def _put(self, event):
        if "closed" in event:
            self._streams.discard(event["closed"])
            if not self._streams:
                self._end()
            return
        with self._session._change:
            self._pieces.extend((name, _unpack(event[name])) for name in ("stdout", "stderr") if name in event)
            self._session._change.notify_all()
            self._session._change.wait_for(
                lambda: not self._bounded or len(self._pieces) < UNREAD or any(output is not self for output in self._session._demands)
            )

    def _end(self):
        with self._session._change:
            self._over = True
            self._session._outputs.pop(self._id, None)
            self._session._change.notify_all()


class Process(Output):
    """A long-lived command. Iterating yields its output as it comes, as pairs of "stdout" or "stderr" and the text."""

    def __init__(self, session, args, options):
        super().__init__(session, ["stdout"] if options.get("terminal") else ["stdout", "stderr"])
        self._lock, self._ended = threading.Lock(), None
        try:
            with session._demand():
                session._send(self._id, "start", {"args": args or None, **options}).result()
        except BaseException:
            self._end()
            raise

    def write(self, data, eof=False):
        """Writes to its standard input, and waits until it has been taken."""
        self._ask("write", data=_pack(data), eof=eof)

    def signal(self, name):
        """Sends a signal, such as "TERM"."""
        self._ask("signal", signal=name)

    def kill(self):
        """Ends it and all that it has started, if it has not ended."""
        self._bounded = False  # there will be little more
        with contextlib.suppress(Closed):
            self._ask("cancel")

    def wait(self):
        """Returns its Result when it has ended. If it writes much, iterate first: it cannot end while it has to wait."""
        with self._lock:
            self._ended = self._ended or self._session._send(next(self._session._ids), "wait", {"of": self._id})
        with self._session._demand(self):
            return Result(self._ended.result())

    def _ask(self, op, **fields):
        if self._ended and self._ended.done():
            raise Closed({"kind": "closed", "text": "the process has ended"})
        self._session._ask(op, of=self._id, **fields)


def _pack(data):
    return {"base64": base64.b64encode(data).decode()} if isinstance(data, bytes) else data


def _unpack(data):
    return base64.b64decode(data["base64"]) if isinstance(data, dict) else data
