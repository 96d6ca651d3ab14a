"""What the demo does not show; TestSessionClients runs it."""

import os
import sys
import threading
import time

from nsrun_session import Closed, NotFound, Refused, Session

policy = {"workspace": sys.argv[1], "limits": {"timeout": "60s"}}


def tell(what, call, *args, **options):
    try:
        call(*args, **options)
        print(what, "was done")
    except (Closed, NotFound, Refused, TypeError) as error:
        print(what, type(error).__name__, str(error))


with Session(policy=policy) as session:
    items = list(session.stream(shell="echo out; exit 3", timeout=60))
    print("stream", items[0], items[-1][1].verdict, items[-1][1].code)
    print("stream", list(session.stream("sleep", "30", timeout=0.3))[-1][1].verdict)
    tell("exec", session.exec, "true", stream=True)
    tell("timeout", session.exec, "true", timeout=99)
    tell("start", session.start, "no-such-program")
    tell("stream", lambda: list(session.stream("no-such-program")))

    for _ in session.stream(shell="while :; do echo more; done"):
        break
    print("left", session.exec(shell="cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'echo [m]ore'").stdout.strip())
    assert not session._outputs and not session._answers

    noisy = session.start(shell="yes 0123456789012345678901234567890123456789")
    time.sleep(1)
    print("bounded", "true" if len(noisy._pieces) <= 256 else len(noisy._pieces))
    print("others", session.exec("echo", "answered").stdout.strip())
    print("others", list(session.stream("echo", "streamed"))[0][1].strip())
    quiet = session.start("true")
    print("others", quiet.wait().verdict)
    noisy.kill()
    print("killed", noisy.wait().verdict)
    noisy.kill()

    long = session.start(shell="head -c 30000000 /dev/zero | tr '\\0' x; echo")
    ended = threading.Thread(target=long.wait)
    ended.start()
    time.sleep(0.5)
    print("all of it", sum(len(text) for _, text in long))
    print("again", len(list(long)))
    ended.join()
    print("same", "true" if long.wait() == long.wait() else "false")
    tell("write", long.write, "x")
    tell("signal", long.signal, "TERM")
    noisy = session.start("yes")
    time.sleep(0.2)
print("closed", "true" if list(noisy) and not session._outputs else "false")
tell("wait", noisy.wait)

os.environ["NSRUN"] = "/nowhere/nsrun"
try:
    Session()
except FileNotFoundError:
    print("no nsrun FileNotFoundError")
