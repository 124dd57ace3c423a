# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from zun.topology.device_spec import (
    DeviceSpec,
    check_classes,
    given,
    parse,
    parse_values,
    shareable,
    without_doubles,
    without_used,
)
from zun.topology.devices import Device, DeviceType

GPU = Device("0000:81:00.0", "10de", "20b0", "030200")
OTHER_GPU = Device("0000:c1:00.0", "10de", "20b0", "030200")
PF = Device("0000:05:00.0", "8086", "10fb", "020000", type=DeviceType.PF, interfaces=("ens1",))
VF = Device(
    "0000:05:10.2", "8086", "10ed", "020000", type=DeviceType.VF, physical="0000:05:00.0", physical_interfaces=("ens1",)
)
DISTANT = Device("10000:05:00.0", "8086", "0a54", "010802")
ALL = (PF, VF, GPU, OTHER_GPU, DISTANT)


@pytest.mark.parametrize(("text", "devices"), [
    pytest.param('{"vendor_id": "10de"}', (GPU, OTHER_GPU), id="vendor"),
    pytest.param('{"vendor_id": "10DE", "product_id": "0x20b0"}', (GPU, OTHER_GPU), id="capitals-and-prefix"),
    pytest.param('{"vendor_id": "*"}', ALL, id="any-vendor"),
    pytest.param('{"vendor_id": "10de", "product_id": "1db4"}', (), id="another-product"),
    pytest.param('{"class": "03"}', (GPU, OTHER_GPU), id="class"),
    pytest.param('{"class": "0100"}', (), id="another-subclass"),
    pytest.param('{"address": "0000:81:00.0"}', (GPU,), id="one-address"),
    pytest.param('{"address": "*:81:*.*"}', (GPU,), id="stars"),
    pytest.param('{"address": ":81:."}', (GPU,), id="empty-parts"),
    pytest.param('{"address": "81:00.0"}', (GPU,), id="no-domain"),
    pytest.param('{"address": "0000:05:00.0"}', (PF, VF), id="functions-of-a-function"),
    pytest.param('{"address": "0000:05:10.*"}', (VF,), id="virtual-functions"),
    pytest.param('{"address": "0000:05:00.0", "product_id": "10ed"}', (VF,), id="virtual-functions-by-product"),
    pytest.param('{"address": "10000:*:*.*"}', (DISTANT,), id="a-long-domain"),
    pytest.param('{"address": {"bus": "81|c1", "function": "[0-3]"}}', (GPU, OTHER_GPU), id="expressions"),
    pytest.param('{"devname": "ens1"}', (PF, VF), id="interface-of-a-physical-function"),
    pytest.param('{"devname": "ens1", "product_id": "10ed"}', (VF,), id="interface-and-product"),
    pytest.param('{"devname": "ens2"}', (), id="another-interface"),
    pytest.param('{"address": "0:5:0.0"}', (PF, VF), id="one-digit-parts"),
    pytest.param('{"address": ".2"}', (VF,), id="function-alone"),
    pytest.param('{"address": "5:10"}', (VF,), id="no-function"),
    pytest.param('{"address": "00010000:5:0.0"}', (DISTANT,), id="eight-digits-of-a-domain"),
    pytest.param('{"address": {"slot": "0"}}', (), id="an-expression-matches-a-whole-part"),
    pytest.param('{"address": {"slot": "0.*"}}', (PF, VF, GPU, OTHER_GPU, DISTANT), id="an-expression-of-a-beginning"),
    pytest.param('{"vendor_id": "10de", "managed": "yes", "live_migratable": "no"}', (GPU, OTHER_GPU), id="idle-tags"),
    pytest.param('{"vendor_id": "10de", "remote_managed": "false", "one_time_use": false}', (GPU, OTHER_GPU), id="off"),
])
def test_given(text, devices):
    assert given(ALL, [parse(text)]) == devices


MIG, SMALL, UNKNOWN, OTHERS = (
    replace(
        gpu, address=f"{gpu.address}/gi{number}/ci0", type=DeviceType.PART, physical=gpu.address, profile=profile,
        resource_class="CUSTOM_MIG",
    )
    for gpu, number, profile in ((GPU, 1, "3g.40gb"), (GPU, 5, "1g.10gb"), (GPU, 6, None), (OTHER_GPU, 1, "1g.10gb+me"))
)  # fmt: skip
PARTS = (MIG, SMALL, UNKNOWN, OTHERS)


