cat > server.py <<'PY'
"""A model server in small: the OpenAI interface, with stream, tools and schemas."""
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def answer(self, data, kind="application/json"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        assert self.path == "/v1/models"
        self.answer(json.dumps({"object": "list", "data": [{"id": "tiny"}]}).encode())

    def do_POST(self):
        assert self.path == "/v1/chat/completions"
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert asked["model"] == "tiny" and asked["max_tokens"] == 100
        if asked.get("stream"):
            assert asked["stream_options"] == {"include_usage": True}
            parts = [{"choices": [{"delta": {"content": word}}]} for word in ("Tea ", "is ", "hot")]
            parts.append({"choices": [], "usage": {"completion_tokens": 3}})
            text = "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
            return self.answer(text.encode(), "text/event-stream")
        message = {"role": "assistant", "content": "ready"}
        if asked.get("tools"):
            call = {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
            message = {"content": None, "tool_calls": [{"id": "1", "type": "function", "function": call}]}
        if asked.get("response_format"):
            assert asked["response_format"]["json_schema"]["schema"]["required"] == ["city", "people"]
            message["content"] = '{"city": "Oslo", "people": 700000}'
        self.answer(json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode())


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
open("port", "w").write(str(server.server_address[1]))
server.serve_forever()
PY
python3 server.py &
server=$!
trap 'kill $server' EXIT
for _ in $(seq 500); do [ -s port ] && break; sleep 0.02; done
export SERVER="http://127.0.0.1:$(cat port)"
