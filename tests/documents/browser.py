# SPDX-License-Identifier: MIT
"""Runs a page's script in a headless browser, beside the files of a folder, and returns the script's report."""
import http.server
import json
import os
import subprocess
import threading

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server"]
HANGS = 1800  # seconds after which the browser counts as hung

# Functions of all scripts; `report` ends the run.
PRELUDE = """
const frame = document.createElement("iframe");
frame.width = 1200;
frame.height = 900;
const open = url => new Promise(done => { frame.onload = () => done(frame.contentDocument); frame.src = url; });
const until = condition => new Promise(done => {
  const look = () => condition() ? done() : setTimeout(look, 20);
  look();
});
const report = result => fetch("/__result__", {method: "POST", body: JSON.stringify(result)});
const start = main => addEventListener("load", () => {
  document.body.append(frame);
  main().then(report).catch(error => report({error: String(error) + " " + error.stack}));
});
"""


class Server(http.server.ThreadingHTTPServer):
    """Serves a folder and the page with the script, and keeps the report."""
    daemon_threads = True

    def __init__(self, folder, script):
        self.result, self.done, self.missing = None, threading.Event(), []
        server = self
        page = ('<!doctype html><meta charset="utf-8"><title>test</title>'
                f"<script>{PRELUDE}{script}</script><body></body>")

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=folder)

            def log_message(self, *_):
                pass

            def log_error(self, *_):
                server.missing.append(self.path)

            def do_GET(self):
                if self.path != "/__test__.html":
                    super().do_GET()
                    return
                body = page.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                server.result = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(204)
                self.end_headers()
                server.done.set()

        super().__init__(("127.0.0.1", 0), Handler)


def run(folder, script, profile):
    """The script's report, and the paths that the folder lacks. The report has a member `error` where the script
    failed; without one the browser ended or hung."""
    os.makedirs(profile, exist_ok=True)
    server = Server(folder, script)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/__test__.html"
    command = ["chromium", *FLAGS, "--user-data-dir=" + profile, url]
    with open(os.path.join(profile, "chromium.log"), "wb") as log, \
            subprocess.Popen(command, stdout=log, stderr=log) as browser:
        try:
            for _ in range(HANGS):
                if server.done.wait(1) or browser.poll() is not None:
                    break
        finally:
            browser.terminate()
    server.shutdown()
    return server.result or {"error": f"the browser ended, or sent no report in {HANGS} s"}, server.missing


class Results:
    """Counts checks, and prints one line for each problem."""
    passed = failed = 0

    def check(self, name, problems):
        for problem in problems:
            print(f"FAIL {name}: {problem}")
        if problems:
            self.failed += 1
        else:
            self.passed += 1
            print(f"ok {name}")
