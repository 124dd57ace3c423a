# SPDX-License-Identifier: Apache-2.0
import socket

from oslo_config import cfg

from zun.conf import bounded

GROUP = "DEFAULT"

OPTS = [
    cfg.HostAddressOpt(
        "host",
        default=socket.gethostname(),
        sample_default="<this machine's host name>",
        help="Name of this host in the cloud. Messages are addressed to the name and containers carry it as a label, "
        "so it must be unique and stay the same across restarts.",
    ),
    cfg.StrOpt(
        "state_path",
        default="/var/lib/zun",
        help="Folder for the files that a service keeps on this machine, including the SQLite database unless "
        "[database] connection names another.",
    ),
    bounded.FloatOpt(
        "default_cpu",
        default=1.0,
        help="Number of CPUs for a container whose request has no cpu. Between minimum_cpus and maximum_cpus.",
    ),
    bounded.FloatOpt("minimum_cpus", default=0.1, min=0.01, help="Smallest number of CPUs in a request."),
    bounded.FloatOpt(
        "maximum_cpus",
        default=16.0,
        help="Largest number of CPUs in a request. Raise it if one container may have more CPUs of a host.",
    ),
    bounded.IntOpt(
        "default_memory",
        default=512,
        help="Memory in MiB for a container whose request has no memory. Between minimum_memory and maximum_memory.",
    ),
    bounded.IntOpt(
        "minimum_memory",
        default=4,
        min=1,
        help="Smallest memory in MiB in a request. Docker itself rejects less than 6 MiB, and "
        "with some releases of runc starts below 16 MiB fail by chance.",
    ),
    bounded.IntOpt(
        "maximum_memory",
        default=8192,
        help="Largest memory in MiB in a request. Raise it if one container may have more memory of a host.",
    ),
    bounded.IntOpt(
        "default_disk",
        default=10,
        min=0,
        help="Disk in GiB for a container whose request has no disk, on hosts whose runtime can limit disk. 0: the "
        "disk has no limit, as on hosts whose runtime cannot limit it. zun-compute reads this option.",
    ),
    bounded.IntOpt("minimum_disk", default=1, min=0, help="Smallest disk in GiB in a request."),
    bounded.IntOpt("maximum_disk", default=160, help="Largest disk in GiB in a request."),
    cfg.ListOpt(
        "image_driver_list",
        default=["docker"],
        help="Image drivers that a request may name: docker for images of registries, and glance for images of Glance, "
        "which needs the section [glance]. zun-api and zun-compute read this option.",
    ),
    cfg.StrOpt("default_image_driver", default="docker", help="Image driver for a request without image_driver."),
    cfg.StrOpt(
        "default_availability_zone",
        default="nova",
        max_length=255,
        help="Availability zone of hosts without [compute] availability_zone.",
    ),
    cfg.StrOpt(
        "default_schedule_zone",
        max_length=255,
        help="Availability zone for a request without one. Unset: any zone.",
    ),
    cfg.StrOpt(
        "auth_encryption_key",
        secret=True,
        help="Key that encrypts the passwords of registries: at least 32 ASCII characters. 'openssl rand -hex 32' "
        "prints one. zun-api, zun-conductor and every zun-compute with [compute] database = direct must have the same "
        "key. With neither this option nor auth_encryption_key_file, registries cannot have passwords.",
    ),
    cfg.StrOpt(
        "auth_encryption_key_file",
        help="File with further keys, one on each line. Every key decrypts; only the first encrypts: "
        "auth_encryption_key if set, else the first line. To change the key, put the new one first, run 'zun-db-manage "
        "rotate-registry-key', then remove the old one. The all-in-one writes such a file under state_path.",
    ),
    bounded.IntOpt(
        "service_down_time",
        default=180,
        min=1,
        help="Seconds without a heartbeat after which a service counts as down.",
    ),
]
