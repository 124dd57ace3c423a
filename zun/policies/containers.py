# SPDX-License-Identifier: Apache-2.0
from oslo_policy import policy

from zun.policies.roles import ADMIN, MEMBER, NOBODY, READER, rule

_LIST = "GET /v1/containers"
_CREATE = "POST /v1/containers"
_ITEM = "/v1/containers/{ident}"
_SHOWN = (_LIST, f"GET {_ITEM}")

#: Linux capabilities (capabilities(7)) that a container may ask for, without ``CAP_``, and who may by default. Members
#: may ask for those that Docker itself gives. Those of administrators disturb other containers of the host. Those of
#: nobody read or change the host; ``privileged`` has the rest.
CAPABILITIES = {
    **dict.fromkeys(("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"), MEMBER),
    **dict.fromkeys(("NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"), MEMBER),
    **dict.fromkeys(("IPC_LOCK", "NET_ADMIN", "SYS_NICE", "SYS_PTRACE", "SYS_RESOURCE"), ADMIN),
    **dict.fromkeys(("BPF", "DAC_READ_SEARCH", "PERFMON", "SYS_ADMIN", "SYS_RAWIO", "SYS_TIME", "SYSLOG"), NOBODY),
}

RUNTIME = "container:create:runtime"


def _action(name: str, check: str, description: str, method: str = "POST") -> policy.DocumentedRuleDefault:
    """Return the rule of an action, whose name is the last part of its path."""
    return rule(f"container:{name}", check, description, f"{method} {_ITEM}/{name}")


RULES = (
    rule("container:create", MEMBER, "Create a container.", _CREATE),
    rule(
        "container:create:privileged",
        NOBODY,
        "Give the field 'privileged' when creating a container, true or false. A privileged container is root on its "
        "host.",
        _CREATE,
    ),
    *(
        rule(f"container:create:capability:{name}", check, f"Give the capability {name} to a new container.", _CREATE)
        for name, check in CAPABILITIES.items()
    ),
    rule(
        RUNTIME,
        ADMIN,
        "Choose the runtime of a new container. For a runtime with a rule of its own in the policy file, such as "
        f"'{RUNTIME}:runsc', that rule decides.",
        _CREATE,
    ),
    rule("container:create:requested_destination", ADMIN, "Choose the host of a new container.", _CREATE),
    rule("container:create:image_pull_policy", ADMIN, "Choose when the image of a new container is pulled.", _CREATE),
    rule(
        "container:create:cpu_isolation",
        ADMIN,
        "Request cpu_isolation 'l3' (whole L3 caches) or 'node' (whole cells) for a new container or capsule. The "
        "withheld CPUs are idle, so by default only administrators may request them; everybody who may create can "
        "request 'core' and 'isolated'. 'rule:project_member' lets members request them too: their 'cpu' quota is also "
        "charged for the withheld CPUs.",
        _CREATE,
        "POST /v1/capsules",
    ),
    rule("container:get_all", READER, "List the containers of the user's project.", _LIST),
    rule("container:get_all_all_projects", ADMIN, "List the containers of every project.", _LIST),
    rule("container:get_one", READER, "Show a container.", f"GET {_ITEM}"),
    rule("container:get_one_all_projects", ADMIN, "Show a container of any project.", f"GET {_ITEM}"),
    rule("container:get_one:host", ADMIN, "See the host of a container, and filter or sort by it.", *_SHOWN),
    rule("container:get_one:image_pull_policy", ADMIN, "See when the image of a container is pulled.", *_SHOWN),
    rule("container:get_one:privileged", ADMIN, "See whether a container is privileged.", *_SHOWN),
    rule("container:get_one:runtime", ADMIN, "See the runtime of a container.", *_SHOWN),
    rule("container:update", MEMBER, "Change name, cpu, memory or auto_heal of a container.", f"PATCH {_ITEM}"),
    rule("container:delete", MEMBER, "Delete a container.", f"DELETE {_ITEM}"),
    rule("container:delete_force", ADMIN, "Delete a container whatever its status.", f"DELETE {_ITEM}"),
    rule("container:delete_all_projects", ADMIN, "Delete a container of any project.", f"DELETE {_ITEM}"),
    _action("start", MEMBER, "Start a container."),
    _action("stop", MEMBER, "Stop a container."),
    _action("reboot", MEMBER, "Restart a container."),
    _action("pause", MEMBER, "Pause a container."),
    _action("unpause", MEMBER, "Unpause a container."),
    _action("kill", MEMBER, "Send a signal to a container."),
    _action("move", ADMIN, "Move a container to another host."),
    _action("rebuild", MEMBER, "Rebuild a container, also from another image."),
    _action("rename", MEMBER, "Rename a container."),
    _action("resize_container", MEMBER, "Change cpu or memory of a container in the background."),
    _action("logs", READER, "Read the log of a container.", method="GET"),
    _action("execute", MEMBER, "Run a command in a container."),
    _action("execute_resize", MEMBER, "Set the terminal size of a command in a container."),
    _action("attach", MEMBER, "Open the terminal of a container.", method="GET"),
    _action("resize", MEMBER, "Set the terminal size of a container."),
    _action("top", READER, "List the processes of a container.", method="GET"),
    _action("explain", READER, "See why no host could take a container.", method="GET"),
    rule(
        "container:explain:host",
        ADMIN,
        "See the refusal and the free resources of each host and cell in an explanation.",
        f"GET {_ITEM}/explain",
    ),
    _action("stats", READER, "See the resource use of a container.", method="GET"),
    _action("network_list", READER, "List the networks of a container.", method="GET"),
    _action("network_attach", MEMBER, "Attach a container to a network."),
    _action("network_detach", MEMBER, "Detach a container from a network."),
    _action("add_security_group", MEMBER, "Add a security group to a container."),
    _action("remove_security_group", MEMBER, "Remove a security group from a container."),
    _action("get_archive", MEMBER, "Read files of a container.", method="GET"),
    _action("commit", MEMBER, "Create an image from a container."),
    _action("put_archive", MEMBER, "Write files into a container."),
)
