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
        help="Name of this host in the cloud. It addresses messages and marks containers, so it must be unique and "
        "stay the same across restarts.",
    ),
    cfg.StrOpt(
        "state_path",
        default="/var/lib/zun",
        help="Folder for what a service keeps on this machine, its database too unless [database] connection names "
        "another.",
    ),
    bounded.FloatOpt(
        "default_cpu",
        default=1.0,
        help="CPUs of a container whose request names none. Between minimum_cpus and maximum_cpus.",
    ),
    bounded.FloatOpt("minimum_cpus", default=0.1, min=0.01, help="Smallest number of CPUs that a request may name."),
    bounded.FloatOpt(
        "maximum_cpus",
        default=16.0,
        help="Largest number of CPUs that a request may name. Raise it where hosts give more to one container.",
    ),
    bounded.IntOpt(
        "default_memory",
        default=512,
        help="Memory in MiB of a container whose request names none. Between minimum_memory and maximum_memory.",
    ),
    bounded.IntOpt(
        "minimum_memory",
        default=4,
        min=1,
        help="Smallest memory in MiB that a request may name. Docker itself makes no container with less than 6.",
    ),
    bounded.IntOpt(
        "maximum_memory",
        default=8192,
        help="Largest memory in MiB that a request may name. Raise it where hosts give more to one container.",
    ),
    bounded.IntOpt(
        "default_disk",
        default=10,
        min=0,
        help="Disk in GiB that a container whose request names none gets when it is created on a host whose runtime "
        "limits disks. 0: it gets none, as on any other host. Read by zun-compute.",
    ),
    bounded.IntOpt("minimum_disk", default=1, min=0, help="Smallest disk in GiB that a request may name."),
    bounded.IntOpt("maximum_disk", default=160, help="Largest disk in GiB that a request may name."),
    cfg.ListOpt("image_driver_list", default=["glance", "docker"], help="Image drivers that a request may name."),
    cfg.StrOpt("default_image_driver", default="docker", help="Image driver of a request that names none."),
    cfg.StrOpt("default_availability_zone", default="nova", max_length=255, help="Zone of hosts that belong to none."),
    cfg.StrOpt(
        "default_schedule_zone",
        max_length=255,
        help="Zone that requests without one are scheduled to. Unset: any zone.",
    ),
    cfg.StrOpt(
        "auth_encryption_key",
        secret=True,
        help="Key, of which 32 characters count, that the passwords of registries are encrypted with. The API and "
        "every compute host must have it. Unset, and without auth_encryption_key_file: registries have no passwords.",
    ),
    cfg.StrOpt(
        "auth_encryption_key_file",
        help="File of further such keys, one a line. All of them decrypt; the first of all encrypts, so a new key is "
        "put before the old one until every registry has been written again. The all-in-one makes one under "
        "state_path.",
    ),
    bounded.IntOpt(
        "service_down_time",
        default=180,
        min=1,
        help="Seconds after its last heartbeat at which a service counts as down.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS)
