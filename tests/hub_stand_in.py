"""The requests of publishing to the Hugging Face hub, answered on loopback; commits are kept in memory."""

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import yaml

Files = dict[str, bytes]


def problems_of(card: str) -> list[str]:
    """What the hub refuses in the metadata of a model's card, as far as its documentation says."""
    facts = yaml.safe_load(card.split("---")[1])
    named = [facts[key] for key in ("base_model", "datasets") if key in facts]
    ids = [one for name in named for one in ([name] if isinstance(name, str) else name)]
    problems = [f"{one!r} is no id of the hub" for one in ids if not re.fullmatch(r"[\w-]+/[\w.-]+", one)]
    if facts.get("license", "mit") not in ("mit", "apache-2.0", "cc-by-4.0", "other"):
        problems.append(f'"license" must be one of [mit, apache-2.0, ...], not {facts["license"]}')
    for model in facts.get("model-index", []):
        for result in model["results"]:
            data = result["dataset"]
            whole = result["task"]["type"] and data["name"] and re.fullmatch(r"[\w./-]+", data["type"])
            if not whole or not all(one["type"] and isinstance(one["value"], float) for one in result["metrics"]):
                problems.append(f"model-index: {result} lacks a field")
    return problems


@contextmanager
def hub() -> Iterator[tuple[str, dict[str, Files]]]:
    """The address of a hub, and its repositories: name -> file -> content."""
    repositories: dict[str, Files] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/api/repos/create":
                asked = json.loads(body)
                name = f"{asked.get('organization') or 'me'}/{asked['name']}"
                repositories.setdefault(name, {})
                self.answer({"url": f"{address}/{name}", "id": name})
            elif "/preupload/" in self.path:
                files = [
                    {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                    for file in json.loads(body)["files"]
                ]
                self.answer({"files": files})
            elif "/commit/" in self.path:
                self.commit([json.loads(line) for line in body.splitlines()])
            else:  # validate-yaml
                errors = [{"message": problem} for problem in problems_of(json.loads(body)["content"])]
                self.answer({"errors": errors, "warnings": []}, 400 if errors else 200)

        def commit(self, lines: list[dict]) -> None:
            owner, name = self.path.split("/")[3:5]
            for line in lines:
                if line["key"] == "file":
                    repositories[f"{owner}/{name}"][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            self.answer({"commitUrl": f"{address}/{owner}/{name}/commit/{SHA}", "commitOid": SHA})

        def answer(self, content: dict | list, status: int = 200) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield address, repositories
    finally:
        server.shutdown()
        server.server_close()


SHA = "0123456789abcdef0123456789abcdef01234567"
