#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Writes a software bill of materials: CycloneDX 1.5, JSON. Packages of Debian are described by dpkg's database.

    sbom.py --version VERSION [--name NAME] [--file PATH]... [--control DEB]... [--merge FILE]... -o FILE

--file     a file that belongs to the product; its component has its name, size and SHA-256
--control  a .deb; the packages of Debian that it depends on are components
--merge    a document of this program whose components are added
The same arguments, files and packages give the same bytes: the time is SOURCE_DATE_EPOCH.
"""
import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import urllib.parse
import uuid
from datetime import datetime, timezone

_NAMESPACE = uuid.UUID("6d4f2d3e-5f0a-4c5b-9d0e-2a1f7c9b8e30")
PROJECT_LICENCE = "MIT AND GPL-2.0-only AND GPL-2.0-or-later AND CC-BY-4.0"


class UnknownPackage(Exception):
    """Neither dpkg nor apt has the package."""


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _distribution():
    """The vendor and the release of this system, as package URLs name them: "debian", "debian-12"."""
    values = {"ID": "debian", "VERSION_ID": "unknown"}
    with open("/etc/os-release", encoding="utf-8") as file:
        for line in file:
            key, _, value = line.strip().partition("=")
            values[key] = value.strip('"')
    return values["ID"], f"{values['ID']}-{values['VERSION_ID']}"


def licence_names(text):
    """Short names of a machine-readable copyright file, in the order of their first use; none in others."""
    if not text.startswith("Format:"):
        return []
    names = re.findall(r"^License:[ \t]*(\S.*)$", text, re.MULTILINE)
    return list(dict.fromkeys(name.strip() for name in names))


def _installed(package):
    """Name, version, architecture, source, its version and homepage of an installed package; None of others."""
    form = ("${db:Status-Status}|${binary:Package}|${Version}|${Architecture}|${source:Package}|${source:Version}|"
            "${Homepage}")
    found = subprocess.run(["dpkg-query", "-W", "-f", form, package], capture_output=True, text=True, check=False)
    if found.returncode != 0 or not found.stdout.startswith("installed|"):
        return None
    return found.stdout.split("|")[1:]


def _available(package):
    """The same of a package that apt would install; None where there is none."""
    found = subprocess.run(["apt-cache", "show", "--no-all-versions", package], capture_output=True, text=True,
                           check=False)
    fields = dict(re.findall(r"^([A-Z][\w-]*): (.*)$", found.stdout, re.MULTILINE))
    if found.returncode != 0 or "Version" not in fields:
        return None
    source = re.fullmatch(r"(\S+)(?: \((\S+)\))?", fields.get("Source", package))
    return [package, fields["Version"], fields["Architecture"], source[1], source[2] or fields["Version"],
            fields.get("Homepage", "")]


def debian_component(package):
    """The component of a package as it is installed, or as apt would install it."""
    found = _installed(package) or _available(package)
    if not found:
        raise UnknownPackage(f"{package}: neither dpkg nor apt has this package")
    name, version, architecture, source, source_version, homepage = found
    name = name.split(":")[0]
    vendor, distribution = _distribution()
    url = f"pkg:deb/{vendor}/{name}@{urllib.parse.quote(version, safe='')}"
    component = {
        "type": "library", "bom-ref": url, "name": name, "version": version,
        "purl": f"{url}?arch={architecture}&distro={distribution}",
        "properties": [{"name": "debian:source", "value": f"{source} {source_version}"}],
    }
    try:
        with open(f"/usr/share/doc/{name}/copyright", encoding="utf-8", errors="replace") as file:
            licences = licence_names(file.read())
    except FileNotFoundError:
        licences = []
    if licences:
        component["licenses"] = [{"license": {"name": licence}} for licence in licences]
    if homepage:
        component["externalReferences"] = [{"type": "website", "url": homepage}]
    return component


def file_component(path, name):
    """The component of a file of the product."""
    sha256 = digest(path)
    return {"type": "file", "bom-ref": f"sha256:{sha256}:{name}", "name": name,
            "hashes": [{"alg": "SHA-256", "content": sha256}],
            "properties": [{"name": "size", "value": str(os.path.getsize(path))}]}


def dependencies_of(deb):
    """Names of the packages that a .deb depends on; of alternatives the first."""
    found = subprocess.run(["dpkg-deb", "-f", deb, "Pre-Depends", "Depends"], capture_output=True, text=True,
                           check=True)
    names = set()
    for line in found.stdout.splitlines():
        for entry in line.partition(": ")[2].split(","):
            names.update(re.findall(r"^\s*([a-z0-9][a-z0-9.+-]+)", entry))
    return names


def document(name, version, licence, components):
    """The whole document, as text."""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    product = {"type": "application", "bom-ref": f"{name}@{version}", "name": name, "version": version,
               "licenses": [{"expression": licence}]}
    unique = {component["bom-ref"]: component for component in components}
    components = sorted(unique.values(), key=lambda component: (component["type"], component["bom-ref"]))
    content = {
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": product,
        },
        "components": components,
        "dependencies": [{"ref": product["bom-ref"], "dependsOn": [item["bom-ref"] for item in components]}],
    }
    serial = uuid.uuid5(_NAMESPACE, json.dumps(content, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": "1.5", "serialNumber": f"urn:uuid:{serial}", "version": 1}
    return json.dumps({**head, **content}, indent=2) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="sbom.py", description="writes a software bill of materials")
    parser.add_argument("--name", default="qnpu")
    parser.add_argument("--version", required=True)
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--control", action="append", default=[])
    parser.add_argument("--merge", action="append", default=[])
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    own = {os.path.basename(path).split("_")[0] for path in options.control}
    packages = set()
    for deb in options.control:
        packages |= dependencies_of(deb)
    try:
        components = [debian_component(name) for name in sorted(packages - own)]
        components += [file_component(path, path) for path in options.file]
        for path in options.merge:
            with open(path, encoding="utf-8") as file:
                components += json.load(file)["components"]
    except (UnknownPackage, OSError, ValueError, KeyError) as error:
        sys.exit(f"sbom.py: {error}")
    with open(options.output, "w", encoding="utf-8") as file:
        file.write(document(options.name, options.version, PROJECT_LICENCE, components))


if __name__ == "__main__":
    main()