@pytest.mark.parametrize(("text", "devices"), [
    pytest.param('{"vendor_id": "10de"}', (GPU, OTHER_GPU), id="the-gpu-s-line-selects-no-part"),
    pytest.param('{"address": "0000:81:00.0"}', (GPU,), id="nor-does-its-address"),
    pytest.param('{"class": "03"}', (GPU, OTHER_GPU), id="nor-its-class"),
    pytest.param('{"part": "*"}', PARTS, id="every-part-and-no-whole"),
    pytest.param('{"part": "1g.10gb"}', (SMALL,), id="profile"),
    pytest.param('{"part": "1G.*"}', (SMALL, OTHERS), id="pattern"),
    pytest.param('{"part": "?g.10gb", "address": "*:c1:*.*"}', (), id="pattern-and-another-gpu"),
    pytest.param('{"part": "*", "address": "81:00.0"}', (MIG, SMALL, UNKNOWN), id="parts-of-one-gpu"),
    pytest.param('{"part": "*", "address": {"bus": "c."}}', (OTHERS,), id="expression"),
    pytest.param('{"part": "*", "vendor_id": "1002"}', (), id="parts-of-another-vendor"),
    pytest.param('{"part": "*", "product_id": "20b0", "class": "0380"}', (), id="parts-of-another-class"),
    pytest.param('{"part": "cpx_nps1"}', (), id="another-profile"),
])
def test_parts_of_gpus(text, devices):
    assert given((*ALL, *PARTS), [parse(text)]) == devices


def test_shared_parts_have_a_class_that_the_operator_made():
    assert parse('{"part": "*", "shared": 2, "resource_class": "MIG_SHARED"}').resource_class == "CUSTOM_MIG_SHARED"


def test_class_of_the_profile_unless_the_operator_has_one():
    lines = [parse('{"part": "3g.*", "resource_class": "gpu-large"}'), parse('{"part": "*", "traits": "FAST"}')]
    found = given((*ALL, *PARTS), lines)
    assert [(each.counted_as, each.traits) for each in found] == [
        ("CUSTOM_GPU_LARGE", ()), *[("CUSTOM_MIG", ("FAST",))] * 3,
    ]  # fmt: skip
    assert lines[1].conditions == "part *"


def test_device_that_the_host_uses_is_not_offered():
    used = (replace(GPU, in_use="it shows the console"), replace(PF, in_use="its interface ens1 has the default route"))
    kept, notes = without_used(given((*used, VF, OTHER_GPU), [parse('{"vendor_id": "*"}')]), {GPU.address})
    assert kept == (GPU, VF, OTHER_GPU)
    assert notes == (
        "device 0000:05:00.0 is not offered, because the host uses it: its interface ens1 has the default route. To "
        'offer it all the same, add "allow_in_use": "true" to its line of device_spec',
    )
    lines = [parse('{"devname": "ens1", "allow_in_use": "true"}'), parse('{"vendor_id": "*"}')]
    kept, notes = without_used(given(used, lines), ())
    assert (kept, len(notes)) == ((PF,), 1)


def test_a_list_of_one_value_is_taken_as_nova_takes_it():
    text = '[{"vendor_id": "8086", "product_id": "10fb"}, {"vendor_id": "10de", "managed": "yes"}]'
    assert given(ALL, parse_values(text)) == (PF, GPU, OTHER_GPU)
    assert parse_values('{"vendor_id": "10de"}') == (parse('{"vendor_id": "10de"}'),)
    assert parse_values("[]") == ()


@pytest.mark.parametrize(("text", "problem"), [
    ('[{"vendor_id": "10de"}, {"vendor": "1"}]', "object 2 of the list: vendor is not known"),
    ('["10de"]', "object 1 of the list: it must be a JSON object"),
    ('[[{"vendor_id": "10de"}]]', "object 1 of the list: it must be a JSON object"),
    ("[" * 100_000, "it is not JSON"),
])
def test_a_wrong_object_of_a_list_is_counted(text, problem):
    with pytest.raises(ValueError) as caught:
        parse_values(text)
    assert str(caught.value).startswith(problem)


