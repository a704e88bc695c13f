# needs: jq curl
cat > server.py <<'PY'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

PAGES = {
    "1": {"items": [{"id": 1, "name": "Tea", "price": 4.5}, {"id": 2, "name": "Cup"}], "next": 2},
    "2": {"items": [{"id": 3, "name": "Pot, blue", "price": 20}], "next": None},
}


class Handler(BaseHTTPRequestHandler):
    def answer(self, code, value):
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        page = parse_qs(urlsplit(self.path).query)["page"][0]
        self.answer(200, PAGES[page])

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        open("posted.json", "wb").write(body)
        self.answer(201, json.loads(body))

    def log_message(self, *args):
        pass


server = HTTPServer(("127.0.0.1", 0), Handler)
open("port", "w").write(str(server.server_address[1]))
server.serve_forever()
PY
python3 server.py &
server=$!
trap 'kill $server' EXIT
for _ in $(seq 500); do [ -s port ] && break; sleep 0.02; done
export API="http://127.0.0.1:$(cat port)"
