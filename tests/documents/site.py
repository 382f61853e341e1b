#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Opens the documentation's site in a headless browser: every page is reachable, no link is broken, no anchor is
missing, every image loads, no page loads anything from another host, and the search finds words, from a server and from
file:// alike.

usage: site.py [SITE]     SITE: a folder that scripts/site.py has written; default: it is written now

Needs Debian's chromium. The last line is "N passed, N failed".
"""
import glob
import html.parser
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server"]
HANGS = 1800  # seconds after which the browser counts as hung
SEARCHES = [("semaphore", "docs/reference/hardware.html"), ("invalidate", "docs/explanation/caches.html"),
            ("quantization", "docs/reference/compiler.html")]

# Visits all pages from index.html on, each in a frame, and reports what it sees.
CRAWLER = """<!doctype html><meta charset="utf-8"><title>crawler</title><script>
const frame = document.createElement("iframe");
frame.width = 1200;
frame.height = 900;
const open = url => new Promise(done => { frame.onload = () => done(frame.contentDocument); frame.src = url; });
const until = condition => new Promise(done => {
  const look = () => condition() ? done() : setTimeout(look, 20);
  look();
});
async function crawl() {
  document.body.append(frame);
  const todo = ["/index.html"], seen = new Set(todo), result = {pages: {}, problems: [], files: [], searches: {}};
  while (todo.length) {
    const page = todo.shift();
    const doc = await open(page);
    result.pages[page] = doc.title;
    if (!doc.querySelector("article, main, [role=main]")) result.problems.push(page + ": is no page");
    for (const image of doc.images)
      if (!image.complete || !image.naturalWidth) result.problems.push(page + ": image " + image.src);
    for (const link of doc.querySelectorAll("a[href]")) {
      const url = new URL(link.href);
      if (url.origin !== location.origin) continue;
      if (!url.pathname.endsWith(".html")) {
        if (!seen.has(url.pathname)) {
          seen.add(url.pathname);
          result.files.push(url.pathname);
          if (!(await fetch(url.pathname, {method: "HEAD"})).ok) result.problems.push(page + ": " + url.pathname);
        }
        continue;
      }
      if (!seen.has(url.pathname)) { seen.add(url.pathname); todo.push(url.pathname); }
      const anchor = decodeURIComponent(url.hash.slice(1));
      if (anchor) (result.anchors ??= []).push([page, url.pathname, anchor]);
    }
    result.ids ??= {};
    result.ids[page] = [...doc.querySelectorAll("[id]")].map(element => element.id);
  }
  for (const [page, target, id] of result.anchors ?? [])
    if (result.ids[target] && !result.ids[target].includes(id))
      result.problems.push(page + ": no anchor " + target + "#" + id);
  for (const word of WORDS) {
    const doc = await open("/search.html?q=" + word);
    await until(() => doc.querySelector("#search-results p.search-summary")?.textContent.match(/\\d|not match/));
    result.searches[word] = [...doc.querySelectorAll("#search-results li a")].map(link => new URL(link.href).pathname);
  }
  delete result.ids;
  delete result.anchors;
  await fetch("/__result__", {method: "POST", body: JSON.stringify(result)});
}
addEventListener("load", () => crawl().catch(
    error => fetch("/__result__", {method: "POST", body: JSON.stringify({error: String(error)})})));
</script><body></body>"""


class Server(http.server.ThreadingHTTPServer):
    """Serves the site and the crawler, and keeps what the crawler sends."""
    daemon_threads = True

    def __init__(self, site):
        self.result, self.done, self.missing = None, threading.Event(), []
        server = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=site)

            def log_message(self, *_):
                pass

            def log_error(self, *_):
                server.missing.append(self.path)

            def do_GET(self):
                if self.path != "/__crawl__.html":
                    super().do_GET()
                    return
                body = CRAWLER.replace("WORDS", json.dumps([word for word, _ in SEARCHES])).encode()
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


class Foreign(html.parser.HTMLParser):
    """Collects the resources that a page loads from another host."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        loads = tag in ("script", "img", "iframe", "source") or tag == "link" and attrs.get("rel") == "stylesheet"
        for name in ("src", "href"):
            if loads and re.match(r"(https?:)?//", attrs.get(name) or ""):
                self.found.append(attrs[name])


class Results:
    passed = failed = 0

    def check(self, name, problems):
        for problem in problems:
            print(f"FAIL {name}: {problem}")
        if problems:
            self.failed += 1
        else:
            self.passed += 1
            print(f"ok {name}")


def crawl(site, profile):
    """The crawler's report."""
    server = Server(site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/__crawl__.html"
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
    return server.result, server.missing


def search_from_files(site, profile, word):
    """Links of the result list of a search without a server."""
    url = "file://" + urllib.parse.quote(os.path.join(site, "search.html")) + "?q=" + word
    command = ["chromium", *FLAGS, "--user-data-dir=" + profile, "--virtual-time-budget=20000", "--dump-dom", url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANGS)
    return re.findall(r'href="([^"#?]*\.html)', done.stdout[done.stdout.find('id="search-results"'):])


def html_pages(site):
    generated = {"genindex.html", "search.html"}
    found = {os.path.relpath(path, site) for path in glob.glob(os.path.join(site, "**", "*.html"), recursive=True)}
    return sorted(found - generated)


def main():
    if not shutil.which("chromium"):
        raise SystemExit("site.py: chromium is missing: make setup SET=site")
    if sys.argv[1:] and not os.path.exists(os.path.join(sys.argv[1], "index.html")):
        raise SystemExit(f"site.py: {sys.argv[1]} is no site: it has no index.html (make site writes build/site)")
    with tempfile.TemporaryDirectory(prefix="npu-site-") as work:
        site = os.path.abspath(sys.argv[1]) if sys.argv[1:] else os.path.join(work, "site")
        if not sys.argv[1:]:
            subprocess.run([os.path.join(TOP, "scripts", "site.py"), "--output", site], check=True)
        results, pages = Results(), html_pages(site)
        foreign = []
        for page in pages:
            parser = Foreign()
            with open(os.path.join(site, page), encoding="utf-8") as file:
                parser.feed(file.read())
            foreign += [f"{page}: {url}" for url in parser.found]
        results.check("no page loads anything from another host", foreign)
        profile = os.path.join(work, "profile")
        os.mkdir(profile)
        report, missing = crawl(site, profile)
        if not report or "error" in report:
            nothing = f"the browser ended, or sent no report in {HANGS} s"
            results.check("the browser visits all pages", [str((report or {}).get("error", nothing))])
        else:
            lost = [f"not found: {path}" for path in missing if path != "/favicon.ico"]
            results.check("links, anchors and images", report["problems"] + lost)
            results.check("every page is reachable", sorted(set(pages) - {path[1:] for path in report["pages"]}))
            results.check(f"{len(report['pages'])} pages have titles",
                          [page for page, title in report["pages"].items() if not title])
            for word, page in SEARCHES:
                found = [path.lstrip("/") for path in report["searches"][word]]
                results.check(f"search for '{word}'", [] if page in found else [f"{page} is not among {found}"])
        word, page = SEARCHES[0]
        found = search_from_files(site, os.path.join(work, "profile-files"), word)
        results.check(f"search for '{word}' from file://", [] if page in found else [f"{page} is not among {found}"])
        print(f"{results.passed} passed, {results.failed} failed")
        return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