def test_conditions_are_for_people():
    assert parse('{"vendor_id": "10de", "class": "03"}').conditions == "vendor_id 10de, class 03"
    assert parse('{"address": "81:0.0"}').conditions == "address .*:81:00.0"
    assert parse('{"vendor_id": "*"}').conditions == "any PCI device"


def test_the_first_spec_gives_the_tags():
    specs = [
        parse('{"address": "0000:81:00.0", "resource_class": "gpu-a100", "traits": "CUSTOM_B, hw_gpu_x"}'),
        parse('{"vendor_id": "10de", "resource_class": "PGPU"}'),
        parse('{"devname": "ens1", "physical_network": "physnet1", "trusted": "true"}'),
    ]
    found = {device.address: device for device in given(ALL, specs)}
    assert set(found) == {GPU.address, OTHER_GPU.address, PF.address, VF.address}
    assert found[GPU.address].resource_class == "CUSTOM_GPU_A100"
    assert found[GPU.address].traits == ("CUSTOM_B", "HW_GPU_X")
    assert found[OTHER_GPU.address].resource_class == "PGPU"
    assert (found[PF.address].physical_network, found[PF.address].trusted) == ("physnet1", True)


def test_no_spec_gives_nothing():
    assert given(ALL, []) == ()


@pytest.mark.parametrize(("text", "problem"), [
    ("vendor_id=10de", "it is not JSON"),
    ('["10de"]', "it must be a JSON object"),
    ("{}", "it selects nothing; give at least one of vendor_id,"),
    ('{"trusted": "true"}', "it selects nothing"),
    ('{"vendor": "10de"}', "vendor is not known; the members are vendor_id,"),
    ('{"vendor_id": "10d"}', "vendor_id must be four hexadecimal digits or *, got '10d'"),
    ('{"vendor_id": 10}', "vendor_id must be four hexadecimal digits or *, got 10"),
    ('{"class": "3"}', "class must be two, four or six hexadecimal digits or *, got '3'"),
    ('{"address": "81"}', "address must look like 0000:81:00.0 or *:81:*.*, got '81'"),
    ('{"address": "0000:8g:00.0"}', "address: bus must be hexadecimal digits or *, got '8g'"),
    ('{"address": "0:0:81:0.0"}', "address must look like"),
    ('{"address": "81:00.0.1"}', "address must look like"),
    ('{"address": "81:20.0"}', "address: slot must be at most 1f, got '20'"),
    ('{"address": "100:00.0"}', "address: bus must be at most ff, got '100'"),
    ('{"address": "81:00.8"}', "address: function must be at most 7, got '8'"),
    ('{"vendor_id": "10de", "remote_managed": "yes"}', "remote_managed cannot be served"),
    ('{"vendor_id": "10de", "one_time_use": true}', "one_time_use cannot be served"),
    ('{"vendor_id": "10de", "managed": "perhaps"}', "managed must be yes or no, got 'perhaps'"),
    ('{"managed": "yes"}', "it selects nothing"),
    ('{"address": 81}', "address must be a text or an object, got 81"),
    ('{"address": {"slots": "1"}}', "address has domain, bus, slot, function, not slots"),
    ('{"address": {"bus": "["}}', "address: bus must be a regular expression, got '['"),
    ('{"address": {"bus": 5}}', "address: bus must be a regular expression, got 5"),
    ('{"address": "*", "devname": "ens1"}', "give address or devname, not both"),
    ('{"devname": ""}', "devname must be a text, got ''"),
    ('{"vendor_id": "10de", "trusted": "yes"}', "trusted must be true or false, got 'yes'"),
    ('{"vendor_id": "10de", "allow_in_use": 1}', "allow_in_use must be true or false, got 1"),
    ('{"vendor_id": "10de", "traits": "A-B"}', "traits must have letters, digits and underscores only, got 'A-B'"),
    ('{"vendor_id": "10de", "traits": 5}', "traits must be names between commas, got 5"),
    ('{"vendor_id": "10de", "shared": 4}', "shared needs a resource_class: only containers that ask for this class"),
    ('{"vendor_id": "10de", "shared": 4, "resource_class": "pci-10de-20b0"}', "shared needs a resource_class of its"),
    ('{"path": "/dev/fuse", "shared": 4, "resource_class": "device_dev_fuse"}', "shared needs a resource_class of its"),
    ('{"part": "*", "shared": 2, "resource_class": "MIG_1G_10GB"}', "shared needs a resource_class of its own"),
    ('{"part": "*", "shared": 2, "resource_class": "CUSTOM_MIG"}', "shared needs a resource_class of its own"),
    ('{"part": "*", "shared": 2, "resource_class": "XCP_CPX_NPS4"}', "shared needs a resource_class of its own"),
    ('{"devname": "ens1", "shared": 4, "resource_class": "N"}', "give shared or devname, not both: the interfaces"),
    (
        '{"vendor_id": "8086", "physical_network": "p", "shared": 4, "resource_class": "N"}',
        "give shared or physical_network, not both: the interfaces",
    ),
    ('{"class": "0207", "shared": 4, "resource_class": "N"}', "shared cannot be served for class 0207: a network card"),
    ('{"class": "0x01", "shared": 4, "resource_class": "N"}', "shared cannot be served for class 0x01: a disk"),
])
def test_bad_spec(text, problem):
    with pytest.raises(ValueError) as caught:
        parse(text)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize("value", ["1", "0", "-2", "1001", "4.0", "true", '"all"', '""', "null", "[4]", "10000000000"])
