# SPDX-License-Identifier: Apache-2.0
"""Each place that formats, overwrites or removes something is a row of doc/source/reference/removal.csv, with a test.

Python is searched for calls by their names: functions of files, programs that format or unmount, requests DELETE, and
functions of libraries that remove. Shell is searched for words. Not seen: a call through another name or ``getattr``, a
program whose name is in a variable, SQL in a text, and what Docker, os-brick, os-vif or a database removes by itself.
In-memory drivers, which only tests use, are left out.
"""

import ast
import csv
import pathlib
import re
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[3]
TABLE = ROOT / "doc/source/reference/removal.csv"
ROWS = list(csv.DictReader(TABLE.read_text().splitlines()))

#: Methods and functions that remove or overwrite whatever their object is.
CALLS = {
    "unlink", "rmtree", "rmdir", "removedirs", "truncate", "ftruncate", "rename", "renames", "write_text",
    "write_bytes", "fallocate", "remove_container", "remove_image", "remove_network", "remove_volume",
    "remove_group_of", "delete_volume", "delete_attachment", "delete_port", "delete_security_group",
    "delete_unfinished", "disconnect_volume", "disconnect_container_from_network", "unplug", "prune_containers",
    "prune_images", "prune_networks", "prune_volumes", "drop_all", "drop_table", "drop_column", "put_archive",
}  # fmt: skip
#: Programs of the host, as the first argument of a call.
PROGRAMS = re.compile(
    r"(mkfs|mkswap|mke2fs|umount|wipefs|cryptsetup|dd|shred|sgdisk|sfdisk|parted|losetup|blkdiscard|[lvp]+g?remove|"
    r"mdadm|rm|truncate|ip6?tables-restore|delete_(user|vhost|queue))(\.|-|$)"
)
SHELL = re.compile(
    r"\brm( -\w+)+ |\brmdir\b|\bumount\b|\blosetup -d\b|\bDROP\b|\bmkfs|\btruncate -|\bdd of=|\bwipefs\b|"
    r"\$docker .*\brm\b|\bdocker (\w+ )?rm\b|\brecreate_database\b|\$command .*-[DFX] |\bdel-br\b|\bkill -|"
    r"\bip link del"
)


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def first_words(call: ast.Call) -> list[ast.expr]:
    """Return the first argument of a call, and its first element if the argument is a command as a list."""
    first = call.args[:1]
    return [*first, *(each for arg in first if isinstance(arg, ast.List | ast.Tuple) for each in arg.elts[:1])]


def removes(call: ast.Call, file: str) -> bool:
    """Return whether a call of Python formats, overwrites or removes something."""
    name, owner = name_of(call.func), name_of(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    texts = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    texts += [each.value.value for each in call.keywords if each.arg == "mode" and isinstance(each.value, ast.Constant)]
    if name == "replace":  # of os, or of a path, which has one argument
        return owner == "os" or (owner != "" and len(call.args) == 1 and not call.keywords)
    if name in ("open", "fdopen") and not any(each.arg == "fileobj" for each in call.keywords):
        written = any(re.fullmatch(r"[rwax+b]{1,3}", each) and {*each} & {*"wax+"} for each in texts)
        return written or bool({"O_TRUNC", "O_CREAT", "O_WRONLY", "O_RDWR"} & set(map(name_of, ast.walk(call))))
    if name == "delete":
        return owner.endswith("driver") or file.startswith("zun/db/")
    if name in ("remove", "removexattr") and owner == "os":
        return True
    first = [each.value for each in first_words(call) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    if name == "rename" and file.startswith(("zun/api/", "zun/objects/")):
        return False  # the name of a container
    return name in CALLS or any(map(PROGRAMS.match, first)) or ("DELETE" in texts and name.startswith("_"))


def of_python(file: pathlib.Path) -> Iterator[str]:
    """Yield ``FILE:FUNCTION`` for each function of a file that removes something."""
    path = str(file.relative_to(ROOT))

    def visit(node: ast.AST, inside: tuple[str, ...]) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            inside = (*inside, node.name)
        if isinstance(node, ast.Call) and removes(node, path):
            yield f"{path}:{'.'.join(inside)}"
        for child in ast.iter_child_nodes(node):
            yield from visit(child, inside)

    yield from visit(ast.parse(file.read_text()), ())


def of_shell(file: pathlib.Path) -> Iterator[str]:
    inside = ""
    for line in file.read_text().splitlines():
        if found := re.match(r"(?:function )?(\w+)(?:\(\))? \{", line):
            inside = found[1]
        elif line.startswith("}"):
            inside = ""
        if SHELL.search(line.partition(" # ")[0]) and not line.lstrip().startswith("#"):
            yield f"{file.relative_to(ROOT)}:{inside}"


def places() -> set[str]:
    python = [file for file in (ROOT / "zun").rglob("*.py") if {"tests", "fake"}.isdisjoint(file.parts)]
    shell = [*(ROOT / "tools").glob("*.sh"), *(ROOT / "devstack/lib").iterdir(), ROOT / "devstack/plugin.sh"]
    return {place for file in (*python, *(ROOT / "tools").glob("*.py")) for place in of_python(file)} | {
        place for file in shell for place in of_shell(file)
    }


def test_each_place_that_removes_is_a_row_and_each_row_a_place():
    listed = [place for row in ROWS for place in row["Place"].split()]
    found = places()
    assert sorted(found - set(listed)) == [], "name the proof that is asked for first, and a test, in removal.csv"
    assert sorted(set(listed) - found) == [], "removes nothing any more"
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("row", ROWS, ids=[row["What"] for row in ROWS])
def test_each_row_names_a_test_that_exists(row):
    assert row["What"] and row["Asked first"]
    for test in row["Test"].split():
        file, _, name = test.partition("::")
        assert re.search(rf"^def {name}\(", (ROOT / "zun/tests" / file).read_text(), re.MULTILINE), test


@pytest.mark.parametrize("code", [
    "path.unlink()", "os.remove(name)", "shutil.rmtree(folder)", "os.replace(a, b)", "new.replace(old)",
    "open(name, 'w')", "path.open(mode='ab')", "os.open(name, os.O_WRONLY)", "run('mkfs.xfs', device)",
    "run('cryptsetup', 'luksFormat', device)", "self._send('DELETE', path)", "api.remove_image(name)",
    "self._driver.delete(container)", "sa.drop_all()", "subprocess.run(['wipefs', '--all', device])",
])  # fmt: skip
def test_a_new_removal_is_seen(code):
    assert removes(ast.parse(code).body[0].value, "zun/volume/new.py")


@pytest.mark.parametrize("code", ["open(name)", "'a'.replace('b', 'c')", "replace(row, a=1)", "run('blkid', device)"])
def test_what_only_reads_is_no_removal(code):
    assert not removes(ast.parse(code).body[0].value, "zun/volume/new.py")
