# SPDX-License-Identifier: Apache-2.0
"""What one request may cost: the limits that no option changes. ``doc/source/admin/limits.rst`` explains each.

A limit is named here once; schemas, readers and the server take it from here. Sizes are bytes unless the name says
otherwise.
"""

from collections.abc import Mapping
from types import MappingProxyType

KIB = 1024
MIB = 1024 * KIB

# On the wire.
HEAD_BYTES = MIB  # first line and headers; the URL may hold a command for execute
HEADERS = 200
BODY_BYTES = MIB
CHUNKS = 4096  # of a body in chunks, and
CHUNK_BYTES = 64  # one more for each of so many bytes
SECONDS = 10.0  # of waiting for a client, in addition to RATE
RATE = 16 * KIB  # that a client must send or receive in a second, on average
REQUEST_SECONDS = 3600.0  # from the moment that a request has a thread to the end of its answer

# In a body or a query.
BODY_VALUES = 20_000  # texts, numbers, lists and objects of a JSON body
BODY_DEPTH = 30  # MariaDB allows 32, and a value may be stored inside other objects
NUMBER_DIGITS = 300  # of a JSON integer: it is stored as it came and may be read as a double
QUERY_PARAMETERS = 1000

# As JSON, of each field in one request. A row holds all of them and a list shows most: 40 containers of the largest
# size make a list of about 8 MiB.
FIELD_BYTES: Mapping[str, int] = MappingProxyType(
    {
        "labels": 16 * KIB,
        "annotations": 64 * KIB,
        "environment": 64 * KIB,
        "command": 64 * KIB,
        "entrypoint": 16 * KIB,
        "hints": 16 * KIB,
        "exposed_ports": 16 * KIB,
        "healthcheck": 4 * KIB,
        "traits": 64 * KIB,
        "required_traits": 4 * KIB,
        "forbidden_traits": 4 * KIB,
        "any_traits": 4 * KIB,
        "member_of": 4 * KIB,
    }
)
ITEM_BYTES = 4  # a list has at most so many items as pieces of this size fit into its FIELD_BYTES
MEMBER_BYTES = 8  # the same of an object's members
FILES_BYTES = 64 * KIB  # of all files that one create brings along. They travel with the container in every message

# Characters of a text, and items of a list, where the schema says nothing smaller.
COLUMN = 255  # a column of text
ADDRESS = 64  # an address or a block of addresses, in any spelling
PATH = 4096  # in a container
PARTS = 100  # networks, mounts, security groups; containers, volumes and mounts of a capsule: each is looked up
TERMS = 255  # keys of an aggregate's metadata

# Of http_basic, and of the login of the page.
LOGIN_BYTES = 32 * KIB  # of the body
SECRET = 8192  # characters of a password or token
WRONG_PASSWORDS = 10  # of one user name from one address, before it has to wait
WAIT_SECONDS = 60  # after each further one
KEPT_NAMES = 10_000  # user names with addresses; the oldest is forgotten
