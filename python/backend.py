"""Builds the Python package of Gridsmith: a wheel with the module, the shared library, the program and its man pages (PEP 517),
and a source archive.

It needs CMake and a C compiler, and nothing from a package index. `pip install .` calls it.
"""

import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sysconfig
import tarfile
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERSION = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.M).group(1)
METADATA = f"""Metadata-Version: 2.1
Name: gridsmith
Version: {VERSION}
Summary: Predicts on which SM of an NVIDIA GPU each thread block runs, when, and what it waits for
Requires-Python: >=3.9
"""


# The files of a build that the package has: the library; the program; and its libraries, for `trace`, `run` and `watch`.
BUILT = ("libgridsmith.so.0", "gridsmith", "libgridsmith-trace.so", "front/libcuda.so.1", "gate/libcuda.so.1", "watch/libcuda.so.1")
TAG = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
ENTRY_POINTS = b"[console_scripts]\ngridsmith = gridsmith:main\n"


def wheel_text():
    return f"Wheel-Version: 1.0\nGenerator: gridsmith\nRoot-Is-Purelib: false\nTag: {TAG}\n"


def build_files(folder):
    """Builds the files of the package in a folder."""
    configure = ["cmake", "-S", str(ROOT), "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DGRIDSMITH_TESTS=OFF"]
    if shutil.which("ninja"):
        configure += ["-G", "Ninja"]
    for command in (configure, ["cmake", "--build", folder, "--parallel"]):
        subprocess.run(command, check=True)
    return pathlib.Path(folder)


def digest(content):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Without this, pip builds the package a first time to learn its name."""
    info = pathlib.Path(metadata_directory) / f"gridsmith-{VERSION}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_bytes(ENTRY_POINTS)
    (info / "WHEEL").write_text(wheel_text())
    return info.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name, info = f"gridsmith-{VERSION}-{TAG}.whl", f"gridsmith-{VERSION}.dist-info"
    built = os.environ.get("GRIDSMITH_LIBRARY")  # a library that is already built
    with tempfile.TemporaryDirectory() as folder:
        build = pathlib.Path(built).parent if built else build_files(folder)
        files = {
            "gridsmith/__init__.py": (ROOT / "python/gridsmith.py").read_bytes(),
            "gridsmith/py.typed": b"",
            **{f"gridsmith/{name}": (build / name).read_bytes() for name in BUILT},
            f"{info}/METADATA": METADATA.encode(),
            f"{info}/entry_points.txt": ENTRY_POINTS,
            **{f"gridsmith-{VERSION}.data/data/share/man/man1/{page.name}": page.read_bytes()
               for page in sorted((ROOT / "man").glob("*.1"))},
            f"{info}/WHEEL": wheel_text().encode(),
        }
    record = "".join(f"{path},{digest(content)},{len(content)}\n" for path, content in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            # pip makes executable what is marked so and as a regular file.
            entry.external_attr = (0o100755 if content.startswith(b"\x7fELF") else 0o100644) << 16
            wheel.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return name


def build_sdist(sdist_directory, config_settings=None):
    name = f"gridsmith-{VERSION}"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(os.path.join(sdist_directory, f"{name}.tar.gz"), "w:gz") as archive:
        for path in sorted(filter(None, listed.decode().split("\0"))):
            archive.add(ROOT / path, f"{name}/{path}")
        info = tarfile.TarInfo(f"{name}/PKG-INFO")
        info.size = len(METADATA.encode())
        with tempfile.TemporaryFile() as file:
            file.write(METADATA.encode())
            file.seek(0)
            archive.addfile(info, file)
    return f"{name}.tar.gz"
