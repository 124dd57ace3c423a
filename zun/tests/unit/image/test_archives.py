# SPDX-License-Identifier: Apache-2.0
"""Archives of images are given one name, and bring none of their own."""

import bz2
import gzip
import io
import json
import lzma
import random
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.common import exceptions
from zun.image.archives import Renamed
from zun.tests.fake_glance import saved, tar

NAME = "zun-glance:1"


def renamed(data):
    """Return the files of the archive after its renaming, by name; the last of a name counts, as for Docker."""
    archive = Renamed(io.BytesIO(data), NAME)
    whole = b"".join(archive)
    assert len(archive) == len(whole) and b"".join(archive) == whole
    with tarfile.open(fileobj=io.BytesIO(whole)) as made:
        names = made.getnames()
        assert names[-1] == "manifest.json" and names.count("manifest.json") == 1
        return {each.name: made.extractfile(each).read() for each in made if each.isreg()}


def manifest(files):
    return json.loads(files["manifest.json"])


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress], ids=["plain", "gzip", "bzip2"])
@pytest.mark.parametrize("names", [["busybox:latest", "other:1"], [], None])
def test_the_names_inside_are_replaced(names, pack):
    files = renamed(pack(saved(names)))
    assert manifest(files) == [{"Config": "config", "Layers": ["layer"], "RepoTags": [NAME]}]
    assert files["layer"] == b"l" * 3000 and files["config"] == b"{}"


NAMING = {
    "repositories": b'{"busybox": {"latest": "1"}}',
    "index.json": b'{"manifests": [{"annotations": {"io.containerd.image.name": "busybox:latest"}}]}',
    "oci-layout": b"{}",
}


@pytest.mark.parametrize("spelt", ["{}", "./{}", "/{}", "a/../{}", "../{}"])
def test_no_other_file_names_the_image(spelt):
    files = renamed(saved(**{spelt.format(name): data for name, data in NAMING.items()}))
    assert not [name for name in files if name.rpartition("/")[2] in NAMING]
    assert b"busybox" not in b"".join(files.values())


@pytest.mark.parametrize("spelt", ["./manifest.json", "manifest.json"])
def test_a_second_manifest_is_dropped(spelt):
    second = json.dumps([{"Config": "c2", "RepoTags": ["busybox"], "Layers": []}]).encode()
    whole = tar({"config": b"{}", "manifest.json": b"[]", spelt: second})
    assert manifest(renamed(whole)) == [{"Config": "c2", "Layers": [], "RepoTags": [NAME]}]


def test_long_names_of_files_stay():
    long = "blobs/" + "a" * 200
    assert renamed(saved(**{long: b"data"}))[long] == b"data"


IMAGE = {"config": {"digest": "sha256:c"}, "layers": [{"digest": "sha256:l1"}, {"digest": "sha256:l2"}]}


def oci(*described, **changed):
    """An archive whose index describes these; without any, the image alone. ``changed`` are members of the image."""
    files = {"oci-layout": b"{}", "blobs/sha256/m": json.dumps(IMAGE | changed).encode(), "blobs/sha256/c": b"{}"}
    return laid_out(files, *(described or (of("m"),)))


def laid_out(files, *described):
    return tar(files | {"index.json": json.dumps({"manifests": described}).encode()})


def of(name, platform=None, **more):
    """A member of an index, for example of ``linux/arm64/v8``."""
    parts = dict(zip(("os", "architecture", "variant"), platform.split("/"), strict=False)) if platform else None
    return {"digest": f"sha256:{name}", **({"platform": parts} if parts else {}), **more}


def nested(*described, **files):
    """An archive whose index names an index of these."""
    blobs = {"m": IMAGE, "i": {"manifests": described}, **files}
    data = {f"blobs/sha256/{name}": json.dumps(blob).encode() for name, blob in blobs.items()}
    return laid_out({"oci-layout": b"{}", "blobs/sha256/c": b"{}", **data}, of("i"))