def test_shared_is_a_number_of_containers(value):
    text = f'{{"vendor_id": "10de", "resource_class": "CUSTOM_SLICE", "shared": {value}}}'
    with pytest.raises(ValueError, match="shared must be a number of containers from 2 to 1000, got"):
        parse(text)


@pytest.mark.parametrize(("value", "number"), [("2", 2), ('"4"', 4), ("1000", 1000)])
def test_shared_devices_have_a_number(value, number):
    spec = parse(f'{{"address": "81:00.0", "resource_class": "CUSTOM_SLICE", "shared": {value}}}')
    tagged = replace(GPU, shared=number, resource_class="CUSTOM_SLICE")
    assert given(ALL, [spec, parse('{"vendor_id": "10de"}')]) == (tagged, OTHER_GPU)


SLICES = '{"vendor_id": "10de", "shared": 4, "resource_class": "CUSTOM_GPU"}'


@pytest.mark.parametrize("other", [
    '{"class": "03", "resource_class": "gpu"}',
    '{"path": "/dev/kvm", "resource_class": "CUSTOM_GPU"}',
    '{"cdi": "v.com/gpu=*", "resource_class": "CUSTOM_GPU"}',
])
def test_a_class_is_for_shares_or_for_whole_devices(other):
    for texts in ((SLICES, other), (other, SLICES)):
        with pytest.raises(ValueError, match=r"CUSTOM_GPU is for shared devices \(vendor_id 10de\) and for whole ones"):
            check_classes(map(parse, texts))
    more = '{"path": "/dev/nvidia*", "shared": 2, "resource_class": "CUSTOM_GPU"}'
    check_classes(map(parse, [SLICES, more, '{"class": "03"}', '{"class": "03", "resource_class": "CUSTOM_OTHER"}']))


