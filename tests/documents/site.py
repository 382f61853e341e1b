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
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

sys.dont_write_bytecode = True
import browser  # noqa: E402  pylint: disable=wrong-import-position

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SEARCHES = [("semaphore", "docs/reference/hardware.html"), ("invalidate", "docs/explanation/caches.html"),
            ("quantization", "docs/reference/compiler.html")]

# Visits all pages from index.html on, each in a frame, and reports what it sees.
CRAWLER = """
async function crawl() {
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
  return result;
}
start(crawl);
"""


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


def crawl(site, profile):
    """The crawler's report."""
    return browser.run(site, CRAWLER.replace("WORDS", json.dumps([word for word, _ in SEARCHES])), profile)


def search_from_files(site, profile, word):
    """Links of the result list of a search without a server."""
    url = "file://" + urllib.parse.quote(os.path.join(site, "search.html")) + "?q=" + word
    command = ["chromium", *browser.FLAGS, "--user-data-dir=" + profile, "--virtual-time-budget=20000", "--dump-dom",
               url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=browser.HANGS)
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
        results, pages = browser.Results(), html_pages(site)
        foreign = []
        for page in pages:
            parser = Foreign()
            with open(os.path.join(site, page), encoding="utf-8") as file:
                parser.feed(file.read())
            foreign += [f"{page}: {url}" for url in parser.found]
        results.check("no page loads anything from another host", foreign)
        profile = os.path.join(work, "profile")
        report, missing = crawl(site, profile)
        if "error" in report:
            results.check("the browser visits all pages", [report["error"]])
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
