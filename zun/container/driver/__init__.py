# SPDX-License-Identifier: Apache-2.0
"""The interface of a container runtime, as Protocols and frozen values: one module a capability.

Each Protocol describes one capability, so a part of the service names only the methods that it uses: the audit takes
an ``Auditor``, the shared pool takes ``Resources``. The Docker driver and the in-memory driver of the tests implement
all of them. Times are naive UTC, memory is in MiB, disk is in GiB.

Every method raises :class:`~zun.common.exceptions.Unavailable` if the runtime does not answer, and
:class:`~zun.common.exceptions.DockerError` if the runtime fails in a way that no other error describes. A method that
acts on one container raises :class:`~zun.common.exceptions.ContainerVanished` if the runtime has no object for the
container. It raises :class:`~zun.common.exceptions.Conflict` if the object is in the wrong state, for example paused
or not running. Exceptions from these rules are named in the method's docstring. A driver finds a container by its
uuid alone, because ``container_id`` of the row may be stale.
"""
