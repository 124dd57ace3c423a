# SPDX-License-Identifier: Apache-2.0
"""An image of programs that Debian's packages installed on this machine. It stands in for images of a registry."""

import io
import pathlib
import re
import subprocess
import tarfile
from collections.abc import Iterable, Iterator

import docker
import pytest

from zun.tests.integration.container.daemon import BUSYBOX, root_of_busybox

IMAGE = "zun-workloads"
PYTHON = pathlib.Path("/usr/bin/python3").resolve()
POSTGRES = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"), default=pathlib.Path("/no/bin/postgres"))
_PROGRAMS = ("/usr/sbin/nginx", "/usr/bin/su", "/usr/sbin/runuser", "/usr/bin/setpriv", "/usr/bin/tar", "/usr/bin/id")
_UNUSED = frozenset({"bitcode", "test", "idlelib", "lib2to3", "ensurepip", "dist-packages", "tkinter", "llvmjit.so"})
_WRITTEN = ("run", "var/lib/nginx", "var/log/nginx")  # folders
#: ``setcap cap_net_raw+ep``: struct vfs_cap_data of revision 2 with the bit 13 permitted and effective.
_NET_RAW_EP = b"\x01\x00\x00\x02" + (1 << 13).to_bytes(4, "little") + bytes(12)

_FILES = {
    "etc/passwd": "root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/:/bin/false\npostgres:x:100:100::/:/bin/sh\n"
    "nobody:x:65534:65534::/:/bin/false\n",
    "etc/group": "root:x:0:\nwww-data:x:33:\npostgres:x:100:\nnogroup:x:65534:\n",
    "etc/shadow": "root:*:19000::::::\npostgres:*:19000::::::\nnobody:*:19000::::::\n",
    "etc/nginx.conf": "user www-data;\npid /run/nginx.pid;\nevents {}\n"
    'http { access_log off; server { listen 80; location / { return 200 "served\\n"; } } }\n',
}


def workloads(client: docker.APIClient) -> str:
    """Return the name of the image. The machine's own packages make it anew for each run of the tests."""
    client.import_image_from_data(_archive(), IMAGE, "latest", changes=["ENV PATH=/usr/sbin:/usr/bin:/bin"])
    return IMAGE


def _archive() -> bytes:
    target = io.BytesIO(root_of_busybox())
    with tarfile.open(fileobj=target, mode="a") as tar:
        sources = sorted({path.relative_to("/") for path in _sources()})
        files = (*sources, *map(pathlib.Path, _WRITTEN))
        # Docker would make a missing folder for root alone, and refuses one that comes twice.
        folders = {str(parent) for path in files for parent in path.parents} | set(_WRITTEN)
        for folder in sorted(folders - {".", *tar.getnames()}):
            _folder(tar, folder)
        for link in ("lib", "lib64"):
            _link(tar, link, f"usr/{link}")
        for name, text in _FILES.items():
            _file(tar, name, text.encode())
        _file(tar, "usr/bin/rootid", pathlib.Path("/usr/bin/id").read_bytes(), mode=0o4755)
        _file(tar, "usr/bin/ping", BUSYBOX.read_bytes(), mode=0o755, capability=_NET_RAW_EP)
        _link(tar, "usr/bin/python3", PYTHON.name)
        for path in sources:
            tar.add(pathlib.Path("/", path), path, recursive=False)
    return target.getvalue()


def _sources() -> Iterator[pathlib.Path]:
    """Yield every file of the packages, with the libraries that programs and modules need."""
    needed = [*map(pathlib.Path, _PROGRAMS), PYTHON, POSTGRES, POSTGRES.with_name("initdb")]
    for path in needed:
        if not path.exists():
            pytest.fail(f"{path} is missing, of which the test image is made; 'tools/services.sh start' installs it")
    stdlib = pathlib.Path("/usr/lib", PYTHON.name)
    modules = next(pathlib.Path("/usr/lib").glob("*-linux-gnu/security"))
    trees = (stdlib, modules, POSTGRES.parent.with_name("lib"), _share_of_postgres(), pathlib.Path("/etc/pam.d"),
             pathlib.Path("/etc/security"))  # fmt: skip
    for tree in trees:
        needed += (path for path in tree.rglob("*") if path.is_file() and not _unused(path))
    yield from needed
    yield from _libraries(path for path in needed if ".so" in path.suffixes or path.parent.name in ("bin", "sbin"))


def _unused(path: pathlib.Path) -> bool:
    """Return whether no test runs the file: compilers and their libraries are most of the size."""
    return not _UNUSED.isdisjoint(path.parts) or any(part.startswith("config-3") for part in path.parts)


def _share_of_postgres() -> pathlib.Path:
    return pathlib.Path("/usr/share/postgresql", POSTGRES.parts[-3])


def _libraries(programs: Iterable[pathlib.Path]) -> Iterator[pathlib.Path]:
    listed = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True).stdout
    for path in set(re.findall(r"(/\S+) \(0x", listed)):
        # The name that a program asks for. Its folder is a link on Debian: /lib is /usr/lib.
        parent = pathlib.Path(path).parent.resolve()
        yield from _with_target(parent / pathlib.Path(path).name)


def _with_target(path: pathlib.Path) -> Iterator[pathlib.Path]:
    yield path
    if path.is_symlink():
        yield path.resolve()


def _folder(tar: tarfile.TarFile, name: str) -> None:
    folder = tarfile.TarInfo(name)
    folder.type, folder.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(folder)


def _link(tar: tarfile.TarFile, name: str, target: str) -> None:
    link = tarfile.TarInfo(name)
    link.type, link.linkname = tarfile.SYMTYPE, target
    tar.addfile(link)


def _file(tar: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644, capability: bytes = b"") -> None:
    file = tarfile.TarInfo(name)
    file.size, file.mode = len(content), mode
    if capability:
        # tarfile reads the text of a header back as UTF-8 with surrogates for other bytes.
        file.pax_headers = {"SCHILY.xattr.security.capability": capability.decode("utf-8", "surrogateescape")}
    tar.addfile(file, io.BytesIO(content))
