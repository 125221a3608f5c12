# SPDX-License-Identifier: Apache-2.0
"""A backend that means harm: the page of a real server, and answers that try to become more than text."""
import http.server
import json
import threading
import urllib.request

HARM = """# <script>window.harmed = 1</script>
<img src=x onerror="window.harmed = 1"> <svg onload="window.harmed = 1">
[a](javascript:window.harmed=1) [b]( JaVaScRiPt:window.harmed=1) [c](data:text/html,<script>window.harmed=1</script>)
[d](vbscript:x) ![e](http://127.0.0.1:9/x.png) <iframe srcdoc="<script>parent.harmed=1</script>"></iframe>
- <style>body { display: none }</style>
> <base href="http://127.0.0.1:9/"><form action="http://127.0.0.1:9/"><button>

| <script>window.harmed = 1</script> | `<b>` |
|---|---|
| [f](javascript:window.harmed=1) | **<u>** |

```<script>
</code></pre><script>window.harmed = 1</script>
```
[good](https://example.org/a?b=c)"""
CALLED = "<img src=x onerror='window.harmed = 1'>"
MODEL = "<img src=x onerror='window.harmed = 1'>"
LIES = [None, "spans", {}, [[-1, "draft"], [1e300, "draft"], [1, "<b>"], ["x", "run"], [2], None, [3, "run"]]]


def event(text, **told):
    out = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
    if told:
        out["foretoken"] = told
    return b"data: " + json.dumps(out, ensure_ascii=False).encode() + b"\n\n"


def call(index, **function):
    out = {"index": index, "function": function}
    if "name" in function:
        out |= {"id": f"call{index}", "type": "function"}
    return b"data: " + json.dumps({"choices": [{"delta": {"tool_calls": [out]}}]}).encode() + b"\n\n"


def told(spans, i=1):
    return {"spans": spans, "round": i, "ms": i, "kind": "tree", "drafted": 3, "accepted": 1, "tokens": 2,
            "rejected": ["<img src=x onerror='window.harmed = 1'>", 7, None]}


def answer(prompt):
    """The bytes of a stream, in the pieces in which they are sent."""
    if prompt == "harm":
        half = HARM[:300]
        yield event(half, **told([[len(half.encode()), "draft"]]))
        yield event(HARM[300:], **told([[len(HARM[300:].encode()), "target"]], 2))
    elif prompt == "half":
        whole = event("é𝄞…", **told([[1, "draft"], [5, "target"], [3, "run"]]))
        for i in range(len(whole)):  # each byte alone
            yield whole[i:i + 1]
        yield b'data: {"choices":[{"delta":{"content":"<\xc3\xff>"}}]}\n\n'
        for i, lie in enumerate(LIES):
            yield event("x", **told(lie, i + 2))
    elif prompt == "long":
        yield event("<b>" + "a" * 1000000)
    elif prompt == "marks":
        for mark in ("*", "_", "`", "[", "](", "> ", "- ", "|", "~~", "**a", "![", "https://"):
            yield event("\n\n" + mark * 8000)
        yield event("\n\nend")
    elif prompt == "junk":
        yield event("so far")
        yield b"data: {not json\n\n"
    elif prompt == "call":
        yield event("I look.")
        yield call(7, name="out of turn")
        yield call(0, name=CALLED, arguments='{"city": "Oslo\\", {",')
        yield b'data: {"choices":[{"delta":{"tool_calls":[7,{"index":-1},{"index":"0"},{"index":0,"function":[]}]}}]}\n\n'
        yield call(0, arguments=' "days": [1, {}]}')
        yield call(1, name="clock", arguments="{}")
    elif prompt == "error":
        yield b'data: {"error":{"message":"<script>window.harmed = 1</script>"}}\n\n'
    else:
        yield event("well")
    yield b"data: [DONE]\n\n"


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def reply(self, headers, body):
        self.send_response(200)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        for piece in body:
            self.wfile.write(piece)
            self.wfile.flush()

    def do_GET(self):
        if self.path == "/":
            with urllib.request.urlopen(self.server.page) as r:
                wanted = ("content-type", "content-security-policy")
                self.reply([(k, v) for k, v in r.headers.items() if k.lower() in wanted], [r.read()])
        else:
            self.reply([("Content-Type", "application/json")], [json.dumps({"data": [{"id": MODEL}]}).encode()])

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        self.reply([("Content-Type", "text/event-stream")], answer(request["messages"][-1]["content"]))


def start(page):
    """Serves the page at this URL; returns the server, whose `url` is its own."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.page = page
    server.requests = []
    server.url = f"http://127.0.0.1:{server.server_address[1]}/"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
