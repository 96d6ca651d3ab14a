"""An agent runtime in small. An executor is a directory with a manifest and a program that takes JSON and gives JSON.

    python3 examples/wrap/agent.py           by nsrun, which is on PATH or named by the variable NSRUN
    python3 examples/wrap/agent.py bwrap     as it was before
"""

import json
import os
import shutil
import subprocess
import sys

NSRUN = os.environ.get("NSRUN") or "nsrun"
SYSTEM = "/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/etc", "/opt", "/var/lib/python3"


class Refused(Exception):
    """The call was not made: nsrun says why, and what to do."""


def bwrap(executor, argv, extra_ro=(), extra_rw=()):
    """What it was: each bind by hand, the whole environment, and no filter, Landlock or limits."""
    prefix = ["bwrap", "--unshare-all", "--die-with-parent", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for path in (*SYSTEM, *extra_ro):
        prefix += ["--ro-bind-try", path, path]
    for path in extra_rw:
        prefix += ["--bind-try", path, path]
    return [*prefix, "--ro-bind", executor, executor, "--chdir", executor, "--", *argv]


def wrap(executor, argv, extra_ro=(), extra_rw=()):
    """What it is: the executor's manifest says what it may do, and an operator's ceiling what at most."""
    ask = [NSRUN, "wrap", "--null", "--manifest", os.path.join(executor, "manifest.json")]
    for flag, paths in (("--ro", extra_ro), ("--rw", extra_rw)):
        for path in paths:
            ask += [flag, path]
    try:
        done = subprocess.run([*ask, "--", *argv], stdin=subprocess.DEVNULL, capture_output=True)
    except OSError as err:
        raise Refused(f"{err}; put nsrun on PATH, or name it by NSRUN") from err
    if done.returncode:
        raise Refused(done.stderr.decode(errors="replace").strip())
    return [os.fsdecode(word) for word in done.stdout.split(b"\0")[:-1]]


def status():
    """Whether calls are sandboxed here and now, and why not. A look-up that fails counts as none."""
    path = shutil.which(NSRUN)
    try:
        done = subprocess.run([NSRUN, "status", "--json"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
        said = json.loads(done.stdout) if done.returncode == 0 else {"why": done.stderr.decode(errors="replace").strip()}
    except (OSError, ValueError, subprocess.TimeoutExpired) as err:
        said = {"why": str(err)}
    return {"available": path is not None, "path": path, "active": said.get("active", False), "backend": said.get("backend"),
            "disabled": said.get("disabled"), "why": said.get("why")}


def call(executor, request, prefix=wrap):
    """Hands a request to the executor's program. The change from bwrap to nsrun is the word before (executor, ...)."""
    argv = prefix(executor, ["python3", os.path.join(executor, "main.py")])
    # What is killed here takes the whole sandbox with it; the manifest has a time limit of its own.
    done = subprocess.run(argv, input=json.dumps(request), capture_output=True, text=True, timeout=30)
    if done.returncode == 125:  # a program can end with 125 too: where that matters, let --result FD:n tell
        raise Refused(done.stderr.strip())
    if done.returncode:
        return {"error": f"exit status {done.returncode}: {done.stderr.strip()}"}
    return json.loads(done.stdout)


def main(prefix):
    here = status()
    if prefix is wrap and not here["active"]:  # a deployment that insists
        sys.exit(f"no sandbox: {here['disabled'] or here['why']}")
    print("sandbox:", here["backend"] if prefix is wrap else "bwrap")
    executor = os.path.join(os.path.dirname(os.path.abspath(__file__)), "words")
    os.environ["AGENT_API_KEY"] = "sk-example"
    for task in "count", "write", "look", "connect", "secret":
        print(f"{task}: {json.dumps(call(executor, {'task': task}, prefix))}")
    if prefix is wrap:
        try:
            wrap(executor, ["true"], extra_ro=["/"])
        except Refused as why:
            print(f"too much: {why}")


if __name__ == "__main__":
    main(bwrap if sys.argv[1:] == ["bwrap"] else wrap)
