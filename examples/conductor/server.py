"""A server in the manner of MCP: one JSON-RPC request a line. It listens on each of the Unix sockets that are named."""

import json
import os
import socketserver
import sys
import threading


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        name = os.path.basename(self.server.server_address).removesuffix(".sock")
        for line in self.rfile:
            request = json.loads(line)
            answer = {"jsonrpc": "2.0", "id": request["id"]}
            if request["method"] == "tools/list":
                answer["result"] = {"tools": [{"name": f"{name}/find"}, {"name": f"{name}/add"}]}
            else:
                answer["error"] = {"code": -32601, "message": "method not found"}
            self.wfile.write(json.dumps(answer).encode() + b"\n")


servers = [socketserver.ThreadingUnixStreamServer(path, Handler) for path in sys.argv[1:]]
for server in servers:
    threading.Thread(target=server.serve_forever).start()
print("ready", flush=True)
