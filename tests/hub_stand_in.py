"""The requests of publishing to the Hugging Face hub, answered on loopback; commits are kept in
memory."""

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import yaml


def problems_of(card: str) -> list[str]:
    """Return the problems of a card's metadata that the hub documents as errors."""
    facts = yaml.safe_load(card.split("---")[1])
    named = [facts[key] for key in ("base_model", "datasets") if key in facts]
    ids = [one for name in named for one in ([name] if isinstance(name, str) else name)]
    problems = [
        f"{one!r} is no id of the hub" for one in ids if not re.fullmatch(r"[\w-]+/[\w.-]+", one)
    ]
    if facts.get("license", "mit") not in ("mit", "apache-2.0"):
        problems.append('"license" must be one of [mit, apache-2.0, ...]')
    results = [result for model in facts.get("model-index", []) for result in model["results"]]
    problems += [
        f"{one} is no dataset"
        for one in results
        if not re.fullmatch(r"[\w./-]+", one["dataset"]["type"])
    ]
    return problems


PRIVATE = {"me/hidden"}


@contextmanager
def hub() -> Iterator[tuple[str, dict[str, dict[str, bytes]]]]:
    """Yield the address of a hub, and its repositories: name -> file -> content."""
    repositories: dict[str, dict[str, bytes]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            name = "/".join(self.path.split("/")[3:5])
            if self.path == "/api/repos/create":
                asked = json.loads(body)
                name = f"{asked['organization']}/{asked['name']}"
                repositories.setdefault(name, {})
                self.answer({"url": f"{address}/{name}", "id": name})
            elif "/preupload/" in self.path:
                files = [
                    {"path": file["path"], "uploadMode": "regular"}
                    for file in json.loads(body)["files"]
                ]
                self.answer({"files": [file | {"shouldIgnore": False} for file in files]})
            elif "/commit/" in self.path:
                for line in map(json.loads, body.splitlines()):
                    if line["key"] == "file":
                        repositories[name][line["value"]["path"]] = base64.b64decode(
                            line["value"]["content"]
                        )
                sha = "0" * 40
                self.answer({"commitUrl": f"{address}/{name}/commit/{sha}", "commitOid": sha})
            else:  # validate-yaml
                errors = [
                    {"message": problem} for problem in problems_of(json.loads(body)["content"])
                ]
                self.answer({"errors": errors, "warnings": []}, 400 if errors else 200)

        def do_GET(self) -> None:
            name = "/".join(self.path.split("/")[3:5])
            self.answer({"id": name, "private": name in PRIVATE, "sha": "0" * 40})

        def answer(self, content: dict, status: int = 200) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield address, repositories
    finally:
        server.shutdown()
        server.server_close()