@pytest.mark.parametrize(("device", "reason"), [
    pytest.param(GPU, None, id="gpu"),
    pytest.param(Device("/dev/kvm", type=DeviceType.PATH, nodes=("/dev/kvm",)), None, id="file"),
    pytest.param(Device("v.com/c=0", type=DeviceType.CDI, nodes=("/dev/card",)), None, id="cdi-name"),
    pytest.param(replace(GPU, type=DeviceType.PF), None, id="physical-function"),
    pytest.param(replace(GPU, type=DeviceType.VF, physical="0000:81:00.1"), None, id="virtual-function"),
    pytest.param(replace(GPU, driver="nvidia", iommu_group=7), None, id="group-of-a-driver-of-the-kernel"),
    pytest.param(PF, "its network interfaces are moved into one container", id="network-card"),
    pytest.param(replace(PF, interfaces=()), "its network interfaces are moved", id="interfaces-in-a-container"),
    pytest.param(replace(GPU, interfaces=("ib0",)), "its network interfaces are moved", id="class-does-not-tell"),
    pytest.param(Device("v.com/n=0", type=DeviceType.CDI, interfaces=("ens1",)), "its network", id="cdi-interface"),
    pytest.param(DISTANT, "it is a disk, and containers that write", id="nvme"),
    pytest.param(
        Device("/dev/disk/by-id/x", type=DeviceType.PATH, nodes=("/dev/sdb",), disk="/dev/sdb"),
        "/dev/sdb is a disk", id="disk-by-path",
    ),
    pytest.param(replace(GPU, driver="vfio-pci", iommu_group=7), "VFIO (vfio-pci) gives it to one program", id="vfio"),
    pytest.param(replace(GPU, driver="x", nodes=("/dev/vfio/7",)), "VFIO (x) gives it to one", id="vfio-by-its-file"),
    pytest.param(
        Device("/dev/vfio/7", type=DeviceType.PATH, nodes=("/dev/vfio/7",)), "VFIO (/dev/vfio/7)", id="vfio-by-path"
    ),
    pytest.param(Device("/dev/vfio/vfio", type=DeviceType.PATH, nodes=("/dev/vfio/vfio",)), None, id="vfio-container"),
])
def test_what_containers_cannot_share_is_not_offered(device, reason):
    """A whole device is not looked at. One that a container holds stays, for nobody else."""
    assert shareable([device], ()) == ((device,), ())
    tagged = replace(device, shared=3, resource_class="CUSTOM_SLICE")
    kept, notes = shareable([tagged], ())
    if reason is None:
        assert (kept, notes) == ((tagged,), ())
        return
    start = f"device {device.address} is not offered: containers cannot share it, because {reason}"
    assert not kept and [note.startswith(start) for note in notes] == [True], notes
    assert shareable([tagged], {device.address}) == ((replace(tagged, shared=1),), notes)


def test_a_share_has_no_class_of_whole_devices():
    """The class of a whole part may come from its profile, which no line names."""
    part = replace(GPU, address=f"{GPU.address}/gi1/ci0", type=DeviceType.PART, resource_class="CUSTOM_MIG_1G_10GB")
    share = replace(OTHER_GPU, shared=2, resource_class="CUSTOM_MIG_1G_10GB")
    kept, (note,) = shareable([part, share], ())
    assert kept == (part,)
    assert "containers cannot share it, because whole devices have its resource_class CUSTOM_MIG_1G_10GB too" in note


def test_a_spec_without_conditions_on_the_device():
    assert DeviceSpec().matches(GPU)


FILES = tuple(
    Device(address, type=DeviceType.PATH, nodes=(node,))
    for address, node in [
        ("/dev/disk/by-id/nvme-blue", "/dev/nvme0n1"), ("/dev/hwrng", "/dev/hwrng"), ("/dev/loop0", "/dev/loop0"),
        ("/dev/loop12", "/dev/loop12"), ("/dev/loop-control", "/dev/loop-control"), ("/dev/nvme0n1", "/dev/nvme0n1"),
    ]
)
NAMES = tuple(
    Device(f"vendor.com/{name}", type=DeviceType.CDI, nodes=nodes)
    for name, nodes in [("card=0", ("/dev/card0",)), ("card=all", ("/dev/card0", "/dev/card1")), ("nic=0", ())]
)


@pytest.mark.parametrize(("text", "addresses"), [
    ('"path": "/dev/hwrng"', ["/dev/hwrng"]),
    ('"path": "/dev/loop[0-9]*"', ["/dev/loop0", "/dev/loop12"]),
    pytest.param(
        '"path": "/dev/*"', ["/dev/hwrng", "/dev/loop0", "/dev/loop12", "/dev/loop-control", "/dev/nvme0n1"],
        id="a-star-ends-at-a-slash",
    ),
    ('"path": "/dev/disk/by-id/nvme-blue"', ["/dev/disk/by-id/nvme-blue"]),
    ('"path": "/dev/nothing"', []),
    ('"cdi": "vendor.com/card=0"', ["vendor.com/card=0"]),
    ('"cdi": "vendor.com/card=*"', ["vendor.com/card=0", "vendor.com/card=all"]),
    ('"vendor_id": "*"', [device.address for device in ALL]),
])
def test_files_and_names(text, addresses):
    [spec] = [parse(f'{{{text}, "resource_class": "CUSTOM_X"}}')]
    found = given((*ALL, *FILES, *NAMES), [spec])
    assert [device.address for device in found] == addresses
    assert {device.resource_class for device in found} <= {"CUSTOM_X"}


