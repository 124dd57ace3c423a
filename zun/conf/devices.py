# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

GROUP = "devices"

OPTS = [
    cfg.MultiStrOpt(
        "device_spec",
        default=[],
        help="Devices of this host that containers may get, one JSON object or list a line, in the form of Nova's "
        "option: vendor_id, product_id, class, address or devname select PCI devices, part selects parts of GPUs by "
        "their profile, path selects files under /dev, cdi selects names of the Container Device Interface; "
        "physical_network, trusted, resource_class and traits are tags of the selected ones, and shared is the number "
        "of containers that may have one at the same time. Examples: "
        "{\"vendor_id\": \"10de\", \"address\": \"0000:81:*.*\"}, "
        "{\"vendor_id\": \"10de\", \"part\": \"1g.10gb\"}, "
        "{\"path\": \"/dev/hwrng\", \"resource_class\": \"CUSTOM_RNG\"}, "
        "{\"cdi\": \"vendor.com/class=*\", \"resource_class\": \"CUSTOM_CARD\"}. None: no device.",
    ),
    cfg.MultiStrOpt(
        "alias",
        default=[],
        help="Names by which containers ask for devices, one JSON object a line, in the form of Nova's option: name, "
        "vendor_id, product_id, resource_class, device_type (type-PCI, type-PF, type-VF, part, path or cdi), "
        "numa_policy (none, preferred, required or socket) and traits. A device must meet all conditions of a line; if "
        "a name is repeated, those of any of its lines. Only zun-api reads this option. Example: {\"name\": \"gpu\", "
        "\"vendor_id\": \"10de\", \"device_type\": \"type-PCI\"}.",
    ),
]
