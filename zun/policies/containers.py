# SPDX-License-Identifier: Apache-2.0
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
    rule("container:start", MEMBER, "Start a container.", f"POST {_ITEM}/start"),
    rule("container:stop", MEMBER, "Stop a container.", f"POST {_ITEM}/stop"),
    rule("container:reboot", MEMBER, "Restart a container.", f"POST {_ITEM}/reboot"),
    rule("container:pause", MEMBER, "Pause a container.", f"POST {_ITEM}/pause"),
    rule("container:unpause", MEMBER, "Unpause a container.", f"POST {_ITEM}/unpause"),
    rule("container:kill", MEMBER, "Send a signal to a container.", f"POST {_ITEM}/kill"),
    rule("container:rebuild", MEMBER, "Rebuild a container, also from another image.", f"POST {_ITEM}/rebuild"),
    rule("container:rename", MEMBER, "Rename a container.", f"POST {_ITEM}/rename"),
    rule(
        "container:resize_container",
        MEMBER,
        "Change cpu or memory of a container in the background.",
        f"POST {_ITEM}/resize_container",
    ),
    rule("container:logs", READER, "Read the log of a container.", f"GET {_ITEM}/logs"),
    rule("container:execute", MEMBER, "Run a command in a container.", f"POST {_ITEM}/execute"),
    rule(
        "container:execute_resize",
        MEMBER,
        "Set the terminal size of a command in a container.",
        f"POST {_ITEM}/execute_resize",
    ),
    rule("container:attach", MEMBER, "Open the terminal of a container.", f"GET {_ITEM}/attach"),
    rule("container:resize", MEMBER, "Set the terminal size of a container.", f"POST {_ITEM}/resize"),
    rule("container:top", READER, "List the processes of a container.", f"GET {_ITEM}/top"),
    rule("container:explain", READER, "See why no host could take a container.", f"GET {_ITEM}/explain"),
    rule(
        "container:explain:host",
        ADMIN,
        "See the refusal and the free resources of each host and cell in an explanation.",
        f"GET {_ITEM}/explain",
    ),
    rule("container:stats", READER, "See the resource use of a container.", f"GET {_ITEM}/stats"),
    rule("container:network_list", READER, "List the networks of a container.", f"GET {_ITEM}/network_list"),
    rule("container:network_attach", MEMBER, "Attach a container to a network.", f"POST {_ITEM}/network_attach"),
    rule("container:network_detach", MEMBER, "Detach a container from a network.", f"POST {_ITEM}/network_detach"),
    rule(
        "container:add_security_group",
        MEMBER,
        "Add a security group to a container.",
        f"POST {_ITEM}/add_security_group",
    ),
    rule(
        "container:remove_security_group",
        MEMBER,
        "Remove a security group from a container.",
        f"POST {_ITEM}/remove_security_group",
    ),
    rule("container:get_archive", MEMBER, "Read files of a container.", f"GET {_ITEM}/get_archive"),
    rule("container:commit", MEMBER, "Create an image from a container.", f"POST {_ITEM}/commit"),
    rule("container:put_archive", MEMBER, "Write files into a container.", f"POST {_ITEM}/put_archive"),
)