@pytest.mark.parametrize(("text", "problem"), [
    ('{"path": "/dev/hwrng"}', "path needs a resource_class"),
    ('{"cdi": "a.com/b=c"}', "cdi needs a resource_class"),
    ('{"path": "/etc/passwd", "resource_class": "X"}', "path must be a file under /dev"),
    ('{"path": "/dev/../etc/passwd", "resource_class": "X"}', "path must be a file under /dev"),
    ('{"path": "/dev/a", "cdi": "a.com/b=c", "resource_class": "X"}', "give path or cdi, not both"),
    ('{"path": "/dev/a", "vendor_id": "10de", "resource_class": "X"}', "give path or vendor_id, not both"),
    ('{"cdi": "a.com/b=c", "part": "*", "resource_class": "X"}', "give cdi or part, not both"),
    ('{"part": ""}', "part must be a text, got ''"),
    ('{"part": ["1g.10gb"]}', "part must be a text"),
    ('{"path": "/dev/a", "physical_network": "p", "resource_class": "X"}', "give path or physical_network, not both"),
    ('{"cdi": "gpu=0", "resource_class": "X"}', "cdi must look like vendor.com/class=name"),
])
def test_wrong_files_and_names(text, problem):
    with pytest.raises(ValueError, match=problem):
        parse(text)


def test_doubles_are_left_out_with_a_note():
    disk = Device("0000:81:00.0", class_id="010802", nodes=("/dev/nvme0", "/dev/nvme0n1"))
    kept, notes = without_doubles((disk, *FILES[:2], FILES[-1], *NAMES))
    assert [device.address for device in kept] == [
        "0000:81:00.0", "/dev/hwrng", "vendor.com/card=0", "vendor.com/nic=0",
    ]
    assert notes[0] == (
        "device /dev/disk/by-id/nvme-blue is not offered: device 0000:81:00.0, which is, has its file /dev/nvme0n1 too"
    )
    assert len(notes) == 3


def names(**files: str) -> tuple[Device, ...]:
    return tuple(
        Device(f"v.com/c={name}", type=DeviceType.CDI, nodes=tuple(f"/dev/{file}" for file in each.split()))
        for name, each in files.items()
    )


@pytest.mark.parametrize(("named", "offered"), [
    pytest.param(names(**{str(each): f"kfd render{each}" for each in range(8)}), "01234567", id="a-manager-s-file"),
    pytest.param(
        names(**{str(each): f"kfd render{each}" for each in range(3)}, all="kfd render0 render1 render2"), "012",
        id="all",
    ),
    pytest.param(names(a="ctl a", b="ctl b", pair="ctl a b"), "ab", id="a-pair"),
    pytest.param(names(all="ctl a b", b="ctl b", z="ctl a"), "bz", id="the-sum-is-named-first"),
    pytest.param(names(a="a b", b="b c", c="a c"), "ab", id="every-file-is-another-s"),
    pytest.param(names(a="ctl x", b="x ctl"), "a", id="two-names-of-one-device"),
    pytest.param(names(a="gpu cap1", b="gpu cap2", w="gpu"), "w", id="parts-of-a-device-that-is-offered"),
    pytest.param(names(a="gpu cap1", b="gpu cap2"), "ab", id="parts-of-a-device"),
    pytest.param(names(a="", b=""), "ab", id="no-files"),
    pytest.param((*names(a="nvme0 ctl"), Device("0000:82:00.0", nodes=("/dev/nvme0",))), "0", id="a-pci-device-s-file"),
    pytest.param((*names(a="b ctl"), Device("/dev/b", type=DeviceType.PATH, nodes=("/dev/b",))), "b", id="a-file"),
])  # fmt: skip
def test_names_that_share_a_file(named, offered):
    kept, notes = without_doubles(named)
    assert [device.address[-1] for device in kept] == list(offered)
    assert len(notes) == len(named) - len(kept)


