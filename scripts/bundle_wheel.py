#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Makes a wheel self-contained.

    bundle_wheel.py WHEEL FOLDER    writes the wheel into FOLDER, prints its path

Shared libraries that every system of the wheel's platform has (PEP 600) stay outside. All others are copied into
qnpu.libs/ under a name with a hash of their content, so that they do not collide with libraries of other wheels.
Run paths are relative to each file. The platform tag names the oldest glibc that has all symbol versions. The licences
of the copied libraries and a bill of materials are in the folder .dist-info. The same files give the same bytes; the
time of the archive's members is SOURCE_DATE_EPOCH.
"""
import base64
import csv
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import sbom  # noqa: E402  pylint: disable=wrong-import-position

# Libraries of the platform.
PLATFORM = re.compile(r"(ld-linux.*|lib(c|m|mvec|dl|rt|pthread|util|resolv|nsl|anl))\.so\.\d+"
                      r"|libgcc_s\.so\.1|libstdc\+\+\.so\.6|libatomic\.so\.1|libz\.so\.1|libexpat\.so\.1")
# Newest symbol version of libstdc++ -> first glibc whose distributions have it.
LIBSTDCXX = ((29, (2, 34)), (30, (2, 35)), (32, (2, 38)), (33, (2, 39)))
EARLIEST = (2, 17)  # the first glibc tag, for x86-64 and arm64
OLDEST_DATE = 315532800  # the earliest date of a zip archive's members: 1980-01-01


class BundleError(Exception):
    """The wheel cannot be made self-contained."""


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    if done.returncode != 0:
        raise BundleError(f"'{' '.join(command)}' failed: {done.stderr.strip()}")
    return done.stdout


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def all_files(folder):
    """Paths relative to the folder, sorted."""
    return sorted(os.path.relpath(os.path.join(where, name), folder)
                  for where, _, names in os.walk(folder) for name in names)


def dynamic(path, kind):
    """Values of entries of the dynamic section: NEEDED, SONAME."""
    return re.findall(rf"\({kind}\).*\[(.*)\]", run("readelf", "-dW", path))


class System:
    """Libraries of the system on which the wheel is built."""

    def __init__(self, example):
        machine = re.search(r"Machine:\s+(.*)", run("readelf", "-hW", example))[1]
        self._wanted = "x86-64" if "X86-64" in machine else "AArch64"
        found = re.findall(r"^\s*(\S+) \((.*)\) => (\S+)$", run("/sbin/ldconfig", "-p"), re.MULTILINE)
        self._paths = {}
        for name, kind, path in found:
            if self._wanted in kind:
                self._paths.setdefault(name, path)

    def path(self, name, user):
        if name not in self._paths:
            raise BundleError(f"{user} needs {name}, which is neither in the wheel nor on this system")
        return os.path.realpath(self._paths[name])


def package_of(path):
    """The Debian package that a library comes from."""
    for candidate in (path, path.removeprefix("/usr")):
        done = subprocess.run(["dpkg-query", "-S", candidate], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    raise BundleError(f"{path} belongs to no package, so that its licence is unknown")


class Wheel:
    """The unpacked wheel."""

    def __init__(self, folder):
        self.folder = folder
        (info,) = [name for name in os.listdir(folder) if name.endswith(".dist-info")]
        self.info = os.path.join(folder, info)
        self.name, self.version = info.removesuffix(".dist-info").split("-")
        self.libs = f"{self.name}.libs"
        self.ours = [name for name in all_files(folder) if is_elf(os.path.join(folder, name))]
        self.bundled = {}  # soname -> (path of the system, name in libs)

    def strip(self):
        for name in self.ours:
            run("strip", "--strip-unneeded", os.path.join(self.folder, name))

    def bundle(self):
        """Copies what is missing, and what that needs; points everything to the copies."""
        inside = {os.path.basename(name) for name in self.ours}
        os.makedirs(os.path.join(self.folder, self.libs), exist_ok=True)
        system = System(os.path.join(self.folder, self.ours[0]))
        waiting = list(self.ours)
        while waiting:
            user = waiting.pop(0)
            path = os.path.join(self.folder, user)
            for soname in dynamic(path, "NEEDED"):
                if soname in inside or PLATFORM.fullmatch(soname):
                    continue
                if soname not in self.bundled:
                    waiting.append(self._copy(soname, system.path(soname, user)))
                run("patchelf", "--replace-needed", soname, self.bundled[soname][1], path)
        for name in self.ours:
            self._set_run_path(name)

    def _copy(self, soname, source):
        stem, _, rest = soname.partition(".")
        name = f"{stem}-{sbom.digest(source)[:8]}.{rest}"
        copy = os.path.join(self.libs, name)
        target = os.path.join(self.folder, copy)
        shutil.copyfile(source, target)
        os.chmod(target, 0o755)
        run("patchelf", "--set-soname", name, target)
        run("patchelf", "--force-rpath", "--set-rpath", "$ORIGIN", target)
        self.bundled[soname] = (source, name)
        return copy

    def _set_run_path(self, name):
        """Own libraries first, then the copied ones. DT_RPATH, since LD_LIBRARY_PATH is meant for others."""
        here = os.path.dirname(name)
        folders = [os.path.dirname(other) for other in self.ours if ".so" in other] + [self.libs]
        parts = {os.path.relpath(folder, here): None for folder in folders if folder.endswith(("lib", ".libs"))}
        value = ":".join("$ORIGIN" if part == "." else f"$ORIGIN/{part}" for part in parts)
        run("patchelf", "--force-rpath", "--set-rpath", value, os.path.join(self.folder, name))

    def glibc(self):
        """The oldest glibc with all symbol versions that the files ask for."""
        oldest, stdcxx = EARLIEST, 0
        for name in all_files(self.folder):
            path = os.path.join(self.folder, name)
            if not is_elf(path):
                continue
            needs = re.findall(r"Name: (\S+)  Flags", run("readelf", "-VW", path))
            found = re.findall(r"\bGLIBC_(\d+)\.(\d+)", " ".join(needs))
            oldest = max([oldest] + [(int(major), int(minor)) for major, minor in found])
            stdcxx = max([stdcxx] + [int(n) for n in re.findall(r"\bGLIBCXX_3\.4\.(\d+)", " ".join(needs))])
        return max(oldest, self._glibc_of(stdcxx))

    @staticmethod
    def _glibc_of(stdcxx):
        if stdcxx < LIBSTDCXX[0][0]:
            return EARLIEST
        for newest, glibc in LIBSTDCXX:
            if stdcxx <= newest:
                return glibc
        version = re.search(r"(\d+)\.(\d+)$", os.confstr("CS_GNU_LIBC_VERSION"))
        return int(version[1]), int(version[2])

    def set_tag(self, machine):
        """Writes the platform tag into the file WHEEL; returns the archive's name."""
        path = os.path.join(self.info, "WHEEL")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        platform = "manylinux_{}_{}_{}".format(*self.glibc(), machine)  # pylint: disable=consider-using-f-string
        text = re.sub(r"^(Tag: \S+-)linux_\S+$", rf"\g<1>{platform}", text, flags=re.MULTILINE)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        tags = re.findall(r"^Tag: (\S+)$", text, re.MULTILINE)
        if len(tags) != 1 or platform not in tags[0]:
            raise BundleError(f"the wheel has the tags {tags}; one for linux was expected")
        return f"{self.name}-{self.version}-{tags[0]}.whl"

    def describe(self):
        """Licences and bill of materials of the copied libraries."""
        packages = sorted({package_of(source) for source, _ in self.bundled.values()})
        for package in packages:
            folder = os.path.join(self.info, "licenses", package)
            os.makedirs(folder, exist_ok=True)
            shutil.copyfile(f"/usr/share/doc/{package}/copyright", os.path.join(folder, "copyright"))
            os.chmod(os.path.join(folder, "copyright"), 0o644)
        components = [sbom.debian_component(package) for package in packages]
        components += [sbom.file_component(os.path.join(self.folder, name), name) for name in self.ours]
        os.makedirs(os.path.join(self.info, "sboms"), exist_ok=True)
        with open(os.path.join(self.info, "sboms", "qnpu.cdx.json"), "w", encoding="utf-8") as file:
            file.write(sbom.document(self.name, self.version, "MIT", components))

    def pack(self, target):
        """The archive, with a new list of files."""
        record = os.path.join(self.info, "RECORD")
        names = [name for name in all_files(self.folder) if os.path.join(self.folder, name) != record]
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        for name in names:
            with open(os.path.join(self.folder, name), "rb") as file:
                content = file.read()
            value = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            table.writerow([name, f"sha256={value}", len(content)])
        own = os.path.relpath(record, self.folder)
        table.writerow([own, "", ""])
        with open(record, "w", encoding="utf-8") as file:
            file.write(text.getvalue())
        date = time.gmtime(max(OLDEST_DATE, int(os.environ.get("SOURCE_DATE_EPOCH", "0"))))[:6]
        with zipfile.ZipFile(target + ".new", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name in names + [own]:
                path = os.path.join(self.folder, name)
                member = zipfile.ZipInfo(name, date)
                member.external_attr = (0o100755 if os.stat(path).st_mode & 0o111 else 0o100644) << 16
                member.compress_type = zipfile.ZIP_DEFLATED
                with open(path, "rb") as file:
                    archive.writestr(member, file.read())
        os.replace(target + ".new", target)


def unpack(path, folder):
    """zipfile drops the permissions."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.is_dir():
                continue
            extracted = archive.extract(member, folder)
            os.chmod(extracted, 0o755 if (member.external_attr >> 16) & 0o111 or is_elf(extracted) else 0o644)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: bundle_wheel.py WHEEL FOLDER")
    source, to = sys.argv[1:]
    try:
        with tempfile.TemporaryDirectory(prefix="bundle-wheel.") as folder:
            unpack(source, folder)
            wheel = Wheel(folder)
            machine = re.search(r"linux_(\w+)\.whl$", source)
            if not machine or not wheel.ours:
                raise BundleError("a wheel with programs for linux, as setup.py makes it, was expected")
            wheel.strip()
            wheel.bundle()
            wheel.describe()
            target = os.path.join(to, wheel.set_tag(machine[1]))
            os.makedirs(to, exist_ok=True)
            wheel.pack(target)
    except (BundleError, OSError, zipfile.BadZipFile) as error:
        sys.exit(f"bundle_wheel.py: {source}: {error}")
    print(target)


if __name__ == "__main__":
    main()