ATTESTED = of("a", "unknown/unknown", annotations={"vnd.docker.reference.type": "attestation-manifest"})


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(oci(), id="one"),
        pytest.param(oci(of("m"), of("m", annotations={"org.opencontainers.image.ref.name": "2"})), id="two-names"),
        pytest.param(oci(of("m", "linux/amd64"), ATTESTED), id="attested"),
        pytest.param(nested(of("m")), id="index-of-one"),
        pytest.param(nested(of("m", "linux/amd64"), ATTESTED, a=IMAGE), id="index-with-attestation"),
        pytest.param(nested(of("m", "linux/amd64"), of("x", "linux/arm64/v8")), id="other-platform-not-saved"),
    ],
)
def test_a_layout_of_oci(data):
    files = renamed(data)
    layers = ["blobs/sha256/l1", "blobs/sha256/l2"]
    assert manifest(files) == [{"Config": "blobs/sha256/c", "Layers": layers, "RepoTags": [NAME]}]
    assert "index.json" not in files and "blobs/sha256/c" in files


#: The data of a layer, which does not compress, has a wrong byte.
DAMAGED = bytearray(lzma.compress(saved(noise=random.Random(1).randbytes(100_000))))
DAMAGED[len(DAMAGED) // 2] ^= 255


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"", "no tar archive", id="nothing"),
        pytest.param(b"QFI\xfb" + b"\0" * 2000, "no tar archive", id="qcow2"),
        pytest.param(gzip.compress(b"text"), "no tar archive", id="gzip-of-text"),
        pytest.param(saved()[:2000], "no tar archive", id="truncated"),
        pytest.param(gzip.compress(saved())[:-40], "no tar archive", id="truncated-gzip"),
        pytest.param(DAMAGED, "no tar archive", id="damaged-xz"),
        pytest.param(tar({"manifest.json": b"[" * 100_000}), "nested too deeply", id="deep-manifest"),
        pytest.param(tar({"index.json": b'{"manifests":' * 200_000}), "nested too deeply", id="deep-index"),
        pytest.param(tar({"etc/passwd": b"root"}), "not 'docker export'", id="export"),
        pytest.param(tar({"manifest.json": b"{"}), "no tar archive", id="broken-json"),
        pytest.param(tar({"manifest.json": b"{}"}), "does not name one image", id="no-list"),
        pytest.param(tar({"manifest.json": b"[]"}), "does not name one image", id="no-image"),
        pytest.param(tar({"manifest.json": b"[{}, {}]"}), "does not name one image", id="two-images"),
        pytest.param(tar({"manifest.json": b'[{"Config": 1, "Layers": []}]'}), "Config and Layers", id="no-config"),
        pytest.param(oci(of("m"), of("c")), "names 2 images; save one image", id="two-images-of-oci"),
        pytest.param(
            nested(of("m", "linux/amd64"), of("n", "linux/arm64/v8"), n=IMAGE),
            "names 2 images, for linux/amd64, linux/arm64/v8; save one image, for one platform",
            id="two-platforms",
        ),
        pytest.param(nested(of("i2"), i2={"manifests": [of("m")]}), "config and layers", id="index-of-index-of-index"),
        pytest.param(nested(ATTESTED, a=IMAGE), "names no image", id="attestation-alone"),
        pytest.param(nested(), "names no image", id="empty-index"),
        pytest.param(nested(of("x", "linux/arm64")), "lacks blobs/sha256/x", id="no-platform-saved"),
        pytest.param(oci(5), "digest where it should", id="member-is-a-number"),
        pytest.param(nested({"digest": "sha256:m", "platform": "linux"}, of("c")), "names 2", id="platform-is-a-text"),
        pytest.param(oci(layers=None), "config and layers", id="no-layers"),
        pytest.param(tar({"index.json": b'{"manifests": [{"digest": "x:y"}]}'}), "lacks blobs/x/y", id="no-blob"),
        pytest.param(tar({"manifest.json": b" " * (4 << 20) + b"[]"}), "at most 4 MiB", id="large-manifest"),
        pytest.param(tar({str(n): b"" for n in range(10_001)}), "more than 10000 files", id="many-files"),
    ],
)
def test_other_data_is_told(data, reason):
    with pytest.raises(exceptions.Invalid, match=reason):
        Renamed(io.BytesIO(data), NAME)


@given(st.dictionaries(st.sampled_from(["a", "b/c", "index.json", "repositories"]), st.binary(max_size=2000)))
def test_everything_else_stays_as_it_is(others):
    files = renamed(saved(**others))
    assert {name: data for name, data in files.items() if name in others} == {
        name: data for name, data in others.items() if name not in NAMING
    }
