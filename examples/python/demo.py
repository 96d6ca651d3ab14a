"""What a program can do with nsrun_session. Run it as python3 examples/python/demo.py."""

import tempfile

from nsrun_session import NotFound, Refused, Session

with tempfile.TemporaryDirectory() as workspace:
    policy = {"workspace": workspace, "workspace_at": "/workspace", "limits": {"timeout": "10s"}}
    with Session(policy=policy) as session:
        result = session.exec("echo", "hello")
        print("a warm command:", result.stdout.strip())

        result = session.exec(shell="tr a-z A-Z >loud.txt && wc -c <loud.txt", stdin="a file in the workspace")
        with open(session.resolve("loud.txt")) as file:  # nothing runs in the sandbox now that could put a link there
            print("it has read and written:", result.stdout.strip(), "bytes,", file.read())

        try:
            session.exec("true", timeout=60)
        except Refused as error:
            print("refused:", error.field)

        try:
            session.exec("no-such-program")
        except NotFound as error:
            print("not installed:", error.name)

        result = session.exec(shell="echo the reason >&2; exit 3")
        print("it ran and failed:", result.code, result.stderr.strip())

        result = session.exec("sleep", "30", timeout=0.3)
        print("it took too long:", result.verdict, result.code)

        server = session.start(shell="while read n; do echo $((n * n)); done")
        for number in (7, 8):
            server.write(f"{number}\n")
        server.write("", eof=True)
        answers = "".join(text for _, text in server)
        print("a server has answered:", *answers.split())
        print("and has ended:", server.wait().verdict)
print("all is closed")