CAP = "/dev/nvidia-caps/nvidia-cap"
CDI_PARTS = tuple(
    Device(f"nvidia.com/gpu={name}", type=DeviceType.CDI, nodes=nodes)
    for name, nodes in (
        ("0:0", ("/dev/nvidia0", f"{CAP}12", f"{CAP}13")), ("0:1", ("/dev/nvidia0", f"{CAP}48", f"{CAP}49")),
        ("1", ("/dev/nvidia1",)),
    )
)  # fmt: skip


@pytest.mark.parametrize(("native", "offered"), [
    pytest.param((), CDI_PARTS, id="names-of-parts-are-independent"),
    pytest.param((replace(GPU, nodes=("/dev/nvidia0",)),), CDI_PARTS[2:], id="beside-their-gpu"),
    pytest.param((replace(MIG, nodes=("/dev/nvidia0", f"{CAP}12", f"{CAP}13")),), CDI_PARTS[2:], id="beside-a-part"),
])
def test_a_gpu_is_offered_by_the_machine_or_by_cdi(native, offered):
    """Otherwise nothing would tell that a name of CDI and a device of the machine are one GPU."""
    kept, notes = without_doubles((*native, *CDI_PARTS))
    assert kept == (*native, *offered)
    assert len(notes) == len(CDI_PARTS) - len(offered)


NATIVE = replace(GPU, nodes=("/dev/nvidia0", f"{CAP}12", f"{CAP}13"))
NATIVE_PART = replace(MIG, nodes=("/dev/nvidia0", f"{CAP}12", f"{CAP}13"))
NATIVE_OTHER = replace(OTHER_GPU, nodes=("/dev/nvidia1",))
NATIVES = (NATIVE, NATIVE_PART, NATIVE_OTHER)


@pytest.mark.parametrize(("held", "there", "offered"), [
    pytest.param((NATIVE,), CDI_PARTS, CDI_PARTS[2:], id="gpu-and-now-its-parts-by-cdi"),
    pytest.param((NATIVE_PART,), CDI_PARTS, CDI_PARTS[2:], id="part-and-now-by-cdi"),
    pytest.param(CDI_PARTS[:1], NATIVES, NATIVES[2:], id="part-by-cdi-and-now-the-machine-s"),
    pytest.param(CDI_PARTS[:1], (*NATIVES, *CDI_PARTS), (NATIVE_OTHER, *CDI_PARTS[:2]), id="part-by-cdi-and-now-both"),
    pytest.param(CDI_PARTS[2:], (*NATIVES, *CDI_PARTS), (*NATIVES[:2], CDI_PARTS[2]), id="other-gpu-by-cdi"),
    pytest.param(CDI_PARTS[2:], names(a="nvidia1", b="nvidia2"), names(b="nvidia2"), id="cdi-file-with-other-names"),
    pytest.param(FILES[-1:], (Device("0000:82:00.0", nodes=FILES[-1].nodes),), (), id="disk-by-its-file"),
    pytest.param((NATIVE, *CDI_PARTS[:1]), (NATIVE, *CDI_PARTS[:2]), (NATIVE, CDI_PARTS[0]), id="both-are-held"),
    pytest.param((VF,), (GPU, VF), (GPU, VF), id="held-and-still-offered"),
])
def test_what_a_container_holds_is_offered_by_no_other_name(held, there, offered):
    kept, notes = without_doubles(there, held)
    assert kept == offered
    assert len(notes) == len(there) - len(offered)
    words = [f"device {each.address}, which a container holds, has its file" for each in held]
    assert all(any(each in note for each in (*words, "which is, has its file")) for note in notes)


def test_pci_devices_of_one_iommu_group_stay():
    pair = tuple(Device(f"0000:81:00.{each}", nodes=("/dev/vfio/7",)) for each in (0, 1))
    assert without_doubles(pair) == (pair, ())
