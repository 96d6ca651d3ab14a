package main

const sessionHelp = `nsrun session [--schema] [--audit FILE]

Keeps sandboxes open for a program in any language, which starts it once and talks with it: each line of its
standard input is a request, each line of its standard output an answer or an event, each a JSON object. A
command in an open session costs about one fork. When standard input ends, the requests before its end are
carried out and answered, then all is closed. When nobody can read standard output any more, all ends at once.

FLAGS
A request has an "id" of the client's choice, a string or an integer, and an "op"; its one answer has the same
id, and "ok" with an object or "error". Requests are carried out at the same time and answered in any order; one
that refers to another may follow it at once. An id may be used again when its answer is there.

Lines that are written all at once, as by a shell's pipe, need no client: answers that come after the end of the
input come in the order of requests. A process's standard input then ends after the last write. A wait and a
write, which have no timeout, hold up a close or the end for 30 s at most, a client that reads nothing for 10 s.

  open     "manifest": PATH, or "policy": {...} as in a manifest, with "dir" for its relative "code"
           ok: session, dir (where commands start), backend, receipt (holds, lost, notes)
             "ask": "30s"       ask about each connection that no rule of the network allow allows, by an event;
                                it waits for the answer, so long at most, and is refused then
             "refusals": true   send what the network allow refuses as it happens, by events
  exec     runs a command, and answers when it has ended
             "args": ["prog", "arg"] or "shell": "script"; one of them
             "stdin"            what it reads (default nothing)
             "env": {"N": "v"}  further variables
             "labels": {"n": "v"}  words for the rows of audit logs, besides the policy's
             "cwd"              a path inside
             "timeout"          seconds, or as "1m30s"; at most the policy's, 30s if that does not say
             "max_output"       bytes of each stream to collect (default 1048576, at most 16777216)
             "stream": true     send output as it comes, by events, and not in the answer
             "encoding": "base64"  send output in base64 always
             "terminal": {"rows": 24, "cols": 80}  give it a terminal
             "fresh": true      end all that runs in the session first, and empty its private file systems
             "receipt": true    add what was on
             "explain": "off"   report less of what was refused than the session's manifest says: off, on or all
           ok: the result of nsrun run --result: verdict, code, exit_status or signal, wall_ms, ..., denials,
           which are what was refused if the manifest says "explain"; and stdout, stderr, stdout_bytes,
           stderr_bytes, and stdout_truncated or stderr_truncated if there was more
  start    starts a process and answers when it runs; args or shell, env, labels, cwd, terminal, encoding,
           explain. No timeout counts for it but a ceiling's, and no output_bytes but one that was asked for.
           Its output comes as events. The following refer to it by "of": the id of its start
  write    "data" to its standard input; "eof": true closes that
  signal   "signal": "TERM" to the process
  resize   "terminal": the new size
  wait     answers when it has ended; ok as of exec, without output. Its id is free again, and its place among
           the processes, when this is answered and both of its streams are closed
  cancel   ends the exec, or the process and all that it has started, or whatever else has the id "of"
  resolve  "path": a path inside; "access": "read" or "write". ok: path, of the host. A command that runs can
           make it lead elsewhere before it is opened: resolve and open it while nothing untrusted runs
  allow    "rules": [...], what the network allow can reach from now on, instead of the rules before;
           connections that they do not allow are reset. ok: rules
  answer   "allow": "once", "session" (by a rule from now on) or "deny", with a "reason", to the question whose
           id "question" is
  close    closes one "session", or without that all, when the requests before it that belong to it are carried
           out; its processes are ended then. "now": true ends those requests instead. ok: closed, the names,
           when nothing of them is alive; protected_changed, what has changed that makes the host run something
  ping     ok: protocol (1), version

open, exec, start, resolve, allow, answer and close take "session", the name of one of several; the default is
"".

Bytes ("stdin", "data", "stdout", "stderr") are a string if they are UTF-8, and {"base64": "..."} otherwise, in
both directions. An event has the id of the exec or start that it belongs to, and "stdout" or "stderr" with what
was written, or, for a start, "closed" with the name of a stream that has ended. What the client does not read
makes only its writers wait. An event of a network has no id, but "session", and "refused" with a denial as in
results, or "question" with its id, name or address, port, and the rule that would allow it.

A command that ran is never an error, whatever its exit code. An error has "kind", "text", and often "fix":

  refused        the policy does not allow it, or cannot be enforced here: field, unmet
  not-found      there is no such program in the sandbox: name
  setup          a step on the way to the command failed: step; "exec" if the program cannot be executed
  protocol       the line is no request: field. The id is null if it had none that could be used
  closed         what it is about is not open, has ended, or was cancelled

There may be 256 processes, and in flight 256 waits, 256 requests of cancel, signal, resize, close and ping, 256
of all others, and together 64 MiB of lines; what is above is an error. A line has at most 16 MiB.

Output of exec that is collected has 512 MiB together: each counts with twice its max_output while it runs, and
with what there is until the client has read the answer. One that finds no room waits to start, and its timeout
does not count until then.

NSRUN_FALLBACK, NSRUN_REQUIRE, NSRUN_AUDIT and NSRUN_CEILING count as in run; with
NSRUN_SANDBOX=0 no session is opened.

Exit codes: 0 standard input ended; 125 standard output is gone, or nobody reads it; 128+n signal n.

Example:
  nsrun session          lines with > are what the client writes
  > {"id": 1, "op": "open", "policy": {"workspace": "/home/me/project"}}
  {"id":1,"ok":{"session":"","dir":"/home/me/project","backend":"native","receipt":{"backend":"native",...}}}
  > {"id": 2, "op": "exec", "args": ["wc", "-c"], "stdin": "hello"}
  {"id":2,"ok":{"version":1,"verdict":"ok","code":0,"exit_status":0,"wall_ms":1.3,...,"stdout":"5\n",...}}
  > {"id": 3, "op": "exec", "args": ["no-such-program"]}
  {"id":3,"error":{"kind":"not-found","text":"exec: no-such-program: command not found in the sandbox:...
  > {"id": 4, "op": "start", "args": ["cat"]}
  {"id":4,"ok":{"started":true}}
  > {"id": 5, "op": "write", "of": 4, "data": "ping\n"}
  {"id":5,"ok":{}}
  {"id":4,"stdout":"ping\n"}

Clients for Python and Node are in examples/python and examples/node.
`
